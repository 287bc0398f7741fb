package p2p

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Our pings: the first at once, the next a heartbeat after the pong, the end after the
// connect timeout without one.
func TestPingSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		node := n.start(t, "5.0.0.1", nil)
		start := time.Now()
		p := n.dialRaw(t, "5.0.0.2", node.url)
		p.shake()
		first := p.got(cmdPing)
		if len(first) != 1 {
			t.Fatalf("%d pings", len(first))
		}
		// Pongs that were not asked for, before and after the one that was: upstream closes.
		p.send(frame(cmdPong, []byte{first[0][0] + 1, 0}))
		settle(5 * time.Second)
		p.send(frame(cmdPong, first[0]), frame(cmdPong, first[0]), frame(cmdPong, []byte{9, 9}))
		p.wantClosed(false)
		settle(30*time.Second - time.Millisecond)
		if got := len(p.got(cmdPing)); got != 1 {
			t.Errorf("%d pings before the heartbeat", got)
		}
		settle(time.Millisecond)
		if got := len(p.got(cmdPing)); got != 2 {
			t.Errorf("%d pings after the heartbeat", got)
		}
		settle(time.Minute)
		if got := p.closedAt().Sub(start); got != (5+30+15)*time.Second {
			t.Errorf("closed after %v", got)
		}
		if node.hosts.counts()[black] != 0 {
			t.Error("banned")
		}
	})
}

// Each ping is answered once; a burst is answered at the network's pace.
func TestPongs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		node := n.start(t, "5.0.0.1", nil)
		p := n.dialRaw(t, "5.0.0.2", node.url)
		p.answerPings()
		p.shake()
		for i := range 6 {
			p.send(frame(cmdPing, []byte{byte(i), 7}))
		}
		if got := len(p.got(cmdPong)); got != 4 {
			t.Errorf("%d pongs at once", got)
		}
		settle(time.Minute)
		for i, pong := range p.got(cmdPong) {
			if !bytes.Equal(pong, []byte{byte(i), 7}) {
				t.Errorf("pong %d: %x", i, pong)
			}
		}
		if got := len(p.got(cmdPong)); got != 6 {
			t.Errorf("%d pongs", got)
		}
		p.wantClosed(false)
	})
}

// A pong that waits behind a long frame of the same peer is not missed.
func TestPongBehindALongFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{}
		n := newMemNet()
		node := n.start(t, "5.0.0.1", withEcho(e))
		p := n.dialRaw(t, "5.0.0.2", node.url)
		p.shake()
		big := frame("toy::msg", make([]byte, 500_000))
		for len(big) > 0 { // 50 s at 10 kB/s
			k := min(len(big), 10_000)
			p.send(big[:k])
			big = big[k:]
			settle(time.Second)
		}
		if len(e.messages()) != 1 {
			t.Error("the frame was lost")
		}
		p.send(frame(cmdPong, p.got(cmdPing)[0]))
		settle(20 * time.Second)
		p.wantClosed(false)
	})
}

// What goes out after the handshake, by session, and what getaddr says.
func TestFirstMessages(t *testing.T) {
	external := MustParseURL("tcp://5.0.0.1:9600/?source=upnp&x")
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		slotURL, slot := n.listenRaw(t, "5.0.0.2")
		manualURL, manual := n.listenRaw(t, "5.0.0.3")
		node := n.start(t, "5.0.0.1", func(c *Config) {
			c.OutboundConnections, c.GetaddrsMax = 1, 5
			c.ExternalAddrs = []URL{external}
			c.Peers = []URL{manualURL}
		})
		node.know(white, slotURL, 1)
		node.wakeSlots()
		in := n.dialRaw(t, "5.0.0.4", node.url)
		synctest.Wait()
		for name, p := range map[string]*rawPeer{"inbound": in, "outbound": taken(t, slot), "manual": taken(t, manual)} {
			p.shake()
			settle(time.Millisecond)
			want := []string{cmdGetaddr, cmdPing, cmdVerack, cmdVersion}
			if name == "outbound" {
				want = append([]string{cmdAddr}, want...)
			}
			got := p.commands()
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v", name, got)
			}
			if m, err := decodeGetaddr(p.got(cmdGetaddr)[0]); err != nil || m.max != 5 || fmt.Sprint(m.transports) != "[tcp]" {
				t.Errorf("%s: getaddr %+v %v", name, m, err)
			}
			if name == "outbound" {
				a, err := decodeAddr(p.got(cmdAddr)[0])
				if err != nil || len(a) != 1 || a[0].url != external.WithoutQuery() || a[0].lastSeen != unix(time.Now()) {
					t.Errorf("announced %v %v", a, err)
				}
				v, _ := decodeVersion(p.got(cmdVersion)[0])
				if v.connectRecv != slotURL || v.resolveRecv != slotURL {
					t.Errorf("dialer's version: %+v", v)
				}
			}
		}
	})
}

