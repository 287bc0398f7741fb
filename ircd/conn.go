package ircd

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/ergochat/irc-go/ircreader"
)

// A job is the slow part of a command. It runs on the reader goroutine of the client
// that gave the command, and ends in an event for the loop.
type job func(ctx context.Context) event

// serve runs one connection: it returns when both of its goroutines have ended.
func (s *Server) serve(ctx context.Context, conn net.Conn, tlsConfig *tls.Config) {
	defer conn.Close() //nolint:errcheck // what was to be written is written, or never will be
	if tlsConfig != nil {
		// Here, not in the accept loop: a stalled handshake delays nobody (T27).
		tc := tls.Server(conn, tlsConfig)
		hctx, cancel := context.WithTimeout(ctx, tlsTimeout)
		err := tc.HandshakeContext(hctx)
		cancel()
		s.shaking.leave(conn)
		if err != nil {
			return
		}
		conn = tc
	}
	c := newClient(conn, tlsConfig != nil, s.cfg.SendQueue)
	if !s.post(evOpen{c}) {
		return
	}
	var writer sync.WaitGroup
	writer.Go(func() { s.write(c) })
	s.read(ctx, c)
	close(c.read)
	writer.Wait()
}

// read hands one line after the other to the loop, and does jobs for it. A client
// that sends faster than its lines are handled is slowed down by its own socket.
func (s *Server) read(ctx context.Context, c *client) {
	var r ircreader.Reader
	r.Initialize(c.conn, 512, maxInput)
	for {
		line, err := r.ReadLine()
		if err != nil {
			s.post(evGone{c, readReason(err)})
			if !errors.Is(err, io.EOF) {
				io.Copy(io.Discard, c.conn) //nolint:errcheck // until the writer ends it: a reset would eat its last words
			}
			return
		}
		if !s.post(evLine{c, string(line)}) {
			return
		}
		for {
			var j job
			select {
			case j = <-c.resume:
			case <-s.done:
				return
			}
			if j == nil {
				break
			}
			if !s.post(j(ctx)) {
				return
			}
		}
	}
}

func readReason(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, ircreader.ErrReadQ):
		return "Input line too long"
	case errors.Is(err, io.EOF):
		return "Connection closed"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "Connection timed out"
	}
	return "Connection lost" // without err: it holds the client's address
}

// write empties the send queue until it is closed, then lets the client read its last
// words and ends the reader.
func (s *Server) write(c *client) {
	defer c.conn.Close() //nolint:errcheck // serve says why
	for {
		chunk, last := c.queue.take()
		if len(chunk) > 0 {
			timeout := writeTimeout
			if last {
				timeout = flushTimeout
			}
			c.conn.SetWriteDeadline(time.Now().Add(timeout)) //nolint:errcheck // a dead connection fails the write
			if _, err := c.conn.Write(chunk); err != nil {
				c.queue.close()                    // nobody reads this: more would only pile up
				c.conn.SetReadDeadline(time.Now()) //nolint:errcheck // closed next
				return
			}
			if c.queue.written(len(chunk)) {
				select {
				case c.drained <- struct{}{}:
				default:
				}
				s.post(evDrained{c})
			}
			continue
		}
		if last {
			if cw, ok := c.conn.(interface{ CloseWrite() error }); ok && cw.CloseWrite() == nil {
				c.conn.SetReadDeadline(time.Now().Add(drainTimeout)) //nolint:errcheck // closed after it
				<-c.read
			}
			return
		}
		select {
		case <-c.queue.wake:
		case <-s.done: // a loop that has ended closes no queue that it never saw
			c.queue.close()
		}
	}
}

// A sendQueue holds what waits to be written to one client. It is bounded in bytes;
// the loop fills it and never waits.
type sendQueue struct {
	wake  chan struct{} // has a value when there may be something to take
	limit int

	mu     sync.Mutex // guards the fields below
	buf    []byte
	taken  int // bytes being written
	closed bool
}

// push appends line, or reports that it does not fit (or that the queue is closed).
func (q *sendQueue) push(line []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.buf)+q.taken+len(line) > q.limit {
		return false
	}
	q.buf = append(q.buf, line...)
	q.signal()
	return true
}

// finish appends the last line, whatever the bound, and closes the queue.
func (q *sendQueue) finish(line []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.buf = append(q.buf, line...)
		q.closed = true
		q.signal()
	}
}

// close drops everything.
func (q *sendQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed, q.buf = true, nil
	q.signal()
}

// signal: wake has room for one, and one is enough, since take takes everything.
func (q *sendQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take takes what one write may carry; last tells that the queue is closed. It has
// ended when take gives nothing and last.
func (q *sendQueue) take() (chunk []byte, last bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.buf), maxWrite)
	chunk, q.buf = q.buf[:n:n], q.buf[n:]
	if len(q.buf) == 0 {
		q.buf = nil
	}
	q.taken = n
	return chunk, q.closed
}

// written ends a take; low tells that the queue has just fallen below lowWater.
func (q *sendQueue) written(n int) (low bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := len(q.buf) + q.taken
	q.taken -= n
	return before >= lowWater && len(q.buf)+q.taken < lowWater
}

// size is the number of bytes that wait.
func (q *sendQueue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.buf) + q.taken
}
