package p2p

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// listen opens a listener that the test closes.
func listen(t *testing.T, tr Transport, url string) Listener {
	t.Helper()
	l, err := tr.Listen(t.Context(), MustParseURL(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

type connResult struct {
	conn net.Conn
	url  URL
	err  error
}

// acceptOne accepts and finishes one connection in the background.
func acceptOne(t *testing.T, l Listener) <-chan connResult {
	t.Helper()
	ch := make(chan connResult, 1)
	go func() {
		p, err := l.Accept(t.Context())
		if err != nil {
			ch <- connResult{err: err}
			return
		}
		conn, err := p.Handshake(t.Context())
		ch <- connResult{conn, p.Remote(), err}
	}()
	return ch
}

// pair connects through l. The dialer has written one byte, the acceptor read it:
// over QUIC there is no connection to accept before.
func pair(t *testing.T, tr Transport, l Listener) (dialer, acceptor net.Conn) {
	t.Helper()
	ch := acceptOne(t, l)
	dialer, err := tr.Dial(t.Context(), l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dialer.Write([]byte{'x'}); err != nil {
		t.Fatal(err)
	}
	r := <-ch
	if r.err != nil {
		t.Fatal(r.err)
	}
	var b [1]byte
	if _, err := io.ReadFull(r.conn, b[:]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBoth(dialer, r.conn) })
	return dialer, r.conn
}

// closeBoth closes the ends side by side: each waits for the other.
func closeBoth(a, b net.Conn) {
	done := make(chan struct{})
	go func() { _ = a.Close(); close(done) }()
	_ = b.Close()
	<-done
}

func unixURL(t *testing.T) string {
	t.Helper()
	return "unix://" + filepath.Join(t.TempDir(), "s")
}

// listenable are the schemes that listen, with a URL for this machine.
func listenable(t *testing.T) map[string]string {
	return map[string]string{
		"tcp":     "tcp://127.0.0.1:0",
		"tcp+tls": "tcp+tls://127.0.0.1:0",
		"quic":    "quic://127.0.0.1:0",
		"unix":    unixURL(t),
	}
}

// Every transport, both directions at once, over real sockets.
func TestTransportCarriesBothWays(t *testing.T) {
	for scheme, url := range listenable(t) {
		t.Run(scheme, func(t *testing.T) {
			tr := DefaultTransports(TransportConfig{})[scheme]
			l := listen(t, tr, url)
			if l.Addr().Scheme() != scheme || (scheme != "unix" && l.Addr().Port() == "0") {
				t.Errorf("listener's URL %s", l.Addr())
			}
			a, b := pair(t, tr, l)
			data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
			errs := make(chan error, 4)
			for _, c := range []net.Conn{a, b} {
				go func() { _, err := c.Write(data); errs <- err }()
				go func() {
					got := make([]byte, len(data))
					_, err := io.ReadFull(c, got)
					if err == nil && !bytes.Equal(got, data) {
						err = errors.New("data changed")
					}
					errs <- err
				}()
			}
			for range 4 {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// ST-07: what was written before Close arrives, even though the closing side has
// unread input, and the other end sees a clean end of the stream.
func TestCloseLosesNothing(t *testing.T) {
	for scheme, url := range listenable(t) {
		for _, closer := range []string{"dialer", "acceptor"} {
			t.Run(scheme+"/"+closer, func(t *testing.T) {
				tr := DefaultTransports(TransportConfig{})[scheme]
				l := listen(t, tr, url)
				a, b := pair(t, tr, l)
				if closer == "acceptor" {
					a, b = b, a
				}
				if _, err := b.Write([]byte("never read")); err != nil {
					t.Fatal(err)
				}
				data := bytes.Repeat([]byte("abcdefgh"), 1<<15)
				done := make(chan error, 1)
				go func() {
					_, err := a.Write(data)
					done <- errors.Join(err, a.Close())
				}()
				got, err := io.ReadAll(b)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("read %d of %d bytes, %v", len(got), len(data), err)
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
				for _, err := range []error{a.Close(), second(a.Write([]byte{1})), second(a.Read(make([]byte, 1)))} {
					if !errors.Is(err, net.ErrClosed) {
						t.Errorf("use after Close: %v", err)
					}
				}
			})
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Close lets go of a Read and of a Write that are under way.
func TestCloseInterrupts(t *testing.T) {
	for scheme, url := range listenable(t) {
		t.Run(scheme, func(t *testing.T) {
			tr := DefaultTransports(TransportConfig{})[scheme]
			l := listen(t, tr, url)
			a, b := pair(t, tr, l)
			errs := make(chan error, 2)
			go func() { errs <- second(a.Read(make([]byte, 1))) }()
			go func() { errs <- second(a.Write(make([]byte, 64<<20))) }() // nobody reads it all
			go func() {                                                   // b takes a little, so that the writer is known to have begun
				_, _ = io.ReadFull(b, make([]byte, 1<<16))
				_ = a.Close()
			}()
			for range 2 {
				if err := <-errs; !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			}
		})
	}
}

// A deadline is a timeout, and the connection survives it.
func TestDeadlines(t *testing.T) {
	for scheme, url := range listenable(t) {
		t.Run(scheme, func(t *testing.T) {
			tr := DefaultTransports(TransportConfig{})[scheme]
			l := listen(t, tr, url)
			a, b := pair(t, tr, l)
			_ = a.SetReadDeadline(time.Unix(1, 0))
			_, err := a.Read(make([]byte, 1))
			if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("err = %v", err)
			}
			_ = a.SetReadDeadline(time.Time{})
			if _, err := b.Write([]byte("y")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(a, make([]byte, 1)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A client that stalls inside the handshake costs its own Pending and nothing
// else: Accept goes on, and the handshake ends with its context.
func TestStalledHandshake(t *testing.T) {
	tr := DefaultTransports(TransportConfig{})
	t.Run("tcp+tls", func(t *testing.T) {
		l := listen(t, tr["tcp+tls"], "tcp+tls://127.0.0.1:0")
		for range 20 {
			raw, err := net.Dial("tcp", l.Addr().HostPort())
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
		}
		var stalled []Pending
		for range 20 {
			p, err := l.Accept(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			stalled = append(stalled, p)
		}
		pair(t, tr["tcp+tls"], l)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		for _, p := range stalled {
			if _, err := p.Handshake(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
	})
	t.Run("quic", func(t *testing.T) {
		l := listen(t, tr["quic"], "quic://127.0.0.1:0")
		// A dialer that finishes the handshake and writes nothing shows no stream.
		silent, err := tr["quic"].Dial(t.Context(), l.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		p, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pair(t, tr["quic"], l)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := p.Handshake(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestListener(t *testing.T) {
	for scheme, url := range listenable(t) {
		t.Run(scheme, func(t *testing.T) {
			tr := DefaultTransports(TransportConfig{})[scheme]
			l := listen(t, tr, url)
			// An Accept that is called off leaves the listener usable.
			ctx, cancel := context.WithCancel(t.Context())
			errs := make(chan error, 1)
			go func() { errs <- second(l.Accept(ctx)) }()
			cancel()
			if err := <-errs; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			pair(t, tr, l)

			// The black list is asked about scheme://ip:port/.
			ch := acceptOne(t, l)
			conn, err := tr.Dial(t.Context(), l.Addr())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write([]byte{1})
			r := <-ch
			if r.err != nil {
				t.Fatal(r.err)
			}
			if want := scheme + "://127.0.0.1:"; scheme == "unix" && r.url != l.Addr() ||
				scheme != "unix" && (!strings.HasPrefix(r.url.String(), want) || r.url.Path() != "/" || !r.url.HasPort()) {
				t.Errorf("Remote = %s", r.url)
			}
			closeBoth(conn, r.conn)

			go func() { errs <- second(l.Accept(t.Context())) }()
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if err := <-errs; !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
	}
}

// p2p facts, 6.2: IPv4 and IPv6 wildcards on one port.
func TestWildcardsShareAPort(t *testing.T) {
	if l, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Skip("no IPv6 here")
	} else {
		_ = l.Close()
	}
	for _, scheme := range []string{"tcp", "quic"} {
		tr := DefaultTransports(TransportConfig{})[scheme]
		l4 := listen(t, tr, scheme+"://0.0.0.0:0")
		l6 := listen(t, tr, scheme+"://[::]:"+l4.Addr().Port())
		if l6.Addr().String() != scheme+"://[::]:"+l4.Addr().Port()+"/" {
			t.Error(l6.Addr())
		}
		for host, l := range map[string]Listener{"127.0.0.1": l4, "[::1]": l6} {
			ch := acceptOne(t, l)
			conn, err := tr.Dial(t.Context(), MustParseURL(scheme+"://"+host+":"+l.Addr().Port()))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write([]byte{1})
			if r := <-ch; r.err != nil || !strings.HasPrefix(r.url.String(), scheme+"://"+host+":") {
				t.Error(r.url, r.err)
			} else {
				closeBoth(conn, r.conn)
			}
		}
	}
}

func TestBadAddresses(t *testing.T) {
	for _, c := range []struct {
		url        string
		dial, open error
	}{
		{"tcp://1.2.3.4", ErrNoAddress, ErrNoAddress},
		{"tcp+tls://h", ErrNoAddress, ErrNoAddress},
		{"quic://1.2.3.4", ErrNoAddress, ErrNoAddress},
		{"tor://abc.onion", ErrNoAddress, ErrNoAddress},
		{"tor+tls://abc.onion", ErrNoAddress, ErrNoListen},
		{"i2p://abc.i2p", ErrNoAddress, ErrNoListen},
		{"i2p+tls://abc.i2p", ErrNoAddress, ErrNoListen},
		{"socks5://127.0.0.1:1", ErrNoAddress, ErrNoListen},
		{"socks5://127.0.0.1:1/host", ErrNoAddress, ErrNoListen},
		{"socks5://127.0.0.1:1/host:70000", ErrNoAddress, ErrNoListen},
		{"socks5://127.0.0.1:1/[::1]:1", ErrNoAddress, ErrNoListen},
		{"socks5+tls://127.0.0.1/host:1", ErrNoAddress, ErrNoListen},
		{"unix://host/x", ErrNoAddress, ErrNoAddress},
		{"unix:x", ErrNoAddress, ErrNoAddress},
		{"tor://" + strings.Repeat("a", 256) + ":1", ErrNoAddress, nil},
	} {
		u := MustParseURL(c.url)
		tr := DefaultTransports(TransportConfig{})[u.Scheme()]
		if conn, err := tr.Dial(t.Context(), u); !errors.Is(err, c.dial) || conn != nil {
			t.Errorf("Dial(%s): %v, want %v", u, err, c.dial)
		}
		if c.open == nil {
			continue
		}
		if _, err := tr.Listen(t.Context(), u); !errors.Is(err, c.open) {
			t.Errorf("Listen(%s): %v, want %v", u, err, c.open)
		}
	}
}

// DS-51: an error of a transport never prints an address, but says what happened.
func TestErrorsHideAddresses(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := closed.Addr().String()
	_ = closed.Close()
	trs := DefaultTransports(TransportConfig{
		TorSOCKS5: MustParseURL("socks5://" + addr),
		Resolve: func(context.Context, string) ([]net.IP, error) {
			return nil, &net.DNSError{Err: "no such host", Name: "secret.example", Server: "127.0.0.53", IsNotFound: true}
		},
	})
	var texts []string
	for _, url := range []string{
		"tcp://" + addr, "tcp+tls://" + addr, "tor://secret.onion:1", "socks5://" + addr + "/secret.example:1",
		"quic://secret.example:1", "unix:///nonexistent/127.0.0.1/sock",
	} {
		u := MustParseURL(url)
		_, err := trs[u.Scheme()].Dial(t.Context(), u)
		if err == nil {
			t.Fatalf("%s: no error", u)
		}
		if u.Scheme() == "tcp" && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the cause is lost: %#v", errors.Unwrap(err))
		}
		texts = append(texts, err.Error(), fmt.Sprintf("%v %+v %#v %s %q", err, err, err, err, err))
	}
	for _, s := range texts {
		if strings.Contains(s, "127.0.0.") || strings.Contains(s, "secret") || strings.Contains(s, addr[strings.LastIndex(addr, ":"):]) {
			t.Errorf("an address in %q", s)
		}
	}
	if !slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, "connection refused") }) ||
		!slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, "no such host") }) {
		t.Errorf("errors say nothing: %q", texts)
	}
}

func TestReadErrorsHideAddresses(t *testing.T) {
	tr := DefaultTransports(TransportConfig{})["tcp"]
	l := listen(t, tr, "tcp://127.0.0.1:0")
	ch := acceptOne(t, l)
	raw, err := net.Dial("tcp", l.Addr().HostPort())
	if err != nil {
		t.Fatal(err)
	}
	r := <-ch
	if r.err != nil {
		t.Fatal(r.err)
	}
	_ = raw.(*net.TCPConn).SetLinger(0)
	_ = raw.Close() // resets
	_, err = r.conn.Read(make([]byte, 1))
	if !errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("err = %v", err)
	}
	if err := r.conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestUnixSocketFile(t *testing.T) {
	tr := DefaultTransports(TransportConfig{})["unix"]
	url := unixURL(t)
	path := strings.TrimPrefix(url, "unix://")
	l := listen(t, tr, url)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; others could connect", info.Mode(), err)
	}
	pair(t, tr, l)
	// In use: not taken over.
	if _, err := tr.Listen(t.Context(), MustParseURL(url)); err == nil {
		t.Error("a socket in use was taken over")
	}
	// Left behind by a process that died: removed.
	l.(*socketListener).l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	l = listen(t, tr, url)
	pair(t, tr, l)
	_ = l.Close()
	// No socket: left alone.
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Listen(t.Context(), MustParseURL(url)); err == nil {
		t.Error("a file that is no socket was replaced")
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Error("the file is gone")
	}
}
