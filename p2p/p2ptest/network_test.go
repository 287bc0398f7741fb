package p2ptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/p2p"
)

const latency = 50 * time.Millisecond

func listenOn(t *testing.T, h *Host) p2p.Listener {
	t.Helper()
	l, err := h.Transport().Listen(t.Context(), p2p.MustParseURL("tcp://0.0.0.0:9600"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// connected dials from one host to a listener on another.
func connected(t *testing.T, from *Host, l p2p.Listener, to string) (dialer, acceptor net.Conn) {
	t.Helper()
	dialer, err := from.Transport().Dial(t.Context(), p2p.MustParseURL("tcp://"+to+":9600"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	acceptor, err = p.Handshake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Remote().String(), "tcp://"+dialer.LocalAddr().String()+"/"; got != want {
		t.Errorf("Remote %s, want %s", got, want)
	}
	return dialer, acceptor
}

// bubble runs f with two hosts and a listener on the second.
func bubble(t *testing.T, link Link, f func(t *testing.T, n *Network, a, b *Host, l p2p.Listener)) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1, link)
		a, b := n.Host("10.0.0.1"), n.Host("10.0.0.2")
		l := listenOn(t, b)
		f(t, n, a, b, l)
		_ = l.Close()
	})
}

func readString(t *testing.T, c net.Conn, n int) string {
	t.Helper()
	b := make([]byte, n)
	k, err := io.ReadFull(c, b)
	if err != nil {
		t.Errorf("read %d of %d: %v", k, n, err)
	}
	return string(b[:k])
}

func write(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := c.Write([]byte(s)); err != nil {
		t.Error(err)
	}
}

func TestLatencyAndOrder(t *testing.T) {
	bubble(t, Link{Latency: latency, Jitter: 20 * time.Millisecond}, func(t *testing.T, n *Network, a, b *Host, l p2p.Listener) {
		start := time.Now()
		x, y := connected(t, a, l, "10.0.0.2")
		if d := time.Since(start); d != 2*latency {
			t.Errorf("dialing took %v", d)
		}
		for i := range 100 {
			start := time.Now()
			write(t, x, fmt.Sprintf("%03d", i))
			if time.Since(start) != 0 {
				t.Error("Write waited")
			}
		}
		for i := range 100 {
			if got := readString(t, y, 3); got != fmt.Sprintf("%03d", i) {
				t.Errorf("%q at %d", got, i)
			}
		}
		if d := time.Since(start); d < 3*latency || d > 3*latency+20*time.Millisecond {
			t.Errorf("arrived after %v", d)
		}
		if n.Bytes() != 300 || n.Conns() != 1 {
			t.Error(n.Bytes(), n.Conns())
		}
		_ = x.Close()
		_ = y.Close()
		if n.Conns() != 0 {
			t.Errorf("%d connections left", n.Conns())
		}
	})
}

func TestBandwidthAndWindow(t *testing.T) {
	bubble(t, Link{Latency: latency, Bandwidth: 1000, Window: 500}, func(t *testing.T, n *Network, a, b *Host, l p2p.Listener) {
		x, y := connected(t, a, l, "10.0.0.2")
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := x.Write(make([]byte, 2000)); err != nil {
				t.Error(err)
			}
			if time.Since(start) < time.Second {
				t.Error("the window did not hold Write back")
			}
			_ = x.Close()
		})
		if got, err := io.ReadAll(y); err != nil || len(got) != 2000 {
			t.Error(len(got), err)
		}
		if d := time.Since(start); d < 2*time.Second || d > 3*time.Second {
			t.Errorf("2000 bytes at 1000 a second took %v", d)
		}
		wg.Wait()
		_ = y.Close()
	})
}

