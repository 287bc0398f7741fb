package relay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// counter is a random source that never repeats itself and is the same each time.
type counter uint64

func (c *counter) Read(b []byte) (int, error) {
	for i := range b {
		if i%16 == 0 {
			*c++
		}
		var v [16]byte
		binary.BigEndian.PutUint64(v[8:], uint64(*c))
		v[0] = 0xee
		b[i] = v[i%16]
	}
	return len(b), nil
}

// rig is a relay over a store, with a clock in the test's hand.
type rig struct {
	testing.TB
	*Relay
	store kv.Store
	now   time.Time
}

func newRig(t testing.TB, limits Limits) *rig {
	r := &rig{TB: t, store: newMapStore(), now: time.Unix(1_800_000_000, 0)}
	r.open(limits)
	return r
}

// open makes a relay over the rig's store, as after a restart.
func (r *rig) open(limits Limits) {
	r.Helper()
	var rnd counter
	if r.Relay != nil {
		rnd = *r.Relay.cfg.Random.(*counter)
	}
	relay, err := New(Config{Store: r.store, Key: [32]byte{1}, Limits: limits, Now: func() time.Time { return r.now }, Random: &rnd})
	if err != nil {
		r.Fatal(err)
	}
	r.Relay = relay
}

func (r *rig) pass(d time.Duration) { r.now = r.now.Add(d) }

func envelope(token mailbox.Token, text string) []byte {
	return (&mailbox.Envelope{Kind: mailbox.KindSealed, Token: token, Body: []byte(text)}).AppendTo(nil)
}

func (r *rig) do(who string, req mailbox.Request) mailbox.Response {
	r.Helper()
	resp, err := r.Handle([]byte(who), req)
	if err != nil {
		r.Fatal(err)
	}
	r.checkInvariants()
	return resp
}

func (r *rig) put(who string, token mailbox.Token, text string) bool {
	r.Helper()
	return r.do(who, mailbox.Request{Deposit: &mailbox.Deposit{Envelope: envelope(token, text)}}).Deposit.Accepted
}

func (r *rig) lease(who string, tokens ...mailbox.Token) *mailbox.Page {
	r.Helper()
	return r.do(who, mailbox.Request{Lease: &mailbox.Lease{Tokens: tokens}}).Lease
}

func (r *rig) ackRows(who string, id mailbox.LeaseID, ids ...mailbox.RowID) bool {
	r.Helper()
	return r.do(who, mailbox.Request{AckLease: &mailbox.AckLease{LeaseID: id, RowIDs: ids}}).AckLease.Accepted
}

func ids(p *mailbox.Page) (out []mailbox.RowID) {
	for _, row := range p.Rows {
		out = append(out, row.RowID)
	}
	return out
}

// texts are the bodies of a page, in its order.
func texts(t testing.TB, p *mailbox.Page) (out []string) {
	t.Helper()
	for _, row := range p.Rows {
		e, err := mailbox.ParseEnvelope(row.Envelope)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(e.Body))
	}
	return out
}

var t1, t2, t3 = mailbox.Token{1}, mailbox.Token{2}, mailbox.Token{3}

// checkInvariants recounts everything and compares (see doc.go).
func (r *rig) checkInvariants() {
	r.Helper()
	if err := Recount(r.store); err != nil {
		r.Fatal(err)
	}
	r.checkHeads()
}

// TestDepositLeaseAck (MB-02, MB-03, MB-10 to MB-13): the plain course.
func TestDepositLeaseAck(t *testing.T) {
	r := newRig(t, Limits{})
	if p := r.lease("bob", t1); p.Serving || !p.LeaseID.IsZero() || len(p.Rows) != 0 {
		t.Fatal("an empty mailbox is not a miss")
	}
	if !r.put("alice", t1, "one") || !r.put("alice", t1, "two") {
		t.Fatal("refused")
	}
	p := r.lease("bob", t1)
	if !slices.Equal(texts(t, p), []string{"one", "two"}) {
		t.Fatalf("page is %q", texts(t, p))
	}
	if want := uint64(r.now.Add(120 * time.Second).Unix()); p.ExpiresAt != want || p.LeaseID.IsZero() {
		t.Errorf("lease expires at %d, want %d", p.ExpiresAt, want)
	}
	if !r.ackRows("bob", p.LeaseID, ids(p)[0]) {
		t.Fatal("ack refused")
	}
	if st, err := r.Stats(); err != nil || st.Rows != 1 {
		t.Errorf("%d rows are left, %v", st.Rows, err)
	}
	// What was not named is held until the lease ends, then offered again (MB-15).
	if p := r.lease("bob", t1); p.Serving {
		t.Error("a held row was offered")
	}
	r.pass(120 * time.Second)
	if p := r.lease("bob", t1); !slices.Equal(texts(t, p), []string{"two"}) {
		t.Errorf("after expiry: %q", texts(t, p))
	}
}

