package relay

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"hearsay/internal/kv"
	"hearsay/internal/kv/kvtest"
	"hearsay/mailbox"
)

// TestCrashTable (MB-03, MB-13, MB-15, MB-30, MB-60, the relay's half): each commit of the
// relay fails, not applied or applied before its answer is lost, and the relay starts anew.
// Nothing that was answered "accepted" is lost, nothing is deleted that was not named, and
// what was leased comes back when the lease expires.
func TestCrashTable(t *testing.T) {
	for _, op := range []kv.Op{opDeposit, opLease, opAck, opRefuse, opInfo, opSweep} {
		for _, applied := range []bool{false, true} {
			for skip := range 3 {
				t.Run(fmt.Sprintf("%s applied=%t skip=%d", op.Name, applied, skip), func(t *testing.T) {
					crashOnce(t, op.Name, applied, skip)
				})
			}
		}
	}
}

func crashOnce(t *testing.T, op string, applied bool, skip int) {
	mem := kv.OpenMemory()
	faulty := &kvtest.Faulty{Store: mem, Op: op, Applied: applied, Skip: skip, Sticky: true}
	r := newRig(t, Limits{PageRows: 2})
	r.store = faulty
	r.open(Limits{PageRows: 2})
	crashes := 0
	restart := func(err error) {
		if !errors.Is(err, kv.ErrUnknown) {
			t.Fatal(err)
		}
		crashes++
		mem = mem.Reopen()
		r.store = mem
		r.open(Limits{PageRows: 2})
		r.checkInvariants()
	}
	// ask repeats a request as clients do that got no answer.
	ask := func(who string, req mailbox.Request) mailbox.Response {
		for {
			resp, err := r.Handle([]byte(who), req)
			if err == nil {
				r.checkInvariants()
				return resp
			}
			if resp.Deposit != nil || resp.Lease != nil || resp.AckLease != nil || resp.RefuseRows != nil {
				t.Error("a failed commit was answered") // MB-03
			}
			restart(err)
		}
	}
	sweep := func() {
		if _, err := r.Sweep(); err != nil {
			restart(err)
		}
	}
	owed := map[string]bool{} // accepted, and in no acknowledgement that was sent
	ask("bob", mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{t1}}})
	for _, text := range []string{"a", "b", "c", "d", "e"} {
		if !ask("alice", mailbox.Request{Deposit: &mailbox.Deposit{Envelope: envelope(t1, text)}}).Deposit.Accepted {
			t.Fatalf("%s was refused", text)
		}
		owed[text] = true
	}
	ask("bob", mailbox.Request{Info: &mailbox.Info{}})
	for range 10 {
		p := ask("bob", mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{t1}}}).Lease
		for _, text := range texts(t, p) {
			if !owed[text] {
				t.Errorf("%s came again after it was acknowledged", text)
			}
		}
		switch len(p.Rows) {
		case 0:
		case 1:
			delete(owed, texts(t, p)[0])
			ask("bob", mailbox.Request{AckLease: &mailbox.AckLease{LeaseID: p.LeaseID, RowIDs: ids(p)}})
		default: // the second is refused once and stays
			delete(owed, texts(t, p)[0])
			ask("bob", mailbox.Request{RefuseRows: &mailbox.RefuseRows{LeaseID: p.LeaseID, RowIDs: ids(p)[1:], Reason: mailbox.RefuseUnopened}})
			ask("bob", mailbox.Request{AckLease: &mailbox.AckLease{LeaseID: p.LeaseID, RowIDs: ids(p)[:1]}})
		}
		if st, err := r.Stats(); err != nil || int(st.Rows) != len(owed) {
			t.Fatalf("%d rows are kept of %d that are owed, %v", st.Rows, len(owed), err)
		}
		r.pass(leaseTTL)
		sweep()
	}
	if len(owed) != 0 {
		t.Errorf("%d envelopes never came", len(owed))
	}
	if crashes != 1 && (op != opInfo.Name || skip == 0) {
		t.Errorf("%d crashes", crashes)
	}
}

// TestDiskFull (MB-39): below the reserve deposits are refused, by the same false as
// everything else; check-in, acknowledgement and expiry go on.
func TestDiskFull(t *testing.T) {
	if opDeposit.Class != kv.ClassEnqueue {
		t.Error("a deposit is not refused before what drains the store")
	}
	for _, op := range []kv.Op{opLease, opAck, opRefuse, opSweep} {
		if op.Class != kv.ClassRelease {
			t.Errorf("%s may be refused on a full disk", op.Name)
		}
	}
	r := newRig(t, Limits{})
	full := &fullDisk{Store: r.store}
	r.store = full
	r.open(Limits{})
	r.lease("bob", t1)
	r.put("alice", t1, "before")
	full.on = true
	if r.put("alice", t1, "while") {
		t.Error("accepted on a full disk")
	}
	if r.Relay.counts["deposit"][RefusedDisk] != 1 {
		t.Error("not counted as the disk's refusal")
	}
	p := r.lease("bob", t1)
	if !slices.Equal(texts(t, p), []string{"before"}) || !r.ackRows("bob", p.LeaseID, ids(p)...) {
		t.Error("collection stopped on a full disk")
	}
	r.pass(time.Hour)
	if _, err := r.Sweep(); err != nil {
		t.Error(err)
	}
	r.checkInvariants()
	full.on = false
	if !r.put("alice", t1, "after") {
		t.Error("refused with room again")
	}
}

// A fullDisk refuses what a kv store refuses below its reserve.
type fullDisk struct {
	kv.Store
	on bool
}

func (f *fullDisk) Update(op kv.Op, fn func(kv.Txn) error) error {
	if f.on && op.Class < kv.ClassRelease {
		return kv.ErrDiskFull
	}
	return f.Store.Update(op, fn)
}
