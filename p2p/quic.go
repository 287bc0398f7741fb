package p2p

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/time/rate"
)

// A quicTransport is quic: one bidirectional stream per connection, opened by the
// dialer, who must also write first (p2p facts, 6.4). Dialing uses a listening
// socket where one fits, so that a node's peers see the port that it listens on.
type quicTransport struct {
	listenPacket func(ctx context.Context, network, address string) (net.PacketConn, error)
	resolve      func(ctx context.Context, host string) ([]net.IP, error)

	mu        sync.Mutex // never held while waiting for a peer
	listening []*quicSocket
	dialing   [2]*quicSocket // opened for dialing alone, by family: IPv4, IPv6
}

func newQUIC(cfg TransportConfig) *quicTransport {
	return &quicTransport{listenPacket: cfg.ListenPacket, resolve: cfg.Resolve}
}

// A quicSocket is a UDP socket with its users: a listener, and every connection.
// The last of them closes it.
type quicSocket struct {
	t     *quicTransport
	quic  *quic.Transport
	bound netip.AddrPort
	both  bool // takes IPv4 and IPv6
	refs  int  // guarded by t.mu
}

// quicConfig is the configuration of one side. streams is how many the peer may
// ever open.
func quicConfig(streams int64) *quic.Config {
	return &quic.Config{
		Versions:                       []quic.Version{quic.Version1},
		HandshakeIdleTimeout:           quicHandshakeIdle,
		MaxIdleTimeout:                 quicIdle,
		KeepAlivePeriod:                quicKeepAlive,
		InitialStreamReceiveWindow:     quicStreamWindow,
		MaxStreamReceiveWindow:         quicMaxStreamWindow,
		InitialConnectionReceiveWindow: quicConnWindow,
		MaxConnectionReceiveWindow:     quicMaxConnWindow,
		MaxIncomingStreams:             streams,
		MaxIncomingUniStreams:          -1,
		RequireStreamCreditRelease:     true,
	}
}

// open makes a socket with one user. t.mu is held.
func (t *quicTransport) open(ctx context.Context, network, address string) (*quicSocket, error) {
	pc, err := t.listenPacket(ctx, network, address)
	if err != nil {
		return nil, hide("listen", err)
	}
	s := &quicSocket{t: t, refs: 1, both: network == "udp"}
	if a, ok := pc.LocalAddr().(*net.UDPAddr); ok {
		s.bound = netip.AddrPortFrom(a.AddrPort().Addr().Unmap(), a.AddrPort().Port())
	}
	limit := rate.NewLimiter(quicUnprovenRate, quicUnprovenBurst)
	s.quic = &quic.Transport{
		Conn:                pc,
		VerifySourceAddress: func(net.Addr) bool { return !limit.Allow() },
	}
	return s, nil
}

// release ends one use of s.
func (s *quicSocket) release() {
	t := s.t
	t.mu.Lock()
	s.refs--
	last := s.refs == 0
	if last {
		t.listening = slices.DeleteFunc(t.listening, func(o *quicSocket) bool { return o == s })
		for i, o := range t.dialing {
			if o == s {
				t.dialing[i] = nil
			}
		}
	}
	t.mu.Unlock()
	if last {
		_ = s.quic.Close()
		_ = s.quic.Conn.Close()
	}
}

// reaches tells whether packets to ip can leave through s.
func (s *quicSocket) reaches(ip netip.Addr) bool {
	own := s.bound.Addr()
	switch {
	case own.IsUnspecified():
		return s.both || own.Is4() == ip.Is4()
	case own.Is4() != ip.Is4():
		return false
	}
	return own.IsLoopback() == ip.IsLoopback()
}

// socketFor returns a socket to dial ip from, with a use taken: a listening one, else
// the one that all dials of the family share.
func (t *quicTransport) socketFor(ctx context.Context, ip netip.Addr) (*quicSocket, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.listening {
		if s.reaches(ip) {
			s.refs++
			return s, nil
		}
	}
	family, network, address := 0, "udp4", "0.0.0.0:0"
	if ip.Is6() {
		family, network, address = 1, "udp6", "[::]:0"
	}
	if s := t.dialing[family]; s != nil {
		s.refs++
		return s, nil
	}
	s, err := t.open(ctx, network, address)
	if err == nil {
		t.dialing[family] = s
	}
	return s, err
}

func (t *quicTransport) Dial(ctx context.Context, addr URL) (net.Conn, error) {
	port, err := strconv.ParseUint(addr.Port(), 10, 16)
	if addr.Host() == "" || err != nil {
		return nil, ErrNoAddress
	}
	ips := []netip.Addr{addr.IP()}
	if !ips[0].IsValid() {
		if ips, err = t.lookup(ctx, addr.Host()); err != nil {
			return nil, err
		}
	}
	for i, ip := range ips {
		// The time left is shared among the addresses left.
		part, cancel := ctx, context.CancelFunc(func() {})
		if deadline, ok := ctx.Deadline(); ok {
			part, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(ips)-i))
		}
		var conn net.Conn
		conn, err = t.dialIP(part, netip.AddrPortFrom(ip.Unmap(), uint16(port)))
		cancel()
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

