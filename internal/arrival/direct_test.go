package arrival

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// pals takes every event for a direct message, and for its author the first letter of
// its content. "a7:2" says that it is the second generation of a's seventh message; "a2"
// names no message.
type pals struct {
	wrote map[ID]byte       // of mail
	said  map[[32]byte]byte // of events, by their content
}

func (pals) Direct(ev *eventgraph.Event) (Origin, bool) {
	o := Origin{From: [16]byte{ev.Content[0]}}
	if n, _, named := strings.Cut(string(ev.Content[1:]), ":"); named {
		o.ID = ID{n[0] - '0'}
	} else {
		copy(o.ID[:], ev.ContentHash[:])
	}
	return o, true
}

func (p pals) Author(_ kv.Reader, row *Row) (from [16]byte, ok bool, err error) {
	by := p.wrote[row.ID]
	if row.Kind == Foreign {
		by = p.said[row.Hash]
	}
	return [16]byte{by}, by != 0, nil
}

func (r *rig) mail(id byte, text string) (added bool) {
	r.Helper()
	r.tx(func(tx kv.Txn) (err error) {
		added, err = r.AppendMail(tx, Origin{[16]byte{text[0]}, ID{id}}, eventgraph.HashContent([]byte(text)), Place{})
		return err
	})
	return added
}

// alias is that of a message by who said it; aliasBy that of somebody.
func (r *rig) alias(id byte, text string) { r.Helper(); r.aliasBy(text[0], id, text) }

func (r *rig) aliasBy(who, id byte, text string) {
	r.Helper()
	r.tx(func(tx kv.Txn) error {
		return r.AliasMail(tx, Origin{[16]byte{who}, ID{id}}, eventgraph.HashContent([]byte(text)))
	})
}

// said are the authors of events with these contents.
func said(texts ...string) map[[32]byte]byte {
	out := map[[32]byte]byte{}
	for _, text := range texts {
		out[eventgraph.HashContent([]byte(text))] = text[0]
	}
	return out
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
	// Its origin in the graph, that in the mailbox, and the content.
	if n, err := r.PruneDirect(time.UnixMilli(5001)); n != 3 || err != nil {
		t.Error(n, err)
	}
	if !r.mail(8, "a1") {
		t.Error("it was remembered for ever")
	}
}

// TestDirectIsBounded: so many are remembered, the oldest is forgotten first.
func TestDirectIsBounded(t *testing.T) {
	r := newRig(t)
	now := time.UnixMilli(5000)
	r.now = func() time.Time { now = now.Add(time.Millisecond); return now }
	r.SetCorrespondence(pals{})
	r.tx(func(tx kv.Txn) error { // the bound, short of one message, without the work
		m, err := readMeta(tx)
		if err != nil {
			return err
		}
		m.direct = maxDirect - 2
		return tx.Set(key(tableMeta), m.encode())
	})
	remembered := func() (all []string) {
		for _, text := range []string{"a1", "a2"} {
			ev := event(1000, text)
			o, _ := pals{}.Direct(&ev)
			for _, what := range [][32]byte{ev.ContentHash, o.key()} {
				r.must(r.store.View(func(rd kv.Reader) error {
					ok, err := has(rd, key(tableDirect, what[:]))
					if ok {
						all = append(all, text)
					}
					return err
				}))
			}
		}
		return all
	}
	r.arrive(1000, "a1")
	if got := remembered(); !slices.Equal(got, []string{"a1", "a1"}) {
		t.Errorf("at the bound %q are remembered", got)
	}
	r.arrive(1000, "a2")
	if got := remembered(); !slices.Equal(got, []string{"a2", "a2"}) {
		t.Errorf("past the bound %q are remembered", got)
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
		r.aliasBy('a', 9, "b1") // what b says is on the network for everybody to see
		r.alias(9, "a2")
		r.arrive(1000, "b1", "a2")
		if n := len(r.rows()); n != 2 {
			t.Errorf("%s: %d rows, want those of a1 and b1", name, n)
		}
		r.aliasBy('a', 9, "b2")
		if !r.mail(7, "b2") {
			t.Errorf("%s: an alias took a message for known", name)
		}
	}
}

