package p2p

import (
	"context"
	"sync"
	"time"
)

// A memPool bounds the bytes that peers make this node hold together. A holder that
// needs more than there is waits; meanwhile holders that have shown no progress for
// poolGrace are evicted, so that stalled peers cost those who move a moment and no
// more. A holder gets what it asks for where all others wait too.
type memPool struct {
	size int

	mu      sync.Mutex
	used    int
	holders map[*poolHolder]struct{}
	changed chan struct{} // closed and replaced when bytes come free
}

// A poolHolder is one direction of one peer. The pool's mutex guards its fields.
type poolHolder struct {
	evict    func() // must not block nor call the pool
	held     int
	progress time.Time // of the last byte moved
	evicted  bool
	waiting  bool // in wait with shield: its own lack of progress is our doing
}

func newMemPool(size int) *memPool {
	return &memPool{size: size, holders: make(map[*poolHolder]struct{}), changed: make(chan struct{})}
}

// touch notes that h's peer moved bytes.
func (m *memPool) touch(h *poolHolder) {
	m.mu.Lock()
	h.progress = time.Now()
	m.mu.Unlock()
}

// take gives h n more bytes if there is room, evicting stalled holders if there is not.
func (m *memPool) take(h *poolHolder, n int) bool {
	m.mu.Lock()
	ok := m.takeLocked(h, n)
	var evict []func()
	if !ok {
		evict = m.stalledLocked(h)
	}
	m.mu.Unlock()
	for _, f := range evict {
		f()
	}
	return ok
}

func (m *memPool) takeLocked(h *poolHolder, n int) bool {
	if m.used+n > m.size && !m.othersWait(h) {
		return false
	}
	if h.held == 0 {
		h.progress = time.Now()
	}
	if h.waiting {
		h.waiting, h.progress = false, time.Now()
	}
	m.used += n
	h.held += n
	m.holders[h] = struct{}{}
	return true
}

// othersWait tells whether no other holder can move before h does. Then h goes on, or
// all would wait for each other.
func (m *memPool) othersWait(h *poolHolder) bool {
	for o := range m.holders {
		if o != h && !o.waiting {
			return false
		}
	}
	return true
}

// stalledLocked marks and returns the holders to evict in favour of h.
func (m *memPool) stalledLocked(h *poolHolder) (evict []func()) {
	now := time.Now()
	for o := range m.holders {
		if o != h && !o.evicted && !o.waiting && now.Sub(o.progress) >= poolGrace {
			o.evicted = true
			evict = append(evict, o.evict)
		}
	}
	return evict
}

// wait is take that waits for room until ctx ends. shield: h makes no progress while
// it waits, and is not evicted for that.
func (m *memPool) wait(ctx context.Context, h *poolHolder, n int, shield bool) error {
	if m.take(h, n) {
		return nil
	}
	m.setWaiting(h, shield)
	defer m.setWaiting(h, false)
	for {
		m.mu.Lock()
		changed := m.changed
		m.mu.Unlock()
		if m.take(h, n) {
			return nil
		}
		t := time.NewTimer(poolGrace / 4)
		select {
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		case <-changed:
			t.Stop()
		case <-t.C:
		}
	}
}

func (m *memPool) setWaiting(h *poolHolder, waiting bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.waiting && !waiting {
		h.progress = time.Now()
	}
	h.waiting = waiting
}

// give returns n of h's bytes.
func (m *memPool) give(h *poolHolder, n int) {
	if n == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= n
	h.held -= n
	if h.held == 0 {
		delete(m.holders, h)
	}
	close(m.changed)
	m.changed = make(chan struct{})
}
