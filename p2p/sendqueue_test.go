package p2p

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func testQueue() *sendQueue { return newSendQueue(newMemPool(sendPool), func() {}) }

func item(name string, size int) queued {
	return queued{Message: Message{Command: name}, size: size}
}

func names(batch []queued) (out string) {
	for _, m := range batch {
		out += m.Command
	}
	return out
}

func TestSendQueueBounds(t *testing.T) {
	q := testQueue()
	for i := range sendQueueFrames {
		if err := q.push(t.Context(), item("x", 1), false); err != nil {
			t.Fatalf("frame %d: %v", i+1, err)
		}
	}
	if err := q.push(t.Context(), item("x", 1), false); !errors.Is(err, errQueueFull) {
		t.Errorf("frame past the bound: %v", err)
	}

	q = testQueue()
	if err := q.push(t.Context(), item("x", sendQueueBytes-1), false); err != nil {
		t.Fatal(err)
	}
	if err := q.push(t.Context(), item("x", 1), false); err != nil {
		t.Errorf("byte at the bound: %v", err)
	}
	if err := q.push(t.Context(), item("x", 1), false); !errors.Is(err, errQueueFull) {
		t.Errorf("byte past the bound: %v", err)
	}

	q = testQueue() // an empty queue takes one message of any size
	if err := q.push(t.Context(), item("x", 10*sendQueueBytes), false); err != nil {
		t.Error(err)
	}

	q = testQueue()
	for i := range controlFrames {
		if err := q.pushControl(item("c", 1)); err != nil {
			t.Fatalf("control frame %d: %v", i+1, err)
		}
	}
	if err := q.pushControl(item("c", 1)); !errors.Is(err, errQueueFull) {
		t.Errorf("control frame past the bound: %v", err)
	}
}

// Base messages overtake; small frames share a write; a large one goes alone.
func TestSendQueueOrder(t *testing.T) {
	q := testQueue()
	for _, m := range []queued{item("a", 100), item("b", writeBatch-100), item("c", 1), item("D", 10*writeBatch), item("e", 1)} {
		if err := q.push(t.Context(), m, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"ab", "c", "D"} {
		batch := q.next()
		if names(batch) != want {
			t.Errorf("batch %q, want %q", names(batch), want)
		}
		q.release(batch...)
	}
	if err := q.pushControl(item("P", 10)); err != nil {
		t.Fatal(err)
	}
	batch := q.next()
	if names(batch) != "Pe" {
		t.Errorf("batch %q", names(batch))
	}
	q.release(batch...)
	if q.bytes != 0 || q.frames != 0 || q.pool.used != 0 {
		t.Errorf("%d bytes, %d frames, %d pooled left", q.bytes, q.frames, q.pool.used)
	}
}

func TestSendQueueWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue()
		for i := range 3 {
			if err := q.push(t.Context(), item(fmt.Sprint(i), sendQueueBytes/3), false); err != nil {
				t.Fatal(err)
			}
		}
		pushed := make(chan error, 1)
		go func() { pushed <- q.push(t.Context(), item("x", 1000), true) }()
		synctest.Wait()
		if len(pushed) != 0 {
			t.Fatal("did not wait")
		}
		batch := q.next()
		q.release(batch...)
		if err := <-pushed; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.push(ctx, item("x", sendQueueBytes), true); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// Closing drops what waits, gives its memory back at once, and calls each callback once.
func TestSendQueueClose(t *testing.T) {
	q := testQueue()
	calls := 0
	for range 3 {
		m := item("x", 20_000)
		m.Written = func(error) { calls++ }
		if err := q.push(t.Context(), m, false); err != nil {
			t.Fatal(err)
		}
	}
	q.close(ErrDone, false)
	if q.bytes != 0 || q.pool.used != 0 {
		t.Errorf("%d bytes, %d pooled after close", q.bytes, q.pool.used)
	}
	if q.next() != nil {
		t.Error("frames after close")
	}
	if err := q.push(t.Context(), item("x", 1), true); !errors.Is(err, ErrDone) {
		t.Errorf("push after close: %v", err)
	}
	for _, m := range q.takeFailed() {
		m.Written(ErrDone)
	}
	if calls != 3 {
		t.Errorf("%d callbacks", calls)
	}

	q = testQueue()
	if err := q.push(t.Context(), item("x", 1), false); err != nil {
		t.Fatal(err)
	}
	q.close(ErrShutdown, true)
	if batch := q.next(); names(batch) != "x" {
		t.Errorf("flush gave %q", names(batch))
	}
	if q.next() != nil {
		t.Error("frames after the flush")
	}
}
