package p2p

import (
	"context"
	"errors"
	"sync"
)

// errQueueFull: a message that does not fit the queue now.
var errQueueFull = errors.New("p2p: send queue is full")

// A queued message with what it takes.
type queued struct {
	Message
	size   int     // of the frame in memory: nothing of what is made in pieces
	pooled int     // of size: taken from the pool
	pieces *Pieces // instead of Message.Payload
}

// length is that of the payload.
func (m *queued) length() int {
	if m.pieces != nil {
		return m.pieces.Size
	}
	return len(m.Payload)
}

// A sendQueue holds what waits for one peer's writer: base messages in front, since a
// late pong costs the connection. It is bounded in bytes and frames; bytes are those
// of the frames waiting and of those in the writer's hands.
type sendQueue struct {
	pool   *memPool
	holder *poolHolder

	mu      sync.Mutex
	control []queued
	items   []queued
	bytes   int
	frames  int
	pieced  bool  // one of the frames is made in pieces
	cause   error // set once closed
	flush   bool  // closed, but what waits still goes out
	failed  []queued
	wake    chan struct{} // holds one token when the writer should look
	room    chan struct{} // closed and replaced when frames have left
}

func newSendQueue(pool *memPool, evict func()) *sendQueue {
	return &sendQueue{
		pool: pool, holder: &poolHolder{evict: evict},
		wake: make(chan struct{}, 1), room: make(chan struct{}),
	}
}

// push adds m. block: wait for room until ctx ends; else errQueueFull.
func (q *sendQueue) push(ctx context.Context, m queued, block bool) error {
	if err := q.admit(ctx, &m, block); err != nil {
		return err
	}
	return q.add(m)
}

// admit counts m in, so that add cannot fail for want of room. Who does not add it
// releases it.
func (q *sendQueue) admit(ctx context.Context, m *queued, block bool) error {
	for {
		room, err := q.reserve(m)
		if err == nil {
			break
		}
		if !errors.Is(err, errQueueFull) || !block {
			return err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if m.pooled == 0 {
		return nil
	}
	if err := q.takePool(ctx, *m, block); err != nil {
		m.pooled = 0
		q.release(*m)
		return err
	}
	return nil
}

// add appends what admit has counted in.
func (q *sendQueue) add(m queued) error {
	q.mu.Lock()
	if q.cause != nil {
		err := q.cause
		q.mu.Unlock()
		q.release(m)
		return err
	}
	q.items = append(q.items, m)
	q.mu.Unlock()
	q.signal()
	return nil
}

// shrink corrects the size of what admit has counted in.
func (q *sendQueue) shrink(m *queued, size int) {
	less := m.size - size
	if less <= 0 {
		return
	}
	pooled := min(m.pooled, less)
	m.size -= less
	m.pooled -= pooled
	q.mu.Lock()
	q.bytes -= less
	q.mu.Unlock()
	q.pool.give(q.holder, pooled)
}

// reserve counts m in, or returns what to wait for.
func (q *sendQueue) reserve(m *queued) (room chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cause != nil {
		return nil, q.cause
	}
	if q.frames > 0 && (q.bytes+m.size > sendQueueBytes || q.frames+1 > sendQueueFrames) {
		return q.room, errQueueFull
	}
	q.bytes += m.size
	q.frames++
	m.pooled = 0
	if q.bytes > sendAllowance {
		m.pooled = m.size
	}
	return nil, nil
}

func (q *sendQueue) takePool(ctx context.Context, m queued, block bool) error {
	if block {
		return q.pool.wait(ctx, q.holder, m.pooled, m.pooled, false)
	}
	for range 2 { // the first try may have evicted peers that do not read
		if q.pool.take(q.holder, m.pooled) {
			return nil
		}
	}
	return errQueueFull
}

// pushControl adds a base message.
func (q *sendQueue) pushControl(m queued) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.cause != nil:
		return q.cause
	case len(q.control) >= controlFrames:
		return errQueueFull
	}
	q.control = append(q.control, m)
	q.bytes += m.size
	q.frames++
	q.signal()
	return nil
}

func (q *sendQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next waits for frames and returns them, at most writeBatch bytes together, or one.
// It returns nil when the queue is closed, and flushed if that was asked for.
func (q *sendQueue) next() []queued {
	for {
		q.mu.Lock()
		if q.cause == nil || q.flush {
			if batch := q.batch(); len(batch) > 0 {
				q.mu.Unlock()
				return batch
			}
		}
		closed := q.cause != nil
		q.mu.Unlock()
		if closed {
			return nil
		}
		<-q.wake
	}
}

func (q *sendQueue) batch() (batch []queued) {
	size := 0
	for _, list := range []*[]queued{&q.control, &q.items} {
		n := 0
		for n < len(*list) && (len(batch) == 0 || size+(*list)[n].size <= writeBatch) {
			batch = append(batch, (*list)[n])
			size += (*list)[n].size
			n++
		}
		rest := (*list)[n:]
		clear((*list)[:n]) // let the payloads go
		if len(rest) == 0 {
			rest = (*list)[:0:min(cap(*list), 64)]
		}
		*list = rest
		if len(rest) > 0 {
			break
		}
	}
	return batch
}

// release counts frames out that were written or given up.
func (q *sendQueue) release(frames ...queued) {
	pooled := 0
	q.mu.Lock()
	for _, m := range frames {
		q.bytes -= m.size
		q.frames--
		pooled += m.pooled
		if m.pieces != nil {
			q.pieced = false
		}
	}
	close(q.room)
	q.room = make(chan struct{})
	q.mu.Unlock()
	q.pool.give(q.holder, pooled)
}

// close ends the queue. flush: what waits still goes out, unless a later call without
// flush comes. The first cause stays.
func (q *sendQueue) close(cause error, flush bool) {
	q.mu.Lock()
	if q.cause == nil {
		q.cause, q.flush = cause, flush
	}
	var drop []queued
	if !flush {
		q.flush = false
		drop = append(q.control, q.items...)
		q.control, q.items = nil, nil
		for _, m := range drop { // the payloads go now; the callbacks are the writer's
			q.failed = append(q.failed, queued{Message: Message{Written: m.Written}})
		}
	}
	q.mu.Unlock()
	q.release(drop...)
	q.signal()
}

// takeFailed returns the frames that close dropped, without their payloads.
func (q *sendQueue) takeFailed() []queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.failed
	q.failed = nil
	return f
}
