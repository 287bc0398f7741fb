package arrival

import (
	"fmt"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// pals takes every event for a direct message, and for its author the first letter of
// its content.
type pals struct {
	wrote map[ID]byte // of mail
}

func (pals) Direct(*eventgraph.Event) bool { return true }

func (p pals) Sibling(_ kv.Reader, row *Row, ev *eventgraph.Event) (bool, error) {
	return p.wrote[row.ID] == ev.Content[0], nil
}

func (r *rig) mail(id byte, text string) (added bool) {
	r.Helper()
	r.tx(func(tx kv.Txn) (err error) {
		added, err = r.AppendMail(tx, ID{id}, eventgraph.HashContent([]byte(text)))
		return err
	})
	return added
}

func (r *rig) alias(id byte, text string) {
	r.Helper()
	r.tx(func(tx kv.Txn) error { return r.AliasMail(tx, ID{id}, eventgraph.HashContent([]byte(text))) })
}

// TestMailAfterTheGraphForgot (MB-34): the graph brought a message and has forgotten it when
// the mailbox brings it too; and again when that is 45 days later.
func TestMailAfterTheGraphForgot(t *testing.T) {
	r := newRig(t)
	r.SetCorrespondence(pals{})
	r.arrive(1000, "a1")
	if _, err := r.Prune(2000, nil); err != nil || len(r.rows()) != 0 {
		t.Fatal("the row is still there", err)
	}
	r.check()
	if r.mail(9, "a1") {
		t.Error("a message was added again")
	}
	r.alias(9, "a2")
	r.tx(func(tx kv.Txn) error { return r.RemoveMail(tx, ID{9}) })
	if n, err := r.PruneDirect(time.UnixMilli(5000)); n != 0 || err != nil {
		t.Error(n, err)
	}
	if n, err := r.PruneDirect(time.UnixMilli(5001)); n != 1 || err != nil {
		t.Error(n, err)
	}
	if !r.mail(8, "a1") {
		t.Error("it was remembered for ever")
	}
}

// TestDirectIsBounded: so many are remembered, the oldest is forgotten first.
func TestDirectIsBounded(t *testing.T) {
	r := newRig(t)
	r.SetCorrespondence(pals{})
	r.tx(func(tx kv.Txn) error { // one short of the bound, without the work
		m, err := readMeta(tx)
		if err != nil {
			return err
		}
		m.direct = maxDirect - 1
		return tx.Set(key(tableMeta), m.encode())
	})
	r.arrive(1000, "a1")
	r.reopen()
	r.SetCorrespondence(pals{})
	r.arrive(1000, "a2")
	if _, err := r.Prune(2000, nil); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for i := range 2 {
		if !r.mail(byte(i+1), fmt.Sprint("a", i+1)) {
			kept++
		}
	}
	if kept != 1 {
		t.Errorf("%d of 2 are remembered, want 1", kept)
	}
}

// TestAliasOfSomebodyElse: an alias makes nothing known but what its author said.
func TestAliasOfSomebodyElse(t *testing.T) {
	for name, graphFirst := range map[string]bool{"alias first": false, "graph first": true} {
		r := newRig(t)
		r.SetCorrespondence(pals{wrote: map[ID]byte{{9}: 'a'}})
		r.mail(9, "a1")
		if graphFirst {
			r.arrive(1000, "b1")
		}
		r.alias(9, "b1") // what b says is on the network for everybody to see
		r.alias(9, "a2")
		r.arrive(1000, "b1", "a2")
		if n := len(r.rows()); n != 2 {
			t.Errorf("%s: %d rows, want those of a1 and b1", name, n)
		}
		r.alias(9, "b2")
		if !r.mail(7, "b2") {
			t.Errorf("%s: an alias took a message for known", name)
		}
	}
}

// TestLaterGenerationFirst: the graph brings the second generation before the mailbox the
// first; its alias comes with it.
func TestLaterGenerationFirst(t *testing.T) {
	r := newRig(t)
	r.SetCorrespondence(pals{})
	r.arrive(2000, "a2")
	r.alias(9, "a2")
	if r.mail(9, "a1") {
		t.Error("a message was added again")
	}
	if n := len(r.rows()); n != 1 {
		t.Errorf("%d rows", n)
	}
	if _, err := r.Prune(3000, nil); err != nil {
		t.Fatal(err)
	}
	r.check()
	r.alias(9, "a3") // of a row that is gone
}
