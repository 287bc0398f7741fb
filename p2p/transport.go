package p2p

import (
	"context"
	"errors"
	"net"
)

// Errors of transports that callers branch on.
var (
	// ErrNoListen: nobody can listen on addresses of this scheme.
	ErrNoListen = errors.New("p2p: transport cannot listen")
	// ErrNoAddress: the URL lacks the host or the port (or has one that it must not
	// have) that its scheme asks for.
	ErrNoAddress = errors.New("p2p: URL is no address of its scheme")
	// ErrProxy: the SOCKS5 proxy cannot be used or did not connect.
	ErrProxy = errors.New("p2p: SOCKS5 proxy refused")
)

// A Transport dials and listens for one or more URL schemes. Embedders may bring
// their own.
//
// Connections are closed between frames. Close of a connection first sends what
// was written and the end of the stream, waits up to 2 s for the other end's
// closing, and only then drops the connection, so that data in flight arrives
// (ST-07); with a Write under way it drops the connection at once.
type Transport interface {
	// Dial connects, all handshakes of the transport included, before ctx ends.
	Dial(ctx context.Context, addr URL) (net.Conn, error)
	// Listen opens a listener, or fails with ErrNoListen.
	Listen(ctx context.Context, addr URL) (Listener, error)
}

// A Listener hands out connections before their transport handshake.
type Listener interface {
	// Accept waits for the next connection attempt. It never waits for a peer.
	Accept(ctx context.Context) (Pending, error)
	// Addr is the URL listened on, with the real port.
	Addr() URL
	Close() error
}

// A Pending is an accepted connection that has not proven anything yet.
type Pending interface {
	// Remote is the URL of the other end (scheme://ip:port/), for the black list. For
	// tor and unix, where there is no such thing, it is the listener's.
	Remote() URL
	// Handshake finishes the transport's handshake before ctx ends. After a failure
	// nothing needs to be closed.
	Handshake(ctx context.Context) (net.Conn, error)
	Close() error
}
