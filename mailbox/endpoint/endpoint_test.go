package endpoint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hearsay/internal/box"
	"hearsay/internal/kv"
	"hearsay/internal/kv/kvtest"
	"hearsay/mailbox"
	"hearsay/mailbox/relay"
)

// clock is wall time in the test's hand.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

// wire is a relay in reach of both sides; what it answers can be dropped.
type wire struct {
	relay *relay.Relay
	who   string
	fail  func(mailbox.Request) (before, after bool) // drop the request, or only the answer
	seen  []mailbox.Request
}

func (w *wire) Do(_ context.Context, req mailbox.Request) (mailbox.Response, error) {
	w.seen = append(w.seen, req)
	before, after := false, false
	if w.fail != nil {
		before, after = w.fail(req)
	}
	if before {
		return mailbox.Response{}, ErrUnavailable
	}
	resp, err := w.relay.Handle([]byte(w.who), req)
	if err != nil || after {
		return mailbox.Response{}, ErrUnavailable
	}
	return resp, nil
}

// side is one end: an endpoint with its store, and what the application saw.
type side struct {
	*Endpoint
	store   *kvtest.Faulty
	contact Contact
	wire    *wire
	notices []NoticeKind
}

var theRelay = RelayID{1}

// world is alice, bob and a relay.
type world struct {
	testing.TB
	clock      *clock
	relay      *relay.Relay
	alice, bob *side
}

