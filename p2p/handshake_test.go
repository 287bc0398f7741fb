package p2p

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// withEcho adds the toy protocol to a node's configuration.
func withEcho(e *echo) func(*Config) {
	return func(c *Config) { c.Protocols = []Protocol{e.protocol()} }
}

// Version and verack in either order, and an application message in the same segment
// right behind them: nothing is lost (facts page 3.1, traps 12 and 13).
func TestHandshakeOrders(t *testing.T) {
	for name, parts := range map[string][][]byte{
		"version first": {versionFrame(nil), verackFrame(nil)},
		"verack first":  {verackFrame(nil), versionFrame(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &echo{}
				n := newMemNet()
				node := n.start(t, "5.0.0.1", withEcho(e))
				p := n.dialRaw(t, "5.0.0.2", node.url)
				p.send(parts[0], parts[1], frame("toy::msg", []byte("first")), frame(cmdPing, []byte{1, 2}))
				settle(time.Millisecond)
				if got := e.messages(); !slices.Equal(got, []string{"first"}) {
					t.Errorf("got %q", got)
				}
				if got := p.got(cmdPong); len(got) != 1 || !bytes.Equal(got[0], []byte{1, 2}) {
					t.Errorf("pongs %x", got)
				}
				if len(node.Peers()) != 1 {
					t.Error("not a peer")
				}
				// Second ones are accepted and ignored, also with other contents.
				p.send(versionFrame(func(m *versionMsg) { m.features = []feature{{"x", 1}} }),
					verackFrame(func(m *verackMsg) { m.appName = "other" }))
				p.wantClosed(false)
				if _, ok := node.Peers()[0].Feature("x"); ok {
					t.Error("a second version changed the first")
				}
			})
		})
	}
}

// Both sides speak first.
func TestHandshakeDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		node := n.start(t, "5.0.0.1", func(c *Config) {
			c.Features = map[string]uint32{"event_put_status": 1}
			c.ExternalAddrs = []URL{MustParseURL("tcp://5.0.0.1:9600/?source=upnp")}
		})
		p := n.dialRaw(t, "5.0.0.2", node.url)
		synctest.Wait()
		if got := p.commands(); !slices.Equal(got, []string{cmdVersion}) {
			t.Fatalf("got %v", got)
		}
		v, err := decodeVersion(p.got(cmdVersion)[0])
		if err != nil {
			t.Fatal(err)
		}
		if v.appName != "darkirc" || v.version != (semver{minor: 5, patch: 1}) || v.nodeID != "" ||
			v.timestamp != uint64(time.Now().Unix()) || !v.resolveRecv.IsZero() ||
			v.connectRecv.Host() != "5.0.0.2" || len(v.extSend) != 1 || len(v.features) != 1 {
			t.Errorf("version %+v", v)
		}
		p.send(versionFrame(nil))
		if got := p.commands(); !slices.Equal(got, []string{cmdVersion, cmdVerack}) {
			t.Errorf("got %v", got)
		}
		if len(node.Peers()) != 0 {
			t.Error("a peer before its verack")
		}
	})
}

// Only the verack is compared: equal name, major and minor (facts page 3.3).
func TestVersionComparison(t *testing.T) {
	for name, c := range map[string]struct {
		version func(*versionMsg)
		verack  func(*verackMsg)
		ok      bool
	}{
		"equal":           {nil, nil, true},
		"other patch":     {nil, func(m *verackMsg) { m.version.patch = 99 }, true},
		"pre-release":     {nil, func(m *verackMsg) { m.version.pre = "beta" }, true},
		"other minor":     {nil, func(m *verackMsg) { m.version.minor = 4 }, false},
		"other major":     {nil, func(m *verackMsg) { m.version.major = 1 }, false},
		"other name":      {nil, func(m *verackMsg) { m.appName = "tau" }, false},
		"version ignored": {func(m *versionMsg) { m.appName, m.version.major = "tau", 9 }, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newMemNet()
				url, dialed := n.listenRaw(t, "5.0.0.2")
				node := n.start(t, "5.0.0.1", func(c *Config) { c.OutboundConnections = 1 })
				node.know(white, url, 1)
				in := n.dialRaw(t, "5.0.0.3", node.url)
				node.wakeSlots()
				synctest.Wait()
				out := taken(t, dialed)
				for _, p := range []*rawPeer{in, out} {
					p.send(versionFrame(c.version), verackFrame(c.verack))
					p.wantClosed(!c.ok)
				}
				if node.hosts.blacklisted(MustParseURL("tcp://5.0.0.3:1")) {
					t.Error("an inbound peer was banned")
				}
				if got := node.hosts.blacklisted(url); got == c.ok {
					t.Errorf("slot's peer banned: %v", got)
				}
			})
		})
	}
}

// Silence costs the connection after the handshake timeout, and no ban.
func TestHandshakeTimeout(t *testing.T) {
	for name, parts := range map[string][]byte{
		"silent":       nil,
		"version only": versionFrame(nil),
		"verack only":  verackFrame(nil),
		"half a frame": versionFrame(nil)[:20],
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newMemNet()
				node := n.start(t, "5.0.0.1", nil)
				start := time.Now()
				p := n.dialRaw(t, "5.0.0.2", node.url)
				p.send(parts)
				settle(time.Minute)
				if got := p.closedAt().Sub(start); got != 10*time.Second {
					t.Errorf("closed after %v", got)
				}
				if node.hosts.counts()[black] != 0 {
					t.Error("banned")
				}
			})
		})
	}
}

func TestEarlyMessageCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{}
		n := newMemNet()
		node := n.start(t, "5.0.0.1", withEcho(e))
		p := n.dialRaw(t, "5.0.0.2", node.url)
		p.send(versionFrame(nil), frame("toy::msg", []byte("x")), verackFrame(nil))
		p.wantClosed(true)
		if len(e.messages()) != 0 || node.hosts.counts()[black] != 0 {
			t.Error("handled, or banned")
		}
	})
}

// DS-82: the median of peers' clocks against ours.
func TestClockSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		node := n.start(t, "5.0.0.1", nil)
		if ms, peers := node.ClockSkew(); ms != 0 || peers != 0 {
			t.Errorf("%d ms of %d peers", ms, peers)
		}
		for i, skew := range []int64{25, 30, 1 << 62} { // the last is believed up to the year 9999
			p := n.dialRaw(t, "5.0.1."+string(rune('1'+i)), node.url)
			p.send(versionFrame(func(m *versionMsg) { m.timestamp = uint64(time.Now().Unix() + skew) }), verackFrame(nil))
		}
		settle(time.Second)
		if ms, peers := node.ClockSkew(); ms != 30_500 || peers != 3 {
			t.Errorf("%d ms of %d peers", ms, peers)
		}
	})
	for _, c := range []struct {
		in   []int64
		want int64
	}{{nil, 0}, {[]int64{5}, 5}, {[]int64{9, 1}, 5}, {[]int64{9, 1, 2}, 2}, {[]int64{-4, 2, 4, -2}, 0}} {
		if got := median(c.in); got != c.want {
			t.Errorf("median of %v: %d", c.in, got)
		}
	}
}
