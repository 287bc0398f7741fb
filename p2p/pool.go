package p2p

import (
	"context"
	"sync"
	"time"
)

// A memPool bounds the bytes that peers make this node hold together. A holder that
// needs more than there is waits. Meanwhile holders that move less than poolMinRate are
// evicted, and where all that is left waits for each other, the one that needs least
// goes on past the bound: so peers that stall, or start large frames and do not end
// them, cost those with small ones a moment and no more.
type memPool struct {
	size int

	mu      sync.Mutex
	used    int
	holders map[*poolHolder]struct{} // with bytes held
	waiters map[*poolHolder]struct{}
	changed chan struct{} // closed and replaced when bytes come free
}

// A poolHolder is one direction of one peer. The pool's mutex guards its fields.
type poolHolder struct {
	evict   func() // must not block
	held    int
	since   time.Time // start of the window in which moved counts
	moved   int       // bytes since
	evicted bool
	need    int  // while it waits: bytes until it is done
	idle    bool // while it waits: it moves nothing, and that is our doing
}

func newMemPool(size int) *memPool {
	return &memPool{
		size: size, changed: make(chan struct{}),
		holders: make(map[*poolHolder]struct{}), waiters: make(map[*poolHolder]struct{}),
	}
}

// touch notes that h's peer moved n bytes.
func (m *memPool) touch(h *poolHolder, n int) {
	m.mu.Lock()
	h.moved += n
	m.mu.Unlock()
}

// take gives h n more bytes if there is room, evicting slow holders if there is not.
func (m *memPool) take(h *poolHolder, n int) bool {
	m.mu.Lock()
	ok := m.takeLocked(h, n)
	m.mu.Unlock()
	if !ok {
		m.evictSlow(h)
	}
	return ok
}

// takeSome gives h as much of n bytes as there is room for, but for the part that is
// kept for those who cannot do with less.
func (m *memPool) takeSome(h *poolHolder, n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n = min(n, m.size-m.size/poolKept-m.used); n <= 0 {
		return 0
	}
	m.takeLocked(h, n)
	return n
}

// evictSlow evicts slow holders in favour of h.
func (m *memPool) evictSlow(h *poolHolder) {
	m.mu.Lock()
	evict := m.slowLocked(h)
	m.mu.Unlock()
	for _, f := range evict {
		f()
	}
}

func (m *memPool) takeLocked(h *poolHolder, n int) bool {
	if m.used+n > m.size && !m.isNext(h) {
		return false
	}
	if h.held == 0 || h.idle {
		h.since, h.moved = time.Now(), 0
	}
	h.idle = false
	m.used += n
	h.held += n
	m.holders[h] = struct{}{}
	return true
}

// isNext tells whether no other holder can move before h does, and nobody who waits
// needs less.
func (m *memPool) isNext(h *poolHolder) bool {
	for o := range m.holders {
		if o != h && !o.idle {
			return false
		}
	}
	for o := range m.waiters {
		if o != h && o.need < h.need {
			return false
		}
	}
	return true
}

// slowLocked marks and returns the holders to evict in favour of h, and starts new
// windows for those that do well.
func (m *memPool) slowLocked(h *poolHolder) (evict []func()) {
	now := time.Now()
	for o := range m.holders {
		elapsed := now.Sub(o.since)
		if o == h || o.evicted || o.idle || elapsed < poolGrace {
			continue
		}
		if float64(o.moved) < poolMinRate*elapsed.Seconds() {
			o.evicted = true
			evict = append(evict, o.evict)
		} else {
			o.since, o.moved = now, 0
		}
	}
	return evict
}

// wait is take that waits for room until ctx ends. need: how many bytes h wants until
// it is done, n of them now. idle: h moves nothing while it waits.
func (m *memPool) wait(ctx context.Context, h *poolHolder, n, need int, idle bool) error {
	m.mu.Lock()
	h.need = need
	m.mu.Unlock()
	if m.take(h, n) {
		return nil
	}
	m.mu.Lock()
	h.idle = idle
	m.waiters[h] = struct{}{}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.waiters, h)
		if h.idle { // ctx has ended
			h.idle, h.since, h.moved = false, time.Now(), 0
		}
		m.mu.Unlock()
	}()
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