// net.Conn's contract: deadlines in the past, in the future, moved while waiting.
func TestDeadlines(t *testing.T) {
	bubble(t, Link{Latency: latency, Window: 10}, func(t *testing.T, n *Network, a, b *Host, l p2p.Listener) {
		x, y := connected(t, a, l, "10.0.0.2")
		isTimeout := func(err error) {
			t.Helper()
			ne, ok := errors.AsType[net.Error](err)
			if !errors.Is(err, os.ErrDeadlineExceeded) || !ok || !ne.Timeout() {
				t.Errorf("err = %v", err)
			}
		}
		_ = x.SetReadDeadline(time.Now())
		_, err := x.Read(make([]byte, 1))
		isTimeout(err)
		start := time.Now()
		_ = x.SetReadDeadline(start.Add(3 * time.Second))
		_, err = x.Read(make([]byte, 1))
		isTimeout(err)
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("timed out after %v", d)
		}
		_ = x.SetReadDeadline(time.Time{})
		time.AfterFunc(time.Second, func() { _ = x.SetReadDeadline(time.Now()) })
		_, err = x.Read(make([]byte, 1))
		isTimeout(err)

		_ = x.SetWriteDeadline(time.Now().Add(2 * time.Second))
		k, err := x.Write(make([]byte, 25)) // nobody reads
		isTimeout(err)
		if k != 10 {
			t.Errorf("wrote %d, want the window", k)
		}
		_ = x.SetDeadline(time.Time{})
		readString(t, y, 10)
		write(t, x, "more")
		readString(t, y, 4)
		_ = x.Close()
		_ = y.Close()
	})
}

// ST-07's ground: what was written before Close arrives, then a clean end; what
// the other end writes after it has heard fails.
func TestClose(t *testing.T) {
	bubble(t, Link{Latency: latency}, func(t *testing.T, n *Network, a, b *Host, l p2p.Listener) {
		x, y := connected(t, a, l, "10.0.0.2")
		write(t, y, "unread")
		data := bytes.Repeat([]byte("x"), 10000)
		write(t, x, string(data))
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := x.Read(make([]byte, 100)); err != nil {
				t.Error(err)
			}
			if _, err := x.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Error("Close must let go of a Read:", err)
			}
		})
		time.Sleep(time.Second)
		if err := x.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if got, err := io.ReadAll(y); err != nil || !bytes.Equal(got, data) {
			t.Error(len(got), err)
		}
		if _, err := y.Write([]byte("z")); !errors.Is(err, syscall.EPIPE) {
			t.Error(err)
		}
		for _, err := range []error{x.Close(), second(x.Write([]byte("x"))), second(x.Read(make([]byte, 1)))} {
			if !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}
		_ = y.Close()

		// Half-closing: the other direction goes on.
		x, y = connected(t, a, l, "10.0.0.2")
		_ = x.(*conn).CloseWrite()
		if got, err := io.ReadAll(y); err != nil || len(got) != 0 {
			t.Error(got, err)
		}
		write(t, y, "still here")
		readString(t, x, 10)
		_ = x.Close()
		_ = y.Close()
	})
}

func second[T any](_ T, err error) error { return err }

func TestPartitionAndHeal(t *testing.T) {
	bubble(t, Link{Latency: latency}, func(t *testing.T, n *Network, a, b *Host, l p2p.Listener) {
		x, y := connected(t, a, l, "10.0.0.2")
		n.Partition([]*Host{a}, []*Host{b})
		write(t, x, "late")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := a.Transport().Dial(ctx, p2p.MustParseURL("tcp://10.0.0.2:9600")); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		_ = y.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := y.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		_ = y.SetReadDeadline(time.Time{})
		start := time.Now()
		time.AfterFunc(time.Minute, n.Heal)
		c, err := a.Transport().Dial(t.Context(), p2p.MustParseURL("tcp://10.0.0.2:9600"))
		if err != nil || time.Since(start) != time.Minute {
			t.Error(err, time.Since(start))
		}
		if got := readString(t, y, 4); got != "late" {
			t.Errorf("%q", got)
		}
		_ = c.Close()
		_ = x.Close()
		_ = y.Close()
	})
}

// A stalled direction looks like a peer that does not read; the other goes on.
func TestStall(t *testing.T) {
	bubble(t, Link{Window: 100}, func(t *testing.T, n *Network, a, b *Host, l p2p.Listener) {
		x, y := connected(t, a, l, "10.0.0.2")
		n.Stall(a, b, true)
		_ = x.SetWriteDeadline(time.Now().Add(time.Minute))
		if k, err := x.Write(make([]byte, 101)); k != 100 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(k, err)
		}
		write(t, y, "hello")
		readString(t, x, 5)
		n.Stall(a, b, false)
		readString(t, y, 100)
		_ = x.Close()
		_ = y.Close()
	})
}

