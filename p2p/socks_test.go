package p2p

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// A fakeProxy is a SOCKS5 server for one scripted behaviour.
type fakeProxy struct {
	l        net.Listener
	password bool   // prefers a password where one is offered
	refuse   bool   // turns away whoever offers a password
	badAuth  bool   // says that the password is wrong
	reply    byte   // of CONNECT
	bound    []byte // address type, address and port in the reply
	target   string // where connections really go; empty: an echo
	requests chan socksRequest
}

type socksRequest struct {
	methods  []byte
	user     string
	password string
	atyp     byte
	dest     string
}

func newFakeProxy(t *testing.T, p *fakeProxy) *fakeProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.l, p.requests = l, make(chan socksRequest, 16)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	return p
}

func (p *fakeProxy) url() URL { return MustParseURL("socks5://" + p.l.Addr().String()) }

func (p *fakeProxy) serve(conn net.Conn) {
	defer conn.Close()
	var r socksRequest
	read := func(n int) []byte {
		b := make([]byte, n)
		_, _ = io.ReadFull(conn, b)
		return b
	}
	r.methods = read(int(read(2)[1]))
	offered := bytes.IndexByte(r.methods, 2) >= 0
	switch {
	case offered && p.refuse:
		p.requests <- r
		_, _ = conn.Write([]byte{5, 0xff})
		return
	case offered && p.password:
		_, _ = conn.Write([]byte{5, 2})
		r.user = string(read(int(read(2)[1])))
		r.password = string(read(int(read(1)[0])))
		if p.badAuth {
			p.requests <- r
			_, _ = conn.Write([]byte{1, 1})
			return
		}
		_, _ = conn.Write([]byte{1, 0})
	default:
		_, _ = conn.Write([]byte{5, 0})
	}
	r.atyp = read(4)[3]
	host := read(int(read(1)[0]))
	port := read(2)
	r.dest = fmt.Sprintf("%s:%d", host, int(port[0])<<8|int(port[1]))
	p.requests <- r
	bound := p.bound
	if bound == nil {
		bound = []byte{1, 0, 0, 0, 0, 0, 0}
	}
	_, _ = conn.Write(append([]byte{5, p.reply, 0}, bound...))
	if p.reply != 0 {
		return
	}
	if p.target == "" {
		_, _ = io.Copy(conn, conn)
		return
	}
	out, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer out.Close()
	go func() {
		_, _ = io.Copy(out, conn)
		_ = out.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(conn, out)
}

func echoed(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != "hello" {
		t.Errorf("echo %q, %v", b, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// Names go to the proxy unresolved, dotted quads as names too (p2p facts, 6.6), and
// every kind of bound address in the answer is skipped.
func TestSOCKSDestination(t *testing.T) {
	for _, c := range []struct {
		url   string // PROXY stands for the proxy's host and port
		want  string
		bound []byte
	}{
		{"tor://abcdef.onion:9601", "abcdef.onion:9601", nil},
		{"tor://lilith0.dark.fi:9600", "lilith0.dark.fi:9600", append([]byte{4}, make([]byte, 18)...)},
		{"tor://1.2.3.4:9600", "1.2.3.4:9600", []byte{3, 3, 'a', 'b', 'c', 0, 0}},
		{"i2p://Foo.b32.i2p:9602", "Foo.b32.i2p:9602", []byte{3, 0, 0, 0}},
		{"socks5://PROXY/abc.onion:9601", "abc.onion:9601", nil},
		{"socks5://user:pw@PROXY/1.2.3.4:80", "1.2.3.4:80", nil},
	} {
		p := newFakeProxy(t, &fakeProxy{password: true, bound: c.bound})
		u := MustParseURL(string(bytes.ReplaceAll([]byte(c.url), []byte("PROXY"), []byte(p.l.Addr().String()))))
		tr := DefaultTransports(TransportConfig{TorSOCKS5: p.url(), I2PSOCKS5: p.url()})[u.Scheme()]
		conn, err := tr.Dial(t.Context(), u)
		if err != nil {
			t.Errorf("%s: %v", u, err)
			continue
		}
		r := <-p.requests
		if r.dest != c.want || r.atyp != 3 {
			t.Errorf("%s: asked for %s as type %d", u, r.dest, r.atyp)
		}
		if wantAuth := u.Scheme() == "tor"; wantAuth != (len(r.methods) == 2) || !wantAuth && !bytes.Equal(r.methods, []byte{0}) {
			t.Errorf("%s: methods %v", u, r.methods)
		}
		echoed(t, conn)
	}
}

// Every Tor dial asks for a circuit of its own, and works with a proxy that knows
// no passwords, or refuses whoever offers one.
func TestTorIsolation(t *testing.T) {
	u := MustParseURL("tor://abcdef.onion:1")
	p := newFakeProxy(t, &fakeProxy{password: true})
	tr := DefaultTransports(TransportConfig{TorSOCKS5: p.url()})["tor"]
	users := map[string]bool{}
	for range 3 {
		conn, err := tr.Dial(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		r := <-p.requests
		if r.user == "" || r.password == "" {
			t.Error("no credentials")
		}
		users[r.user] = true
		echoed(t, conn)
	}
	if len(users) != 3 {
		t.Errorf("%d circuits for 3 dials", len(users))
	}
	for _, p := range []*fakeProxy{{}, {refuse: true}, {password: true, badAuth: true}} {
		p := newFakeProxy(t, p)
		conn, err := DefaultTransports(TransportConfig{TorSOCKS5: p.url()})["tor"].Dial(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		echoed(t, conn)
	}
}

func TestSOCKSFailures(t *testing.T) {
	u := MustParseURL("tor://abcdef.onion:1")
	p := newFakeProxy(t, &fakeProxy{password: true, reply: 5})
	_, err := DefaultTransports(TransportConfig{TorSOCKS5: p.url()})["tor"].Dial(t.Context(), u)
	if !errors.Is(err, ErrProxy) {
		t.Error(err)
	}
	if n := len(p.requests); n != 1 {
		t.Errorf("asked %d times: a refused destination is no reason to ask again", n)
	}
	// Proxies that talk nonsense, and one that says nothing.
	for _, answer := range []string{"\x04\x00", "\x05\x01", "\x05\x02\x01\x00", "\x05\x00\x04\x00\x00\x01", "\x05\x00\x05\x00\x00\x09", "\x05"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(answer))
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}()
		u := MustParseURL("socks5://" + l.Addr().String() + "/h:1")
		if _, err := DefaultTransports(TransportConfig{})["socks5"].Dial(t.Context(), u); err == nil {
			t.Errorf("answer %x was taken", answer)
		}
		_ = l.Close()
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = DefaultTransports(TransportConfig{TorSOCKS5: MustParseURL("socks5://" + silent.Addr().String())})["tor"].Dial(ctx, u)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// The +tls forms: our TLS through the proxy to a tcp+tls listener, and tor's
// listener as the plain port behind an onion service.
func TestSOCKSToListeners(t *testing.T) {
	trs := DefaultTransports(TransportConfig{})
	tlsListener := listen(t, trs["tcp+tls"], "tcp+tls://127.0.0.1:0")
	for _, scheme := range []string{"tor+tls", "i2p+tls", "socks5+tls"} {
		p := newFakeProxy(t, &fakeProxy{target: tlsListener.Addr().HostPort()})
		u := MustParseURL(scheme + "://peer.i2p:1")
		if scheme == "socks5+tls" {
			u = MustParseURL(scheme + "://" + p.l.Addr().String() + "/peer.example:1")
		}
		ch := acceptOne(t, tlsListener)
		conn, err := DefaultTransports(TransportConfig{TorSOCKS5: p.url(), I2PSOCKS5: p.url()})[scheme].Dial(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		r := <-ch
		if r.err != nil {
			t.Fatal(r.err)
		}
		go func() { _, _ = io.Copy(r.conn, r.conn); _ = r.conn.Close() }()
		echoed(t, conn)
	}

	for _, host := range []string{"127.0.0.1", "0.0.0.0", "myonion.onion"} {
		l := listen(t, trs["tor"], "tor://"+host+":0")
		// Whatever the host: nothing but this machine reaches the port.
		if u := l.Addr(); u.Host() != "127.0.0.1" || u.Scheme() != "tor" || u.Port() == "0" {
			t.Errorf("listens on %s", u)
		}
		p := newFakeProxy(t, &fakeProxy{target: l.Addr().HostPort()})
		ch := acceptOne(t, l)
		conn, err := DefaultTransports(TransportConfig{TorSOCKS5: p.url()})["tor"].Dial(t.Context(), MustParseURL("tor://x.onion:1"))
		if err != nil {
			t.Fatal(err)
		}
		r := <-ch
		if r.err != nil || r.url != l.Addr() {
			t.Fatal(r.url, r.err)
		}
		go func() { _, _ = io.Copy(r.conn, r.conn); _ = r.conn.Close() }()
		echoed(t, conn)
	}
}