// TestSameLease (MB-11, MB-16): the same live lease for the same set in any order,
// until it is acknowledged or expires; over a restart too (MB-30).
func TestSameLease(t *testing.T) {
	r := newRig(t, Limits{})
	r.lease("bob", t1, t2)
	r.put("alice", t1, "one")
	a := r.lease("bob", t1, t2)
	r.put("alice", t2, "later")
	r.open(Limits{})
	b := r.lease("bob", t2, t1, t2)
	if a.LeaseID != b.LeaseID || a.ExpiresAt != b.ExpiresAt || !slices.Equal(ids(a), ids(b)) {
		t.Fatal("not the same lease")
	}
	c := r.lease("bob", t2) // another set
	if c.LeaseID == a.LeaseID || !slices.Equal(texts(t, c), []string{"later"}) {
		t.Errorf("other set: %q", texts(t, c))
	}
	for range 2 {
		if !r.ackRows("bob", a.LeaseID, ids(a)...) {
			t.Error("a repeated acknowledgement was not answered alike")
		}
	}
	if d := r.lease("bob", t1, t2); d.Serving {
		t.Error("an acknowledged lease was returned")
	}
	r.pass(119 * time.Second)
	if !r.ackRows("bob", c.LeaseID) {
		t.Error("an acknowledgement in the last second of the lease was refused")
	}
	r.pass(time.Second)
	if r.ackRows("bob", c.LeaseID, ids(c)...) {
		t.Error("a late acknowledgement was accepted")
	}
}

// TestAckNamesForeignRows (MB-13): one wrong id refuses the whole.
func TestAckNamesForeignRows(t *testing.T) {
	r := newRig(t, Limits{})
	r.lease("bob", t1)
	r.lease("carol", t2)
	r.put("alice", t1, "for bob")
	r.put("alice", t2, "for carol")
	b, c := r.lease("bob", t1), r.lease("carol", t2)
	if r.ackRows("bob", b.LeaseID, ids(b)[0], ids(c)[0]) {
		t.Error("a foreign row was accepted")
	}
	if r.ackRows("bob", b.LeaseID, ids(b)[0], mailbox.RowID{9}) {
		t.Error("an unknown row was accepted")
	}
	if r.ackRows("carol", b.LeaseID, ids(b)[0]) {
		t.Error("somebody else's lease was accepted")
	}
	if r.ackRows("bob", mailbox.LeaseID{9}, ids(b)[0]) {
		t.Error("an unknown lease was accepted")
	}
	if st, _ := r.Stats(); st.Rows != 2 {
		t.Errorf("%d rows are left of 2", st.Rows)
	}
}

// TestDeduplication (MB-04, MB-28): a repeat is accepted and changes nothing, also
// for an hour after its acknowledgement; then it is a new deposit.
func TestDeduplication(t *testing.T) {
	r := newRig(t, Limits{})
	r.lease("bob", t1, t2)
	for range 12 {
		if !r.put("alice", t1, "same") {
			t.Fatal("a repeat was refused")
		}
	}
	r.put("alice", t2, "same") // another token is another mailbox
	if st, _ := r.Stats(); st.Rows != 2 {
		t.Fatalf("%d rows of 13 deposits to 2 tokens", st.Rows)
	}
	p := r.lease("bob", t1)
	r.ackRows("bob", p.LeaseID, ids(p)...)
	r.pass(time.Hour - time.Second)
	if !r.put("alice", t1, "same") {
		t.Error("a repeat after the acknowledgement was refused")
	}
	if st, _ := r.Stats(); st.Rows != 1 {
		t.Errorf("%d rows: the repeat came back", st.Rows)
	}
	r.pass(time.Second)
	if !r.put("alice", t1, "same") {
		t.Error("refused after the hour")
	}
	if st, _ := r.Stats(); st.Rows != 2 {
		t.Errorf("%d rows after the hour", st.Rows)
	}
}

