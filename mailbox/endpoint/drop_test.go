package endpoint

import (
	"slices"
	"testing"
	"time"

	"hearsay/internal/kv"
)

// TestDrop (MB-34): a person drops what waits for one contact, or for all; a receipt that is
// owed to somebody is not among it.
func TestDrop(t *testing.T) {
	w := newWorld(t)
	w.must(w.collect(w.bob))
	w.must(w.collect(w.alice))
	w.send(w.alice, 1, "x")
	w.must(w.deposit(w.alice))
	w.must(w.collect(w.bob))
	w.bob.wire = nil // the receipt stays here
	w.must(w.bob.sendReceipts())
	w.send(w.bob, 2, "y")
	w.send(w.bob, 3, "z")
	by, err := w.bob.PendingBy()
	w.must(err)
	if len(by) != 1 || by[w.bob.contact.ID] != 2 {
		t.Errorf("pending %v", by)
	}
	for _, c := range []struct {
		match func(ContactID) bool
		want  int
	}{{func(id ContactID) bool { return id == ContactID{9} }, 0}, {func(id ContactID) bool { return id == w.bob.contact.ID }, 2}, {nil, 0}} {
		if n, err := w.bob.Drop(c.match); n != c.want || err != nil {
			t.Errorf("%d dropped, want %d, %v", n, c.want, err)
		}
	}
	if c := w.counts(w.bob); c.Deposits != 1 {
		t.Errorf("%d envelopes are left, want the receipt", c.Deposits)
	}
	if n, err := w.alice.Drop(nil); n != 1 || err != nil {
		t.Error(n, err)
	}
	if c := w.counts(w.alice); c.Deposits != 0 || c.DepositBytes != 0 {
		t.Errorf("%+v", c)
	}
}

// TestContactWentAway: what waits for somebody who is no contact any more is given up when
// it could not be addressed anew.
func TestContactWentAway(t *testing.T) {
	w := newWorld(t)
	w.must(w.collect(w.bob))
	w.send(w.alice, 1, "x")
	w.alice.cfg.Contacts = func() []Contact { return nil }
	w.clock.t = w.clock.t.Add(Readdress - time.Hour)
	w.must(w.deposit(w.alice))
	if c := w.counts(w.alice); c.Deposits != 1 {
		t.Fatal("given up early")
	}
	w.clock.t = w.clock.t.Add(Redeposit + time.Hour)
	w.must(w.deposit(w.alice))
	if c := w.counts(w.alice); c.Deposits != 0 || c.DepositBytes != 0 {
		t.Errorf("%+v", c)
	}
}

// TestAliasesOfAPageFirst: the application hears of a page's aliases before its messages,
// so that it recognises what the graph brought of a later generation.
func TestAliasesOfAPageFirst(t *testing.T) {
	w := newWorld(t)
	var order []string
	w.bob.cfg.Alias = func(kv.Txn, Contact, Alias) error { order = append(order, "alias"); return nil }
	stage := w.bob.cfg.Stage
	w.bob.cfg.Stage = func(tx kv.Txn, c Contact, m Message) (bool, error) {
		order = append(order, "message")
		return stage(tx, c, m)
	}
	w.must(w.collect(w.bob))
	w.send(w.alice, 1, "x")
	w.must(w.alice.store.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error {
		return w.alice.AddMessage(tx, w.alice.contact, MessageID{1}, true, Record{Created: w.clock.now(), Alias: &Alias{ID: MessageID{1}}})
	}))
	w.must(w.deposit(w.alice))
	w.must(w.collect(w.bob))
	if want := []string{"alias", "message", "alias"}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}
