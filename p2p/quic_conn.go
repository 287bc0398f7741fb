package p2p

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
)

// A quicConn is the one stream of a QUIC connection, as a net.Conn.
type quicConn struct {
	*quic.Stream
	conn *quic.Conn
	sock *quicSocket

	writing atomic.Int32
	ended   atomic.Bool
	closed  atomic.Bool
}

func newQUICConn(conn *quic.Conn, stream *quic.Stream, sock *quicSocket) *quicConn {
	return &quicConn{Stream: stream, conn: conn, sock: sock}
}

func (c *quicConn) LocalAddr() net.Addr  { return c.conn.LocalAddr() }
func (c *quicConn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

func (c *quicConn) Read(b []byte) (int, error) {
	if c.closed.Load() {
		return 0, hide("read", net.ErrClosed)
	}
	n, err := c.Stream.Read(b)
	if e, ok := errors.AsType[*quic.ApplicationError](err); ok && e.Remote && e.ErrorCode == 0 {
		err = io.EOF // how quinn drops a connection
	}
	return n, c.after("read", err)
}

func (c *quicConn) Write(b []byte) (int, error) {
	if c.closed.Load() {
		return 0, hide("write", net.ErrClosed)
	}
	c.writing.Add(1)
	defer c.writing.Add(-1)
	n, err := c.Stream.Write(b)
	return n, c.after("write", err)
}

func (c *quicConn) after(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case c.closed.Load():
		return hide(op, net.ErrClosed)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		c.ended.Store(true)
	}
	return hide(op, err)
}

// CloseWrite sends the end of the stream. No Write may be under way.
func (c *quicConn) CloseWrite() error { return hide("close", c.Stream.Close()) }

// Close ends the connection, see [Transport]. The end of the stream goes first and
// the connection's close only after the peer's: the latter would make the peer
// discard what it has not read, and us what we have not sent.
func (c *quicConn) Close() error {
	if c.closed.Swap(true) {
		return hide("close", net.ErrClosed)
	}
	if !c.ended.Load() && c.writing.Load() == 0 {
		now := time.Now()
		_ = c.SetReadDeadline(now) // let go of a Read
		if c.Stream.Close() == nil && c.SetReadDeadline(now.Add(lingerTime)) == nil {
			_, _ = io.CopyN(io.Discard, c.Stream, lingerBytes)
		}
	}
	err := c.conn.CloseWithError(0, "")
	c.sock.release()
	return hide("close", err)
}