// TestMarksAreBounded (MB-28): the oldest mark makes room.
func TestMarksAreBounded(t *testing.T) {
	r := newRig(t, Limits{DedupRows: 2})
	r.lease("bob", t1)
	for i := range 5 {
		r.put("alice", t1, fmt.Sprint(i))
		p := r.lease("bob", t1)
		r.ackRows("bob", p.LeaseID, ids(p)...)
		r.pass(2 * time.Minute)
	}
	r.put("alice", t1, "4")
	if st, _ := r.Stats(); st.Rows != 0 {
		t.Error("the newest mark was forgotten")
	}
	r.put("alice", t1, "0")
	if st, _ := r.Stats(); st.Rows != 1 {
		t.Error("the oldest mark was kept past the bound")
	}
}

// TestQuotas (MB-05, MB-50): each deposit quota at it and one past it, and that an
// acknowledgement gives it back to the depositor.
func TestQuotas(t *testing.T) {
	size := len(envelope(t1, "0"))
	for name, c := range map[string]struct {
		limits Limits
		fits   int
	}{
		"client rows":  {Limits{ClientRows: 3}, 3},
		"client bytes": {Limits{ClientBytes: 3 * size}, 3},
		"token rows":   {Limits{TokenRows: 3}, 3},
		"token bytes":  {Limits{TokenBytes: 3*size + 1}, 3},
		"relay rows":   {Limits{RelayRows: 3}, 3},
		"relay bytes":  {Limits{RelayBytes: 3 * size}, 3},
	} {
		r := newRig(t, c.limits)
		r.lease("bob", t1)
		for i := range c.fits {
			if !r.put("alice", t1, fmt.Sprint(i)) {
				t.Errorf("%s: deposit %d was refused", name, i)
			}
		}
		if r.put("alice", t1, "9") {
			t.Errorf("%s: one past the limit was accepted", name)
		}
		if !r.put("alice", t1, "0") {
			t.Errorf("%s: a repeat was refused for its quota", name)
		}
		p := r.lease("bob", t1)
		if !r.ackRows("bob", p.LeaseID, ids(p)...) || !r.put("alice", t1, "9") {
			t.Errorf("%s: the acknowledgement gave nothing back", name)
		}
	}
	// The quota is the depositor's, not the recipient's.
	r := newRig(t, Limits{ClientRows: 1})
	r.lease("bob", t1)
	r.put("alice", t1, "a")
	if !r.put("dave", t1, "b") {
		t.Error("alice's rows count against dave")
	}
}

// TestUnregistered (MB-01): a token that nobody registered takes nothing, nor one
// whose registration ran out (MB-50), nor malformed envelopes.
func TestUnregistered(t *testing.T) {
	r := newRig(t, Limits{})
	if r.put("alice", t1, "x") {
		t.Error("accepted for nobody")
	}
	r.lease("bob", t1)
	bad := envelope(t1, "x")
	bad[0] = 9
	if r.do("alice", mailbox.Request{Deposit: &mailbox.Deposit{Envelope: bad}}).Deposit.Accepted {
		t.Error("a malformed envelope was accepted")
	}
	r.pass(60*24*time.Hour - time.Second)
	if !r.put("alice", t1, "x") {
		t.Error("refused in the last second of the registration")
	}
	r.pass(time.Second)
	if r.put("alice", t1, "y") {
		t.Error("accepted after the registration ran out")
	}
	// The row that waits is there again when the owner is.
	if p := r.lease("bob", t1); !slices.Equal(texts(t, p), []string{"x"}) {
		t.Errorf("after registering again: %q", texts(t, p))
	}
}