// Answers to getaddr, and how much of an addr is taken.
func TestAddressExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		node := n.start(t, "5.0.0.1", func(c *Config) { c.GetaddrsMax = 20 })
		node.know(white, MustParseURL("tcp://6.0.0.1:1"), 77)
		node.know(grey, MustParseURL("tcp://6.0.0.2:1"), 1)
		p := n.dialRaw(t, "5.0.0.2", node.url)
		p.answerPings()
		p.shake()
		p.send(getaddrFrame(8, "tcp"))
		a, err := decodeAddr(p.got(cmdAddr)[0])
		if err != nil || len(a) != 1 || a[0] != (hostEntry{MustParseURL("tcp://6.0.0.1:1"), 77}) {
			t.Errorf("answer %v %v", a, err)
		}
		many := func(net, n int) (urls []string) {
			for i := range n {
				urls = append(urls, fmt.Sprintf("tcp://7.%d.%d.%d:1", net, i>>8, i&255))
			}
			return urls
		}
		before := node.hosts.counts()[grey]
		p.send(addrFrame(many(1, 100)...)) // the answer to our getaddr: twice its 20
		if got := node.hosts.counts()[grey] - before; got != 40 {
			t.Errorf("%d taken of an answer", got)
		}
		before = node.hosts.counts()[grey]
		p.send(addrFrame(many(2, 100)...)) // answers nothing
		if got := node.hosts.counts()[grey] - before; got != unsolicitedAddrs {
			t.Errorf("%d taken of an announcement", got)
		}
		p.wantClosed(false)
		// A burst of questions: answered at the network's pace, the excess not at all.
		for range 15 {
			p.send(getaddrFrame(8, "tcp"))
		}
		settle(2 * time.Minute)
		if got := len(p.got(cmdAddr)); got < 6 || got > 6+getaddrBacklog+1 {
			t.Errorf("%d answers to 16 questions", got)
		}
		p.wantClosed(false)
	})
}

// The visit to a seed, step by step (facts page 4.4 and 4.8), with no feature announced
// (DS-80) and with event-graph messages of a seed that is an ordinary node dropped.
func TestSeedVisit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		seedURL, visits := n.listenRaw(t, "5.0.0.2")
		e := &echo{}
		node := n.start(t, "5.0.0.1", func(c *Config) {
			withEcho(e)(c)
			c.OutboundConnections = 2
			c.Seeds = []URL{seedURL}
			c.ExternalAddrs = []URL{MustParseURL("tcp://5.0.0.1:9600")}
			c.Features = map[string]uint32{"event_put_status": 1}
		})
		synctest.Wait()
		p := taken(t, visits)
		p.shake()
		got := p.commands()
		slices.Sort(got)
		if !slices.Equal(got, []string{cmdAddr, cmdGetaddr, cmdPing, cmdVerack, cmdVersion}) {
			t.Errorf("got %v", got)
		}
		if v, _ := decodeVersion(p.got(cmdVersion)[0]); len(v.features) != 0 {
			t.Error("features announced to a seed")
		}
		if len(node.Peers()) != 0 || len(e.attached) != 0 {
			t.Error("a seed counts as a peer")
		}
		p.send(getaddrFrame(8, "tcp"), frame("toy::msg", []byte("x")), frame("toy::status", make([]byte, 9)))
		p.wantClosed(false)
		if len(p.got(cmdAddr)) != 1 {
			t.Error("a seed's getaddr was answered")
		}
		p.send(addrFrame("tcp://6.0.0.1:1"))
		p.wantClosed(true)
		if node.hosts.where(MustParseURL("tcp://6.0.0.1:1")) == nil {
			t.Error("the seed's address was not taken")
		}
		if node.hosts.blacklisted(seedURL) || node.hosts.where(seedURL) != nil {
			t.Error("the seed is in a list")
		}
		if n.dialed("6.0.0.1:1") == 0 { // slots were woken at once
			t.Error("the new address was not dialed")
		}
	})
}

