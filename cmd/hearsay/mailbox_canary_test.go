package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mr-tron/base58"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"hearsay/internal/config"
	"hearsay/internal/kv"
	"hearsay/mailbox"
	"hearsay/mailbox/endpoint"
)

// A syncBuffer is a log that several goroutines write.
type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// forms are the ways in which bytes could have been written down.
func forms(secret []byte) (out [][]byte) {
	numbers := strings.Trim(fmt.Sprintf("%d", secret), "[]")
	return [][]byte{
		secret, []byte(hex.EncodeToString(secret)), []byte(strings.ToUpper(hex.EncodeToString(secret))), []byte(base58.Encode(secret)),
		[]byte(base64.StdEncoding.EncodeToString(secret)), []byte(base64.RawURLEncoding.EncodeToString(secret)),
		[]byte(numbers), []byte(strings.ReplaceAll(numbers, " ", ",")),
	}
}

func leaks(text []byte, secrets map[string][]byte) (out []string) {
	for name, secret := range secrets {
		for i, form := range forms(secret) {
			if bytes.Contains(text, form) {
				out = append(out, fmt.Sprintf("%s in form %d", name, i))
			}
		}
	}
	return out
}

// testRelay is a relay of a configuration on loopback, whose log is at debug level.
func testRelay(t *testing.T, limits config.RelayLimits) (s *relayService, address mailbox.Address, logs *syncBuffer, dir string) {
	t.Helper()
	dir = t.TempDir()
	logs = &syncBuffer{}
	cfg := &config.Config{Datastore: dir}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := l.Addr().String()
	l.Close()
	cfg.Mailbox.Relay = &config.MailboxRelay{Listen: listen, Claims: true, Limits: limits}
	s, err = openRelay(t.Context(), cfg, new(kv.Disk), newLogger(logs, zerolog.DebugLevel))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	if address, err = relayAddress(cfg); err != nil {
		t.Fatal(err)
	}
	return s, address, logs, dir
}

