package endpoint

import (
	"testing"
	"time"

	"hearsay/internal/kv"
	"hearsay/mailbox/relay"
)

// TestContactMoved (MB-34): a contact collects at another relay than before: what waits for them follows,
// is shown once, and its deposit goes with the receipt.
func TestContactMoved(t *testing.T) {
	w := newWorld(t)
	store := kv.OpenMemory()
	defer store.Close()
	second, err := relay.New(relay.Config{Store: store, Now: w.clock.now})
	w.must(err)
	other := RelayID{2}
	at := func(s *side, role Role, id RelayID) Requester {
		switch id {
		case other:
			return &wire{relay: second, who: s.wire.who}
		case theRelay: // is not there any more
		}
		return nil
	}
	w.must(w.collect(w.bob))
	w.send(w.alice, 1, "hello")
	w.must(w.deposit(w.alice))
	if st, _ := w.relay.Stats(); st.Rows != 1 {
		t.Fatal("no deposit")
	}
	alice, bob := *w.alice.Endpoint, *w.bob.Endpoint
	alice.cfg.Relay = func(id RelayID, r Role) Requester { return at(w.alice, r, id) }
	bob.cfg.Relay = func(id RelayID, r Role) Requester { return at(w.bob, r, id) }
	pass := func(e *Endpoint) { t.Helper(); w.must(e.pass(t.Context(), other, e.cfg.Relay(other, RoleCollect))) }
	deposit := func(e *Endpoint) {
		t.Helper()
		w.must(e.sendReceipts())
		_, err := e.depositDue(t.Context())
		w.must(err)
	}

	w.alice.contact.Relays = nil // for a moment nobody knows where: it stays
	w.clock.t = w.clock.t.Add(Redeposit)
	deposit(&alice)
	if c := w.counts(w.alice); c.Deposits != 1 {
		t.Fatalf("%d deposits", c.Deposits)
	}
	w.alice.contact.Relays = []RelayID{other, {3}}
	alice.cfg.Own = []RelayID{other}
	pass(&alice) // its reverse tokens, for receipts
	bob.cfg.Own = []RelayID{other}
	pass(&bob)
	w.clock.t = w.clock.t.Add(2 * time.Hour)
	deposit(&alice) // follows
	deposit(&alice)
	if st, _ := second.Stats(); st.Rows != 1 {
		t.Fatalf("%d rows at the new relay", st.Rows)
	}
	pass(&bob)
	deposit(&bob)
	pass(&alice)
	if c := w.counts(w.alice); c.Deposits != 0 || len(w.bob.log(t)) != 1 {
		t.Errorf("%d deposits, shown %d times", c.Deposits, len(w.bob.log(t)))
	}

	// Of two relays that both held it, one is still used: what was at the other goes.
	w.alice.contact.Relays = []RelayID{other, {3}}
	w.send(w.alice, 2, "again")
	w.alice.contact.Relays = []RelayID{other}
	deposit(&alice)
	if c := w.counts(w.alice); c.Deposits != 1 {
		t.Errorf("%d deposits of one message at one relay", c.Deposits)
	}
	w.must(w.alice.store.View(func(r kv.Reader) error {
		return r.Scan(kv.Scan{Prefix: key(tableDue), KeysOnly: true}, func(k, _ []byte) error {
			p, err := readParcel(r, be64(k[10:]))
			if p.relay != other {
				t.Error("it waits at the wrong relay")
			}
			return err
		})
	}))
}
