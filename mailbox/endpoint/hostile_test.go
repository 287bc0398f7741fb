package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// A liar is a relay that answers as the test says.
type liar struct {
	page  func(tokens []mailbox.Token) *mailbox.Page
	fail  error
	acks  []mailbox.RowID
	asked []string
	said  map[mailbox.RefuseReason]int
}

func (l *liar) Do(_ context.Context, req mailbox.Request) (mailbox.Response, error) {
	no := &mailbox.Accepted{}
	switch {
	case l.fail != nil:
		return mailbox.Response{}, l.fail
	case req.Lease != nil:
		l.asked = append(l.asked, "lease")
		return mailbox.Response{Lease: l.page(req.Lease.Tokens)}, nil
	case req.AckLease != nil:
		l.asked = append(l.asked, "ack")
		l.acks = append(l.acks, req.AckLease.RowIDs...)
		return mailbox.Response{AckLease: no}, nil
	case req.RefuseRows != nil:
		l.asked = append(l.asked, "refuse")
		l.said[req.RefuseRows.Reason] += len(req.RefuseRows.RowIDs)
		return mailbox.Response{RefuseRows: no}, nil
	case req.Deposit != nil:
		return mailbox.Response{Deposit: &mailbox.Accepted{Accepted: true}}, nil // and keeps nothing
	}
	return mailbox.Response{}, ErrUnsupported
}

// sealTo is an envelope from alice to bob, under any token.
func (w *world) sealTo(token mailbox.Token, id int, text string) []byte {
	w.Helper()
	env, err := Seal(w.alice.contact.Pair, token, Record{Created: w.clock.now(), Message: &Message{MessageID{byte(id >> 8), byte(id)}, 5, []byte(text)}})
	if err != nil {
		w.Fatal(err)
	}
	return env
}

// TestHostileRelay (MB-12, MB-14, MB-25, MB-27): pages without end, foreign and damaged rows,
// bodies moved under another token, a lease that has expired or never does: one page is taken
// for each visit, only what is durable is acknowledged, nothing is shown twice, nothing is
// lost that an honest relay has.
func TestHostileRelay(t *testing.T) {
	w := newWorld(t)
	l := &liar{said: map[mailbox.RefuseReason]int{}}
	bob, pass := w.bob, func() { w.must(w.bob.pass(t.Context(), theRelay, l)) }
	token := TokenAt(bob.contact.Pair, bob.contact.Mine, w.clock.now())
	next := TokenAt(bob.contact.Pair, bob.contact.Mine, w.clock.now().Add(week))
	good := w.sealTo(token, 1, "hello")
	moved := append([]byte(nil), good...)
	copy(moved[2:], next[:])
	damaged := append([]byte(nil), good...)
	damaged[200] ^= 1
	stranger := w.sealTo(mailbox.Token{1, 2, 3}, 2, "not for us")
	rows := []mailbox.Row{
		{RowID: mailbox.RowID{1}, Envelope: good},
		{RowID: mailbox.RowID{2}, Envelope: moved},
		{RowID: mailbox.RowID{3}, Envelope: damaged},
		{RowID: mailbox.RowID{4}, Envelope: stranger},
		{RowID: mailbox.RowID{5}, Envelope: []byte("junk")},
		{RowID: mailbox.RowID{6}, Envelope: good},
	}
	for _, expires := range []uint64{0, 1, 1 << 62} { // long ago, at once, never: nobody looks
		l.page = func([]mailbox.Token) *mailbox.Page {
			return &mailbox.Page{Serving: true, LeaseID: mailbox.LeaseID{1}, ExpiresAt: expires, Rows: rows}
		}
		l.acks, l.said, l.asked = nil, map[mailbox.RefuseReason]int{}, nil
		pass()
		if fmt.Sprint(len(l.acks), l.acks[0] == mailbox.RowID{1}, l.acks[1] == mailbox.RowID{6}) != "2 true true" {
			t.Errorf("%d rows were acknowledged", len(l.acks))
		}
		if l.said[mailbox.RefuseMalformed] != 2 || l.said[mailbox.RefuseUnopened] != 2 {
			t.Errorf("refused: %v", l.said)
		}
		if got := bob.log(t); len(got) != 1 || got[0] != "hello" {
			t.Errorf("shown: %q", got)
		}
	}
	// A full page of new rows at each visit: one page for each, however often it is asked.
	n := 100
	l.page = func([]mailbox.Token) *mailbox.Page {
		p := &mailbox.Page{Serving: true, LeaseID: mailbox.LeaseID{2}}
		for range 3 {
			n++
			p.Rows = append(p.Rows, mailbox.Row{RowID: mailbox.RowID{9, byte(n >> 8), byte(n)}, Envelope: w.sealTo(token, n, "flood")})
		}
		return p
	}
	l.asked = nil
	pass()
	if fmt.Sprint(l.asked) != "[lease ack]" {
		t.Errorf("one visit asks %v", l.asked)
	}
	// The inbox is full: what does not fit is neither acknowledged nor shown.
	err := bob.store.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error {
		tn, err := begin(tx)
		if err != nil {
			return err
		}
		tn.meta.inbox = MaxInbox
		return tn.end()
	})
	w.must(err)
	before := len(bob.log(t))
	l.acks, l.said = nil, map[mailbox.RefuseReason]int{}
	pass()
	if len(l.acks) != 0 || l.said[mailbox.RefuseOverQuota] != 3 || len(bob.log(t)) != before {
		t.Errorf("full inbox: %d acknowledged, %v refused, %d shown", len(l.acks), l.said, len(bob.log(t))-before)
	}
}

