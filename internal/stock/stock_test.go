package stock

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
	"hearsay/p2p/p2ptest"
)

// Fake time starts on 2000-01-01, on the hour.
var testParams = eventgraph.Params{
	Genesis: 946684800000 - 48*3600_000, Contents: []byte("darkirc-v1"), Rotation: time.Hour, Drift: time.Minute,
}

const testLatency = 20 * time.Millisecond

func testNetwork() *p2ptest.Network {
	return p2ptest.New(1, p2ptest.Link{Latency: testLatency})
}

func addr(host string) p2p.URL { return p2p.MustParseURL("tcp+tls://" + host + ":9600") }

// start runs a peer on the host of its name until the test ends. Without Listen it
// listens on port 9600.
func start(t *testing.T, n *p2ptest.Network, cfg Config) *Peer {
	t.Helper()
	cfg.Transport = n.Host(cfg.Name).Transport()
	cfg.Params = testParams
	if cfg.Listen == nil {
		cfg.Listen = []p2p.URL{p2p.MustParseURL("tcp+tls://0.0.0.0:9600")}
	}
	p := New(cfg)
	run(t, p.Run)
	return p
}

func run(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func clean(t *testing.T, peers ...*Peer) {
	t.Helper()
	for _, p := range peers {
		for i, v := range p.Violations() {
			if i == 10 {
				t.Errorf("%s says more", p.cfg.Name)
				break
			}
			t.Errorf("%s says: %v", p.cfg.Name, v)
		}
		if p.Strikes() != 0 || len(p.Bans()) != 0 {
			t.Errorf("%s: %d strikes, bans %v", p.cfg.Name, p.Strikes(), p.Bans())
		}
	}
}

func contents(es []eventgraph.Event) (s []string) {
	for _, e := range es {
		s = append(s, string(e.Content))
	}
	return s
}

func publish(t *testing.T, p *Peer, content string) eventgraph.Event {
	t.Helper()
	e, err := p.Publish([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Two stock peers: the first one skips the sync, the second follows it; then chat
// flows both ways, and neither has anything to say against the other.
func TestTwoStockPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testNetwork()
		a := start(t, n, Config{Name: "10.0.0.1", SkipSync: true})
		time.Sleep(10 * time.Minute)
		publish(t, a, "before")
		b := start(t, n, Config{Name: "10.0.0.2", Peers: []p2p.URL{addr("10.0.0.1")}})
		time.Sleep(time.Minute)
		if !b.Synced() || a.Conns() != 1 || b.Conns() != 1 {
			t.Fatal(b.Synced(), a.Conns(), b.Conns())
		}
		publish(t, a, "one")
		time.Sleep(time.Second)
		publish(t, b, "two")
		time.Sleep(time.Second)
		want := []string{"before", "one", "two"}
		for _, p := range []*Peer{a, b} {
			if got := contents(p.Events(p.Current())); !slices.Equal(got, want) {
				t.Errorf("%s has %q", p.cfg.Name, got)
			}
		}
		clean(t, a, b)
	})
}

// A line of five for a day: everything arrives everywhere, over rotations, and a
// peer that was away for hours catches up.
func TestStockLineForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testNetwork()
		peers := []*Peer{start(t, n, Config{Name: "10.0.0.1", SkipSync: true, Window: 48})}
		for i := 2; i <= 5; i++ {
			peers = append(peers, start(t, n, Config{
				Name: fmt.Sprintf("10.0.0.%d", i), Peers: []p2p.URL{addr(fmt.Sprintf("10.0.0.%d", i-1))}, Window: 48, Session: Outbound,
			}))
		}
		time.Sleep(time.Hour) // each waits out its unsynced neighbour, slot by slot
		for i, p := range peers {
			if !p.Synced() {
				t.Errorf("peer %d is not synced", i)
			}
		}
		time.Sleep(5 * time.Minute) // not on the hour: see trap 27
		sent := map[eventgraph.ID]bool{}
		for i := range 24 * 4 {
			e := publish(t, peers[i%5], fmt.Sprint("message ", i))
			sent[e.ID()] = true
			time.Sleep(15 * time.Minute)
		}
		for _, p := range peers {
			if all := p.AllEvents(); len(all) != len(sent) {
				t.Errorf("%s has %d of %d events", p.cfg.Name, len(all), len(sent))
			}
			if got := len(p.graph.slots); got != 48 {
				t.Errorf("%d slots", got)
			}
		}
		clean(t, peers...)
		last := peers[4]
		late := start(t, n, Config{Name: "10.0.0.9", Peers: []p2p.URL{addr("10.0.0.5"), addr("10.0.0.1")}})
		time.Sleep(3 * time.Minute)
		mine := late.AllEvents()
		for i := range mine {
			if _, ok := last.AllEvents()[i]; !ok {
				t.Error("an event out of nowhere")
			}
		}
		if !late.Synced() || len(mine) < 4*23 {
			t.Errorf("late joiner: synced %v, %d events", late.Synced(), len(mine))
		}
		clean(t, peers...)
		clean(t, late)
	})
}

