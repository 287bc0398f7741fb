package p2p

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
)

// testCert makes a certificate as newIdentity does, apart from what change says.
func testCert(t testing.TB, key crypto.Signer, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	if key == nil {
		_, k, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		key = k
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "x"},
		DNSNames:     []string{"dark.fi"},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Unix(1, 0), // dates are not looked at
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// rawSAN replaces the extension by these bytes.
func rawSAN(der ...[]byte) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.DNSNames = nil
		for _, d := range der {
			c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: oidSAN, Value: d})
		}
	}
}

type certCase struct {
	name string
	cert tls.Certificate
	ok   bool
}

// certCases are peers' certificates by the table of p2p facts, 6.3 and trap 29.
func certCases(t testing.TB) []certCase {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own, err := newIdentity()
	if err != nil {
		t.Fatal(err)
	}
	name := append([]byte{0x82, 7}, "dark.fi"...)
	return []certCase{
		{"ours", own, true},
		{"expired, other CN, no EKU", testCert(t, nil, nil), true},
		{"other name", testCert(t, nil, func(c *x509.Certificate) { c.DNSNames = []string{"dark.example"} }), false},
		{"upper case", testCert(t, nil, func(c *x509.Certificate) { c.DNSNames = []string{"Dark.fi"} }), false},
		{"no name", testCert(t, nil, func(c *x509.Certificate) { c.DNSNames = nil }), false},
		{"twice the name", testCert(t, nil, func(c *x509.Certificate) { c.DNSNames = []string{"dark.fi", "dark.fi"} }), false},
		{"second name", testCert(t, nil, func(c *x509.Certificate) { c.DNSNames = []string{"dark.fi", "x"} }), false},
		{"extra IP", testCert(t, nil, func(c *x509.Certificate) { c.IPAddresses = []net.IP{{127, 0, 0, 1}} }), false},
		{"extra mail", testCert(t, nil, func(c *x509.Certificate) { c.EmailAddresses = []string{"a@b.c"} }), false},
		{"extra URI", testCert(t, nil, func(c *x509.Certificate) { c.URIs = []*url.URL{{Scheme: "a", Host: "b"}} }), false},
		{"name as URI", testCert(t, nil, rawSAN(append([]byte{0x30, 9, 0x86, 7}, "dark.fi"...))), false},
		{"extra registered id", testCert(t, nil, rawSAN(append(append([]byte{0x30, 12}, name...), 0x88, 1, 0x2a))), false},
		{"raw but right", testCert(t, nil, rawSAN(append([]byte{0x30, 9}, name...))), true},
		{"RSA", testCert(t, rsaKey, nil), false},
		{"ECDSA", testCert(t, ecKey, nil), false},
		{"none", tls.Certificate{}, false},
	}
}

// peerConfig is the TLS configuration of a foreign peer that checks nothing.
func peerConfig(cert tls.Certificate) *tls.Config {
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: "dark.fi",
		InsecureSkipVerify: true, ClientAuth: tls.RequireAnyClientCert,
	}
	if cert.PrivateKey != nil {
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg
}