// TestRegistration (MB-07, MB-22, MB-29, MB-50): a token is its first client's until
// it expires; bounds on a request, a client and the relay; a refresh is written at
// most once a day.
func TestRegistration(t *testing.T) {
	r := newRig(t, Limits{ClientTokens: 2, Registrations: 3, RequestTokens: 3})
	r.lease("bob", t1, t2, t3)
	if r.put("alice", t3, "x") {
		t.Error("the client's third token was registered")
	}
	if !r.put("alice", t2, "x") {
		t.Error("the client's second token was not registered")
	}
	if p := r.lease("eve", t2); p.Serving {
		t.Error("somebody else's mailbox was served")
	}
	r.lease("carol", t3)
	r.lease("dave", mailbox.Token{4})
	if r.put("alice", mailbox.Token{4}, "x") {
		t.Error("the relay's fourth registration was taken")
	}
	if p := r.lease("bob", t1, t2, t3, mailbox.Token{4}); p.Serving {
		t.Error("one filter past the limit was served")
	}
	var t1Before token
	read := func(into *token) {
		ix := r.seal.index(t1)
		b, err := (&mapTxn{r.store.(*mapStore).m}).Get(key(prefixToken, ix[:]))
		if err != nil || into.decode(b) != nil {
			t.Fatal(err)
		}
	}
	read(&t1Before)
	var after token
	r.pass(24*time.Hour - time.Second)
	r.lease("bob", t1, t2)
	if read(&after); after.Refreshed != t1Before.Refreshed {
		t.Error("refreshed within the day")
	}
	r.pass(time.Second)
	r.lease("bob", t1, t2)
	if read(&after); after.Refreshed == t1Before.Refreshed {
		t.Error("not refreshed after the day")
	}
	// When carol's registration runs out there is room for dave's.
	r.pass(59 * 24 * time.Hour)
	r.lease("dave", mailbox.Token{4})
	if !r.put("alice", mailbox.Token{4}, "x") {
		t.Error("an expired registration was not replaced")
	}
}

// TestPages (MB-23, MB-36): page bounds, turns between tokens, and what came back is
// offered last.
func TestPages(t *testing.T) {
	r := newRig(t, Limits{PageRows: 4})
	r.lease("bob", t1, t2)
	for i := range 6 {
		r.put("alice", t1, fmt.Sprintf("a%d", i))
	}
	r.put("alice", t2, "b0")
	r.put("alice", t2, "b1")
	p := r.lease("bob", t1, t2)
	if got := texts(t, p); !slices.Equal(got, []string{"a0", "b0", "a1", "b1"}) {
		t.Errorf("first page %q", got)
	}
	r.ackRows("bob", p.LeaseID, ids(p)[1], ids(p)[2], ids(p)[3]) // a0 stays
	r.pass(2 * time.Minute)
	if got := texts(t, r.lease("bob", t1, t2)); !slices.Equal(got, []string{"a2", "a3", "a4", "a5"}) {
		t.Errorf("second page %q: what came back must be last", got)
	}
	r = newRig(t, Limits{PageBytes: 2 * len(envelope(t1, "xx"))})
	r.lease("bob", t1)
	for _, s := range []string{"aa", "bb", "cc"} {
		r.put("alice", t1, s)
	}
	if got := texts(t, r.lease("bob", t1)); !slices.Equal(got, []string{"aa", "bb"}) {
		t.Errorf("page of bytes %q", got)
	}
}

// TestLeaseBounds (MB-24, MB-50): live leases of a client, of a token, of the relay,
// at and past the limit; all come back by expiry (MB-38).
func TestLeaseBounds(t *testing.T) {
	sets := [][]mailbox.Token{{t1}, {t1, t2}, {t1, t3}, {t2}, {t3}, {t1, t2, t3}}
	for name, c := range map[string]struct {
		limits Limits
		fits   int
	}{
		"client": {Limits{ClientLeases: 2, PageRows: 1, TokenLeases: 2}, 2},
		"token":  {Limits{TokenLeases: 1, PageRows: 1}, 1},
		"relay":  {Limits{RelayLeases: 2, PageRows: 1}, 2},
	} {
		r := newRig(t, c.limits)
		r.lease("bob", t1, t2, t3)
		for i := range 9 {
			r.put("alice", t1, fmt.Sprint(i))
		}
		n := 0
		for _, set := range sets {
			if r.lease("bob", set...).Serving {
				n++
			}
		}
		if n != c.fits {
			t.Errorf("%s: %d live leases, want %d", name, n, c.fits)
		}
		r.pass(2 * time.Minute)
		if !r.lease("bob", sets[0]...).Serving {
			t.Errorf("%s: the expired leases still count", name)
		}
	}
}

