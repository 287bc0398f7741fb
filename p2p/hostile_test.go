package p2p

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// hostileCase runs one stream of the hostile vectors against a node, on a connection
// that the peer dialed and on one that a slot dialed.
func hostileCase(t *testing.T, c map[string]string, policy BanPolicy) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		url, dialed := n.listenRaw(t, "5.0.0.2")
		node := n.start(t, "5.0.0.1", func(c *Config) {
			c.OutboundConnections = 1
			c.BanPolicy = policy
		})
		node.know(white, url, 1)
		in := n.dialRaw(t, "5.0.0.3", node.url)
		node.wakeSlots()
		synctest.Wait()
		out := taken(t, dialed)
		in.shake()
		out.shake()
		if len(node.Peers()) != 2 {
			t.Fatalf("%d peers", len(node.Peers()))
		}
		for side, p := range map[string]*rawPeer{"inbound": in, "outbound": out} {
			p.send(unhex(t, c["hex"]))
			if c["eof"] != "" {
				p.wantClosed(false)
				p.conn.Close()
			}
			p.wantClosed(true)
			addr := url
			if side == "inbound" {
				addr = MustParseURL("tcp://5.0.0.3:1")
			}
			want := c[side] == "ban" && policy == BanStrict
			if c[side] != "ban" && c[side] != "close" {
				t.Fatalf("no outcome for %s", side)
			}
			if got := node.hosts.blacklisted(addr); got != want {
				t.Errorf("%s: banned %v, want %v", side, got, want)
			}
		}
	})
}

func TestHostileStreams(t *testing.T) {
	for _, c := range vectorCases(t, "p2p-hostile.txt") {
		t.Run(c["case"], func(t *testing.T) { hostileCase(t, c, BanStrict) })
		t.Run(c["case"]+"/relaxed", func(t *testing.T) { hostileCase(t, c, BanRelaxed) })
	}
}

// The 29th base message within ten seconds costs the address; 28 do not, and nor do
// any number of application messages.
func TestMeteringBan(t *testing.T) {
	for extra := range 2 {
		synctest.Test(t, func(t *testing.T) {
			n := newMemNet()
			node := n.start(t, "5.0.0.1", withEcho(&echo{}))
			p := n.dialRaw(t, "5.0.0.2", node.url)
			p.shake() // two
			for range 26 + extra {
				p.send(frame(cmdPing, []byte{1, 1}))
			}
			for range 500 {
				p.send(frame("toy::msg", nil))
			}
			p.wantClosed(extra == 1)
			if got := node.hosts.blacklisted(MustParseURL("tcp://5.0.0.2:1")); got != (extra == 1) {
				t.Errorf("%d extra: banned %v", extra, got)
			}
		})
	}
}

// DS-03: a payload in the skip range is dropped, the next message is handled; a longer
// one closes without a ban.
func TestSkipRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{}
		n := newMemNet()
		node := n.start(t, "5.0.0.1", withEcho(e))
		p := n.dialRaw(t, "5.0.0.2", node.url)
		p.shake()
		p.send(frame("toy::status", make([]byte, 34)), frame("toy::status", make([]byte, 35)),
			frame("toy::status", make([]byte, 1024)), frame("toy::msg", []byte("next")))
		p.wantClosed(false)
		e.mu.Lock()
		if len(e.got) != 2 || e.got[1] != "next" || fmt.Sprint(e.skipped) != "[35 1024]" {
			t.Errorf("%d handled, skipped %v", len(e.got), e.skipped)
		}
		e.mu.Unlock()
		p.send(frame("toy::status", make([]byte, 1025)))
		p.wantClosed(true)
		if node.hosts.counts()[black] != 0 {
			t.Error("banned")
		}
	})
}

// What a handler returns is what a message costs.
func TestHandlerFaults(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		err    error
		policy BanPolicy
		closes bool
		bans   bool
	}{
		"nil":           {nil, BanStrict, false, false},
		"error":         {boom, BanStrict, true, false},
		"close":         {&Fault{Err: boom}, BanStrict, true, false},
		"ban":           {&Fault{Ban: true, Err: boom}, BanStrict, true, true},
		"ban, relaxed":  {&Fault{Ban: true, Err: boom}, BanRelaxed, true, false},
		"ban by force":  {&Fault{Ban: true, Force: true, Err: boom}, BanRelaxed, true, true},
		"wrapped fault": {fmt.Errorf("outer: %w", &Fault{Ban: true, Err: boom}), BanStrict, true, true},
	} {
		for _, where := range []string{"Handle", "Run"} {
			t.Run(name+" from "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := &echo{}
					got := make(chan struct{}, 1)
					e.handle = func(*Peer, []byte) error {
						if where == "Run" {
							got <- struct{}{}
							return nil
						}
						return c.err
					}
					if where == "Run" {
						e.run = func(ctx context.Context, _ *Peer) error {
							select {
							case <-got:
								return c.err
							case <-ctx.Done():
								return nil
							}
						}
					}
					n := newMemNet()
					node := n.start(t, "5.0.0.1", func(cfg *Config) {
						withEcho(e)(cfg)
						cfg.BanPolicy = c.policy
					})
					p := n.dialRaw(t, "5.0.0.2", node.url)
					p.shake()
					p.send(frame("toy::msg", nil))
					p.wantClosed(c.closes)
					if node.hosts.blacklisted(MustParseURL("tcp://5.0.0.2:1")) != c.bans {
						t.Errorf("banned: %v", !c.bans)
					}
					if c.closes {
						if cause := e.attached[0].Context().Err(); cause == nil {
							t.Error("the connection's context lives")
						}
					}
				})
			})
		}
	}
}

// A banned host is refused before anything is said; its other schemes are not, and
// nobody else is.
func TestBannedHostIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		node := n.start(t, "5.0.0.1", nil)
		p := n.dialRaw(t, "5.0.0.2", node.url)
		p.shake()
		p.send(frame("foo", nil))
		p.wantClosed(true)
		again := n.dialRaw(t, "5.0.0.2", node.url)
		again.wantClosed(true)
		if len(again.commands()) != 0 {
			t.Errorf("a banned host got %v", again.commands())
		}
		other := n.dialRaw(t, "5.0.0.3", node.url)
		other.shake()
		other.wantClosed(false)
		if s := node.Stats(); s.Bans != 1 || s.Faults != 1 || s.Refused != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// A peer that stalls inside a frame is dropped, in its handshake and after it.
func TestStalledInsideAFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		node := n.start(t, "5.0.0.1", withEcho(&echo{}))
		p := n.dialRaw(t, "5.0.0.2", node.url)
		p.answerPings()
		p.shake()
		settle(2 * time.Second)
		start := time.Now()
		p.send(appendHeader(nil, DarkIRCMagic, "toy::msg", 1000), []byte("part"))
		settle(5 * time.Minute)
		// The heartbeat interval for the frame, and the payload's bytes at frameMinRate.
		want := 30*time.Second + 1000*time.Second/frameMinRate
		if got := p.closedAt().Sub(start); got != want {
			t.Errorf("closed after %v, want %v", got, want)
		}
		if node.hosts.counts()[black] != 0 {
			t.Error("banned")
		}
	})
}
