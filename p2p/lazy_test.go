package p2p

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// What can be made smaller gets what room there is, and always some; a part of the pool
// is left to what cannot.
func TestAdmitUpTo(t *testing.T) {
	pool := newMemPool(sendPool)
	queue := func() *sendQueue { return newSendQueue(pool, func() {}) }
	const kept = sendPool / poolKept
	for n, want := range []int{
		1 << 20, sendPool - kept - (1<<20 - sendAllowance) + sendAllowance, sendAllowance, sendAllowance,
	} {
		var m queued
		if err := queue().admitUpTo(t.Context(), &m, smallPayload, 1<<20); err != nil || m.size != want || m.pooled != want-sendAllowance {
			t.Errorf("number %d: %d bytes, %d of the pool, want %d: %v", n, m.size, m.pooled, want, err)
		}
	}
	if pool.used != sendPool-kept {
		t.Errorf("%d bytes are used", pool.used)
	}
	if err := queue().push(t.Context(), item("x", kept), false); err != nil {
		t.Errorf("what cannot be made smaller: %v", err)
	}
	if err := queue().push(t.Context(), item("x", sendAllowance+1), false); !errors.Is(err, errQueueFull) {
		t.Errorf("past the bound: %v", err)
	}
	q := queue() // what was not needed goes back
	m := queued{}
	pool.used = 0
	if err := q.admitUpTo(t.Context(), &m, 100, 100_000); err != nil || m.size != 100_000 {
		t.Fatalf("%d bytes: %v", m.size, err)
	}
	q.shrink(&m, 20_000)
	if m.size != 20_000 || q.bytes != 20_000 || pool.used != m.pooled || m.pooled > 20_000 {
		t.Errorf("%d bytes, %d in the queue, %d of the pool's %d", m.size, q.bytes, m.pooled, pool.used)
	}
	q.shrink(&m, 10)
	q.release(m)
	if q.bytes != 0 || pool.used != 0 {
		t.Errorf("%d and %d bytes are left", q.bytes, pool.used)
	}
}

// A small answer waits for the peer's own frames only; one that cannot be made small
// waits for the others' as well.
func TestAdmitUpToWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newMemPool(sendPool)
		other := &poolHolder{evict: func() {}}
		pool.take(other, sendPool)
		defer keepMoving(pool, other)()
		q := newSendQueue(pool, func() {})
		var m queued
		if err := q.admitUpTo(t.Context(), &m, smallPayload, 1<<20); err != nil || m.size != sendAllowance {
			t.Fatalf("%d bytes: %v", m.size, err)
		}
		second := make(chan error, 1)
		go func() {
			var m queued
			second <- q.admitUpTo(t.Context(), &m, smallPayload, 1<<20)
		}()
		settle(time.Minute)
		if len(second) != 0 {
			t.Error("did not wait for the peer")
		}
		q.release(m)
		if err := <-second; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		q = newSendQueue(pool, func() {})
		if err := q.admitUpTo(ctx, &m, sendAllowance+1, 1<<20); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("did not wait for the others: %v", err)
		}
		q.close(ErrDone, false)
		if err := q.admitUpTo(ctx, &m, 1, 1); !errors.Is(err, ErrDone) {
			t.Errorf("of a closed queue: %v", err)
		}
		if err := q.admitPieces(ctx, &m); !errors.Is(err, ErrDone) {
			t.Errorf("pieces for a closed queue: %v", err)
		}
	})
}

// pattern is a payload of n bytes that shows where it was cut wrongly.
func pattern(n int) Pieces {
	return Pieces{Size: n, Fill: func(b []byte, at int) {
		for i := range b {
			b[i] = byte((at + i) * 7 / 3)
		}
	}}
}

// Payloads in pieces arrive whole, in their place among others.
func TestSendPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		node := n.start(t, "5.0.0.1", withEcho(&echo{}))
		raw := n.dialRaw(t, "5.0.0.2", node.url)
		raw.answerPings()
		raw.shake()
		p := node.Peers()[0]
		var want [][]byte
		for _, size := range []int{0, 1, writeBatch - 100, writeBatch, writeBatch + 1, 100_000} {
			text := fmt.Appendf(nil, "before %d", size)
			if err := p.Send(t.Context(), Message{Command: "toy::msg", Payload: text}); err != nil {
				t.Fatal(err)
			}
			if err := p.SendPieces(t.Context(), "toy::msg", func() (Pieces, error) { return pattern(size), nil }); err != nil {
				t.Fatal(err)
			}
			whole := make([]byte, size)
			pattern(size).Fill(whole, 0)
			want = append(want, text, whole)
		}
		boom := errors.New("boom")
		if err := p.SendPieces(t.Context(), "toy::msg", func() (Pieces, error) { return Pieces{}, boom }); !errors.Is(err, boom) {
			t.Errorf("a maker's error: %v", err)
		}
		if err := p.SendPieces(t.Context(), "no::such", nil); !errors.Is(err, ErrUnknownCommand) {
			t.Errorf("an unknown command: %v", err)
		}
		synctest.Wait()
		got := raw.got("toy::msg")
		if len(got) != len(want) {
			t.Fatalf("%d messages, want %d", len(got), len(want))
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("message %d of %d bytes, want %d", i, len(got[i]), len(want[i]))
			}
		}
		if p.queue.bytes != 0 || p.queue.frames != 0 || p.queue.pieced {
			t.Error("something is left in the queue")
		}
	})
}

// A hundred peers that ask for large answers and read nothing hold none of the common
// memory, whether the answers are made in pieces or may be cut: who comes then gets his
// at once.
func TestStalledAnswersHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{}
		n := newMemNet()
		made := 0
		e.run = func(ctx context.Context, p *Peer) error {
			for range 3 {
				err := p.SendPieces(ctx, "toy::msg", func() (Pieces, error) {
					e.mu.Lock()
					defer e.mu.Unlock()
					made++
					return pattern(900_000), nil
				})
				if err != nil {
					return err
				}
				if err := p.SendLazy(ctx, "toy::msg", 900_000, func(room int) ([]byte, error) { return make([]byte, min(room, 50_000)), nil }); err != nil {
					return err
				}
			}
			<-ctx.Done()
			return nil
		}
		node := n.start(t, "5.0.0.1", func(c *Config) {
			withEcho(e)(c)
			c.InboundConnections = 128
		})
		for i := range 100 {
			newMute(t, n, fmt.Sprintf("5.0.2.%d", i), node.url)
		}
		if made != 100 {
			t.Errorf("%d answers are under way for 100 peers", made)
		}
		honest := n.dialRaw(t, "5.0.3.1", node.url)
		honest.answerPings()
		start := time.Now()
		honest.shake()
		synctest.Wait()
		if got := honest.got("toy::msg"); len(got) != 6 || time.Since(start) > time.Second {
			t.Errorf("%d answers after %v", len(got), time.Since(start))
		}
	})
}
