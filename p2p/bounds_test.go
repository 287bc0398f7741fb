package p2p

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The limit of live connections per listener, at it and one past it. The one past it
// still gets its handshake, for the sake of probes.
func TestInboundLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		node := n.start(t, "5.0.0.1", func(c *Config) { c.InboundConnections = 3 })
		var peers []*rawPeer
		start := time.Now()
		for i := range 4 {
			p := n.dialRaw(t, fmt.Sprintf("5.0.1.%d", i), node.url)
			p.answerPings()
			p.shake()
			peers = append(peers, p)
		}
		settle(time.Minute)
		for _, p := range peers[:3] {
			p.wantClosed(false)
		}
		if got := peers[3].commands(); !slices.Equal(got, []string{cmdVersion, cmdVerack}) {
			t.Errorf("the one too many got %v", got)
		}
		if got := peers[3].closedAt().Sub(start); got != fullLinger {
			t.Errorf("the one too many was closed after %v", got)
		}
		if len(node.Peers()) != 3 {
			t.Errorf("%d peers", len(node.Peers()))
		}
		peers[0].conn.Close()
		synctest.Wait()
		again := n.dialRaw(t, "5.0.1.9", node.url)
		again.shake()
		settle(5 * time.Second)
		again.wantClosed(false)
	})
}

// Half-open connections take nobody's place: an honest peer comes in through a flood,
// and goroutines stay bounded.
func TestHalfOpenFlood(t *testing.T) {
	for name, host := range map[string]func(i int) string{
		"one host":   func(int) string { return "5.0.2.1" },
		"many hosts": func(i int) string { return fmt.Sprintf("5.0.%d.%d", 2+i/250, i%250) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newMemNet()
				node := n.start(t, "5.0.0.1", func(c *Config) { c.InboundConnections = 4 })
				before := runtime.NumGoroutine()
				for i := range 500 {
					conn, err := n.host(host(i)).Dial(t.Context(), node.url)
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close()
				}
				synctest.Wait()
				if got := runtime.NumGoroutine() - before; got > 4*(4+4+pendingExtra+closingExtra) {
					t.Errorf("%d goroutines", got)
				}
				p := n.dialRaw(t, "5.9.9.9", node.url)
				p.shake()
				settle(5 * time.Second)
				if len(node.Peers()) != 1 {
					t.Errorf("%d peers", len(node.Peers()))
				}
				settle(time.Minute)
				if got := runtime.NumGoroutine(); got > before+10 {
					t.Errorf("%d goroutines left of %d", got, before)
				}
			})
		})
	}
}

// A peer that does not read is dropped: TrySend on a full queue at once, a write
// without progress after the heartbeat interval. Others are not held up.
func TestSlowPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{}
		n := newMemNet()
		node := n.start(t, "5.0.0.1", withEcho(e))
		slow := newMute(t, n, "5.0.0.2", node.url)
		good := n.dialRaw(t, "5.0.0.3", node.url)
		good.shake()
		peers := node.Peers()
		if len(peers) != 2 {
			t.Fatalf("%d peers", len(peers))
		}
		var failed int
		count := func(err error) {
			if err != nil {
				failed++
			}
		}
		sent := 0
		for range 200 {
			if err := peers[1].TrySend(Message{Command: "toy::msg", Payload: []byte("hi")}); err != nil {
				t.Fatal(err)
			}
			err := peers[0].TrySend(Message{Command: "toy::msg", Payload: make([]byte, 16<<10), Written: count})
			if err != nil {
				if !errors.Is(err, ErrSlowPeer) {
					t.Errorf("%v", err)
				}
				break
			}
			sent++
		}
		if sent < 60 || sent > 65 {
			t.Errorf("%d messages of 16 KiB were queued", sent)
		}
		synctest.Wait()
		if cause := context.Cause(peers[0].Context()); !errors.Is(cause, ErrSlowPeer) {
			t.Errorf("cause %v", cause)
		}
		if failed != sent {
			t.Errorf("%d callbacks for %d messages", failed, sent)
		}
		if node.hosts.counts()[black] != 0 {
			t.Error("banned")
		}
		if err := peers[0].TrySend(Message{Command: "toy::msg"}); !errors.Is(err, ErrSlowPeer) {
			t.Errorf("after the end: %v", err)
		}
		if got := len(good.got("toy::msg")); got < sent {
			t.Errorf("the other peer got %d", got)
		}
		if err := peers[1].TrySend(Message{Command: "nobody's"}); !errors.Is(err, ErrUnknownCommand) {
			t.Errorf("unregistered command: %v", err)
		}
		if err := peers[1].Send(t.Context(), Message{Command: cmdPing}); !errors.Is(err, ErrUnknownCommand) {
			t.Errorf("base command: %v", err)
		}
		_ = slow
	})
	synctest.Test(t, func(t *testing.T) { // one message is enough to notice
		n := newMemNet()
		node := n.start(t, "5.0.0.1", withEcho(&echo{}))
		newMute(t, n, "5.0.0.2", node.url)
		p := node.Peers()[0]
		start := time.Now()
		settle(time.Second)
		sendErr := make(chan error, 1)
		go func() { // waits for room until the peer is dropped
			for {
				if err := p.Send(t.Context(), Message{Command: "toy::msg", Payload: make([]byte, 1<<20)}); err != nil {
					sendErr <- err
					return
				}
			}
		}()
		<-p.Context().Done()
		// The ping of the handshake's end is what is not read.
		if d := time.Since(start); !errors.Is(context.Cause(p.Context()), ErrSlowPeer) || d != 30*time.Second {
			t.Errorf("%v after %v", context.Cause(p.Context()), d)
		}
		if err := <-sendErr; !errors.Is(err, ErrSlowPeer) {
			t.Errorf("Send: %v", err)
		}
	})
}

