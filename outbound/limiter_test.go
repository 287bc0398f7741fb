package outbound

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// ledger is a stand-in for the rate limit, UNREVIEWED and for tests only (DS-78): it
// reserves message slots per epoch, durably before it proves, and never gives one out
// twice, over restarts too. No product path reaches it.
type ledger struct {
	t       *testing.T
	store   kv.Store
	now     func() time.Time
	budget  uint64
	epoch   time.Duration
	mu      sync.Mutex
	noIdent bool
	proved  map[string]bool // slots given out, over all "processes"
}

func (l *ledger) Prove(_ context.Context, ev eventgraph.Event) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.noIdent {
		return nil, &Refusal{Reason: ReasonIdentity}
	}
	epoch := uint64(l.now().UnixMilli()) / uint64(l.epoch.Milliseconds())
	key := binary.BigEndian.AppendUint64([]byte("rln/"), epoch)
	var slot uint64
	err := l.store.Update(kv.Op{Name: "test/reserve", Class: kv.ClassGeneration}, func(tx kv.Txn) error {
		v, err := tx.Get(key)
		if err == nil {
			slot = binary.BigEndian.Uint64(v)
		} else if !errors.Is(err, kv.ErrNotFound) {
			return err
		}
		if slot >= l.budget {
			return &Refusal{Reason: ReasonBudget, RetryAt: time.UnixMilli(int64((epoch + 1) * uint64(l.epoch.Milliseconds())))}
		}
		return tx.Set(key, binary.BigEndian.AppendUint64(nil, slot+1))
	})
	if err != nil {
		return nil, err
	}
	blob := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, epoch), slot)
	if l.proved[string(blob)] {
		l.t.Error("a reservation was used twice")
	}
	l.proved[string(blob)] = true
	id := ev.Header.ID()
	return append(blob, id[:]...), nil
}

// TestRateLimitSeam: a fresh reservation for each generation, none for a rebroadcast
// (DS-73, DS-74), parked by the two refusals until the epoch rolls over or an identity is
// there (DS-75, DS-77, DS-78), never unproven.
func TestRateLimitSeam(t *testing.T) {
	var l *ledger
	bubble(t, func(t *testing.T, r *rig) {
		l.t, l.store, l.now = t, r.mem, r.clock
		r.connect(silent(), silent())
		r.enqueue("a", "b", "c", "d")
		sleep(time.Second)
		if h, _ := r.w.Head(); h.Reason != "identity" || r.mat.count() != 1 {
			t.Errorf("%+v", h)
		}
		l.noIdent = false
		r.w.Retry()
		sleep(2 * time.Minute) // with rounds
		if len(l.proved) != 1 {
			t.Errorf("%d reservations for one generation", len(l.proved))
		}
		ack := func() {
			log := r.net.log()
			r.w.Observe(eventgraph.Status{ID: log[len(log)-1].id, Result: eventgraph.HasInserted}, r.net.peers[0].conn)
			synctest.Wait()
		}
		ack()
		r.crash() // reservations survive
		l.store = r.mem
		r.run()
		sleep(3 * time.Minute)
		ack() // the second one; the third finds the budget of 2 used up
		h, _ := r.w.Head()
		rollover := time.Now().Truncate(10 * time.Minute).Add(10 * time.Minute)
		if h.Position != 3 || h.Reason != "budget" || !h.NextAttempt.Equal(rollover) {
			t.Errorf("%+v, the epoch ends at %v", h, rollover)
		}
		made := r.mat.count()
		sleep(time.Until(rollover) - time.Millisecond)
		if r.mat.count() != made {
			t.Error("tried again before the epoch rolled over")
		}
		sleep(2 * time.Millisecond)
		if h, _ := r.w.Head(); h.State != "sent" || len(l.proved) != 3 {
			t.Errorf("%+v", h)
		}
		rec, _, err := r.q.store.head()
		if err != nil || len(rec.Active.Blob) != 48 {
			t.Errorf("the proof was not kept: %v", err)
		}
	}, func(r *rig) {
		l = &ledger{budget: 2, epoch: 10 * time.Minute, noIdent: true, proved: map[string]bool{}, now: time.Now}
		r.wcfg.RateLimiter = l
	})
}