// Unsynced peers answer nothing, so a network of nothing else never comes alive
// (eventgraph 6.7); losing the last peer makes a peer unsynced.
func TestUnsyncedSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testNetwork()
		a := start(t, n, Config{Name: "10.0.0.1"})
		b := start(t, n, Config{Name: "10.0.0.2", Peers: []p2p.URL{addr("10.0.0.1")}})
		time.Sleep(time.Hour)
		if a.Synced() || b.Synced() || b.Counts().SyncFailures == 0 {
			t.Error(a.Synced(), b.Synced(), b.Counts())
		}
		c := start(t, n, Config{Name: "10.0.0.3", SkipSync: true, Peers: []p2p.URL{addr("10.0.0.2")}})
		time.Sleep(10 * time.Minute)
		if !b.Synced() || !a.Synced() {
			t.Error("one synced peer must wake the others up")
		}
		n.Host("10.0.0.3").Drop()
		n.Host("10.0.0.2").Drop()
		time.Sleep(10 * time.Millisecond)
		if a.Synced() {
			t.Error("a peer without peers must not be synced")
		}
		_ = c
		clean(t, a, b, c)
	})
}

// Static events spread live and by sync, in both cases uninterpreted.
func TestStaticEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testNetwork()
		a := start(t, n, Config{Name: "10.0.0.1", SkipSync: true})
		b := start(t, n, Config{Name: "10.0.0.2", SkipSync: true, Peers: []p2p.URL{addr("10.0.0.1")}})
		time.Sleep(time.Minute)
		g := genesisEvent(testParams, uint64(testParams.Genesis))
		e := event{Header: eventgraph.Header{Timestamp: 1, Layer: 1, ContentHash: eventgraph.HashContent([]byte("s"))}, Content: []byte("s")}
		e.Parents[3] = g.ID()
		a.mu.Lock()
		a.graph.static[e.ID()] = e
		a.mu.Unlock()
		a.broadcast(cmdStaticPut, encodePut(&e), nil)
		time.Sleep(time.Minute)
		c := start(t, n, Config{Name: "10.0.0.3", Peers: []p2p.URL{addr("10.0.0.2")}})
		time.Sleep(time.Minute)
		for _, p := range []*Peer{a, b, c} {
			if got := contents(p.Static()); !slices.Equal(got, []string{"s"}) {
				t.Errorf("%s has %q", p.cfg.Name, got)
			}
		}
		clean(t, a, b, c)
	})
}

// Addresses: announced by an outbound dialer, stored, passed on, quic excepted.
func TestAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testNetwork()
		a := start(t, n, Config{Name: "10.0.0.1", SkipSync: true})
		own, quic := addr("10.0.0.2"), p2p.MustParseURL("quic://10.0.0.2:9600")
		b := start(t, n, Config{
			Name: "10.0.0.2", SkipSync: true, Session: Outbound,
			Peers: []p2p.URL{addr("10.0.0.1")}, External: []p2p.URL{own, quic},
		})
		time.Sleep(time.Minute)
		if got := a.Known(); !slices.Contains(got, own) || !slices.Contains(got, quic) {
			t.Errorf("%v", got)
		}
		c := start(t, n, Config{Name: "10.0.0.3", SkipSync: true})
		if err := c.Dial(t.Context(), addr("10.0.0.1"), Seed); err != nil {
			t.Error(err)
		}
		if got := c.Known(); !slices.Equal(got, []p2p.URL{own}) {
			t.Errorf("%v: quic is not shareable", got)
		}
		if err := c.Dial(t.Context(), addr("10.0.0.1"), Refine); err != nil {
			t.Error(err)
		}
		if c.Conns() != 0 {
			t.Error("seed and refine connections are no peers")
		}
		clean(t, a, b, c)
	})
}
