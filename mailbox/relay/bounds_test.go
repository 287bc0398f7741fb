package relay

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// manyTokens are the first n of a numbered series.
func manyTokens(n int) []mailbox.Token {
	out := make([]mailbox.Token, n)
	for i := range out {
		binary.BigEndian.PutUint64(out[i][:], uint64(i)+1)
	}
	return out
}

// TestLargestCheckIn (MB-22, MB-50): 4,096 tokens are registered by one check-in, refreshed
// a day later and taken over after their expiry, each within what a store takes in one
// commit, also while the client's leases and those of others end.
func TestLargestCheckIn(t *testing.T) {
	r := newRig(t, Limits{})
	store := kv.OpenMemory()
	defer store.Close()
	r.store, r.cfg.Store = store, store
	all := manyTokens(mailbox.MaxTokens)
	if _, err := r.Handle([]byte("bob"), mailbox.Request{Lease: &mailbox.Lease{Tokens: all}}); err != nil {
		t.Fatal(err)
	}
	if st, _ := r.Stats(); st.Registrations != mailbox.MaxTokens {
		t.Fatalf("%d registrations after one check-in", st.Registrations)
	}
	fill := func() {
		r.limits.RelayRequests, r.limits.ClientRequests = 1<<20, 1<<20
		for i := range 4 * 128 {
			r.must("alice", mailbox.Request{Deposit: &mailbox.Deposit{Envelope: envelope(all[i], r.now.String())}})
		}
		for i := range 4 { // four full leases of 128 tokens
			if p := r.must("bob", mailbox.Request{Lease: &mailbox.Lease{Tokens: all[i*128 : (i+1)*128]}}).Lease; len(p.Rows) != 128 {
				t.Fatalf("lease of %d rows", len(p.Rows))
			}
		}
	}
	fill()
	r.pass(25 * time.Hour)
	for range 3 { // what one refresh leaves out is for the next
		r.must("bob", mailbox.Request{Lease: &mailbox.Lease{Tokens: all}})
		r.checkInvariants()
	}
	fresh := 0
	err := store.View(func(rd kv.Reader) error {
		return rd.Scan(kv.Scan{Prefix: []byte{prefixToken}}, func(_, v []byte) error {
			var tk token
			if err := tk.decode(v); err != nil {
				return err
			}
			if tk.Refreshed == seconds(r.now) {
				fresh++
			}
			return nil
		})
	})
	if err != nil || fresh != mailbox.MaxTokens {
		t.Errorf("%d registrations were refreshed, %v", fresh, err)
	}
	r.pass(61 * 24 * time.Hour) // everything expired, nothing was swept
	for range 3 {
		r.must("carol", mailbox.Request{Lease: &mailbox.Lease{Tokens: all}})
		r.checkInvariants()
	}
	if a := r.must("carol", mailbox.Request{Info: &mailbox.Info{}}).Info; a.ClientTokens != mailbox.MaxTokens {
		t.Errorf("carol took over %d tokens", a.ClientTokens)
	}
}

// must is do without the recount after each step.
func (r *rig) must(who string, req mailbox.Request) mailbox.Response {
	r.Helper()
	resp, err := r.Handle([]byte(who), req)
	if err != nil {
		r.Fatal(err)
	}
	return resp
}

// TestSweepIsBounded: thousands of full leases and rows that expired while the relay was
// off are ended in commits that a store takes.
func TestSweepIsBounded(t *testing.T) {
	r := newRig(t, Limits{})
	store := kv.OpenMemory()
	defer store.Close()
	r.store, r.cfg.Store = store, store
	r.limits.RelayRequests, r.limits.ClientRequests = 1<<20, 1<<20
	for c := range 20 {
		// A lease of 128 tokens is the one whose end writes most.
		bob, tokens := fmt.Sprint("bob", c), make([]mailbox.Token, 128)
		for i := range tokens {
			tokens[i] = mailbox.Token{byte(c), byte(i), 9}
		}
		r.must(bob, mailbox.Request{Lease: &mailbox.Lease{Tokens: tokens}})
		for i, token := range tokens {
			r.must("alice"+bob, mailbox.Request{Deposit: &mailbox.Deposit{Envelope: envelope(token, fmt.Sprint(i))}})
		}
		if p := r.must(bob, mailbox.Request{Lease: &mailbox.Lease{Tokens: tokens}}).Lease; len(p.Rows) != 128 {
			t.Fatal("no full page")
		}
	}
	for _, wait := range []time.Duration{3 * time.Minute, 31 * 24 * time.Hour, 61 * 24 * time.Hour} {
		r.pass(wait)
		n := 0
		for more := true; more; n++ {
			var err error
			if more, err = r.Sweep(); err != nil {
				t.Fatal(err)
			}
		}
		r.checkInvariants()
		if n < 3 {
			t.Errorf("%d sweeps: they are not bounded", n)
		}
	}
	if st, _ := r.Stats(); st.Rows != 0 || st.Leases != 0 || st.Registrations != 0 {
		t.Errorf("left over: %+v", st)
	}
}

