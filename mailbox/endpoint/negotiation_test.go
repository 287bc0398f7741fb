package endpoint

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"hearsay/mailbox"
)

// oldRelay speaks certain protocols over QUIC and over TLS, takes every request for a
// check-in, and counts the bytes that it is sent.
type oldRelay struct {
	key       ed25519.PrivateKey
	quic, tls string
	bytes     atomic.Int64
}

func newOldRelay(t *testing.T, protocols ...string) *oldRelay {
	r := &oldRelay{key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{6}, 32))}
	conf, err := mailbox.ServerTLS(r.key)
	if err != nil {
		t.Fatal(err)
	}
	conf.NextProtos, conf.VerifyConnection = protocols, nil
	none := mailbox.Response{Lease: &mailbox.Page{Rows: []mailbox.Row{}}}
	answer, err := none.Encode()
	if err != nil {
		t.Fatal(err)
	}
	serve := func(c io.ReadWriteCloser) {
		defer c.Close()
		b, _ := io.ReadAll(c)
		r.bytes.Add(int64(len(b)))
		_, _ = c.Write(answer)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r.tls = l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	if len(protocols) == 0 {
		return r // QUIC cannot do without
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	q, err := quic.Listen(udp, conf, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close(); _ = udp.Close() })
	r.quic = udp.LocalAddr().String()
	go func() {
		for {
			c, err := q.Accept(context.Background())
			if err != nil {
				return
			}
			go func() {
				for {
					st, err := c.AcceptStream(context.Background())
					if err != nil {
						return
					}
					go serve(st)
				}
			}()
		}
	}()
	return r
}

// TestNeverOlder (MB-40, MB-35): a client speaks the base where a relay has nothing better, sends it
// no extension, and says nothing at all to a relay of version 1 or of no version.
func TestNeverOlder(t *testing.T) {
	lease := mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{{1}}}}
	info := mailbox.Request{Info: &mailbox.Info{}}
	for name, c := range map[string]struct {
		protocols []string
		speaks    bool
	}{
		"base":       {[]string{mailbox.ProtocolBase}, true},
		"version 1":  {[]string{mailbox.ProtocolV1}, false},
		"both":       {[]string{mailbox.ProtocolV1, mailbox.ProtocolBase}, true},
		"no version": {nil, false},
	} {
		r := newOldRelay(t, c.protocols...)
		for scheme, host := range map[string]string{"quic": r.quic, "tcp+tls": r.tls} {
			if host == "" {
				continue
			}
			a := mailbox.Address{Scheme: scheme, Host: host, Key: r.key.Public().(ed25519.PublicKey)}
			client, err := NewClient(a, ed25519.NewKeyFromSeed(make([]byte, 32)), nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			before := r.bytes.Load()
			if _, err := client.Do(ctx, info); !errors.Is(err, ErrUnsupported) && (c.speaks || !errors.Is(err, ErrUnavailable)) {
				t.Errorf("%s, %s: an extension: %v", name, scheme, err)
			}
			if r.bytes.Load() != before {
				t.Errorf("%s, %s: an extension was sent", name, scheme)
			}
			if _, err := client.Do(ctx, lease); (err == nil) != c.speaks {
				t.Errorf("%s, %s: a check-in: %v", name, scheme, err)
			}
			if (r.bytes.Load() != before) != c.speaks {
				t.Errorf("%s, %s: %d bytes were sent", name, scheme, r.bytes.Load()-before)
			}
			cancel()
			client.Close()
		}
	}
}