// TestHostileRelayForgets (MB-34): a relay that accepts and keeps nothing: the sender keeps the
// envelope, deposits it again every day, and it arrives once the relay is honest.
func TestHostileRelayForgets(t *testing.T) {
	w := newWorld(t)
	w.must(w.collect(w.bob))
	w.send(w.alice, 1, "hello")
	l := &liar{}
	w.must(w.alice.depositAt(t.Context(), theRelay, []uint64{1}))
	honest := w.alice.cfg.Relay
	w.alice.cfg.Relay = func(RelayID, Role) Requester { return l }
	w.clock.t = w.clock.t.Add(25 * time.Hour)
	w.must(w.deposit(w.alice))
	if c := w.counts(w.alice); c.Deposits != 1 {
		t.Fatalf("%d envelopes kept", c.Deposits)
	}
	w.alice.cfg.Relay = honest
	w.clock.t = w.clock.t.Add(25 * time.Hour)
	w.must(w.collect(w.bob))
	w.must(w.deposit(w.alice))
	w.must(w.collect(w.bob))
	if got := w.bob.log(t); len(got) != 1 {
		t.Errorf("shown: %q", got)
	}
}

// TestReplayAfterTheHorizon: a relay keeps an envelope whose sender's clock ran ahead and
// offers it when the id would have been forgotten by arrival: it is still recognised.
func TestReplayAfterTheHorizon(t *testing.T) {
	w := newWorld(t)
	token := func() mailbox.Token { return TokenAt(w.bob.contact.Pair, w.bob.contact.Mine, w.clock.now()) }
	env := func() []byte {
		e, err := Seal(w.alice.contact.Pair, token(), Record{Created: w.clock.now().Add(300 * 24 * time.Hour), Message: &Message{MessageID{7}, 5, []byte("x")}})
		w.must(err)
		return e
	}
	l := &liar{said: map[mailbox.RefuseReason]int{}}
	l.page = func([]mailbox.Token) *mailbox.Page {
		return &mailbox.Page{Serving: true, LeaseID: mailbox.LeaseID{1}, Rows: []mailbox.Row{{RowID: mailbox.RowID{1}, Envelope: env()}}}
	}
	for range 4 {
		w.must(w.bob.pass(t.Context(), theRelay, l))
		shown := 0
		for range w.bob.log(t) {
			shown++
		}
		if shown != 1 {
			t.Fatalf("shown %d times", shown)
		}
		// The application forgets what it showed; the endpoint must not.
		w.must(w.bob.store.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error { return w.bob.RemoveInbox(tx, MessageID{7}) }))
		w.clock.t = w.clock.t.Add(50 * 24 * time.Hour)
		w.must(w.bob.forget())
		if c := w.counts(w.bob); c.Seen != 1 || c.Inbox != 0 {
			t.Fatalf("%+v", c)
		}
	}
}

// TestOldRecords (MB-14, MB-34): a record of MaxAge is taken; one that is a millisecond older is acknowledged and
// dropped, without a receipt.
func TestOldRecords(t *testing.T) {
	for _, c := range []struct {
		age   time.Duration
		taken int
	}{{MaxAge, 1}, {MaxAge + time.Millisecond, 0}} {
		w := newWorld(t)
		w.must(w.collect(w.bob))
		created := w.clock.now().Add(-c.age)
		env, err := Seal(w.alice.contact.Pair, TokenAt(w.bob.contact.Pair, w.bob.contact.Mine, w.clock.now()), Record{Created: created, Message: &Message{MessageID{7}, 5, []byte("x")}})
		w.must(err)
		if resp, err := w.alice.wire.Do(t.Context(), mailbox.Request{Deposit: &mailbox.Deposit{Envelope: env}}); err != nil || !resp.Deposit.Accepted {
			t.Fatal("no deposit", err)
		}
		w.must(w.collect(w.bob))
		owed := 0
		w.must(w.bob.store.View(func(r kv.Reader) error {
			return r.Scan(kv.Scan{Prefix: key(tableReceipt), KeysOnly: true}, func(_, _ []byte) error { owed++; return nil })
		}))
		if got := len(w.bob.log(t)); got != c.taken || owed != c.taken {
			t.Errorf("%v old: shown %d times, %d receipts owed, want %d", c.age, got, owed, c.taken)
		}
		if st, _ := w.relay.Stats(); st.Rows != 0 {
			t.Errorf("%v old: not acknowledged", c.age)
		}
	}
}