// TestPenaltyBox (MB-36): the box of a token is bounded; what is in it comes after all that
// other tokens have; it gives its room back.
func TestPenaltyBox(t *testing.T) {
	r := newRig(t, Limits{PageRows: 3, PenaltyRows: 2})
	r.lease("bob", t1, t2)
	for _, s := range []string{"bad1", "bad2", "bad3"} {
		r.put("alice", t1, s)
	}
	p := r.lease("bob", t1, t2)
	refuse := func(why mailbox.RefuseReason, ids ...mailbox.RowID) bool {
		return r.do("bob", mailbox.Request{RefuseRows: &mailbox.RefuseRows{LeaseID: p.LeaseID, RowIDs: ids, Reason: why}}).RefuseRows.Accepted
	}
	for range 2 { // a repeat changes nothing
		if !refuse(mailbox.RefuseMalformed, ids(p)[:2]...) {
			t.Error("the box does not take what fits")
		}
	}
	if refuse(mailbox.RefuseUnopened, ids(p)[2]) {
		t.Error("the box took more than its bound")
	}
	if !refuse(mailbox.RefuseOverQuota, ids(p)[2]) {
		t.Error("a full inbox is not a poison row")
	}
	r.pass(2 * time.Minute)
	for _, s := range []string{"b1", "b2"} {
		r.put("alice", t2, s)
	}
	r.put("alice", t1, "good")
	p = r.lease("bob", t1, t2)
	if got := texts(t, p); len(got) != 3 || slices.Contains(got, "bad1") || slices.Contains(got, "bad2") || slices.Contains(got, "bad3") {
		t.Errorf("page %q: new rows come first, whosever they are", got)
	}
	r.ackRows("bob", p.LeaseID, ids(p)...)
	r.pass(2 * time.Minute)
	p = r.lease("bob", t1, t2)
	if got := texts(t, p); !slices.Equal(got, []string{"bad3", "bad1", "bad2"}) {
		t.Errorf("page %q: what was left comes before the box", got)
	}
	r.ackRows("bob", p.LeaseID, ids(p)...) // now they are taken after all; their room is free again
	for _, s := range []string{"x", "y"} {
		r.put("alice", t1, s)
	}
	p = r.lease("bob", t1)
	if !refuse(mailbox.RefuseMalformed, ids(p)...) {
		t.Error("the box did not give room back")
	}
}

