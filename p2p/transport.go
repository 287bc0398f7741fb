package p2p

import (
	"context"
	"net"
)

// A Transport dials and listens for one or more URL schemes. Embedders may bring
// their own.
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
	// Remote is the URL of the other end (scheme://ip:port/), for the black list.
	Remote() URL
	// Handshake finishes the transport's handshake before ctx ends.
	Handshake(ctx context.Context) (net.Conn, error)
	Close() error
}
