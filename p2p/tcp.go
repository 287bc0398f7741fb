package p2p

import (
	"context"
	"net"
)

// A tcpTransport is tcp or tcp+tls.
type tcpTransport struct{ tls bool }

func (t *tcpTransport) scheme() string {
	if t.tls {
		return "tcp+tls"
	}
	return "tcp"
}

var keepAlive = net.KeepAliveConfig{Enable: true, Idle: tcpKeepAlive}

// dialTCP connects to host:port. TCP_NODELAY is Go's default.
func dialTCP(ctx context.Context, hostPort string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive}
	d.SetMultipathTCP(false)
	conn, err := d.DialContext(ctx, "tcp", hostPort)
	return conn, hide("dial", err)
}

// listenTCP listens on u's host and port. A socket on [::] takes IPv6 alone, so
// that 0.0.0.0 can be configured with the same port (p2p facts, 6.2).
func listenTCP(ctx context.Context, u URL, remote func(net.Addr) URL) (*socketListener, error) {
	network := "tcp"
	switch u.HostKind() {
	case HostIPv4:
		network = "tcp4"
	case HostIPv6:
		network = "tcp6"
	case HostName, HostNone:
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(ctx, network, u.HostPort())
	if err != nil {
		return nil, hide("listen", err)
	}
	tl := l.(*net.TCPListener) // by the network's name
	return &socketListener{l: tl, url: u.WithPort(tl.Addr().(*net.TCPAddr).AddrPort().Port()), remote: remote}, nil
}

func (t *tcpTransport) Dial(ctx context.Context, addr URL) (net.Conn, error) {
	if addr.Host() == "" || !addr.HasPort() {
		return nil, ErrNoAddress
	}
	raw, err := dialTCP(ctx, addr.HostPort())
	switch {
	case err != nil:
		return nil, err
	case t.tls:
		return dialTLS(ctx, raw)
	}
	return newStreamConn(raw), nil
}

func (t *tcpTransport) Listen(ctx context.Context, addr URL) (Listener, error) {
	if addr.Host() == "" || !addr.HasPort() {
		return nil, ErrNoAddress
	}
	l, err := listenTCP(ctx, addr, func(a net.Addr) URL { return urlOf(t.scheme(), a) })
	if err != nil {
		return nil, err
	}
	if t.tls {
		if l.tls, err = newTLSConfig(); err != nil {
			_ = l.Close()
			return nil, err
		}
	}
	return l, nil
}
