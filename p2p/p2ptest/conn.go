package p2ptest

import (
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A pair is a connection: two ends and two halves. halves[i] carries what ends[i]
// writes.
type pair struct {
	net    *Network
	halves [2]*half
	ends   [2]*conn
	timer  *time.Timer // breaks it; nil: never
}

func newPair(n *Network, link Link, a, b endpoint, random *rand.Rand) *pair {
	p := &pair{net: n}
	p.halves[0] = newHalf(a.host, b.host, link, childRand(random))
	p.halves[1] = newHalf(b.host, a.host, link, childRand(random))
	p.ends[0] = &conn{pair: p, out: p.halves[0], in: p.halves[1], host: a.host, local: a, remote: b}
	p.ends[1] = &conn{pair: p, out: p.halves[1], in: p.halves[0], host: b.host, local: b, remote: a}
	return p
}

func (p *pair) connects(a, b string) bool {
	x, y := p.ends[0].host, p.ends[1].host
	return x == a && y == b || x == b && y == a
}

// fail breaks both ends.
func (p *pair) fail(err error) {
	if p.timer != nil {
		p.timer.Stop()
	}
	for _, e := range p.ends {
		e.kill(err)
	}
}

// A segment is the bytes of one write, and when they arrive.
type segment struct {
	data []byte
	at   time.Time
}

// A half is one direction of a connection. Both sides wait by looking at it under
// the mutex, and then on a channel of capacity 1 that is filled at every change
// which concerns them.
type half struct {
	from, to string

	mu        sync.Mutex
	link      Link
	random    *rand.Rand
	queue     []segment
	held      int // bytes in queue
	last      time.Time
	busyUntil time.Time
	stalled   bool
	lost      bool // half-open: nothing arrives any more
	fin       bool // the writer is done
	finAt     time.Time
	gone      bool // the reader has closed
	goneAt    time.Time
	readErr   error // why the reader's end is dead
	writeErr  error // why the writer's end is dead
	readEnd   time.Time
	writeEnd  time.Time

	readable, writable chan struct{}
	writing            chan struct{} // holds a token while nobody writes
}

func newHalf(from, to string, link Link, random *rand.Rand) *half {
	if link.Window == 0 {
		link.Window = DefaultWindow
	}
	h := &half{
		from: from, to: to, link: link, random: random,
		readable: make(chan struct{}, 1), writable: make(chan struct{}, 1), writing: make(chan struct{}, 1),
	}
	h.writing <- struct{}{}
	return h
}

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// arrival is when n bytes written now are there. h.mu is held.
func (h *half) arrival(now time.Time, n int) time.Time {
	if h.busyUntil.Before(now) {
		h.busyUntil = now
	}
	if h.link.Bandwidth > 0 {
		h.busyUntil = h.busyUntil.Add(time.Duration(n) * time.Second / time.Duration(h.link.Bandwidth))
	}
	at := h.busyUntil.Add(h.link.Latency)
	if h.link.Jitter > 0 {
		at = at.Add(time.Duration(h.random.Int64N(int64(h.link.Jitter) + 1)))
	}
	if at.Before(h.last) {
		at = h.last
	}
	h.last = at
	return at
}

func (h *half) update(fn func()) {
	h.mu.Lock()
	fn()
	h.mu.Unlock()
	wake(h.readable)
	wake(h.writable)
}

func (h *half) setLink(link Link) {
	h.update(func() {
		window := h.link.Window
		h.link = link
		h.link.Window = window
	})
}

func (h *half) setStalled(stalled bool) { h.update(func() { h.stalled = stalled }) }
func (h *half) abandon()                { h.update(func() { h.lost = true }) }

// wait blocks until ch has something, or until the time, if it is not zero.
func wait(ch <-chan struct{}, until time.Time) {
	if until.IsZero() {
		<-ch
		return
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ch:
	case <-timer.C:
	}
}

// earlier is the earlier of two times, of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func passed(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

func (h *half) read(b []byte) (int, error) {
	for {
		n, until, err := h.tryRead(b)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		wait(h.readable, until)
	}
}

// tryRead reads what is there, or says until when to wait at most.
func (h *half) tryRead(b []byte) (n int, until time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	switch {
	case h.readErr != nil:
		return 0, until, h.readErr
	case passed(h.readEnd, now):
		return 0, until, os.ErrDeadlineExceeded
	case h.stalled || h.lost:
		return 0, h.readEnd, nil
	}
	for n < len(b) && len(h.queue) > 0 && !h.queue[0].at.After(now) {
		s := &h.queue[0]
		k := copy(b[n:], s.data)
		n += k
		if s.data = s.data[k:]; len(s.data) == 0 {
			h.queue[0] = segment{}
			h.queue = h.queue[1:]
		}
	}
	if n > 0 {
		h.held -= n
		wake(h.writable)
		if len(h.queue) > 0 || h.fin {
			wake(h.readable) // for another reader
		}
		return n, until, nil
	}
	switch {
	case len(h.queue) > 0:
		until = h.queue[0].at
	case h.fin && !h.finAt.After(now):
		wake(h.readable)
		return 0, until, io.EOF
	case h.fin:
		until = h.finAt
	}
	return 0, earlier(until, h.readEnd), nil
}

func (h *half) write(b []byte) (done int, err error) {
	<-h.writing // whoever has it minds deadlines and failures
	defer func() { h.writing <- struct{}{} }()
	for {
		n, until, err := h.tryWrite(b[done:])
		done += n
		if err != nil || done == len(b) {
			return done, err
		}
		if n == 0 {
			wait(h.writable, until)
		}
	}
}

func (h *half) tryWrite(b []byte) (n int, until time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	switch {
	case h.writeErr != nil:
		return 0, until, h.writeErr
	case h.fin:
		return 0, until, net.ErrClosed
	case passed(h.writeEnd, now):
		return 0, until, os.ErrDeadlineExceeded
	case h.stalled || h.lost: // no news gets through
	case h.gone && !h.goneAt.After(now):
		return 0, until, syscall.EPIPE
	case h.gone:
		return len(b), until, nil // under way to nobody
	}
	n = min(len(b), h.link.Window-h.held)
	if n <= 0 {
		return 0, earlier(h.writeEnd, h.goneAt), nil
	}
	h.held += n
	h.queue = append(h.queue, segment{append([]byte(nil), b[:n]...), h.arrival(now, n)})
	wake(h.readable)
	return n, until, nil
}

// A conn is one end.
type conn struct {
	pair          *pair
	out, in       *half
	host          string
	local, remote endpoint
	once          sync.Once
}

var _ net.Conn = (*conn)(nil)

func wrap(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // ours, and bare
		return err
	}
	return &net.OpError{Op: op, Net: "p2ptest", Err: err}
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	return n, wrap("read", err)
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.out.write(b)
	c.pair.net.written.Add(uint64(n)) // not negative
	return n, wrap("write", err)
}