// Our listener refuses every wrong client certificate, and our dialer every wrong
// server certificate, over TCP and over QUIC.
func TestPeerCertificates(t *testing.T) {
	trs := DefaultTransports(TransportConfig{})
	for _, c := range certCases(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Run("tcp client", func(t *testing.T) {
				l := listen(t, trs["tcp+tls"], "tcp+tls://127.0.0.1:0")
				ch := acceptOne(t, l)
				raw, err := net.Dial("tcp", l.Addr().HostPort())
				if err != nil {
					t.Fatal(err)
				}
				defer raw.Close()
				_ = tls.Client(raw, peerConfig(c.cert)).HandshakeContext(t.Context())
				r := <-ch
				if (r.err == nil) != c.ok {
					t.Errorf("accepted: %v, want %v", r.err, c.ok)
				}
				if r.err == nil {
					_ = raw.Close()
					_ = r.conn.Close()
				} else if c.name != "none" && !errors.Is(r.err, ErrIdentity) {
					t.Error(r.err)
				}
			})
			t.Run("quic client", func(t *testing.T) {
				l := listen(t, trs["quic"], "quic://127.0.0.1:0")
				conn, err := quic.DialAddr(t.Context(), l.Addr().HostPort(), peerConfig(c.cert), nil)
				if err != nil {
					if c.ok {
						t.Fatal(err)
					}
					return
				}
				s, err := conn.OpenStreamSync(t.Context())
				if err == nil {
					_, _ = s.Write([]byte("x"))
				}
				select {
				case r := <-acceptOne(t, l):
					if r.err != nil || !c.ok {
						t.Errorf("accepted: %v, want %v", r.err, c.ok)
					}
				case <-conn.Context().Done(): // the refusal arrives after the dial
					if c.ok {
						t.Error(context.Cause(conn.Context()))
					}
				}
				_ = conn.CloseWithError(0, "")
			})
			if c.cert.PrivateKey == nil {
				return // no server without a certificate
			}
			t.Run("tcp server", func(t *testing.T) {
				l, err := tls.Listen("tcp", "127.0.0.1:0", peerConfig(c.cert))
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				go func() {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					defer conn.Close()
					if conn.(*tls.Conn).HandshakeContext(t.Context()) == nil {
						_, _ = io.Copy(io.Discard, conn)
					}
				}()
				conn, err := trs["tcp+tls"].Dial(t.Context(), MustParseURL("tcp+tls://"+l.Addr().String()))
				if c.ok != (err == nil) || err != nil && !errors.Is(err, ErrIdentity) {
					t.Errorf("dialed: %v, want %v", err, c.ok)
				}
				if err == nil {
					_ = conn.Close()
				}
			})
			t.Run("quic server", func(t *testing.T) {
				l, err := quic.ListenAddr("127.0.0.1:0", peerConfig(c.cert), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				conn, err := trs["quic"].Dial(t.Context(), MustParseURL("quic://"+l.Addr().String()))
				if c.ok != (err == nil) {
					t.Errorf("dialed: %v, want %v", err, c.ok)
				}
				if err == nil {
					conn.(*quicConn).ended.Store(true) // nobody is there to wait for
					_ = conn.Close()
				}
			})
		})
	}
}

// What our hello says: name, version, groups, no ALPN, no ticket (p2p facts, 6.3
// and 6.4; trap 31).
func TestClientHello(t *testing.T) {
	trs := DefaultTransports(TransportConfig{})
	var hello atomic.Pointer[tls.ClientHelloInfo]
	cfg := peerConfig(testCert(t, nil, nil))
	cfg.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		hello.Store(h)
		return nil, nil
	}
	check := func(t *testing.T) {
		h := hello.Swap(nil)
		if h == nil {
			t.Fatal("no hello")
		}
		if h.ServerName != "dark.fi" || len(h.SupportedProtos) != 0 || !slices.Equal(h.SupportedVersions, []uint16{tls.VersionTLS13}) ||
			!slices.Contains(h.SignatureSchemes, tls.Ed25519) ||
			!slices.Equal(h.SupportedCurves, []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384}) {
			t.Errorf("hello %+v", h)
		}
		if len(h.CipherSuites) != 3 {
			t.Errorf("cipher suites %x", h.CipherSuites)
		}
		const preSharedKey = 41
		if slices.Contains(h.Extensions, preSharedKey) {
			t.Error("a ticket was offered")
		}
	}
	t.Run("tcp+tls", func(t *testing.T) {
		l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for range 2 {
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_ = conn.(*tls.Conn).HandshakeContext(t.Context())
				_, _ = conn.Write([]byte("x")) // carries the tickets
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}()
			conn, err := trs["tcp+tls"].Dial(t.Context(), MustParseURL("tcp+tls://"+l.Addr().String()))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
			check(t)
		}
	})
	t.Run("quic", func(t *testing.T) {
		l, err := quic.ListenAddr("127.0.0.1:0", cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for range 2 {
			go func() {
				conn, err := l.Accept(t.Context())
				if err != nil {
					return
				}
				s, err := conn.AcceptStream(t.Context())
				if err == nil {
					_, _ = s.Write([]byte("x"))
				}
			}()
			conn, err := trs["quic"].Dial(t.Context(), MustParseURL("quic://"+l.Addr().String()))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write([]byte("x"))
			_, _ = conn.Read(make([]byte, 1))
			conn.(*quicConn).ended.Store(true)
			_ = conn.Close()
			check(t)
		}
	})
}