// TestMailboxCanary (MB-06, MB-31, MB-32, MB-54): tokens, ids, texts, client keys and addresses that
// went through a relay, refused requests included, are searched in everything that it says
// or writes: logs at debug level, metrics, status, errors; and in its files what must not be
// readable there.
func TestMailboxCanary(t *testing.T) {
	s, address, logs, dir := testRelay(t, config.RelayLimits{TokenRows: 2})
	var bobSeed, aliceSeed [32]byte
	copy(bobSeed[:], "seed of bob's key, very secret..")
	copy(aliceSeed[:], "seed of alice's key, secret too.")
	bobKey, aliceKey := ed25519.NewKeyFromSeed(bobSeed[:]), ed25519.NewKeyFromSeed(aliceSeed[:])
	client := func(key ed25519.PrivateKey, scheme string) *endpoint.Client {
		a := address
		a.Scheme = scheme
		c, err := endpoint.NewClient(a, key, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	bob, alice := client(bobKey, "quic"), client(aliceKey, "tcp+tls")
	secret := [32]byte{'c', 'a', 'n', 'a', 'r', 'y'}
	tok := mailbox.TokenOf(secret)
	foreign := mailbox.TokenOf([32]byte{'f', 'o', 'r', 'e', 'i', 'g', 'n'})
	body := []byte("the canary sings to #secret-channel for label-of-bob")
	env := (&mailbox.Envelope{Kind: mailbox.KindSealed, Token: tok, Body: body}).AppendTo(nil)
	content := mailbox.ContentIDOf(env)

	errs := &bytes.Buffer{}
	do := func(c *endpoint.Client, req mailbox.Request) mailbox.Response {
		resp, err := c.Do(t.Context(), req)
		if err != nil {
			fmt.Fprintf(errs, "%v %+v\n", err, err)
		}
		return resp
	}
	deposit := func(b []byte) bool {
		r := do(alice, mailbox.Request{Deposit: &mailbox.Deposit{Envelope: b}})
		return r.Deposit != nil && r.Deposit.Accepted
	}
	do(bob, mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{tok}}})
	if !deposit(env) {
		t.Fatal("no deposit")
	}
	deposit(append(bytes.Clone(env), 1))
	if deposit(append(bytes.Clone(env), 2)) {
		t.Error("a deposit past the quota")
	}
	deposit((&mailbox.Envelope{Kind: 9, Token: tok, Body: body}).AppendTo(nil))
	deposit((&mailbox.Envelope{Kind: 1, Token: foreign, Body: body}).AppendTo(nil))
	page := do(bob, mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{tok}}}).Lease
	if page == nil || len(page.Rows) != 2 {
		t.Fatalf("page %+v", page)
	}
	do(bob, mailbox.Request{RefuseRows: &mailbox.RefuseRows{LeaseID: page.LeaseID, RowIDs: []mailbox.RowID{page.Rows[1].RowID}, Reason: mailbox.RefuseUnopened}})
	do(bob, mailbox.Request{AckLease: &mailbox.AckLease{LeaseID: page.LeaseID, RowIDs: []mailbox.RowID{{1}}}})
	do(alice, mailbox.Request{AckLease: &mailbox.AckLease{LeaseID: page.LeaseID, RowIDs: []mailbox.RowID{page.Rows[0].RowID}}})
	do(alice, mailbox.Request{ClaimTokens: &mailbox.ClaimTokens{Proofs: []mailbox.Proof{{Token: tok}}}})
	do(client(bobKey, "tcp+tls"), mailbox.Request{Info: &mailbox.Info{}})
	conf, err := mailbox.ClientTLS(bobKey, address.Key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := tls.Dial("tcp", address.Host, conf); err == nil { // not a message, but a token in it
		_, _ = c.Write(append([]byte{0xa1}, tok[:]...))
		_ = c.CloseWrite()
		_, err = io.ReadAll(c)
		fmt.Fprintln(errs, err)
		c.Close()
	}

	secrets := map[string][]byte{
		"token": tok[:], "foreign token": foreign[:], "token secret": secret[:], "content id": content[:], "lease id": page.LeaseID[:],
		"row id": page.Rows[0].RowID[:], "another row id": page.Rows[1].RowID[:], "text": body, "channel": []byte("#secret-channel"), "label": []byte("label-of-bob"),
		"bob's key": bobKey.Public().(ed25519.PublicKey), "alice's key": aliceKey.Public().(ed25519.PublicKey),
	}
	reg := prometheus.NewRegistry()
	s.metrics(reg)
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	metrics := rec.Body.String()
	for _, want := range []string{
		"hearsay_relay_rows 2", "hearsay_relay_capacity_rows 65536", "hearsay_relay_leases 1", "hearsay_relay_schema 2", "hearsay_relay_oldest_lease_seconds",
		`hearsay_relay_requests_total{outcome="token_quota",request="deposit"} 1`, `hearsay_relay_requests_total{outcome="unregistered",request="deposit"} 1`,
		`hearsay_relay_requests_total{outcome="malformed",request="malformed"} 1`, `hearsay_relay_expired_total{what="rows"} 0`,
		"hearsay_relay_disk_free_bytes", "hearsay_relay_disk_reserve_bytes",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s:\n%s", want, metrics)
		}
	}
	status, err := json.Marshal(s.status())
	if err != nil || !bytes.Contains(status, []byte(`"rows":2`)) {
		t.Errorf("status %s, %v", status, err)
	}
	logs.mu.Lock()
	said := logs.String()
	logs.mu.Unlock()
	for where, text := range map[string]string{"log": said, "metrics": metrics, "status": string(status), "errors": errs.String()} {
		for _, leak := range leaks([]byte(text), secrets) {
			t.Errorf("%s: %s", where, leak)
		}
		if strings.Contains(text, "127.0.0.1") {
			t.Errorf("%s holds an address", where)
		}
	}
	// In the files: locators must be there, what they stand for must not.
	for _, name := range []string{"lease id", "row id", "another row id"} {
		delete(secrets, name)
	}
	n := 0
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n += len(b)
		for _, leak := range leaks(b, secrets) {
			t.Errorf("%s holds %s", filepath.Base(path), leak)
		}
		return nil
	})
	if err != nil || n < 1000 {
		t.Errorf("%d bytes searched, %v", n, err)
	}
	if len(leaks([]byte("x "+hex.EncodeToString(tok[:])), secrets)) != 1 {
		t.Error("the search finds nothing")
	}
}

// TestDaemonServesVersion2Only (MB-40): neither wire nor source lets the daemon serve version 1.
func TestDaemonServesVersion2Only(t *testing.T) {
	_, address, _, _ := testRelay(t, config.RelayLimits{})
	conf, err := mailbox.ClientTLS(ed25519.NewKeyFromSeed(make([]byte, 32)), address.Key)
	if err != nil {
		t.Fatal(err)
	}
	conf.NextProtos = []string{mailbox.ProtocolV1}
	if c, err := tls.Dial("tcp", address.Host, conf); err == nil {
		c.Close()
		t.Error("version 1 was negotiated")
	}
	conf.NextProtos = mailbox.Protocols()
	c, err := tls.Dial("tcp", address.Host, conf)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	for _, p := range mailbox.Protocols() {
		if !strings.HasSuffix(p, "/2") {
			t.Errorf("a client offers %s", p)
		}
	}
	// No source outside the relay's own package names the switch, so no setting can reach it.
	root := filepath.Join("..", "..")
	n := 0
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (strings.HasPrefix(e.Name(), ".") && path != root || e.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Dir(path) == filepath.Join(root, "mailbox", "relay") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return nil //nolint:nilerr // the compiler will say so
		}
		n++
		ast.Inspect(f, func(node ast.Node) bool {
			if id, ok := node.(*ast.Ident); ok && id.Name == "AllowV1Compat" {
				t.Errorf("%s names the switch", path)
			}
			return true
		})
		return nil
	})
	if err != nil || n < 100 {
		t.Errorf("%d files, %v", n, err)
	}
}