func (t *quicTransport) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	found, err := t.resolve(ctx, host)
	if err != nil {
		return nil, hide("dial", err)
	}
	var ips []netip.Addr
	for _, ip := range found {
		if a, ok := netip.AddrFromSlice(ip); ok && len(ips) < maxResolved {
			ips = append(ips, a.Unmap())
		}
	}
	if len(ips) == 0 {
		return nil, hide("dial", &net.DNSError{IsNotFound: true})
	}
	return ips, nil
}

func (t *quicTransport) dialIP(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, maxHandshake)
	defer cancel()
	tlsConfig, err := newTLSConfig()
	if err != nil {
		return nil, err
	}
	sock, err := t.socketFor(ctx, to.Addr())
	if err != nil {
		return nil, err
	}
	conn, err := sock.quic.Dial(ctx, net.UDPAddrFromAddrPort(to), tlsConfig, quicConfig(-1))
	if err != nil {
		sock.release()
		return nil, hide("QUIC dial", err)
	}
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		_ = conn.CloseWithError(0, "")
		sock.release()
		return nil, hide("QUIC dial", err)
	}
	return newQUICConn(conn, stream, sock), nil
}

// Listen opens a socket. On [::] it takes IPv4 as well, as upstream does, unless
// another listener has that port on IPv4 already (decision 0062).
func (t *quicTransport) Listen(ctx context.Context, addr URL) (Listener, error) {
	if addr.Host() == "" || !addr.HasPort() {
		return nil, ErrNoAddress
	}
	network := "udp"
	switch ip := addr.IP(); {
	case ip.Is4():
		network = "udp4"
	case ip.Is6() && !ip.IsUnspecified():
		network = "udp6"
	}
	tlsConfig, err := newTLSConfig()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	sock, err := t.open(ctx, network, addr.HostPort())
	if network == "udp" && errors.Is(err, syscall.EADDRINUSE) {
		sock, err = t.open(ctx, "udp6", addr.HostPort())
	}
	if err == nil {
		sock.both = sock.both && sock.bound.Addr().Is6()
		t.listening = append(t.listening, sock)
	}
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	l, err := sock.quic.Listen(tlsConfig, quicConfig(1))
	if err != nil {
		sock.release()
		return nil, hide("listen", err)
	}
	return &quicListener{l: l, sock: sock, url: addr.WithPort(sock.bound.Port())}, nil
}

type quicListener struct {
	l      *quic.Listener
	sock   *quicSocket
	url    URL
	closed sync.Once
}

func (l *quicListener) Addr() URL { return l.url }

// Close stops accepting. Connections go on, and keep the socket.
func (l *quicListener) Close() (err error) {
	err = hide("close", net.ErrClosed)
	l.closed.Do(func() {
		err = hide("close", l.l.Close())
		l.sock.release()
	})
	return err
}

// Accept waits for a connection whose QUIC handshake is complete: those under way
// are quic-go's, run side by side, and bounded in time.
func (l *quicListener) Accept(ctx context.Context) (Pending, error) {
	conn, err := l.l.Accept(ctx)
	switch {
	case ctx.Err() != nil:
		if conn != nil {
			_ = conn.CloseWithError(0, "")
		}
		return nil, ctx.Err()
	case errors.Is(err, quic.ErrServerClosed), errors.Is(err, quic.ErrTransportClosed):
		return nil, hide("accept", net.ErrClosed)
	case err != nil:
		return nil, hide("accept", err)
	}
	l.sock.t.mu.Lock()
	l.sock.refs++
	l.sock.t.mu.Unlock()
	return &quicPending{conn: conn, sock: l.sock, url: urlOf("quic", conn.RemoteAddr())}, nil
}

// A quicPending has proven a key but has not opened its stream.
type quicPending struct {
	conn *quic.Conn
	sock *quicSocket
	url  URL
	done sync.Once
}

func (p *quicPending) Remote() URL { return p.url }

// Handshake waits for the dialer's stream, which shows once the dialer has written.
func (p *quicPending) Handshake(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, maxHandshake)
	defer cancel()
	stream, err := p.conn.AcceptStream(ctx)
	if err != nil {
		_ = p.Close()
		return nil, hide("QUIC accept", err)
	}
	conn, err := net.Conn(nil), hide("close", net.ErrClosed)
	p.done.Do(func() { conn, err = newQUICConn(p.conn, stream, p.sock), nil })
	return conn, err
}

// Close drops the connection; after a Handshake that succeeded it does nothing.
func (p *quicPending) Close() error {
	p.done.Do(func() {
		_ = p.conn.CloseWithError(0, "")
		p.sock.release()
	})
	return nil
}
