package gossip

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// plans is the plan with the lock, the clock and the wake-ups around it.
type plans struct {
	synced atomic.Bool // of the plan, for readers that must not wait

	mu      sync.Mutex
	plan    *plan
	changed chan struct{} // closed and replaced with each input: everybody looks again
}

func newPlans(p *plan) *plans {
	s := &plans{plan: p, changed: make(chan struct{})}
	s.synced.Store(p.synced)
	return s
}

// input runs fn on the plan, and tells everybody that waits for it.
func (s *plans) input(fn func(p *plan, now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	fn(s.plan, now)
	synced, _ := s.plan.gate(now)
	s.synced.Store(synced)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *plans) up(id p2p.ConnID)   { s.input(func(p *plan, now time.Time) { p.up(now, id) }) }
func (s *plans) down(id p2p.ConnID) { s.input(func(p *plan, _ time.Time) { p.down(id) }) }

func (s *plans) done(id p2p.ConnID, slot eventgraph.Slot, v verdict) {
	s.input(func(p *plan, now time.Time) { p.done(now, id, slot, v) })
}

func (s *plans) kick(id p2p.ConnID, slot eventgraph.Slot) {
	s.input(func(p *plan, now time.Time) { p.kick(now, id, slot) })
}

func (s *plans) rotate(current eventgraph.Slot, history []eventgraph.Slot) {
	s.mu.Lock()
	same := s.plan.current == current && slices.Equal(s.plan.history, history)
	s.mu.Unlock()
	if same {
		return // wake nobody
	}
	s.input(func(p *plan, now time.Time) { p.rotate(now, current, history) })
}

func (s *plans) pull(id p2p.ConnID, slot eventgraph.Slot) (ok bool) {
	s.input(func(p *plan, now time.Time) { ok = p.pull(now, id, slot) })
	return ok
}

// progress wakes nobody: it only makes others wait longer.
func (s *plans) progress(id p2p.ConnID, slot eventgraph.Slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan.progress(time.Now(), id, slot)
}

// next is the slot to compare with a peer now, which is then being asked for; or nil,
// how long there is none (0: no telling), and what says that this has changed.
func (s *plans) next(id p2p.ConnID) (slot *eventgraph.Slot, wait time.Duration, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, wait, ok := s.plan.next(time.Now(), id)
	if !ok {
		return nil, wait, s.changed
	}
	s.plan.asking(id, next)
	return &next, 0, s.changed
}

// gate looks at the gate, and returns when to look again and what may change it.
func (s *plans) gate() (synced bool, wait time.Duration, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	synced, wait = s.plan.gate(time.Now())
	if s.synced.Swap(synced) != synced {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	return synced, wait, s.changed
}

func (s *plans) slotSynced(slot eventgraph.Slot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plan.slotSynced(slot)
}

func (s *plans) count() (done, total int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plan.count()
}