// TestGate (MB-21): connections, their rate and requests of an address, at the bound and one
// past it; other addresses are not touched; memory is bounded.
func TestGate(t *testing.T) {
	g := newGate(requestsPerAddress(Profile()))
	now := time.Unix(1000, 0)
	g.now = func() time.Time { return now }
	a := &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}
	b := &net.UDPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 1}
	for i := range maxDialsPerAddress {
		if !g.dial(a) {
			t.Fatalf("dial %d was refused", i+1)
		}
	}
	if g.dial(a) || !g.dial(b) {
		t.Error("the rate of dials")
	}
	now = now.Add(time.Minute)
	if !g.dial(a) {
		t.Error("a minute later an address is still refused")
	}
	var ends []func()
	for i := range maxPendingPerAddress {
		end, ok := g.begin(a)
		if !ok {
			t.Fatalf("request %d was refused", i+1)
		}
		ends = append(ends, end)
	}
	if _, ok := g.begin(a); ok {
		t.Error("a request past the bound")
	}
	if end, ok := g.begin(b); !ok {
		t.Error("another address was refused")
	} else {
		end()
	}
	for _, end := range ends {
		end()
	}
	ends = nil
	for i := range maxConnsPerAddress {
		leave, ok := g.enter(a)
		if !ok {
			t.Fatalf("connection %d was refused", i+1)
		}
		ends = append(ends, leave)
	}
	if _, ok := g.enter(a); ok || g.dial(a) {
		t.Error("a connection past the bound")
	}
	for _, end := range ends {
		end()
	}
	if len(g.conns) != 0 || len(g.pending) != 0 || g.total != 0 {
		t.Errorf("left over: %d, %d, %d", len(g.conns), len(g.pending), g.total)
	}
	for i := range maxRateRows + 10 {
		if !g.dial(&net.UDPAddr{IP: net.IPv4(10, byte(i>>16), byte(i>>8), byte(i))}) {
			t.Fatal("a new address was refused")
		}
		if len(g.dials) > maxRateRows {
			t.Fatal("the table of dials is not bounded")
		}
	}
	for i := range maxRateRows + 10 {
		end, ok := g.begin(&net.UDPAddr{IP: net.IPv4(10, byte(i>>16), byte(i>>8), byte(i))})
		if !ok {
			t.Fatal("a new address's request was refused")
		}
		if end(); len(g.asked) > maxRateRows {
			t.Fatal("the table of requests is not bounded")
		}
	}
	now = now.Add(time.Minute)
	ask := func(addr net.Addr) bool {
		end, ok := g.begin(addr)
		if ok {
			end()
		}
		return ok
	}
	for i := range 8192 / 2 {
		if !ask(a) {
			t.Fatalf("request %d was refused", i+1)
		}
	}
	if ask(a) || !ask(b) {
		t.Error("the rate of requests")
	}
	if now = now.Add(time.Minute); !ask(a) {
		t.Error("a minute later an address is still refused")
	}
	if n := requestsPerAddress(Limits{ClientRequests: 5, RelayRequests: 6}); n != 5 {
		t.Errorf("an address may ask %d times, less than a client", n)
	}
	// An IPv6 address counts as its /64.
	x, y := prefixOf(&net.TCPAddr{IP: net.ParseIP("2001:db8::1")}), prefixOf(&net.TCPAddr{IP: net.ParseIP("2001:db8::ffff")})
	if z := prefixOf(&net.TCPAddr{IP: net.ParseIP("2001:db8:0:1::1")}); x != y || x == z {
		t.Error("prefixes")
	}
}

// TestManyPages (MB-16, MB-24): a lease whose rows are all acknowledged is not a live one:
// a collector takes page after page without waiting. It is remembered, up to a bound.
func TestManyPages(t *testing.T) {
	r := newRig(t, Limits{PageRows: 1, ClientLeases: 1, TokenLeases: 1, RelayLeases: 1, AckedLeases: 3})
	r.lease("bob", t1)
	for i := range 6 {
		r.put("alice", t1, fmt.Sprint(i))
	}
	var pages []*mailbox.Page
	for i := range 5 {
		p := r.lease("bob", t1)
		if got := texts(t, p); !slices.Equal(got, []string{fmt.Sprint(i)}) {
			t.Fatalf("page %d: %q", i, got)
		}
		if st, _ := r.Stats(); st.Leases != 1 {
			t.Errorf("%d live leases", st.Leases)
		}
		if !r.ackRows("bob", p.LeaseID, ids(p)...) {
			t.Fatal("an acknowledgement was refused")
		}
		pages = append(pages, p)
	}
	for i, p := range pages {
		if got := r.ackRows("bob", p.LeaseID, ids(p)...); got != (i < 3) {
			t.Errorf("the repeat of acknowledgement %d: %t", i, got)
		}
	}
	st, _ := r.Stats()
	if st.Leases != 0 || st.OldestLease != 0 || st.Rows != 1 {
		t.Errorf("%+v", st)
	}
	// One that still holds a row stays live.
	p := r.lease("bob", t1)
	r.ackRows("bob", p.LeaseID)
	if st, _ := r.Stats(); st.Leases != 1 || r.lease("bob", t1).Serving {
		t.Error("a lease that holds a row is not counted")
	}
}
