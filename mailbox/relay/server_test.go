package relay_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"hearsay/internal/kv"
	"hearsay/mailbox"
	"hearsay/mailbox/endpoint"
	"hearsay/mailbox/relay"
)

// service is a relay on loopback, over QUIC and over TLS.
type service struct {
	relay *relay.Relay
	key   ed25519.PrivateKey
	quic  string
	tls   string
}

func serve(t *testing.T) *service { return serveLimited(t, relay.Limits{}) }

func serveLimited(t *testing.T, limits relay.Limits) *service {
	store := kv.OpenMemory()
	r, err := relay.New(relay.Config{Store: store, Key: [32]byte{1}, Version: "test", Contact: "mailto:op@example.org", Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := relay.NewServer(r, key)
	if err != nil {
		t.Fatal(err)
	}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.ServeQUIC(ctx, pc); !errors.Is(err, context.Canceled) {
			t.Errorf("ServeQUIC: %v", err)
		}
	})
	wg.Go(func() {
		if err := s.ServeTLS(ctx, l); !errors.Is(err, context.Canceled) {
			t.Errorf("ServeTLS: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait(); store.Close() })
	return &service{r, key, pc.LocalAddr().String(), l.Addr().String()}
}

func (s *service) address(scheme string) mailbox.Address {
	host := s.quic
	if scheme != "quic" {
		host = s.tls
	}
	return mailbox.Address{Scheme: scheme, Host: host, Key: s.key.Public().(ed25519.PublicKey)}
}

func client(t *testing.T, a mailbox.Address) *endpoint.Client {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := endpoint.NewClient(a, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func do(t *testing.T, c *endpoint.Client, req mailbox.Request) mailbox.Response {
	t.Helper()
	resp, err := c.Do(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// TestServer (MB-10 to MB-13, MB-33, MB-47): the course of a message over each
// transport, one collector on the other one.
func TestServer(t *testing.T) {
	for _, scheme := range []string{"quic", "tcp+tls"} {
		t.Run(scheme, func(t *testing.T) {
			s := serve(t)
			alice, bob := client(t, s.address(scheme)), client(t, s.address(scheme))
			token := mailbox.Token{7}
			if do(t, bob, mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{token}}}).Lease.Serving {
				t.Error("an empty mailbox serves")
			}
			env := (&mailbox.Envelope{Kind: 1, Token: token, Body: bytes.Repeat([]byte{0xff}, mailbox.MaxEnvelope-34)}).AppendTo(nil)
			if !do(t, alice, mailbox.Request{Deposit: &mailbox.Deposit{Envelope: env}}).Deposit.Accepted {
				t.Fatal("refused")
			}
			p := do(t, bob, mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{token}}}).Lease
			if len(p.Rows) != 1 || !bytes.Equal(p.Rows[0].Envelope, env) {
				t.Fatal("not what was deposited")
			}
			if !do(t, bob, mailbox.Request{AckLease: &mailbox.AckLease{LeaseID: p.LeaseID, RowIDs: []mailbox.RowID{p.Rows[0].RowID}}}).AckLease.Accepted {
				t.Error("acknowledgement refused")
			}
			info := do(t, bob, mailbox.Request{Info: &mailbox.Info{}}).Info
			if info.Version != "test" || info.Contact != "mailto:op@example.org" || info.UsedItems != 0 || info.ClientTokens != 1 || info.CapacityItems != 65536 {
				t.Errorf("info %+v", info)
			}
		})
	}
}

// TestOtherKey (MB-51): a client refuses a relay that proves another key.
func TestOtherKey(t *testing.T) {
	s := serve(t)
	for _, scheme := range []string{"quic", "tcp+tls"} {
		a := s.address(scheme)
		other, _, _ := ed25519.GenerateKey(nil)
		a.Key = other
		if _, err := client(t, a).Do(t.Context(), mailbox.Request{Info: &mailbox.Info{}}); err == nil || errors.Is(err, endpoint.ErrProtocol) {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

// TestNegotiation (MB-40): the base protocol alone works without the extensions;
// version 1 and no protocol at all are refused.
func TestNegotiation(t *testing.T) {
	s := serve(t)
	_, key, _ := ed25519.GenerateKey(nil)
	for protocol, want := range map[string]bool{mailbox.ProtocolBase: true, "/komms/mailbox/1": false, "": false} {
		conf, err := mailbox.ClientTLS(key, s.key.Public().(ed25519.PublicKey))
		if err != nil {
			t.Fatal(err)
		}
		conf.NextProtos = nil
		if protocol != "" {
			conf.NextProtos = []string{protocol}
		}
		ask := func(req mailbox.Request) ([]byte, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			conn, err := quic.DialAddr(ctx, s.quic, conf, nil)
			if err != nil {
				return nil, err
			}
			defer conn.CloseWithError(0, "")
			st, err := conn.OpenStreamSync(ctx)
			if err != nil {
				return nil, err
			}
			b, err := req.Encode()
			if err != nil {
				return nil, err
			}
			st.Write(b)
			st.Close()
			return io.ReadAll(st)
		}
		b, err := ask(mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{{1}}}})
		if (err == nil && len(b) > 0) != want {
			t.Errorf("%q: %x, %v", protocol, b, err)
		}
		if want {
			if b, err := ask(mailbox.Request{Info: &mailbox.Info{}}); err == nil {
				t.Errorf("%q: an extension was answered: %x", protocol, b)
			}
		}
	}
}

// TestNoVersionOverTLS (MB-40): TLS, unlike QUIC, lets a client negotiate nothing; it is not served.
func TestNoVersionOverTLS(t *testing.T) {
	s := serve(t)
	_, key, _ := ed25519.GenerateKey(nil)
	for protocols, want := range map[string]bool{mailbox.ProtocolBase: true, "": false, mailbox.ProtocolV1: false} {
		conf, err := mailbox.ClientTLS(key, s.key.Public().(ed25519.PublicKey))
		if err != nil {
			t.Fatal(err)
		}
		conf.NextProtos, conf.VerifyConnection = nil, nil
		if protocols != "" {
			conf.NextProtos = []string{protocols}
		}
		answer := func() ([]byte, error) {
			c, err := tls.Dial("tcp", s.tls, conf)
			if err != nil {
				return nil, err
			}
			defer c.Close()
			b, err := (&mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{{1}}}}).Encode()
			if err != nil {
				return nil, err
			}
			if _, err := c.Write(b); err != nil {
				return nil, err
			}
			_ = c.CloseWrite()
			return io.ReadAll(c)
		}
		if b, err := answer(); (err == nil && len(b) > 0) != want {
			t.Errorf("%q: %x, %v", protocols, b, err)
		}
	}
}

// TestHostileClients (MB-20, MB-21): oversized, malformed, silent and too many; an
// honest client is served meanwhile.
func TestHostileClients(t *testing.T) {
	s := serve(t)
	_, key, _ := ed25519.GenerateKey(nil)
	conf, err := mailbox.ClientTLS(key, s.key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := quic.DialAddr(t.Context(), s.quic, conf, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseWithError(0, "")
	for name, b := range map[string][]byte{"oversized": make([]byte, mailbox.MaxRequest+1), "malformed": {0xa1}, "empty": nil} {
		st, err := conn.OpenStreamSync(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		st.Write(b) // the other side may stop reading
		st.Close()
		st.SetReadDeadline(time.Now().Add(20 * time.Second))
		if out, err := io.ReadAll(st); err == nil || len(out) != 0 {
			t.Errorf("%s was answered with %x, %v", name, out, err)
		}
	}
	silentConn, err := quic.DialAddr(t.Context(), s.quic, conf, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer silentConn.CloseWithError(0, "")
	var silent []*quic.Stream
	for range 8 {
		st, err := silentConn.OpenStream()
		if err != nil {
			break
		}
		st.Write([]byte{0xa1})
		silent = append(silent, st)
	}
	if len(silent) != 8 {
		t.Fatalf("%d streams, want 8", len(silent))
	}
	if _, err := silentConn.OpenStream(); err == nil {
		t.Error("a ninth stream was opened")
	}
	// Connections without a handshake, from one address.
	for range 50 {
		c, err := net.Dial("tcp", s.tls)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	// Somebody at another address is served all the same.
	elsewhere := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	honest, err := endpoint.NewClient(s.address("tcp+tls"), key, elsewhere.DialContext)
	if err != nil {
		t.Fatal(err)
	}
	if do(t, honest, mailbox.Request{Info: &mailbox.Info{}}).Info.Version != "test" {
		t.Error("an honest client is not served")
	}
}

// TestNoClientKey (MB-51): a client without an Ed25519 key gets nothing.
func TestNoClientKey(t *testing.T) {
	s := serve(t)
	c, err := tls.Dial("tcp", s.tls, &tls.Config{InsecureSkipVerify: true, NextProtos: mailbox.Protocols()})
	if err != nil {
		return // refused at once is fine
	}
	defer c.Close()
	b, _ := (&mailbox.Request{Info: &mailbox.Info{}}).Encode()
	c.Write(b)
	c.CloseWrite()
	if out, err := io.ReadAll(c); err == nil && len(out) > 0 {
		t.Errorf("answered %x", out)
	}
}

// TestKeys (MB-51, MB-52): made once, owner only; unsafe, damaged or missing ones
// are refused, never replaced.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	a, err := relay.OpenKeys(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := relay.OpenKeys(dir, true)
	if err != nil || a.Master != b.Master || !a.Transport.Equal(b.Transport) {
		t.Fatalf("keys changed: %v", err)
	}
	if a.Master == ([32]byte{}) {
		t.Error("zero key")
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	path := filepath.Join(dir, relay.KeyName)
	for _, f := range files {
		info, err := f.Info()
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", f.Name(), info.Mode())
		}
	}
	refused := func(what string) {
		t.Helper()
		if _, err := relay.OpenKeys(dir, true); !errors.Is(err, relay.ErrKeyFile) {
			t.Errorf("%s: %v", what, err)
		}
	}
	os.Chmod(path, 0o640)
	refused("readable by the group")
	os.Chmod(path, 0o600)
	os.Truncate(path, 31)
	refused("short")
	os.Rename(path, path+".moved")
	refused("missing while the store is there")
	os.Symlink(path+".moved", path)
	refused("symlink")
	fifo := filepath.Join(t.TempDir(), relay.KeyName)
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := relay.OpenKeys(filepath.Dir(fifo), true); !errors.Is(err, relay.ErrKeyFile) { // and does not wait for a writer
		t.Errorf("a FIFO: %v", err)
	}
	if err := relay.WriteOwnerOnly(path, []byte{1}); err == nil {
		t.Error("a file was replaced")
	}
}

// TestManyKeysOfOneAddress (MB-05, MB-21): keys cost nothing, so that one address cannot use up the relay's
// requests under many of them: others are served.
func TestManyKeysOfOneAddress(t *testing.T) {
	s := serveLimited(t, relay.Limits{ClientRequests: 2, RelayRequests: 12})
	ask := func(from string) error {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := endpoint.NewClient(s.address("tcp+tls"), key, d.DialContext)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		resp, err := c.Do(t.Context(), mailbox.Request{Info: &mailbox.Info{}})
		if err == nil && resp.Info.Version == "" {
			return errors.New("over the relay's rate")
		}
		return err
	}
	for i := range 6 {
		if err := ask("127.0.0.1"); err != nil {
			t.Fatalf("request %d: %v", i+1, err)
		}
	}
	if err := ask("127.0.0.1"); err == nil {
		t.Error("one address has more than its share")
	}
	if err := ask("127.0.0.2"); err != nil {
		t.Errorf("another address is refused: %v", err)
	}
	if st, err := s.relay.Stats(); err != nil || st.Requests["unread"]["rate"] != 1 {
		t.Errorf("%v, %v", st.Requests, err)
	}
}