// CloseWrite sends the end of the stream.
func (c *conn) CloseWrite() error {
	c.out.update(func() {
		if !c.out.fin {
			c.out.fin = true
			c.out.finAt = c.out.arrival(time.Now(), 0)
		}
	})
	return nil
}

// Close sends the end of the stream behind what was written, and does not wait. What
// the other end writes from now on fails with EPIPE once it has heard.
func (c *conn) Close() error {
	err := wrap("close", net.ErrClosed)
	c.once.Do(func() {
		err = nil
		_ = c.CloseWrite()
		c.out.update(func() {
			if c.out.writeErr == nil {
				c.out.writeErr = net.ErrClosed
			}
		})
		now := time.Now()
		c.in.update(func() {
			if c.in.readErr == nil {
				c.in.readErr = net.ErrClosed
			}
			c.in.gone = true
			c.in.goneAt = now.Add(c.in.link.Latency)
			c.in.queue, c.in.held = nil, 0
		})
		n := c.pair.net
		n.mu.Lock()
		defer n.mu.Unlock()
		c.out.mu.Lock()
		other := c.out.gone || c.out.readErr != nil
		c.out.mu.Unlock()
		if other { // both ends are closed
			if c.pair.timer != nil {
				c.pair.timer.Stop()
			}
			delete(n.pairs, c.pair)
		}
	})
	return err
}

// kill makes this end fail with err from now on.
func (c *conn) kill(err error) {
	c.out.update(func() {
		if c.out.writeErr == nil {
			c.out.writeErr = err
		}
	})
	c.in.update(func() {
		if c.in.readErr == nil {
			c.in.readErr = err
		}
		c.in.queue, c.in.held = nil, 0
	})
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.update(func() { c.in.readEnd = t })
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.update(func() { c.out.writeEnd = t })
	return nil
}
