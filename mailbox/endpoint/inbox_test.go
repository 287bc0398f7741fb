package endpoint

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"hearsay/internal/kv"
)

// TestPruneInbox (MB-26): what was there for long goes, oldest first and not below the
// number to keep, with what the application has of it.
func TestPruneInbox(t *testing.T) {
	w := newWorld(t)
	w.must(w.collect(w.bob))
	w.must(w.collect(w.alice))
	for i := range byte(3) {
		w.send(w.alice, i+1, fmt.Sprint(i))
		w.must(w.deposit(w.alice))
		w.must(w.collect(w.bob))
		w.clock.t = w.clock.t.Add(time.Hour)
	}
	prune := func(age time.Duration, keep int) (ids []byte) {
		n, err := w.bob.PruneInbox(w.clock.t.Add(-age), keep, func(tx kv.Txn, id MessageID) error {
			ids = append(ids, id[0])
			return tx.Delete(append([]byte("log/"), id[:]...))
		})
		w.must(err)
		if n != len(ids) {
			t.Errorf("%d removed, %d told", n, len(ids))
		}
		return ids
	}
	if got := prune(4*time.Hour, 0); got != nil {
		t.Errorf("%v went, though young", got)
	}
	if got := prune(0, 2); !slices.Equal(got, []byte{1}) {
		t.Errorf("%v went, want the oldest", got)
	}
	if got := prune(time.Hour+time.Minute, 0); !slices.Equal(got, []byte{2}) {
		t.Errorf("%v went, want the second", got)
	}
	c, err := w.bob.Counts()
	w.must(err)
	if left := w.bob.log(t); c.Inbox != 1 || !slices.Equal(left, []string{"2"}) {
		t.Errorf("%d rows, %v left", c.Inbox, left)
	}
}

// TestPending: envelopes without their receipt, not the receipts on their way.
func TestPending(t *testing.T) {
	w := newWorld(t)
	w.must(w.collect(w.bob))
	w.must(w.collect(w.alice))
	w.send(w.alice, 1, "x")
	pending := func(s *side) int { n, err := s.Pending(); w.must(err); return n }
	if pending(w.alice) != 1 {
		t.Error("nothing is pending")
	}
	w.must(w.deposit(w.alice))
	w.must(w.collect(w.bob))
	w.must(w.deposit(w.bob)) // the receipt
	if pending(w.bob) != 0 || pending(w.alice) != 1 {
		t.Error(pending(w.bob), pending(w.alice))
	}
	w.must(w.collect(w.alice))
	if pending(w.alice) != 0 {
		t.Error("the receipt did not end it")
	}
}
