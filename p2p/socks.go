package p2p

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// A socksRoute says for an address which proxy to ask, for which host and port,
// and with which isolation tag (empty: no authentication).
type socksRouteFunc func(addr URL) (proxy, host string, port uint16, tag string, err error)

// socksRoute asks one proxy for the host and port of the URL. tag, if set, makes
// the credentials that keep dials on circuits of their own.
func socksRoute(proxy URL, tag func() string) socksRouteFunc {
	return func(addr URL) (string, string, uint16, string, error) {
		if proxy.Host() == "" || !proxy.HasPort() || addr.Host() == "" || !addr.HasPort() {
			return "", "", 0, "", ErrNoAddress
		}
		port, err := strconv.ParseUint(addr.Port(), 10, 16)
		if err != nil {
			return "", "", 0, "", ErrNoAddress
		}
		isolation := ""
		if tag != nil {
			isolation = tag()
		}
		return proxy.HostPort(), addr.Host(), uint16(port), isolation, nil
	}
}

// proxyInURL is the route of socks5://proxy:port/host:port. As upstream has it,
// user info is ignored, and an IPv6 destination cannot be written.
func proxyInURL(addr URL) (string, string, uint16, string, error) {
	host, portText, ok := strings.Cut(strings.TrimPrefix(addr.Path(), "/"), ":")
	port, err := strconv.ParseUint(portText, 10, 16)
	if addr.Host() == "" || !addr.HasPort() || !ok || host == "" || err != nil {
		return "", "", 0, "", ErrNoAddress
	}
	return addr.HostPort(), host, uint16(port), "", nil
}

// A socksTransport dials through a SOCKS5 proxy.
type socksTransport struct {
	route       socksRouteFunc
	tls         bool
	listenLocal bool // tor: Listen opens the port that an onion service forwards to
}

func (t *socksTransport) Dial(ctx context.Context, addr URL) (net.Conn, error) {
	proxy, host, port, tag, err := t.route(addr)
	if err != nil {
		return nil, err
	}
	raw, err := dialSOCKS(ctx, proxy, host, port, tag)
	switch {
	case err != nil:
		return nil, err
	case t.tls:
		return dialTLS(ctx, raw)
	}
	return newStreamConn(raw), nil
}

// Listen, for tor, opens a TCP port on this machine. The onion service that
// forwards to it is the Tor daemon's business, so the host must be a loopback
// address; any other means 127.0.0.1. All peers look alike here: their Remote is
// the listener's own URL.
func (t *socksTransport) Listen(ctx context.Context, addr URL) (Listener, error) {
	if !t.listenLocal {
		return nil, ErrNoListen
	}
	if !addr.HasPort() {
		return nil, ErrNoAddress
	}
	bind := addr
	if !addr.IP().IsLoopback() {
		bind = MustParseURL("tor://127.0.0.1:" + addr.Port())
	}
	l, err := listenTCP(ctx, bind, nil)
	if err != nil {
		return nil, err
	}
	url := l.url
	l.remote = func(net.Addr) URL { return url }
	return l, nil
}

// dialSOCKS asks proxy to connect to host:port, always by name (RFC 1928, address
// type 3), so nothing is resolved here.
//
// With a tag it offers both no authentication and a password; the tag as user and
// password tells Tor to use a circuit of its own. A proxy that refuses this is
// asked again without.
func dialSOCKS(ctx context.Context, proxy, host string, port uint16, tag string) (net.Conn, error) {
	if len(host) > maxSOCKSHost {
		return nil, ErrNoAddress
	}
	ctx, cancel := context.WithTimeout(ctx, maxHandshake)
	defer cancel()
	conn, err := dialTCP(ctx, proxy)
	if err != nil {
		return nil, err
	}
	// Interrupt reads and writes when ctx ends.
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = conn.SetDeadline(time.Unix(1, 0))
	})
	authenticated, err := socksConnect(conn, host, port, tag)
	if !stop() {
		<-interrupted
		err = ctx.Err()
	}
	if err == nil {
		return conn, nil
	}
	_ = conn.Close()
	if tag != "" && !authenticated && ctx.Err() == nil {
		return dialSOCKS(ctx, proxy, host, port, "")
	}
	return nil, hide("SOCKS5", err)
}

// SOCKS5 numbers (RFC 1928, 1929).
const (
	socksVersion     = 5
	socksNoAuth      = 0
	socksPassword    = 2
	socksAuthVersion = 1
	socksConnectCmd  = 1
	socksIPv4        = 1
	socksName        = 3
	socksIPv6        = 4
)

// socksConnect speaks the client's side. authenticated tells whether the proxy
// got past the choice of a method.
func socksConnect(conn net.Conn, host string, port uint16, tag string) (authenticated bool, err error) {
	hello := []byte{socksVersion, 1, socksNoAuth}
	if tag != "" {
		hello = []byte{socksVersion, 2, socksNoAuth, socksPassword}
	}
	if _, err := conn.Write(hello); err != nil {
		return false, err
	}
	var reply [4]byte
	if _, err := io.ReadFull(conn, reply[:2]); err != nil {
		return false, err
	}
	switch {
	case reply[0] != socksVersion:
		return false, ErrProxy
	case reply[1] == socksNoAuth:
	case reply[1] == socksPassword && tag != "":
		auth := append([]byte{socksAuthVersion, byte(len(tag))}, tag...)
		auth = append(append(auth, byte(len(tag))), tag...)
		if _, err := conn.Write(auth); err != nil {
			return false, err
		}
		if _, err := io.ReadFull(conn, reply[:2]); err != nil {
			return false, err
		}
		if reply[1] != 0 {
			return false, ErrProxy
		}
	default:
		return false, ErrProxy
	}

	request := append([]byte{socksVersion, socksConnectCmd, 0, socksName, byte(len(host))}, host...)
	if _, err := conn.Write(append(request, byte(port>>8), byte(port))); err != nil {
		return true, err
	}
	if _, err := io.ReadFull(conn, reply[:4]); err != nil {
		return true, err
	}
	if reply[0] != socksVersion {
		return true, ErrProxy
	}
	if reply[1] != 0 {
		return true, fmt.Errorf("%w: reply %d", ErrProxy, reply[1])
	}
	n := 0 // of the bound address, which nobody needs
	switch reply[3] {
	case socksIPv4:
		n = net.IPv4len
	case socksIPv6:
		n = net.IPv6len
	case socksName:
		var length [1]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return true, err
		}
		n = int(length[0])
	default:
		return true, ErrProxy
	}
	_, err = io.CopyN(io.Discard, conn, int64(n+2))
	return true, err
}