// TestClockOfTheSender (MB-34): parcels made by a clock that ran ahead go out at once when it is
// set back, although others are due later.
func TestClockOfTheSender(t *testing.T) {
	w := newWorld(t)
	w.must(w.collect(w.bob))
	w.clock.t = w.clock.t.Add(365 * 24 * time.Hour)
	w.send(w.alice, 1, "from the future")
	w.clock.t = w.clock.t.Add(-365 * 24 * time.Hour)
	w.send(w.alice, 2, "now")
	w.alice.wire.fail = func(mailbox.Request) (bool, bool) { return true, true }
	w.must(w.deposit(w.alice)) // both are put off by the backoff
	w.alice.wire.fail = nil
	w.clock.t = w.clock.t.Add(2 * time.Hour)
	before := len(w.alice.wire.seen)
	w.must(w.deposit(w.alice))
	if n := len(w.alice.wire.seen) - before; n != 2 {
		t.Errorf("%d deposits", n)
	}
}

// prover lets a wire make proofs, as a *Client does.
type prover struct {
	*wire
	calls *int
}

func (p prover) Prove(secret [32]byte) mailbox.Proof {
	return mailbox.Prove(secret, make([]byte, 32), make([]byte, 32))
}

func (p prover) Do(ctx context.Context, req mailbox.Request) (mailbox.Response, error) {
	if req.ClaimTokens == nil {
		return p.wire.Do(ctx, req)
	}
	*p.calls += len(req.ClaimTokens.Proofs)
	return mailbox.Response{ClaimTokens: &mailbox.Accepted{Accepted: true}}, nil
}

// liarWithProofs answers claims as a relay of the base protocol: ErrUnsupported.
type liarWithProofs struct{ *liar }

func (liarWithProofs) Prove(secret [32]byte) mailbox.Proof {
	return mailbox.Proof{Token: mailbox.TokenOf(secret)}
}

// TestClaimsAreMade (MB-29): all tokens of a relay are proven, a batch for each visit, then not
// again before a day has passed; a relay without the extension is asked for mail all the same.
func TestClaimsAreMade(t *testing.T) {
	w := newWorld(t)
	calls := 0
	who := prover{w.bob.wire, &calls}
	for range 3 {
		w.must(w.bob.pass(t.Context(), theRelay, who))
	}
	if want := len(TokensAround(w.bob.contact.Pair, w.bob.contact.Mine, w.clock.now())); calls != want {
		t.Errorf("%d proofs for %d tokens", calls, want)
	}
	w.bob.claims[theRelay] = claiming{}
	l := &liar{page: func([]mailbox.Token) *mailbox.Page { return &mailbox.Page{} }}
	w.must(w.bob.pass(t.Context(), theRelay, liarWithProofs{l}))
	if len(l.asked) != 1 {
		t.Errorf("asked %v", l.asked)
	}
}

// TestReach (MB-47): with only hiding profiles a relay is reached through the proxy or not at
// all, unless that is allowed.
func TestReach(t *testing.T) {
	key := make([]byte, 32)
	dial := noDial
	quic, tls := mailbox.Address{Scheme: "quic", Host: "h:1", Key: key}, mailbox.Address{Scheme: "tcp+tls", Host: "h:1", Key: key}
	for i, c := range []struct {
		reach     Reach
		relay     mailbox.Address
		proxied   bool
		forbidden bool
	}{
		{Reach{}, quic, false, false},
		{Reach{}, tls, false, false},
		{Reach{Proxy: dial}, tls, false, false},
		{Reach{Proxied: true, Proxy: dial}, quic, false, true},
		{Reach{Proxied: true, Proxy: dial}, tls, true, false},
		{Reach{Proxied: true}, tls, false, true},
		{Reach{Proxied: true, AllowDirect: true, Proxy: dial}, quic, false, false},
		{Reach{Proxied: true, AllowDirect: true, Proxy: dial}, tls, true, false},
	} {
		proxied, err := c.reach.Check(c.relay)
		if proxied != c.proxied || errors.Is(err, ErrDirect) != c.forbidden {
			t.Errorf("case %d: %t, %v", i, proxied, err)
		}
	}
}

// TestClientKeys: another identity for each relay and role, the same after a restart.
func TestClientKeys(t *testing.T) {
	store := kv.OpenMemory()
	defer store.Close()
	seed, err := OpenSeed(store)
	if err != nil || seed == (Seed{}) {
		t.Fatal(err)
	}
	again, err := OpenSeed(store)
	if err != nil || again != seed {
		t.Error("the seed is another after a restart")
	}
	seen := map[string]bool{}
	for _, relay := range []byte{1, 2} {
		for _, role := range []Role{RoleDeposit, RoleCollect} {
			k := seed.ClientKey(append(make([]byte, 31), relay), role)
			if !k.Equal(seed.ClientKey(append(make([]byte, 31), relay), role)) {
				t.Error("a key is not stable")
			}
			seen[string(k)] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d keys", len(seen))
	}
}

func noDial(context.Context, string, string) (net.Conn, error) { return nil, ErrUnavailable }