func TestBreakAndDrop(t *testing.T) {
	bubble(t, Link{}, func(t *testing.T, n *Network, a, b *Host, l p2p.Listener) {
		for _, cut := range []func(){func() { n.Break(b, a) }, a.Drop, b.Drop} {
			x, y := connected(t, a, l, "10.0.0.2")
			time.AfterFunc(time.Second, cut)
			for _, c := range []net.Conn{x, y} {
				if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Error(err)
				}
				if _, err := c.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
					t.Error(err)
				}
				_ = c.Close()
			}
		}
		if n.Conns() != 0 {
			t.Error(n.Conns())
		}
	})
}

// A crash leaves the peer half-open, and the host can start anew.
func TestCrash(t *testing.T) {
	bubble(t, Link{Window: 100}, func(t *testing.T, n *Network, a, b *Host, l p2p.Listener) {
		x, y := connected(t, a, l, "10.0.0.2")
		b.Crash()
		if _, err := l.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := y.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := a.Transport().Dial(t.Context(), p2p.MustParseURL("tcp://10.0.0.2:9600")); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error(err)
		}
		_ = x.SetDeadline(time.Now().Add(time.Hour))
		if _, err := x.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		_ = x.SetDeadline(time.Now().Add(time.Hour))
		if k, err := x.Write(make([]byte, 200)); k != 100 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(k, err)
		}
		_ = x.Close()
		l2 := listenOn(t, b)
		x, y = connected(t, a, l2, "10.0.0.2")
		write(t, x, "again")
		readString(t, y, 5)
		_ = x.Close()
		_ = y.Close()
		_ = l2.Close()
	})
}

func TestListener(t *testing.T) {
	bubble(t, Link{}, func(t *testing.T, n *Network, a, b *Host, l p2p.Listener) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Accept(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := b.Transport().Listen(t.Context(), l.Addr()); !errors.Is(err, syscall.EADDRINUSE) {
			t.Error(err)
		}
		free, err := b.Transport().Listen(t.Context(), p2p.MustParseURL("quic://[::]:0"))
		if err != nil || !strings.HasPrefix(free.Addr().String(), "quic://[::]:") || free.Addr().Port() == "0" {
			t.Error(free, err)
		}
		_ = free.Close()
		// The backlog: one past it waits until there is room.
		var conns []net.Conn
		to := p2p.MustParseURL("tcp://10.0.0.2:9600")
		for range backlog {
			c, err := a.Transport().Dial(t.Context(), to)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Transport().Dial(ctx, to); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.AfterFunc(time.Second, func() {
			p, err := l.Accept(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			_ = p.Close()
		})
		c, err := a.Transport().Dial(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Error("connections that nobody accepted are reset:", err)
		}
		for _, c := range append(conns, c) {
			_ = c.Close()
		}
	})
}

// The same seed gives the same lifetimes and arrival times, another one others.
func TestSeed(t *testing.T) {
	run := func(seed uint64) (out string) {
		synctest.Test(t, func(t *testing.T) {
			n := New(seed, Link{Latency: latency, Jitter: latency, MTBF: time.Hour})
			a, b := n.Host("a"), n.Host("b")
			l := listenOn(t, b)
			start := time.Now()
			for range 5 {
				x, y := connected(t, a, l, "b")
				write(t, x, "x")
				readString(t, y, 1)
				out += fmt.Sprintln(time.Since(start))
				if _, err := y.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Error(err)
				}
				out += fmt.Sprintln(time.Since(start))
				_ = x.Close()
				_ = y.Close()
			}
			_ = l.Close()
		})
		return out
	}
	one := run(1)
	if again := run(1); again != one {
		t.Errorf("not replayable:\n%s\n%s", one, again)
	}
	if run(2) == one {
		t.Error("the seed does nothing")
	}
}

// Two ends that talk for a week: cheap enough for simulations.
func BenchmarkPingPong(b *testing.B) {
	n := New(1, Link{})
	x, y := n.Host("a"), n.Host("b")
	l, err := y.Transport().Listen(b.Context(), p2p.MustParseURL("tcp://b:1"))
	if err != nil {
		b.Fatal(err)
	}
	c, err := x.Transport().Dial(b.Context(), p2p.MustParseURL("tcp://b:1"))
	if err != nil {
		b.Fatal(err)
	}
	p, err := l.Accept(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	d, _ := p.Handshake(b.Context())
	go func() { _, _ = io.Copy(d, d) }()
	buf := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = c.Write(buf)
		_, _ = io.ReadFull(c, buf)
	}
	_ = c.Close()
}