// TestAliasesByStrangers (decision 0225): nobody makes one message of another contact pass
// for a later generation of another one of theirs.
func TestAliasesByStrangers(t *testing.T) {
	r := newRig(t)
	r.SetCorrespondence(pals{wrote: map[ID]byte{{7}: 'a'}, said: said("a1", "a2")})
	r.arrive(1000, "a1")
	r.mail(7, "a5")
	r.aliasBy('b', 9, "a1") // a's first message, under a name of b's
	r.aliasBy('b', 9, "a2") // and a's second, which is not here yet, a generation of it
	r.aliasBy('b', 7, "a3") // the same of one that came by mail
	r.arrive(1000, "a2", "a3")
	if n := len(r.rows()); n != 4 {
		t.Errorf("%d rows, want those of a1, a5, a2 and a3", n)
	}
	if !r.mail(9, "b1") {
		t.Error("b's own message is not taken")
	}
	r.alias(8, "a2") // a may
	if r.mail(8, "a4") {
		t.Error("an alias of its author was not taken")
	}
	r.check()
}

// TestLaterGenerationFirst: the graph brings the second generation before the mailbox the
// first; its alias comes with it.
func TestLaterGenerationFirst(t *testing.T) {
	r := newRig(t)
	r.SetCorrespondence(pals{said: said("a2")})
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

// TestOneRow (decision 0195): a direct message whose author names it has one row, in whatever order
// the graph brings its generations and the mailbox its text and aliases, the graph forgets
// what it brought, and the node starts again; somebody else's message has its own.
func TestOneRow(t *testing.T) {
	steps := map[string]func(r *rig){
		"first":   func(r *rig) { r.arrive(1000, "a7:1") },
		"second":  func(r *rig) { r.arrive(2000, "a7:2") },
		"third":   func(r *rig) { r.arrive(3000, "a7:3") },
		"mail":    func(r *rig) { r.mail(7, "a7:1") },
		"alias":   func(r *rig) { r.alias(7, "a7:2") },
		"forget":  func(r *rig) { _, err := r.Prune(2500, nil); r.must(err) },
		"restart": func(r *rig) { r.reopen(); r.SetCorrespondence(pals{wrote: map[ID]byte{{7}: 'a'}}) },
	}
	n := 0
	for order := range orders(sortedNames(steps)) {
		if n++; testing.Short() && n%13 > 0 {
			continue
		}
		r := newRig(t)
		r.SetCorrespondence(pals{wrote: map[ID]byte{{7}: 'a'}})
		for _, name := range order {
			steps[name](r)
		}
		r.arrive(1000, "a7:1") // the graph is read again from the start
		if last, err := r.Last(); last != 1 || err != nil {
			t.Fatalf("%v: %d rows were shown, %v", order, last, err)
		}
		if r.arrive(1000, "b7:1"); !r.mail(8, "a8:1") {
			t.Fatalf("%v: another message is taken for it", order)
		}
		if last, _ := r.Last(); last != 3 {
			t.Fatalf("%v: another author's message is taken for it", order)
		}
		r.check()
	}
	if n != 5040 {
		t.Errorf("%d orders", n)
	}
}

// TestNotesAreRenewed: a message that is on its way for longer than it is remembered stays
// known.
func TestNotesAreRenewed(t *testing.T) {
	r := newRig(t)
	r.SetCorrespondence(pals{})
	now := time.UnixMilli(5000)
	r.now = func() time.Time { return now }
	r.arrive(1000, "a7:1")
	for gen := range 9 {
		now = now.Add(renewNote)
		r.arrive(1000, fmt.Sprint("a7:", gen+2))
		if _, err := r.PruneDirect(now.Add(-renewNote)); err != nil {
			t.Fatal(err)
		}
		r.check()
	}
	if last, _ := r.Last(); last != 1 {
		t.Errorf("%d rows", last)
	}
	// The content of the last one, and the one origin.
	now = now.Add(renewNote)
	if n, err := r.PruneDirect(now); err != nil || n == 0 {
		t.Error(n, err)
	}
	r.tx(func(tx kv.Txn) error {
		m, err := readMeta(tx)
		if m.direct != 0 {
			t.Errorf("%d notes are left", m.direct)
		}
		return err
	})
}

// TestNothingNewWritesNothing: generations that are known cost no commit at a start.
func TestNothingNewWritesNothing(t *testing.T) {
	r := newRig(t)
	r.SetCorrespondence(pals{})
	r.arrive(1000, "a7:1", "a7:2")
	changed := r.Changed()
	r.graph = 0
	r.arrive(1000, "a7:1", "a7:2")
	select {
	case <-changed:
		t.Error("something was written")
	default:
	}
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// orders yields every order of names.
func orders(names []string) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		var rec func(done, left []string) bool
		rec = func(done, left []string) bool {
			if len(left) == 0 {
				return yield(done)
			}
			for i := range left {
				rest := slices.Concat(left[:i], left[i+1:])
				if !rec(append(slices.Clip(done), left[i]), rest) {
					return false
				}
			}
			return true
		}
		rec(nil, names)
	}
}