// TestRowExpiryKeepsLease (MB-38, MB-50): one row's expiry does not void its
// siblings' lease.
func TestRowExpiryKeepsLease(t *testing.T) {
	r := newRig(t, Limits{})
	r.lease("bob", t1)
	r.put("alice", t1, "old")
	r.pass(30*24*time.Hour - time.Minute)
	r.put("alice", t1, "new")
	p := r.lease("bob", t1)
	if len(p.Rows) != 2 {
		t.Fatalf("%d rows", len(p.Rows))
	}
	r.pass(time.Minute)
	if _, err := r.Sweep(); err != nil {
		t.Fatal(err)
	}
	r.checkInvariants()
	again := r.lease("bob", t1)
	if again.LeaseID != p.LeaseID || !slices.Equal(texts(t, again), []string{"new"}) {
		t.Errorf("after one row's expiry: %q", texts(t, again))
	}
	if !r.ackRows("bob", p.LeaseID, ids(p)...) {
		t.Error("the acknowledgement of both was refused")
	}
	if st, _ := r.Stats(); st.Rows != 0 || st.ExpiredRows != 1 {
		t.Errorf("%+v", st)
	}
}

// TestRefuseRows (MB-14, MB-36): refused rows stay, behind all others.
func TestRefuseRows(t *testing.T) {
	r := newRig(t, Limits{PageRows: 2})
	r.lease("bob", t1)
	for _, s := range []string{"bad", "good", "next", "last"} {
		r.put("alice", t1, s)
	}
	p := r.lease("bob", t1)
	refuse := func(ids ...mailbox.RowID) bool {
		return r.do("bob", mailbox.Request{RefuseRows: &mailbox.RefuseRows{LeaseID: p.LeaseID, RowIDs: ids, Reason: mailbox.RefuseUnopened}}).RefuseRows.Accepted
	}
	if refuse(mailbox.RowID{9}) || !refuse(ids(p)[0]) {
		t.Error("refusals")
	}
	if again := r.lease("bob", t1); again.LeaseID != p.LeaseID || len(again.Rows) != 2 {
		t.Error("a refused row left its lease")
	}
	r.ackRows("bob", p.LeaseID, ids(p)[1])
	r.pass(2 * time.Minute)
	if got := texts(t, r.lease("bob", t1)); !slices.Equal(got, []string{"next", "last"}) {
		t.Errorf("page %q: the refused row must be last", got)
	}
	if st, _ := r.Stats(); st.Rows != 3 {
		t.Errorf("%d rows", st.Rows)
	}
}

// TestRate (MB-05, MB-37, MB-50): both windows at and past their limit, the relay's
// not spent by a client over its own, and no clock jump blocks for longer than a
// window.
func TestRate(t *testing.T) {
	r := newRig(t, Limits{ClientRequests: 3, RelayRequests: 5})
	served := func(who string) bool {
		return r.do(who, mailbox.Request{Info: &mailbox.Info{}}).Info.RequestsAMinute != 0
	}
	for i := range 10 {
		if got := served("greedy"); got != (i < 3) {
			t.Errorf("request %d served: %t", i, got)
		}
	}
	if !served("a") || !served("b") || served("c") {
		t.Error("the relay's window does not hold 5")
	}
	r.open(Limits{ClientRequests: 3, RelayRequests: 5}) // a restart does not forget (MB-30)
	if served("greedy") || served("c") {
		t.Error("a restart forgot the windows")
	}
	r.pass(59 * time.Second)
	if served("greedy") {
		t.Error("served within the window")
	}
	r.pass(time.Second)
	if !served("greedy") {
		t.Error("blocked after the window")
	}
	for range 5 {
		served("greedy")
	}
	r.pass(-time.Hour)
	if !served("greedy") {
		t.Error("a clock that went back blocks")
	}
	for range 5 {
		served("greedy")
	}
	r.pass(time.Hour)
	if !served("greedy") {
		t.Error("a clock that came back blocks")
	}
}

// TestRateRows (MB-07): at most so many clients are counted; one whose window is
// over makes room, otherwise new ones are refused.
func TestRateRows(t *testing.T) {
	r := newRig(t, Limits{RateRows: 2})
	served := func(who string) bool {
		return r.do(who, mailbox.Request{Info: &mailbox.Info{}}).Info.RequestsAMinute != 0
	}
	if !served("a") || !served("b") || served("c") || !served("a") {
		t.Error("bound on rate rows")
	}
	r.pass(time.Minute)
	if !served("c") {
		t.Error("an old row did not make room")
	}
	r.pass(-2 * time.Hour)
	if !served("d") {
		t.Error("rows of the future block a clock that was set back")
	}
}