func newWorld(t testing.TB) *world {
	w := &world{TB: t, clock: &clock{time.Unix(1_800_000_000, 0)}}
	store := kv.OpenMemory()
	t.Cleanup(func() { store.Close() })
	r, err := relay.New(relay.Config{Store: store, Now: w.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	w.relay = r
	a, b := box.GenerateSecret(), box.GenerateSecret()
	w.alice, w.bob = w.side("alice", a, b.Public()), w.side("bob", b, a.Public())
	return w
}

func (w *world) side(name string, mine box.SecretKey, theirs box.PublicKey) *side {
	pair, err := box.New(mine, theirs)
	if err != nil {
		w.Fatal(err)
	}
	mem := kv.OpenMemory()
	w.Cleanup(func() { mem.Close() })
	s := &side{
		store: &kvtest.Faulty{Store: mem}, wire: &wire{relay: w.relay, who: name},
		contact: Contact{ID: ContactID(pair.Fingerprint()), Pair: pair, Mine: mine.Public(), Theirs: theirs, Relays: []RelayID{theRelay}},
	}
	w.reopen(s)
	return s
}

// reopen makes a new endpoint over the side's store, as after a restart. What was
// shown is what the store says.
func (w *world) reopen(s *side) {
	e, err := New(Config{
		Store: s.store, Contacts: func() []Contact { return []Contact{s.contact} }, Own: []RelayID{theRelay},
		Relay: func(RelayID, Role) Requester { return s.wire },
		Stage: func(tx kv.Txn, _ Contact, m Message) (bool, error) {
			k := append([]byte("log/"), m.ID[:]...)
			if _, err := tx.Get(k); err == nil {
				k = append(k, "/again"...) // a second showing, in this process or another
			}
			return true, tx.Set(k, m.Content)
		},
		Notify: func(k NoticeKind, _ ContactID) { s.notices = append(s.notices, k) },
		Now:    w.clock.now, Rand: rand.New(rand.NewPCG(1, 2)),
	})
	if err != nil {
		w.Fatal(err)
	}
	s.Endpoint = e
}

// log lists what entered the application's log.
func (s *side) log(t testing.TB) (out []string) {
	err := s.store.View(func(r kv.Reader) error {
		return r.Scan(kv.Scan{Prefix: []byte("log/")}, func(_, v []byte) error { out = append(out, string(v)); return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (w *world) send(s *side, id byte, text string) {
	w.Helper()
	err := s.store.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error {
		return s.AddMessage(tx, s.contact, MessageID{id}, false, Record{Created: w.clock.now(), Message: &Message{MessageID{id}, 5, []byte(text)}})
	})
	if err != nil {
		w.Fatal(err)
	}
}

// deposit and collect are one turn of each loop.
func (w *world) deposit(s *side) error {
	if err := s.sendReceipts(); err != nil {
		return err
	}
	_, err := s.depositDue(context.Background())
	return err
}

func (w *world) collect(s *side) error { return s.pass(context.Background(), theRelay, s.wire) }

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) counts(s *side) Counts {
	w.Helper()
	c, err := s.Counts()
	w.must(err)
	return c
}

// TestMessage (MB-12, MB-34): to an absent contact, from deposit to receipt.
func TestMessage(t *testing.T) {
	w := newWorld(t)
	w.must(w.collect(w.bob)) // bob was here once: his tokens are registered
	w.must(w.collect(w.alice))
	w.send(w.alice, 1, "hello")
	w.must(w.deposit(w.alice))
	if c := w.counts(w.alice); c.Deposits != 1 {
		t.Errorf("%d deposits are kept", c.Deposits)
	}
	w.clock.t = w.clock.t.Add(72 * time.Hour)
	w.must(w.collect(w.bob))
	if got := w.bob.log(t); !slices.Equal(got, []string{"hello"}) {
		t.Fatalf("bob sees %q", got)
	}
	if m, from, err := w.bob.Message(MessageID{1}); err != nil || string(m.Content) != "hello" || from != w.bob.contact.ID {
		t.Errorf("inbox: %v", err)
	}
	w.must(w.deposit(w.bob)) // the receipt
	w.must(w.collect(w.alice))
	if c := w.counts(w.alice); c.Deposits != 0 || c.DepositBytes != 0 {
		t.Errorf("after the receipt: %+v", c)
	}
	if c := w.counts(w.bob); c.Deposits != 0 {
		t.Errorf("bob keeps %+v: a receipt is not receipted", c)
	}
	if st, err := w.relay.Stats(); err != nil || st.Rows != 0 {
		t.Errorf("the relay keeps %d rows", st.Rows)
	}
}

// TestRepeats: lost answers, lost acknowledgements and lost receipts cost repeats,
// never a second showing nor a loss.
func TestRepeats(t *testing.T) {
	w := newWorld(t)
	w.must(w.collect(w.bob))
	w.must(w.collect(w.alice))
	w.send(w.alice, 1, "once")
	w.alice.wire.fail = func(r mailbox.Request) (bool, bool) { return false, r.Deposit != nil }
	for range 12 { // the relay stores, the answer is lost
		w.must(w.deposit(w.alice))
		w.clock.t = w.clock.t.Add(time.Hour)
	}
	w.alice.wire.fail = nil
	w.must(w.deposit(w.alice))
	if st, _ := w.relay.Stats(); st.Rows != 1 {
		t.Fatalf("%d rows of one message", st.Rows)
	}
	w.bob.wire.fail = func(r mailbox.Request) (bool, bool) { return r.AckLease != nil, false }
	for range 3 { // the acknowledgement does not get there
		if err := w.collect(w.bob); !errors.Is(err, ErrUnavailable) {
			t.Errorf("pass: %v", err)
		}
		w.clock.t = w.clock.t.Add(2 * time.Minute)
	}
	w.bob.wire.fail = nil
	w.must(w.collect(w.bob))
	if got := w.bob.log(t); !slices.Equal(got, []string{"once"}) {
		t.Errorf("bob sees %q", got)
	}
	if st, _ := w.relay.Stats(); st.Rows != 0 {
		t.Errorf("%d rows are left", st.Rows)
	}
	if c := w.counts(w.bob); c.Inbox != 1 || c.Seen != 1 {
		t.Errorf("repeats are counted: %+v", c)
	}
	// The receipt is lost with the relay's disk, say: alice deposits again after a day.
	w.must(w.deposit(w.bob))
	p := w.bobReceiptLost()
	if p == 0 {
		t.Fatal("no receipt was there to lose")
	}
	w.clock.t = w.clock.t.Add(25 * time.Hour)
	w.must(w.deposit(w.alice))
	w.must(w.collect(w.bob))
	w.must(w.deposit(w.bob))
	w.must(w.collect(w.alice))
	if c := w.counts(w.alice); c.Deposits != 0 {
		t.Errorf("alice keeps %+v", c)
	}
	if got := w.bob.log(t); !slices.Equal(got, []string{"once"}) {
		t.Errorf("bob sees %q", got)
	}
}

// bobReceiptLost takes whatever waits for alice away, as a failing relay would.
func (w *world) bobReceiptLost() (n int) {
	thief := *w.alice.wire
	thief.who = "alice"
	toks, _ := w.alice.mailboxes(theRelay)
	resp, err := thief.Do(context.Background(), mailbox.Request{Lease: &mailbox.Lease{Tokens: toks}})
	w.must(err)
	var rows []mailbox.RowID
	for _, r := range resp.Lease.Rows {
		rows = append(rows, r.RowID)
	}
	_, err = thief.Do(context.Background(), mailbox.Request{AckLease: &mailbox.AckLease{LeaseID: resp.Lease.LeaseID, RowIDs: rows}})
	w.must(err)
	return len(rows)
}

// TestUnknownRecipient: a relay that refuses for a day is told to the user once;
// attempts never stop and are never further apart than an hour.
func TestUnknownRecipient(t *testing.T) {
	w := newWorld(t)
	w.send(w.alice, 1, "anybody there?")
	start := w.clock.t
	for w.clock.t.Sub(start) < 50*time.Hour {
		before := w.clock.t
		w.alice.wire.seen = nil
		w.must(w.deposit(w.alice))
		next, err := w.alice.depositDue(context.Background())
		w.must(err)
		if d := next.Sub(before); d <= 0 || d > retryCap {
			t.Fatalf("next attempt in %v", d)
		}
		w.clock.t = next
	}
	if !slices.Equal(w.alice.notices, []NoticeKind{NoticeUnknown}) {
		t.Errorf("notices %v", w.alice.notices)
	}
	w.must(w.collect(w.bob))
	w.must(w.deposit(w.alice))
	w.must(w.collect(w.bob))
	if got := w.bob.log(t); len(got) != 1 {
		t.Errorf("bob sees %q once he is known", got)
	}
}

// TestReaddress: after 30 days without a receipt the message goes out under this week's
// token, with the same id, and the sender is told.
func TestReaddress(t *testing.T) {
	w := newWorld(t)
	w.must(w.collect(w.bob))
	w.send(w.alice, 1, "patience")
	w.must(w.deposit(w.alice))
	for range 31 {
		w.clock.t = w.clock.t.Add(24 * time.Hour)
		w.must(w.deposit(w.alice))
	}
	if !slices.Contains(w.alice.notices, NoticeUnread) {
		t.Errorf("notices %v", w.alice.notices)
	}
	first := w.alice.wire.seen[0].Deposit.Envelope
	last := w.alice.wire.seen[len(w.alice.wire.seen)-1].Deposit.Envelope
	a, _ := mailbox.ParseEnvelope(first)
	b, _ := mailbox.ParseEnvelope(last)
	if a.Token == b.Token {
		t.Error("still under the old token")
	}
	ra, err1 := Open(w.bob.contact.Pair, a)
	rb, err2 := Open(w.bob.contact.Pair, b)
	if err1 != nil || err2 != nil || ra.Message.ID != rb.Message.ID {
		t.Errorf("not the same message: %v, %v", err1, err2)
	}
	w.must(w.collect(w.bob))
	w.must(w.deposit(w.alice))
	w.clock.t = w.clock.t.Add(3 * time.Minute)
	w.must(w.collect(w.bob))
	if got := w.bob.log(t); !slices.Equal(got, []string{"patience"}) {
		t.Errorf("bob sees %q", got)
	}
}

// TestPoison (MB-14, MB-25, MB-27): rows that are none of ours are refused and do not
// come first again; one pass is one page.
func TestPoison(t *testing.T) {
	w := newWorld(t)
	w.must(w.collect(w.bob))
	token := TokenAt(w.bob.contact.Pair, w.bob.contact.Mine, w.clock.t)
	for i := range 130 {
		env := (&mailbox.Envelope{Kind: 1, Token: token, Body: fmt.Append(nil, "poison", i)}).AppendTo(nil)
		resp, err := w.relay.Handle([]byte("mallory"), mailbox.Request{Deposit: &mailbox.Deposit{Envelope: env}})
		if err != nil || !resp.Deposit.Accepted {
			t.Fatal("mallory was refused")
		}
	}
	w.send(w.alice, 1, "behind the poison")
	w.must(w.deposit(w.alice))
	leases := func() (n int) {
		for _, r := range w.bob.wire.seen {
			if r.Lease != nil {
				n++
			}
		}
		return n
	}
	w.bob.wire.seen = nil
	w.must(w.collect(w.bob))
	if leases() != 1 {
		t.Errorf("%d leases in a pass", leases())
	}
	w.clock.t = w.clock.t.Add(2 * time.Minute)
	w.must(w.collect(w.bob))
	if got := w.bob.log(t); !slices.Equal(got, []string{"behind the poison"}) {
		t.Errorf("bob sees %q", got)
	}
	for _, r := range w.bob.wire.seen {
		if r.AckLease != nil && len(r.AckLease.RowIDs) != 1 {
			t.Errorf("%d rows were acknowledged", len(r.AckLease.RowIDs))
		}
	}
}

// TestForeignReceipt: a contact cannot receipt what was sent to somebody else, and an
// alias alone is no message.
func TestForeignReceipt(t *testing.T) {
	w := newWorld(t)
	w.send(w.alice, 1, "to bob")
	other := ContactID{9}
	w.must(w.alice.store.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error {
		x, err := begin(tx)
		if err != nil {
			return err
		}
		if err := x.dropMessage(MessageID{1}, &other); err != nil {
			return err
		}
		return x.end()
	}))
	if c := w.counts(w.alice); c.Deposits != 1 {
		t.Errorf("%+v", c)
	}
	w.must(w.collect(w.bob))
	w.must(w.alice.store.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error {
		return w.alice.AddMessage(tx, w.alice.contact, MessageID{2}, true, Record{Created: w.clock.now(), Alias: &Alias{ID: MessageID{2}}})
	}))
	w.must(w.deposit(w.alice))
	w.must(w.collect(w.bob))
	n := 0
	w.must(w.bob.store.View(func(r kv.Reader) error {
		return r.Scan(kv.Scan{Prefix: key(tableReceipt)}, func(k, _ []byte) error {
			n++
			if MessageID(k[34:50]) != (MessageID{1}) {
				t.Error("an alias was receipted")
			}
			return nil
		})
	}))
	if n != 1 {
		t.Errorf("%d receipts are owed", n)
	}
}

// TestBounds (MB-26): the inbox at its bound refuses and the row stays at the relay;
// deposits at theirs refuse while receipts are kept.
func TestBounds(t *testing.T) {
	w := newWorld(t)
	w.must(w.collect(w.bob))
	set := func(s *side, change func(*meta)) {
		w.must(s.store.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error {
			x, err := begin(tx)
			if err != nil {
				return err
			}
			change(&x.meta)
			return x.end()
		}))
	}
	set(w.bob, func(m *meta) { m.inbox = MaxInbox })
	w.send(w.alice, 1, "no room")
	w.must(w.deposit(w.alice))
	w.must(w.collect(w.bob))
	if got := w.bob.log(t); len(got) != 0 {
		t.Errorf("staged past the bound: %q", got)
	}
	if st, _ := w.relay.Stats(); st.Rows != 1 {
		t.Errorf("%d rows at the relay", st.Rows)
	}
	set(w.bob, func(m *meta) { m.inbox = MaxInbox - 1 })
	w.clock.t = w.clock.t.Add(2 * time.Minute)
	w.must(w.collect(w.bob))
	if got := w.bob.log(t); len(got) != 1 {
		t.Errorf("not staged at the bound: %q", got)
	}
	add := func(id byte) error {
		return w.alice.store.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error {
			return w.alice.AddMessage(tx, w.alice.contact, MessageID{id}, false, Record{Created: w.clock.now(), Message: &Message{ID: MessageID{id}}})
		})
	}
	set(w.alice, func(m *meta) { m.parcels = MaxDeposits - 1 })
	if err := add(7); err != nil {
		t.Errorf("at the bound: %v", err)
	}
	if err := add(8); !errors.Is(err, ErrFull) {
		t.Errorf("past the bound: %v", err)
	}
	set(w.alice, func(m *meta) { m.parcels = 5; m.parcelBytes = MaxDepositBytes })
	if err := add(9); !errors.Is(err, ErrFull) {
		t.Errorf("past the bound on bytes: %v", err)
	}
}

// TestCrashTable (MB-60, the endpoint's half): every named commit of both ends, not
// applied and applied, the process starting anew; the message is shown once, its
// parcel goes only with the receipt, nothing is left.
func TestCrashTable(t *testing.T) {
	for _, op := range []string{"", opDeposited.Name, opReceipts.Name, opStage.Name} {
		for _, applied := range []bool{false, true} {
			for skip := range 2 {
				if op == opReceipts.Name && skip > 0 {
					continue // both receipts travel in one envelope
				}
				t.Run(fmt.Sprintf("%s applied=%t skip=%d", op, applied, skip), func(t *testing.T) {
					w := newWorld(t)
					w.must(w.collect(w.bob))
					w.must(w.collect(w.alice))
					w.send(w.alice, 1, "one")
					w.send(w.alice, 2, "two")
					for _, s := range []*side{w.alice, w.bob} {
						s.store.Op, s.store.Applied, s.store.Skip = op, applied, skip
					}
					crashes := 0
					step := func(s *side, fn func(*side) error) {
						if err := fn(s); err != nil {
							if !errors.Is(err, kvtest.ErrInjected) {
								t.Fatal(err)
							}
							crashes++
							w.reopen(s)
						}
					}
					for range 30 {
						step(w.alice, w.deposit)
						if c := w.counts(w.alice); len(w.bob.log(t)) < 2 && c.Deposits == 0 {
							t.Fatal("a deposit was dropped before its message was held")
						}
						step(w.bob, w.collect)
						step(w.bob, w.deposit)
						step(w.alice, w.collect)
						w.clock.t = w.clock.t.Add(time.Hour)
					}
					if op != "" && crashes == 0 {
						t.Fatal("nothing crashed")
					}
					if got := w.bob.log(t); !slices.Equal(got, []string{"one", "two"}) {
						t.Errorf("bob sees %q", got)
					}
					if a, b := w.counts(w.alice), w.counts(w.bob); a.Deposits != 0 || b.Deposits != 0 {
						t.Errorf("left: %+v, %+v", a, b)
					}
				})
			}
		}
	}
}

// TestBackoff (failure case 26): attempts with jitter stay within bounds for ever.
func TestBackoff(t *testing.T) {
	w := newWorld(t)
	for n := range uint64(1 << 10) {
		d := w.alice.around(w.alice.backoff(n + 1))
		if d < retryInitial/2 || d > retryCap {
			t.Fatalf("attempt %d: %v", n, d)
		}
	}
	for range 1_000_000 {
		if d := w.alice.around(time.Minute); d < 30*time.Second || d > 90*time.Second {
			t.Fatalf("around a minute: %v", d)
		}
	}
}