// cacheFunc remembers the last session of any server, as an upstream dialer does:
// its cache is keyed by the server name, which is always dark.fi.
type cacheFunc struct {
	last atomic.Pointer[tls.ClientSessionState]
}

func (c *cacheFunc) Get(string) (*tls.ClientSessionState, bool) {
	s := c.last.Load()
	return s, s != nil
}

func (c *cacheFunc) Put(_ string, s *tls.ClientSessionState) {
	if s != nil {
		c.last.Store(s)
	}
}

// Trap 33: a dialer that offers the ticket of another server gets a full handshake,
// and no ticket of ours.
func TestForeignTicket(t *testing.T) {
	trs := DefaultTransports(TransportConfig{})
	cert, err := newIdentity() // one that has not expired: else Go does not resume
	if err != nil {
		t.Fatal(err)
	}
	t.Run("tcp+tls", func(t *testing.T) {
		foreign, err := tls.Listen("tcp", "127.0.0.1:0", peerConfig(cert))
		if err != nil {
			t.Fatal(err)
		}
		defer foreign.Close()
		go func() {
			for {
				conn, err := foreign.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte("x"))
				_ = conn.Close()
			}
		}()
		cache := &cacheFunc{}
		cfg := peerConfig(cert)
		cfg.ClientSessionCache = cache
		dial := func(addr string) tls.ConnectionState {
			conn, err := tls.Dial("tcp", addr, cfg)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write([]byte("x"))
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
			return conn.ConnectionState()
		}
		dial(foreign.Addr().String())
		ticket := cache.last.Load()
		if ticket == nil {
			t.Fatal("the foreign server gave no ticket: the test proves nothing")
		}
		if !dial(foreign.Addr().String()).DidResume {
			t.Fatal("the foreign server does not resume: the test proves nothing")
		}
		ticket = cache.last.Load()
		l := listen(t, trs["tcp+tls"], "tcp+tls://127.0.0.1:0")
		ch := acceptOne(t, l)
		go func() {
			if r := <-ch; r.err == nil {
				_, _ = r.conn.Write([]byte("x"))
				_ = r.conn.Close()
			}
		}()
		if dial(l.Addr().HostPort()).DidResume {
			t.Error("resumed a foreign session")
		}
		if cache.last.Load() != ticket {
			t.Error("our listener gave a ticket")
		}
	})
	t.Run("quic", func(t *testing.T) {
		foreign, err := quic.ListenAddr("127.0.0.1:0", peerConfig(cert), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer foreign.Close()
		cache := &cacheFunc{}
		cfg := peerConfig(cert)
		cfg.ClientSessionCache = cache
		dial := func(addr string, accept func() net.Conn) quic.ConnectionState {
			conn, err := quic.DialAddr(t.Context(), addr, cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			s, err := conn.OpenStreamSync(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = s.Write([]byte("x"))
			server := accept()
			if server != nil {
				_, _ = server.Write([]byte("y"))
				if _, err := io.ReadFull(s, make([]byte, 1)); err != nil {
					t.Error(err)
				}
			}
			state := conn.ConnectionState()
			_ = conn.CloseWithError(0, "")
			if server != nil {
				_ = server.Close()
			}
			return state
		}
		acceptForeign := func() net.Conn {
			conn, err := foreign.Accept(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for cache.last.Load() == nil { // tickets come after the handshake
				if _, err := conn.AcceptStream(t.Context()); err != nil {
					t.Fatal(err)
				}
				for end := time.Now().Add(5 * time.Second); cache.last.Load() == nil && time.Now().Before(end); {
					time.Sleep(time.Millisecond)
				}
			}
			return nil
		}
		dial(foreign.Addr().String(), acceptForeign)
		if !dial(foreign.Addr().String(), acceptForeign).TLS.DidResume {
			t.Fatal("the foreign server does not resume: the test proves nothing")
		}
		l := listen(t, trs["quic"], "quic://127.0.0.1:0")
		for range 2 {
			state := dial(l.Addr().HostPort(), func() net.Conn {
				r := <-acceptOne(t, l)
				if r.err != nil {
					t.Fatal(r.err)
				}
				return r.conn
			})
			if state.TLS.DidResume {
				t.Error("resumed a session")
			}
		}
	})
}

// crypto/tls without protocols of its own ignores a client's offer, where rustls
// answers alert 120 over QUIC. Being more liberal harms nobody.
func TestALPNOfferIsIgnored(t *testing.T) {
	l := listen(t, DefaultTransports(TransportConfig{})["quic"], "quic://127.0.0.1:0")
	cfg := peerConfig(testCert(t, nil, nil))
	cfg.NextProtos = []string{"h3"}
	conn, err := quic.DialAddr(t.Context(), l.Addr().HostPort(), cfg, nil)
	if err == nil {
		t.Cleanup(func() { _ = conn.CloseWithError(0, "") })
		if got := conn.ConnectionState().TLS.NegotiatedProtocol; got != "" {
			t.Errorf("negotiated %q", got)
		}
	}
}

// A certificate is fresh for every dial and for every listener.
func TestIdentitiesAreFresh(t *testing.T) {
	keys := make(chan string, 8)
	cfg := peerConfig(testCert(t, nil, nil))
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		keys <- string(cs.PeerCertificates[0].RawSubjectPublicKeyInfo)
		return nil
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tr := DefaultTransports(TransportConfig{})["tcp+tls"]
	for range 2 {
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).HandshakeContext(context.Background())
			_ = conn.Close()
		}()
		conn, err := tr.Dial(t.Context(), MustParseURL("tcp+tls://"+l.Addr().String()))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	for range 2 {
		own := listen(t, tr, "tcp+tls://127.0.0.1:0")
		ch := acceptOne(t, own)
		raw, err := net.Dial("tcp", own.Addr().HostPort())
		if err != nil {
			t.Fatal(err)
		}
		_ = tls.Client(raw, cfg).HandshakeContext(t.Context())
		_ = raw.Close()
		if r := <-ch; r.err == nil {
			_ = r.conn.Close()
		}
	}
	seen := map[string]bool{}
	for range 4 {
		seen[<-keys] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d different keys in 4 handshakes", len(seen))
	}
}

func TestOnlyNameIsStrictDER(t *testing.T) {
	good, err := asn1.Marshal([]asn1.RawValue{{Class: asn1.ClassContextSpecific, Tag: 2, Bytes: []byte("dark.fi")}})
	if err != nil || !isOnlyName(good) {
		t.Fatal(err)
	}
	for i := range good {
		if isOnlyName(good[:i]) {
			t.Errorf("cut at %d", i)
		}
		bad := slices.Clone(good)
		bad[i] ^= 0x20
		if isOnlyName(bad) {
			t.Errorf("changed at %d", i)
		}
	}
	if isOnlyName(append(good, 0)) {
		t.Error("trailing byte")
	}
}

// FuzzOnlyName: no input but the one good encoding passes.
func FuzzOnlyName(f *testing.F) {
	f.Add([]byte("\x30\x09\x82\x07dark.fi"))
	f.Add([]byte("\x30\x81\x09\x82\x07dark.fi"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, der []byte) {
		if isOnlyName(der) && string(der) != "\x30\x09\x82\x07dark.fi" {
			t.Fatalf("%x passes", der)
		}
	})
}
