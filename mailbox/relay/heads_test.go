package relay

import (
	"testing"
	"time"

	"hearsay/internal/kv"
	"hearsay/internal/kv/kvtest"
	"hearsay/mailbox"
)

// checkHeads: no row is before the head of its token. It is part
// of the rig's invariants, so every course and FuzzWalk check it after each step.
func (r *rig) checkHeads() {
	r.Helper()
	for id, w := range storedRows(r.TB, r.store) {
		if head := r.heads.of(w.Index); w.Seq < head {
			r.Fatalf("row %x has number %d, before the head %d", id[:2], w.Seq, head)
		}
	}
}

// TestHeads (MB-36): a check-in begins where the last one found the first row. Where no row
// is left, none looks.
func TestHeads(t *testing.T) {
	r := newRig(t, Limits{PageRows: 2})
	r.lease("bob", t1)
	for i := range 5 {
		r.put("alice", t1, string(rune('a'+i)))
	}
	ix := r.seal.index(t1)
	for page, want := range []uint64{0, 2, 4, 4} {
		p := r.lease("bob", t1)
		if got := r.heads.of(ix); got != want {
			t.Errorf("page %d: the head is %d, want %d", page, got, want)
		}
		if len(p.Rows) > 0 {
			r.ackRows("bob", p.LeaseID, ids(p)...)
		}
	}
	r.put("alice", t1, "late")
	if p := r.lease("bob", t1); len(p.Rows) != 1 {
		t.Errorf("%d rows behind the head", len(p.Rows))
	}
}

// TestHeadsOfLostCommits: what a transaction found is not believed when its commit is lost.
// Here it moves rows back that are then still where they were.
func TestHeadsOfLostCommits(t *testing.T) {
	r := newRig(t, Limits{})
	faulty := &kvtest.Faulty{Store: r.store}
	r.store = faulty
	r.open(Limits{})
	r.lease("bob", t1)
	r.put("alice", t1, "one")
	if p := r.lease("bob", t1); len(p.Rows) != 1 {
		t.Fatal("no page")
	}
	r.pass(121 * time.Second)
	faulty.Op = opLease.Name
	if _, err := r.Handle([]byte("bob"), mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{t1}}}); err == nil {
		t.Fatal("the commit did not fail")
	}
	faulty.Op = ""
	r.checkInvariants()
	if p := r.lease("bob", t1); len(p.Rows) != 1 {
		t.Fatal("the row is not offered again")
	}
}

// TestHeadsAreBounded: at the bound they are kept, one past it forgotten.
func TestHeadsAreBounded(t *testing.T) {
	var h heads
	for i := range maxHeads {
		h.learn(map[index]uint64{{byte(i), byte(i >> 8)}: 7})
	}
	if len(h.m) != maxHeads || h.of(index{1}) != 7 {
		t.Fatalf("%d heads at the bound", len(h.m))
	}
	h.learn(map[index]uint64{{0, 0, 1}: 9})
	if len(h.m) != 1 || h.of(index{1}) != 0 || h.of(index{0, 0, 1}) != 9 {
		t.Fatalf("%d heads past the bound", len(h.m))
	}
}

// startAt remembers where scans of queues begin.
type startAt struct {
	kv.Store
	starts [][]byte
}

type startTxn struct {
	kv.Txn
	s *startAt
}

func (s *startAt) Update(op kv.Op, fn func(kv.Txn) error) error {
	return s.Store.Update(op, func(tx kv.Txn) error { return fn(startTxn{tx, s}) })
}

func (t startTxn) Scan(sc kv.Scan, fn func(k, v []byte) error) error {
	if sc.Prefix[0] == prefixRow {
		t.s.starts = append(t.s.starts, sc.Start)
	}
	return t.Txn.Scan(sc, fn)
}

// TestHeadsAreUsed: the store is asked from the head on.
func TestHeadsAreUsed(t *testing.T) {
	r := newRig(t, Limits{})
	s := &startAt{Store: r.store}
	r.store = s
	r.open(Limits{})
	r.lease("bob", t1)
	for range 2 {
		r.put("alice", t1, r.now.String())
		p := r.lease("bob", t1)
		r.ackRows("bob", p.LeaseID, ids(p)...)
		r.pass(time.Second)
	}
	r.put("alice", t1, "third")
	r.lease("bob", t1)
	if n := len(s.starts); n != 3 || beTime(s.starts[2][33:41]) != 2 { // 1 is the number of the first acknowledgement
		t.Errorf("%d scans, the last from %x", n, s.starts[n-1])
	}
}