// A seed that answers pings and nothing else is left.
func TestSilentSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		seedURL, visits := n.listenRaw(t, "5.0.0.2")
		n.start(t, "5.0.0.1", func(c *Config) { c.OutboundConnections, c.Seeds = 1, []URL{seedURL} })
		synctest.Wait()
		start := time.Now()
		p := taken(t, visits)
		p.answerPings()
		p.shake()
		settle(time.Minute)
		if got := p.closedAt().Sub(start); got != 30*time.Second {
			t.Errorf("left after %v", got)
		}
	})
}

// Trap 37: an isolated node visits its seeds with growing, jittered pauses, and starts
// anew once it has met somebody.
func TestSeedBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		seedURL := MustParseURL("tcp://5.0.0.2:9600") // nobody listens
		node := n.start(t, "5.0.0.1", func(c *Config) { c.OutboundConnections, c.Seeds = 1, []URL{seedURL} })
		settle(time.Minute)
		if got := n.dialed("5.0.0.2:9600"); got < 3 || got > 6 {
			t.Errorf("%d visits in the first minute", got)
		}
		settle(time.Hour)
		before := n.dialed("5.0.0.2:9600")
		settle(time.Hour)
		if got := n.dialed("5.0.0.2:9600") - before; got < 6 || got > 24 {
			t.Errorf("%d visits in an hour", got) // 12 at 5 min ± half
		}
		settle(700 * time.Millisecond) // met between two visits, not in the moment of one
		p := n.dialRaw(t, "5.0.0.3", node.url)
		p.shake()
		synctest.Wait() // it is met when both sides have shaken hands
		p.conn.Close()
		before = n.dialed("5.0.0.2:9600")
		settle(time.Minute)
		if got := n.dialed("5.0.0.2:9600") - before; got < 2 {
			t.Errorf("%d visits in the first minute after meeting somebody", got)
		}
	})
}

// The refinery: what answers version and verack turns white, what does not is
// forgotten; the probe says nothing else, and ignores what comes behind the verack.
func TestRefinery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		good, probes := n.listenRaw(t, "5.0.0.2")
		node := n.start(t, "5.0.0.1", func(c *Config) {
			c.Features = map[string]uint32{"x": 1}
			c.TimeWithNoConnections = time.Hour
		})
		node.know(grey, good, 1)
		settle(15 * time.Second)
		p := taken(t, probes)
		p.send(versionFrame(nil), verackFrame(nil), frame("EventGraph::TipReq", []byte{1}))
		settle(closeGrace)
		if got := p.commands(); !slices.Equal(got, []string{cmdVersion, cmdVerack}) {
			t.Errorf("the probe said %v", got)
		}
		if v, _ := decodeVersion(p.got(cmdVersion)[0]); len(v.features) != 0 {
			t.Error("features announced by a probe")
		}
		p.wantClosed(true)
		wantIn(t, node.hosts, good, "white")
		if len(node.Peers()) != 0 {
			t.Error("a probe counts as a peer")
		}

		dead := MustParseURL("tcp://5.0.0.9:9600")
		node.know(grey, dead, 1)
		settle(15 * time.Second)
		wantIn(t, node.hosts, dead)

		silent, probes := n.listenRaw(t, "5.0.0.3")
		node.know(grey, silent, 1)
		settle(15 * time.Second)
		p = taken(t, probes)
		p.send(versionFrame(nil))
		settle(10 * time.Second)
		if d := p.closedAt().Sub(p.frames[0].at); d != refineTimeout {
			t.Errorf("a silent host was left after %v", d)
		}
		wantIn(t, node.hosts, silent)
	})
}

// A refinery without any connection judges nobody, and gives the suspended a new chance.
func TestRefineryPausesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		node := n.start(t, "5.0.0.1", nil)
		settle(31 * time.Second)
		dead := MustParseURL("tcp://5.0.0.9:9600")
		node.hosts.claim(dead)
		node.hosts.failed(dead, time.Now())
		settle(10 * time.Minute)
		wantIn(t, node.hosts, dead, "grey")
		if n.dialed("5.0.0.9:9600") != 0 {
			t.Error("probed")
		}
		if !node.hosts.claim(dead) {
			t.Error("still suspended")
		}
	})
}

