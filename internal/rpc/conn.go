package rpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// A conn is one client. Its reader runs on serve's goroutine; each subscription
// has one that only writes.
type conn struct {
	s     *Server
	nc    net.Conn
	owner bool
	subs  int // of the reader alone

	mu sync.Mutex    // one line at a time
	w  *bufio.Writer // guarded by mu
}

// serve answers a client until it goes, misbehaves, or ctx ends.
func (s *Server) serve(ctx context.Context, nc net.Conn, owner bool) {
	ctx, cancel := context.WithCancel(ctx)
	c := &conn{s: s, nc: nc, owner: owner, w: bufio.NewWriter(nc)}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer func() {
		if stop() {
			_ = nc.Close()
		}
	}()
	r := bufio.NewReaderSize(nc, maxRequest)
	for {
		if !c.owner && c.subs == 0 {
			_ = nc.SetReadDeadline(time.Now().Add(idleTimeout))
		}
		line, err := r.ReadSlice('\n')
		if err != nil {
			return // bufio.ErrBufferFull included: longer than maxRequest
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			continue
		}
		if err := c.handle(ctx, &wg, line, cancel); err != nil {
			return
		}
	}
}

// handle answers one line. An error ends the connection.
func (c *conn) handle(ctx context.Context, wg *sync.WaitGroup, line []byte, cancel context.CancelFunc) error {
	req, err := parseRequest(line)
	if rpcErr := (*Error)(nil); errors.As(err, &rpcErr) {
		return c.reply(req, nil, rpcErr)
	}
	if err != nil {
		return err
	}
	m, ok := c.s.method(req.Method, c.owner)
	if !ok {
		return c.reply(req, nil, errNotFound)
	}
	if m.Feed == nil {
		result, rpcErr := c.s.call(ctx, m, req)
		return c.reply(req, result, rpcErr)
	}
	if c.subs == maxSubscriptions {
		return c.reply(req, nil, &Error{CodeInvalidRequest, "too many subscriptions"})
	}
	c.subs++
	_ = c.nc.SetReadDeadline(time.Time{})
	sub := m.Feed.subscribe()
	wg.Go(func() {
		defer cancel() // a subscriber that fell behind or cannot be written to is dropped
		defer m.Feed.unsubscribe(sub)
		for {
			select {
			case line := <-sub.lines:
				if c.write(func(w *bufio.Writer) error { _, err := w.Write(line); return err }) != nil {
					return
				}
			case <-sub.cut:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

func (c *conn) reply(req request, result any, rpcErr *Error) error {
	if req.ID == nil && req.Method != "" {
		return nil // a notification
	}
	return c.write(func(w *bufio.Writer) error { return writeReply(w, req.ID, result, rpcErr) })
}

// write lets fn write one line and flushes it.
func (c *conn) write(fn func(*bufio.Writer) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A streamed reply takes many writes; each part gets the time of one.
	c.w.Reset(deadlineWriter{c.nc})
	if err := fn(c.w); err != nil {
		return err
	}
	return c.w.Flush()
}

// A deadlineWriter gives each write its own deadline.
type deadlineWriter struct{ nc net.Conn }

func (w deadlineWriter) Write(b []byte) (int, error) {
	if err := w.nc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return w.nc.Write(b)
}

// pause waits a little, or until ctx ends.
func pause(ctx context.Context) error {
	t := time.NewTimer(100 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
