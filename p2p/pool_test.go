package p2p

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestPoolBound(t *testing.T) {
	m := newMemPool(100)
	a, b := &poolHolder{evict: func() {}}, &poolHolder{evict: func() {}}
	if !m.take(a, 60) || !m.take(b, 40) {
		t.Fatal("refused within the bound")
	}
	if m.take(b, 1) {
		t.Error("taken past the bound")
	}
	m.give(a, 60)
	if !m.take(b, 60) || m.used != 100 {
		t.Errorf("%d used", m.used)
	}
	// A sole holder may pass the bound: a single large message must get through.
	if !m.take(b, 900) {
		t.Error("sole holder refused")
	}
	m.give(b, 1000)
	if m.used != 0 || len(m.holders) != 0 {
		t.Errorf("%d used by %d", m.used, len(m.holders))
	}
}

// A holder without progress is evicted once others wait, and they go on.
func TestPoolEvictsTheStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemPool(100)
		var evictions int
		stalled := &poolHolder{}
		stalled.evict = func() {
			evictions++
			go m.give(stalled, 80)
		}
		moving := &poolHolder{evict: func() { t.Error("the moving one was evicted") }}
		m.take(stalled, 80)
		m.take(moving, 20)
		defer keepMoving(m, moving)()
		next := &poolHolder{evict: func() {}}
		start := time.Now()
		if err := m.wait(t.Context(), next, 50, 50, true); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); evictions != 1 || d < poolGrace || d > poolGrace+poolGrace/4 {
			t.Errorf("%d evictions after %v", evictions, d)
		}
	})
}

// holders makes n that hold so many bytes each, before any of them waits for more.
func holders(t *testing.T, m *memPool, n, each int) (out []*poolHolder) {
	for range n {
		h := &poolHolder{evict: func() { t.Error("evicted") }}
		if !m.take(h, each) {
			t.Fatal("no room")
		}
		out = append(out, h)
	}
	return out
}

// Readers that wait for each other are not stalled, and one of them goes on.
func TestPoolDoesNotLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemPool(100)
		done := make(chan struct{}, 4)
		for _, h := range holders(t, m, 4, 25) {
			go func() {
				if err := m.wait(t.Context(), h, 50, 50, true); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second) // the peer takes its time
				m.give(h, 75)
				done <- struct{}{}
			}()
		}
		for range 4 {
			<-done
		}
	})
}

// Where all wait for each other, small needs go before large ones.
func TestPoolPrefersSmallNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemPool(100)
		var order []int
		done := make(chan struct{}, 5)
		held := holders(t, m, 5, 20)
		for i, need := range []int{500, 40, 400, 30, 300} {
			h := held[i]
			go func() {
				if err := m.wait(t.Context(), h, need, need, true); err != nil {
					t.Error(err)
				}
				order = append(order, need) // one goes on at a time
				time.Sleep(time.Second)
				m.give(h, 20+need)
				done <- struct{}{}
			}()
		}
		for range 5 {
			<-done
		}
		// Who looks first when nobody is ahead may be any of them; then by need.
		if rest := order[1:]; !slices.IsSorted(rest) {
			t.Errorf("order %v", order)
		}
	})
}

func TestPoolWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemPool(10)
		h := &poolHolder{evict: func() {}}
		m.take(h, 10)
		defer keepMoving(m, h)()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, ErrNoPong)
		defer cancel()
		if err := m.wait(ctx, &poolHolder{evict: func() {}}, 1, 1, true); !errors.Is(err, ErrNoPong) {
			t.Errorf("%v", err)
		}
	})
}

// keepMoving has h make progress every second until the returned function is called.
func keepMoving(m *memPool, h *poolHolder) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sleepCtx(ctx, time.Second) {
			m.touch(h, 2*poolMinRate)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
