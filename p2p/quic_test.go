package p2p

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"
)

// simHost is a host on a simulated packet network, in fake time. Endpoints are
// made in advance: the listening one and one for dialing.
type simHost struct {
	addr   string
	opened atomic.Int32
	conns  map[string]*simnet.SimConn // by what is asked for
}

func newSimNet(t *testing.T, latency time.Duration, addrs ...string) []*simHost {
	t.Helper()
	n := &simnet.Simnet{Router: &simnet.PerfectRouter{}}
	var hosts []*simHost
	for _, a := range addrs {
		h := &simHost{addr: a, conns: map[string]*simnet.SimConn{}}
		for asked, port := range map[string]uint16{a + ":9600": 9600, "0.0.0.0:0": 50000} {
			to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(a), port))
			h.conns[asked] = n.NewEndpoint(to, simnet.NodeBiDiLinkSettings{Latency: latency})
		}
		hosts = append(hosts, h)
	}
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return hosts
}

func (h *simHost) transport() Transport {
	return DefaultTransports(TransportConfig{
		ListenPacket: func(_ context.Context, _, address string) (net.PacketConn, error) {
			c, ok := h.conns[address]
			if !ok {
				return nil, errors.New("no such endpoint")
			}
			delete(h.conns, address)
			h.opened.Add(1)
			return c, nil
		},
	})["quic"]
}

// QUIC in fake time: the handshake takes two round trips to the first byte, a node
// that listens dials from its listening port, keep-alives hold an idle connection
// for hours, and Close brings the last bytes across (ST-07).
func TestQUICInFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newSimNet(t, 50*time.Millisecond, "1.0.0.1", "1.0.0.2")
		a, b := hosts[0].transport(), hosts[1].transport()
		la := listen(t, a, "quic://1.0.0.1:9600")
		lb := listen(t, b, "quic://1.0.0.2:9600")
		start := time.Now()
		ch := acceptOne(t, lb)
		conn, err := a.Dial(t.Context(), lb.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 100*time.Millisecond {
			t.Errorf("handshake took %v, want one round trip", d)
		}
		if _, err := conn.Write([]byte("version")); err != nil {
			t.Fatal(err)
		}
		r := <-ch
		if r.err != nil {
			t.Fatal(r.err)
		}
		if r.url != la.Addr() {
			t.Errorf("dialed from %s, want the listening socket", r.url)
		}
		if n := hosts[0].opened.Load(); n != 1 {
			t.Errorf("%d sockets", n)
		}
		got := make([]byte, 7)
		if _, err := io.ReadFull(r.conn, got); err != nil || string(got) != "version" {
			t.Errorf("%q, %v", got, err)
		}
		time.Sleep(3 * time.Hour)
		data := bytes.Repeat([]byte("x"), 300_000)
		var closing sync.WaitGroup
		closing.Go(func() {
			_, _ = conn.Write(data)
			_ = conn.Close()
		})
		if got, err := io.ReadAll(r.conn); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		_ = r.conn.Close()

		// The other way, and the acceptor closes.
		ch = acceptOne(t, la)
		conn, err = b.Dial(t.Context(), la.Addr())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte("v"))
		r = <-ch
		if r.err != nil {
			t.Fatal(r.err)
		}
		closing.Go(func() {
			_, _ = r.conn.Write(data)
			_ = r.conn.Close()
		})
		if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		_ = conn.Close()
		closing.Wait()
		_ = la.Close()
		_ = lb.Close()
	})
}

// A peer that does not answer the closing is given up after 2 s; a host that is
// gone is noticed by the idle timeout, and a dial ends with its context.
func TestQUICSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newSimNet(t, 10*time.Millisecond, "1.0.0.1", "1.0.0.2")
		a, b := hosts[0].transport(), hosts[1].transport()
		lb := listen(t, b, "quic://1.0.0.2:9600")

		ch := acceptOne(t, lb)
		conn, err := a.Dial(t.Context(), lb.Addr())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte("v"))
		r := <-ch // never read, never closed
		start := time.Now()
		_ = conn.Close()
		if d := time.Since(start); d != lingerTime {
			t.Errorf("Close took %v", d)
		}
		if _, err := io.ReadAll(r.conn); err != nil {
			t.Errorf("the peer reads %v, want a clean end", err)
		}
		_ = r.conn.Close()
		_ = lb.Close()
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		a2 := hosts[1].transport() // nobody listens any more on this network
		start = time.Now()
		_, err = a2.Dial(ctx, MustParseURL("quic://1.0.0.1:9600"))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("dial took %v", d)
		}
	})
}

func TestQUICIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newSimNet(t, 10*time.Millisecond, "1.0.0.1", "1.0.0.2")
		a, b := hosts[0].transport(), hosts[1].transport()
		peerSocket := hosts[1].conns["1.0.0.2:9600"]
		lb := listen(t, b, "quic://1.0.0.2:9600")
		ch := acceptOne(t, lb)
		conn, err := a.Dial(t.Context(), lb.Addr())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte("v"))
		r := <-ch
		_, _ = io.ReadFull(r.conn, make([]byte, 1))
		_ = peerSocket.Close() // the host falls off the network
		start := time.Now()
		_, err = conn.Read(make([]byte, 1))
		if ne, ok := errors.AsType[net.Error](err); err == nil || errors.Is(err, io.EOF) || !ok || ne.Timeout() {
			t.Errorf("err = %v, which must be neither an end of stream nor one of our deadlines", err)
		}
		if d := time.Since(start); d < quicIdle/2 || d > 2*quicIdle {
			t.Errorf("noticed after %v", d)
		}
		_ = conn.Close()
		_ = r.conn.Close()
		_ = lb.Close()
	})
}

// The last user of a socket closes it, and a later dial opens a new one.
func TestQUICSocketLife(t *testing.T) {
	tr := DefaultTransports(TransportConfig{})["quic"].(*quicTransport)
	peer := DefaultTransports(TransportConfig{})["quic"]
	l := listen(t, peer, "quic://127.0.0.1:0")
	users := func() (n int) {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		for _, s := range append(tr.dialing[:], tr.listening...) {
			if s != nil {
				n += s.refs
			}
		}
		return n
	}
	for range 2 {
		a, b := pair(t, tr, l)
		c, d := pair(t, tr, l)
		if a.LocalAddr().String() != c.LocalAddr().String() || users() != 2 {
			t.Errorf("two dials from %v and %v, %d users", a.LocalAddr(), c.LocalAddr(), users())
		}
		closeBoth(a, b)
		closeBoth(c, d)
		if users() != 0 {
			t.Errorf("%d users left", users())
		}
	}
	// A listener is dialed from; its closing leaves the connection alone.
	own := listen(t, tr, "quic://127.0.0.1:0")
	a, b := pair(t, tr, l)
	if got := urlOf("quic", a.LocalAddr()); got != own.Addr() {
		t.Errorf("dialed from %s, want %s", got, own.Addr())
	}
	_ = own.Close()
	if users() != 1 {
		t.Errorf("%d users", users())
	}
	if _, err := b.Write([]byte("y")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(a, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	closeBoth(a, b)
	if users() != 0 {
		t.Errorf("%d users left", users())
	}
	// Failed dials leave nothing behind.
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := tr.Dial(ctx, MustParseURL("quic://127.0.0.1:1")); err == nil || users() != 0 {
		t.Error(err, users())
	}
}

// A name with several addresses: the next one is tried, with a share of the time.
func TestQUICTriesEveryAddress(t *testing.T) {
	peer := DefaultTransports(TransportConfig{})["quic"]
	l := listen(t, peer, "quic://127.0.0.1:0")
	tr := DefaultTransports(TransportConfig{
		Resolve: func(_ context.Context, host string) ([]net.IP, error) {
			if host != "peer.example" {
				return nil, errors.New("other name")
			}
			return []net.IP{net.ParseIP("127.0.0.77"), net.ParseIP("127.0.0.1")}, nil
		},
	})["quic"]
	ch := acceptOne(t, l)
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	conn, err := tr.Dial(ctx, MustParseURL("quic://peer.example:"+l.Addr().Port()))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write([]byte("x"))
	r := <-ch
	if r.err != nil {
		t.Fatal(r.err)
	}
	closeBoth(conn, r.conn)
}

// Under a flood of handshakes clients must prove their address, and still get in.
func TestQUICFloodNeedsAddressProof(t *testing.T) {
	tr := DefaultTransports(TransportConfig{})["quic"]
	l := listen(t, tr, "quic://127.0.0.1:0")
	verify := l.(*quicListener).sock.quic.VerifySourceAddress
	for range quicUnprovenBurst {
		verify(nil)
	}
	if !verify(nil) {
		t.Error("one past the burst: no proof asked for")
	}
	a, b := pair(t, DefaultTransports(TransportConfig{})["quic"], l)
	closeBoth(a, b)
}