// TestMalformedCosts (failure case 55): work for nothing consumes the budget.
func TestMalformedCosts(t *testing.T) {
	r := newRig(t, Limits{ClientRequests: 2})
	for i, want := range []bool{true, true, false} {
		if ok, err := r.Malformed([]byte("x")); ok != want || err != nil {
			t.Errorf("malformed request %d: %t, %v", i, ok, err)
		}
	}
	if _, err := r.Handle([]byte("x"), mailbox.Request{}); !errors.Is(err, mailbox.ErrMalformed) {
		t.Errorf("empty request: %v", err)
	}
}

// TestSealing (MB-06): no envelope byte, token or key in the store; a row that was
// altered or swapped with another is not served, and is not deleted.
func TestSealing(t *testing.T) {
	r := newRig(t, Limits{})
	r.lease("bob-transport-key", t1, t2)
	canary := mailbox.Token{0xca, 0xfe, 0xba, 0xbe, 0xca, 0xfe, 0xba, 0xbe}
	r.lease("bob-transport-key", canary)
	r.put("alice-transport-key", canary, "canary text")
	r.put("alice-transport-key", t1, "first!")
	r.put("alice-transport-key", t2, "second")
	m := r.store.(*mapStore).m
	for k, v := range m {
		for _, s := range []string{"canary text", "transport-key", string(canary[:8])} {
			if containsString(k, s) || containsString(v, s) {
				t.Errorf("%q is in the store", s)
			}
		}
	}
	var bodies []string
	for k := range m {
		if k[0] == prefixRow {
			bodies = append(bodies, k)
		}
	}
	slices.Sort(bodies)
	const head = 32 + 16 // owner and content: the ciphertext follows
	one, two := m[bodies[1]], m[bodies[2]]
	m[bodies[1]], m[bodies[2]] = one[:head]+two[head:], two[:head]+one[head:]
	m[bodies[0]] = m[bodies[0]][:len(m[bodies[0]])-1] + "\x00"
	if p := r.lease("bob-transport-key", t1, t2, canary); p.Serving {
		t.Errorf("served %q", texts(t, p))
	}
	if st, _ := r.Stats(); st.Rows != 3 {
		t.Errorf("%d rows are left of 3", st.Rows)
	}
}

func containsString(s, sub string) bool {
	for i := 0; i+len(sub) <= len(s); i++ {
		if s[i:i+len(sub)] == sub {
			return true
		}
	}
	return false
}

// TestDrain and the allow list: deposits are refused, the rest goes on; who is not
// allowed gets nothing.
func TestDrain(t *testing.T) {
	r := newRig(t, Limits{})
	r.lease("bob", t1)
	r.put("alice", t1, "x")
	r.cfg.Drain = true
	if r.put("alice", t1, "y") {
		t.Error("accepted while draining")
	}
	if !r.put("alice", t1, "x") {
		t.Error("custody that exists was denied while draining")
	}
	p := r.lease("bob", t1)
	if len(p.Rows) != 1 || !r.ackRows("bob", p.LeaseID, ids(p)...) {
		t.Error("collection stopped while draining")
	}
	r.cfg.Allow = func(k []byte) bool { return string(k) == "bob" }
	r.cfg.Drain = false
	if r.put("alice", t1, "z") {
		t.Error("served to who is not allowed")
	}
}

// TestLimits (MB-50): defaults are the profile's; only lower values are taken.
func TestLimits(t *testing.T) {
	l, err := Limits{}.withDefaults()
	if err != nil || l != Profile() {
		t.Errorf("defaults: %+v, %v", l, err)
	}
	for _, bad := range []Limits{{PageRows: 129}, {EnvelopeTTL: 31 * 24 * time.Hour}, {ClientRows: -1}} {
		if _, err := bad.withDefaults(); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	if l, err := (Limits{PageRows: 1}).withDefaults(); err != nil || l.PageRows != 1 || l.TokenRows != 256 {
		t.Errorf("lower value: %+v, %v", l, err)
	}
}