// newMute makes a peer that reads up to our verack and then nothing.
func newMute(t *testing.T, n *memNet, ip string, to URL) net.Conn {
	t.Helper()
	conn, err := n.host(ip).Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() { _, _ = conn.Write(slices.Concat(versionFrame(nil), verackFrame(nil))) }()
	var got []byte
	b := make([]byte, 1)
	for !strings.Contains(string(got), "\x07darkirc") || !strings.Contains(string(got), cmdVerack) ||
		!strings.HasSuffix(string(got), "\x07darkirc") {
		if _, err := conn.Read(b); err != nil {
			t.Fatal(err)
		}
		got = append(got, b[0])
	}
	synctest.Wait()
	return conn
}

// A hundred peers stall inside a large frame and read nothing of what they are sent:
// at most 32 MiB more, and an honest peer is served within poolGrace, both ways.
func TestStalledPeersCostLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{}
		n := newMemNet()
		e.run = func(ctx context.Context, p *Peer) error { // answers everybody with much
			for p.url.Host() != "5.0.3.1" {
				reply := func(int) ([]byte, error) { return make([]byte, 200<<10), nil }
				if err := p.SendLazy(ctx, "toy::msg", 1<<20, reply); err != nil {
					return err
				}
			}
			<-ctx.Done()
			return nil
		}
		e.handle = func(p *Peer, payload []byte) error {
			return p.TrySend(Message{Command: "toy::msg", Payload: payload})
		}
		node := n.start(t, "5.0.0.1", func(c *Config) {
			withEcho(e)(c)
			c.InboundConnections = 128
		})
		debug.FreeOSMemory()
		before := memoryInUse()
		part := append(appendHeader(nil, DarkIRCMagic, "toy::msg", 1<<20), make([]byte, 1<<20-1)...)
		var wg sync.WaitGroup
		defer wg.Wait()
		for i := range 100 {
			conn := newMute(t, n, fmt.Sprintf("5.0.2.%d", i), node.url)
			defer conn.Close()
			wg.Go(func() { _, _ = conn.Write(part) })
		}
		honest := n.dialRaw(t, "5.0.3.1", node.url)
		honest.answerPings()
		honest.shake()
		peak := 0
		for i := range 60 {
			honest.send(frame("toy::msg", make([]byte, 64<<10)))
			settle(time.Second)
			peak = max(peak, memoryInUse()-before)
			if got := len(honest.got("toy::msg")); got < i-2 { // poolGrace late at most
				for _, q := range e.attached {
					if q.url.Host() == "5.0.3.1" {
						t.Logf("cause: %v", context.Cause(q.Context()))
					}
				}
				t.Fatalf("after %d s: %d answers", i+1, got)
			}
			honest.mu.Lock()
			for j := range honest.frames {
				if honest.frames[j].command == "toy::msg" {
					honest.frames[j].payload = nil
				}
			}
			honest.mu.Unlock()
			e.mu.Lock()
			clear(e.got)
			e.mu.Unlock()
		}
		honest.wantClosed(false)
		t.Logf("peak %d KiB", peak>>10)
		if peak > 16<<20 { // garbage may double it before the collector runs
			t.Errorf("%d MiB more in use", peak>>20)
		}
		if len(node.Peers()) != 1 {
			t.Errorf("%d peers left", len(node.Peers()))
		}
	})
}