// Slots: gold while connected, grey after; unreachable ones are suspended, and a peer
// that leaves at once is not dialed in a tight loop.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a, peersA := n.listenRaw(t, "5.0.0.2")
		dead := MustParseURL("tcp://5.0.0.9:9600")
		node := n.start(t, "5.0.0.1", func(c *Config) { c.OutboundConnections = 3 })
		node.know(white, a, 1)
		node.know(white, dead, 1)
		node.wakeSlots()
		synctest.Wait()
		p := taken(t, peersA)
		p.answerPings()
		p.shake()
		settle(10 * time.Second)
		wantIn(t, node.hosts, a, "gold")
		wantIn(t, node.hosts, dead, "grey")
		if n.dialed("5.0.0.2:9600") != 1 || n.dialed("5.0.0.9:9600") != 1 {
			t.Errorf("dialed %d and %d times", n.dialed("5.0.0.2:9600"), n.dialed("5.0.0.9:9600"))
		}
		info := node.Info()
		filled := slices.DeleteFunc(slices.Clone(info.OutboundSlots), func(id ConnID) bool { return id == 0 })
		if len(filled) != 1 || filled[0] != node.Peers()[0].ID() || info.Connections[0].URL != a ||
			info.Connections[0].Session != SessionOutbound || info.Hosts["gold"] != 1 {
			t.Errorf("info %+v", info)
		}
		p.conn.Close()
		synctest.Wait()
		wantIn(t, node.hosts, a, "grey")
		// It accepts and leaves at once, for an hour.
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case p := <-peersA:
					_, _ = p.conn.Write(slices.Concat(versionFrame(nil), verackFrame(nil)))
					time.Sleep(100 * time.Millisecond)
					p.conn.Close()
				case <-stop:
					return
				}
			}
		}()
		settle(time.Hour)
		close(stop)
		if got := n.dialed("5.0.0.2:9600"); got < 50 || got > 600 { // three slots at a minute each, and probes
			t.Errorf("dialed %d times in an hour", got)
		}
	})
}

// Discovery: with peers, getaddr goes to them; seeds only after two empty rounds.
func TestDiscoveryAsksPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		seedURL := MustParseURL("tcp://5.0.0.9:9600")
		node := n.start(t, "5.0.0.1", func(c *Config) { c.OutboundConnections, c.Seeds = 1, []URL{seedURL} })
		p := n.dialRaw(t, "5.0.0.2", node.url)
		p.answerPings()
		p.shake()
		settle(6 * time.Second)
		seeds := n.dialed("5.0.0.9:9600")
		if got := len(p.got(cmdGetaddr)); got != 2 {
			t.Errorf("%d getaddr", got)
		}
		settle(10 * time.Minute)
		asked := len(p.got(cmdGetaddr))
		if asked < 50 || asked > 100 { // two rounds of 10 s in 15 s
			t.Errorf("%d getaddr in ten minutes", asked)
		}
		if n.dialed("5.0.0.9:9600") == seeds {
			t.Error("no seed asked although peers know nothing")
		}
		p.wantClosed(false)
		// An address that comes in is dialed at once.
		p.send(addrFrame("tcp://5.0.0.8:9600"))
		synctest.Wait()
		if n.dialed("5.0.0.8:9600") != 1 {
			t.Error("a new address was not dialed")
		}
	})
}

// Manual peers: redialed a connect timeout after the end, colours untouched.
func TestManual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a, peers := n.listenRaw(t, "5.0.0.2")
		node := n.start(t, "5.0.0.1", func(c *Config) { c.Peers = []URL{a} })
		synctest.Wait()
		p := taken(t, peers)
		p.shake()
		synctest.Wait()
		if len(node.Peers()) != 1 || node.Peers()[0].Session() != SessionManual {
			t.Fatal("not connected")
		}
		wantIn(t, node.hosts, a)
		p.conn.Close()
		settle(15*time.Second - time.Millisecond)
		if len(peers) != 0 {
			t.Error("redialed early")
		}
		settle(time.Millisecond)
		if len(peers) != 1 {
			t.Error("not redialed")
		}
		wantIn(t, node.hosts, a)
	})
	synctest.Test(t, func(t *testing.T) { // a peer that is also a seed is left alone
		n := newMemNet()
		a := MustParseURL("tcp://5.0.0.2:9600")
		n.start(t, "5.0.0.1", func(c *Config) { c.Peers, c.Seeds = []URL{a}, []URL{a} })
		settle(time.Minute)
		if n.dialed("5.0.0.2:9600") != 0 {
			t.Error("dialed")
		}
	})
}

func TestDirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		b := n.start(t, "5.0.0.2", nil)
		seed, own := MustParseURL("tcp://5.0.0.8:1"), MustParseURL("tcp://5.0.0.1:9600")
		a := n.start(t, "5.0.0.1", func(c *Config) { c.Seeds, c.ExternalAddrs = []URL{seed}, []URL{own} })
		p, release, err := a.Direct(t.Context(), b.url)
		if err != nil || p.Session() != SessionDirect {
			t.Fatalf("%v", err)
		}
		again, release2, err := a.Direct(t.Context(), b.url)
		if err != nil || again != p {
			t.Fatalf("not shared: %v", err)
		}
		wantIn(t, a.hosts, b.url, "gold")
		release()
		release() // twice is once
		settle(time.Second)
		if p.Context().Err() != nil {
			t.Error("closed although in use")
		}
		release2()
		settle(time.Second)
		if len(a.Peers()) != 0 || len(b.Peers()) != 0 {
			t.Error("open although released")
		}
		wantIn(t, a.hosts, b.url, "grey")
		for _, u := range []URL{seed, own} {
			if _, _, err := a.Direct(t.Context(), u); !errors.Is(err, ErrRefused) {
				t.Errorf("%v", err)
			}
		}
		if _, _, err := a.Direct(t.Context(), MustParseURL("quic://5.0.0.2:1")); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%v", err)
		}
		if _, _, err := a.Direct(t.Context(), MustParseURL("tcp://5.0.0.9:1")); !errors.Is(err, errRefusedByNet) {
			t.Errorf("%v", err)
		}
		a.hosts.ban(b.url, false, time.Now())
		if _, _, err := a.Direct(t.Context(), b.url); !errors.Is(err, ErrBlacklisted) {
			t.Errorf("%v", err)
		}
		a.stop(t)
		if _, _, err := a.Direct(t.Context(), b.url); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%v", err)
		}
	})
}

// Mixed transports: the table of routes (facts page 6.5).
func TestRoutes(t *testing.T) {
	all := make(map[string]Transport)
	for _, s := range []string{"tcp", "tcp+tls", "tor", "tor+tls", "socks5", "socks5+tls", "quic"} {
		all[s] = newMemNet().host("5.0.0.1")
	}
	for _, c := range []struct {
		active, mixed string
		url           string
		want          string
	}{
		{"tcp", "", "tcp://h:1", "tcp://h:1/"},
		{"tcp", "", "tcp+tls://h:1", ""},
		{"tor", "tcp", "tcp://h:1", "tor://h:1/"},
		{"tor tor+tls", "tcp tcp+tls", "tcp+tls://h:1", "tor+tls://h:1/"},
		{"tor", "tcp+tls", "tcp+tls://h:1", ""},
		{"tcp tor", "tcp", "tcp://h:1", "tor://h:1/"}, // replaces the direct route
		{"socks5", "tcp", "tcp://h:1", "socks5://127.0.0.1:9050/h:1 socks5://127.0.0.1:1080/h:1"},
		{"tor socks5", "tcp", "tcp://h:1", "tor://h:1/ socks5://127.0.0.1:9050/h:1 socks5://127.0.0.1:1080/h:1"},
		{"socks5+tls", "tcp+tls tor+tls", "tor+tls://h.onion:1", "socks5+tls://127.0.0.1:9050/h.onion:1"},
		{"socks5", "tor", "tor://h.onion:1", "socks5://127.0.0.1:9050/h.onion:1"},
		{"socks5", "tcp", "tcp://[2606:4700::1]:1", ""},
		{"nym", "", "nym://h:1", ""}, // no transport
	} {
		n, err := New(Config{
			Transports: all, ActiveProfiles: strings.Fields(c.active), MixedProfiles: strings.Fields(c.mixed),
			TorProxy: MustParseURL("socks5://127.0.0.1:9050"), NymProxy: MustParseURL("socks5://127.0.0.1:1080"),
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range n.connector.routes(MustParseURL(c.url)) {
			got = append(got, r.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("active %s, mixed %s, %s: %v", c.active, c.mixed, c.url, got)
		}
	}
	n, err := New(Config{Transports: all, ActiveProfiles: []string{"tor", "quic"}, MixedProfiles: []string{"tcp"}})
	if err != nil {
		t.Fatal(err)
	}
	// Bans know the canonical address: no route leads around one.
	banned := MustParseURL("tcp://5.5.5.5:1")
	n.hosts.ban(banned, false, time.Now())
	if _, _, err := n.connector.dial(t.Context(), banned); !errors.Is(err, ErrBlacklisted) {
		t.Errorf("%v", err)
	}
	if got := n.connector.shareable(); !slices.Equal(got, []string{"tor", "tcp", "quic"}) {
		t.Errorf("shareable %v", got)
	}
}
