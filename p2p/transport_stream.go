package p2p

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// A streamConn is a connection over a kernel socket, with or without TLS. It
// hides addresses in errors and closes without losing data in flight.
type streamConn struct {
	net.Conn          // what frames go through: raw, or TLS over it
	raw      net.Conn // the socket

	writing atomic.Int32 // calls of Write under way
	ended   atomic.Bool  // reading or writing has failed for good, or the stream ended
	closed  atomic.Bool
}

func newStreamConn(raw net.Conn) *streamConn { return &streamConn{Conn: raw, raw: raw} }

// Read reads as net.Conn says. Its errors carry no address.
func (c *streamConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.after("read", err)
}

// Write writes as net.Conn says. Its errors carry no address.
func (c *streamConn) Write(b []byte) (int, error) {
	c.writing.Add(1)
	defer c.writing.Add(-1)
	n, err := c.Conn.Write(b)
	return n, c.after("write", err)
}

func (c *streamConn) after(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case c.closed.Load():
		return hide(op, net.ErrClosed)
	}
	err = hide(op, err)
	if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
		c.ended.Store(true)
	}
	return err
}

// CloseWrite sends the end of the stream. No Write may be under way.
func (c *streamConn) CloseWrite() error {
	if t, ok := c.Conn.(*tls.Conn); ok {
		_ = t.CloseWrite() // the TCP half below counts
	}
	if h, ok := c.raw.(interface{ CloseWrite() error }); ok {
		return hide("close", h.CloseWrite())
	}
	return nil
}

// Close ends the connection, see [Transport]. A close with unread input would
// otherwise reset the connection, and the reset destroys what the other end has
// not read yet.
func (c *streamConn) Close() error {
	if c.closed.Swap(true) {
		return hide("close", net.ErrClosed)
	}
	if !c.ended.Load() && c.writing.Load() == 0 {
		now := time.Now()
		_ = c.raw.SetReadDeadline(now) // let go of a Read
		_ = c.raw.SetWriteDeadline(now.Add(lingerTime))
		if c.CloseWrite() == nil && c.raw.SetReadDeadline(now.Add(lingerTime)) == nil {
			_, _ = io.CopyN(io.Discard, c.raw, lingerBytes)
		}
	}
	return hide("close", c.raw.Close())
}

// shake runs the TLS handshake of one side before ctx ends, and in any case within
// maxHandshake. On failure raw is closed.
func shake(ctx context.Context, raw net.Conn, cfg *tls.Config, client bool) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, maxHandshake)
	defer cancel()
	t := tls.Server(raw, cfg)
	if client {
		t = tls.Client(raw, cfg)
	}
	if err := t.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, hide("TLS handshake", err)
	}
	return &streamConn{Conn: t, raw: raw}, nil
}

// dialTLS runs the dialer's handshake with a fresh certificate.
func dialTLS(ctx context.Context, raw net.Conn) (net.Conn, error) {
	cfg, err := newTLSConfig()
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return shake(ctx, raw, cfg, true)
}

// A socketListener accepts on a kernel socket.
type socketListener struct {
	l interface {
		net.Listener
		SetDeadline(t time.Time) error
	}
	url    URL
	tls    *tls.Config             // nil: plain
	remote func(addr net.Addr) URL // names the other end
}

// Accept waits for a connection. Failures that pass, such as too many open files,
// are waited out.
func (l *socketListener) Accept(ctx context.Context) (Pending, error) {
	if err := l.l.SetDeadline(time.Time{}); err != nil {
		return nil, hide("accept", err)
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = l.l.SetDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() {
			<-interrupted
		}
	}()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, acceptBackoffMax) {
		conn, err := l.l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil, ctx.Err()
		}
		if err == nil {
			return &socketPending{conn: conn, tls: l.tls, url: l.remote(conn.RemoteAddr())}, nil
		}
		if !acceptErrorPasses(err) {
			return nil, hide("accept", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// acceptErrorPasses tells whether an error of accept says nothing about the
// listener.
func acceptErrorPasses(err error) bool {
	for _, e := range []error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.ECONNRESET,
		syscall.EPROTO, syscall.EPERM, syscall.ENETDOWN, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EINTR,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (l *socketListener) Addr() URL    { return l.url }
func (l *socketListener) Close() error { return hide("close", l.l.Close()) }

type socketPending struct {
	conn net.Conn
	tls  *tls.Config
	url  URL
}

func (p *socketPending) Remote() URL  { return p.url }
func (p *socketPending) Close() error { return hide("close", p.conn.Close()) }

func (p *socketPending) Handshake(ctx context.Context) (net.Conn, error) {
	if p.tls == nil {
		return newStreamConn(p.conn), nil
	}
	return shake(ctx, p.conn, p.tls, false)
}

// urlOf is the URL of an inbound peer: scheme://ip:port/, an IPv4-mapped IPv6
// address as the IPv4 address that it is.
func urlOf(scheme string, addr net.Addr) URL {
	var ap netip.AddrPort
	switch a := addr.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	default:
		return URL{}
	}
	ap = netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
	u, _ := ParseURL(scheme + "://" + ap.String()) // always an address
	return u
}