// memoryInUse is what the heap and the stacks hold, without garbage.
func memoryInUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// ST-07: at the end, what is queued still goes out in whole frames, then the stream
// ends; peers that do not read are cut after the grace; Run returns.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{}
		n := newMemNet()
		node := n.start(t, "5.0.0.1", withEcho(e))
		newMute(t, n, "5.0.0.2", node.url)
		half, err := n.host("5.0.0.3").Dial(t.Context(), node.url) // half-open
		if err != nil {
			t.Fatal(err)
		}
		defer half.Close()
		conn := newMute(t, n, "5.0.0.4", node.url)
		p := node.Peers()[1]
		written := 0
		for range 50 {
			m := Message{Command: "toy::msg", Payload: make([]byte, 20_000), Written: func(err error) {
				if err == nil {
					written++
				}
			}}
			if err := p.TrySend(m); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		node.cancel()
		settle(time.Second)
		if err := p.TrySend(Message{Command: "toy::msg"}); !errors.Is(err, ErrShutdown) {
			t.Errorf("a message after the end: %v", err)
		}
		good := newRawPeer(t, conn) // reads on only now
		node.stop(t)
		if d := time.Since(start); d > closeGrace {
			t.Errorf("stopped after %v", d)
		}
		good.wantClosed(true)
		if got := len(good.got("toy::msg")); got != 50 || written != 50 {
			t.Errorf("%d frames arrived, %d written", got, written)
		}
		if !errors.Is(context.Cause(p.Context()), ErrShutdown) {
			t.Errorf("cause %v", context.Cause(p.Context()))
		}
		if err := node.Run(t.Context()); err == nil {
			t.Error("ran twice")
		}
	})
}

// Close ends between frames: the frame in hand arrives whole, what waits does not.
func TestCloseKeepsFramesWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		node := n.start(t, "5.0.0.1", withEcho(&echo{}))
		conn := newMute(t, n, "5.0.0.2", node.url)
		p := node.Peers()[0]
		for range 3 {
			if err := p.TrySend(Message{Command: "toy::msg", Payload: make([]byte, 100_000)}); err != nil {
				t.Fatal(err)
			}
		}
		raw := newRawPeer(t, conn) // reads on from here
		settle(0)
		_ = raw
		newMute(t, n, "5.0.0.3", node.url)
		q := node.Peers()[1]
		if err := q.TrySend(Message{Command: "toy::msg", Payload: make([]byte, 100_000)}); err != nil {
			t.Fatal(err)
		}
		p.Close(nil)
		raw.wantClosed(true)
		for _, f := range raw.frames {
			if f.command == "toy::msg" && len(f.payload) != 100_000 {
				t.Error("a frame was cut")
			}
		}
		if !errors.Is(context.Cause(p.Context()), ErrDone) {
			t.Errorf("cause %v", context.Cause(p.Context()))
		}
	})
}

// A listener that cannot be opened fails Run at once, and closes the others.
func TestListenFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a := n.start(t, "5.0.0.1", nil)
		free := MustParseURL("tcp://5.0.0.1:9601")
		node, err := New(Config{
			Inbound: []URL{free, a.url}, Transports: map[string]Transport{"tcp": n.host("5.0.0.1")},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := node.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "address in use") {
			t.Errorf("%v", err)
		}
		if n.listeners[free.HostPort()] != nil {
			t.Error("the other listener is open")
		}
		select {
		case <-node.Listening():
			t.Error("listening")
		default:
		}
	})
}
