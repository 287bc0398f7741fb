package relay

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// askV1 sends one request under ALPN version 1.
func askV1(t *testing.T, address string, relay ed25519.PublicKey, req mailbox.Request) (mailbox.Response, error) {
	t.Helper()
	_, key, _ := ed25519.GenerateKey(nil)
	conf, err := mailbox.ClientTLS(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{3}, 32)), relay)
	if err != nil || key == nil {
		t.Fatal(err)
	}
	conf.NextProtos = []string{mailbox.ProtocolV1}
	c, err := tls.Dial("tcp", address, conf)
	if err != nil {
		return mailbox.Response{}, err
	}
	defer c.Close()
	b, err := req.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(b); err != nil {
		return mailbox.Response{}, err
	}
	_ = c.CloseWrite()
	out, err := io.ReadAll(c)
	if err != nil {
		return mailbox.Response{}, err
	}
	return mailbox.DecodeResponse(out)
}

// TestVersion1 (MB-40): version 1 is refused, unless the library's switch is on; then its
// page deletes, an acknowledgement means nothing, and version 2 beside it stays as it is.
func TestVersion1(t *testing.T) {
	for _, on := range []bool{false, true} {
		store := kv.OpenMemory()
		r, err := New(Config{Store: store, Key: [32]byte{1}, AllowV1Compat: on})
		if err != nil {
			t.Fatal(err)
		}
		key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32))
		s, err := NewServer(r, key)
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = s.ServeTLS(ctx, l) })
		ask := func(req mailbox.Request) (mailbox.Response, error) {
			return askV1(t, l.Addr().String(), key.Public().(ed25519.PublicKey), req)
		}
		lease := mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{t1}}}
		resp, err := ask(lease)
		if !on {
			if err == nil {
				t.Error("version 1 is served without the switch")
			}
			cancel()
			wg.Wait()
			continue
		}
		if err != nil || resp.Lease.Serving {
			t.Fatalf("an empty mailbox: %+v, %v", resp.Lease, err)
		}
		if _, err := r.Handle([]byte("alice"), mailbox.Request{Deposit: &mailbox.Deposit{Envelope: envelope(t1, "x")}}); err != nil {
			t.Fatal(err)
		}
		resp, err = ask(lease)
		if err != nil || len(resp.Lease.Rows) != 1 {
			t.Fatalf("%+v, %v", resp.Lease, err)
		}
		if st, _ := r.Stats(); st.Rows != 0 || st.Leases != 0 {
			t.Errorf("after the response: %d rows, %d leases", st.Rows, st.Leases)
		}
		resp2, err := ask(mailbox.Request{AckLease: &mailbox.AckLease{LeaseID: resp.Lease.LeaseID, RowIDs: ids(resp.Lease)}})
		if err != nil || resp2.AckLease.Accepted {
			t.Errorf("an acknowledgement in version 1 was accepted: %v", err)
		}
		if _, err := ask(mailbox.Request{Info: &mailbox.Info{}}); err == nil {
			t.Error("an extension is served in version 1")
		}
		if err := Recount(store); err != nil {
			t.Error(err)
		}
		cancel()
		wg.Wait()
	}
}

// TestVersion1Warning (MB-40): a relay that serves version 1 says at its start what can be
// lost.
func TestVersion1Warning(t *testing.T) {
	for _, on := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var buf bytes.Buffer
			r, err := New(Config{Store: newMapStore(), AllowV1Compat: on, Logger: slog.New(slog.NewTextHandler(&buf, nil))})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := r.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if strings.Contains(buf.String(), "lost after deletion") != on {
				t.Errorf("switch %t: logged %q", on, buf.String())
			}
		})
	}
}
