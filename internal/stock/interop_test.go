package stock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/eventgraph/gossip"
	"hearsay/p2p"
	"hearsay/p2p/p2ptest"
)

// Our node against stock peers, in fake time. Whatever else a test shows, a stock
// peer never strikes, closes or bans us.

// An ours is a node of this project: p2p, graph and gossip.
type ours struct {
	t      *testing.T
	name   string
	node   *p2p.Node
	graph  *eventgraph.Graph
	gossip *gossip.Gossip
	stop   func()
}

type oursConfig struct {
	name     string
	peers    []p2p.URL
	seeds    []p2p.URL
	external []p2p.URL
	skipSync bool
	skew     time.Duration
	slots    int // outbound slots; 0: none
}

// startOurs runs a node until the test ends or its stop is called.
func startOurs(t *testing.T, n *p2ptest.Network, cfg oursConfig) *ours {
	t.Helper()
	now := func() time.Time { return time.Now().Add(cfg.skew) }
	graph, err := eventgraph.OpenMemory(eventgraph.Config{Params: testParams, Window: 48, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gossip.New(gossip.Config{Graph: graph, Now: now, SkipSync: cfg.skipSync})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.slots == 0 {
		cfg.slots = -1
	}
	node, err := p2p.New(p2p.Config{
		Transports: n.Host(cfg.name).Transports("tcp+tls"),
		Inbound:    []p2p.URL{p2p.MustParseURL("tcp+tls://0.0.0.0:9600")},
		Peers:      cfg.peers, Seeds: cfg.seeds, ExternalAddrs: cfg.external,
		OutboundConnections: cfg.slots, Localnet: true,
		Protocols: []p2p.Protocol{g.Protocol()}, Features: g.Features(),
		Now: now, Rand: rand.New(rand.NewPCG(1, uint64(len(cfg.name)))),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, f := range []func(context.Context) error{node.Run, g.Run, graph.Run} {
		wg.Go(func() {
			if err := f(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", cfg.name, err)
			}
		})
	}
	stop := sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		if err := graph.Close(); err != nil {
			t.Errorf("%s: %v", cfg.name, err)
		}
	})
	t.Cleanup(stop)
	return &ours{t, cfg.name, node, graph, g, stop}
}

func (o *ours) publish(content string) eventgraph.Event {
	o.t.Helper()
	e, err := o.graph.Publish(o.t.Context(), []byte(content))
	if err != nil {
		o.t.Errorf("%s: %v", o.name, err)
	}
	return e
}

// all lists the stored events, by id.
func (o *ours) all() map[eventgraph.ID]eventgraph.Event {
	o.t.Helper()
	m := map[eventgraph.ID]eventgraph.Event{}
	for _, slot := range o.graph.Slots() {
		for from := (eventgraph.Cursor{}); ; {
			page, err := o.graph.Page(slot, from, false, 100)
			if err != nil {
				o.t.Fatal(err)
			}
			for _, e := range page.Events {
				m[e.ID()] = e
			}
			if page.Exhausted {
				break
			}
			from = page.Next
		}
	}
	return m
}

func (o *ours) has(e eventgraph.Event) bool {
	_, _, err := o.graph.Find(e.ID())
	return err == nil
}

// harmless fails on everything that costs us something, and on what an unmodified
// node would only take in silence, apart from the rules named: late replies happen.
func harmless(t *testing.T, allowed []Rule, peers ...*Peer) {
	t.Helper()
	for _, p := range peers {
		shown := 0
		for _, v := range p.Violations() {
			if v.Cost == Silent && slices.Contains(allowed, v.Rule) {
				continue
			}
			if shown++; shown <= 5 {
				t.Errorf("%s says: %v", p.cfg.Name, v)
			}
		}
		if p.Strikes() != 0 || len(p.Bans()) != 0 {
			t.Errorf("%s: %d strikes, bans %v", p.cfg.Name, p.Strikes(), p.Bans())
		}
	}
}

// DS-80, both mixed pairs: whoever dials, whoever was first, chat flows both ways and
// nobody is banned.
func TestMixedPair(t *testing.T) {
	for _, c := range []struct{ oursDials, oursFirst bool }{{true, false}, {true, true}, {false, false}, {false, true}} {
		t.Run(fmt.Sprintf("oursDials=%v,oursFirst=%v", c.oursDials, c.oursFirst), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := testNetwork()
				theirs := Config{Name: "10.0.0.1", SkipSync: !c.oursFirst}
				mine := oursConfig{name: "10.0.0.2", skipSync: c.oursFirst}
				if c.oursDials {
					mine.peers = []p2p.URL{addr("10.0.0.1")}
				} else {
					theirs.Peers, theirs.Session = []p2p.URL{addr("10.0.0.2")}, Outbound
				}
				time.Sleep(5 * time.Minute)
				var p *Peer
				var o *ours
				var before eventgraph.Event
				if c.oursFirst {
					o = startOurs(t, n, mine)
					before = o.publish("before")
					time.Sleep(time.Minute)
					p = start(t, n, theirs)
				} else {
					p = start(t, n, theirs)
					before = publish(t, p, "before")
					time.Sleep(time.Minute)
					o = startOurs(t, n, mine)
				}
				time.Sleep(2 * time.Minute)
				if !p.Synced() || !o.gossip.Synced() || p.Conns() != 1 {
					t.Fatalf("synced: %v, %v; %d connections", p.Synced(), o.gossip.Synced(), p.Conns())
				}
				want := []eventgraph.Event{before}
				for i := range 20 {
					want = append(want, o.publish(fmt.Sprint("ours ", i)))
					time.Sleep(2 * time.Second)
					want = append(want, publish(t, p, fmt.Sprint("theirs ", i)))
					time.Sleep(2 * time.Second)
				}
				for i, e := range want {
					if !o.has(e) || !p.Has(e.ID()) {
						t.Errorf("event %d: ours %v, theirs %v", i, o.has(e), p.Has(e.ID()))
					}
				}
				if got := p.Counts(); got.PutsUnsynced != 0 {
					t.Errorf("%+v", got)
				}
				harmless(t, nil, p)
			})
		})
	}
}

// A stock probe (refine) and a stock seed visit succeed, and get no event-graph
// message: the first would make us vanish from its lists, the second costs a ban
// (p2p facts, trap 5).
func TestStockProbesOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testNetwork()
		o := startOurs(t, n, oursConfig{name: "10.0.0.2", skipSync: true})
		p := start(t, n, Config{Name: "10.0.0.1", SkipSync: true})
		for range 20 {
			o.publish("noise")
			if err := p.Dial(t.Context(), addr("10.0.0.2"), Refine); err != nil {
				t.Error(err)
			}
			if err := p.Dial(t.Context(), addr("10.0.0.2"), Seed); err != nil {
				t.Error(err)
			}
			time.Sleep(15 * time.Second)
		}
		harmless(t, nil, p)
	})
}

// Ours dials a stock node as seed, probes what it hears of, and fills a slot.
func TestOursUsesStockSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testNetwork()
		seed := start(t, n, Config{Name: "10.0.0.1", SkipSync: true, Relaxed: true})
		p := start(t, n, Config{
			Name: "10.0.0.3", SkipSync: true, Session: Outbound,
			Peers: []p2p.URL{addr("10.0.0.1")}, External: []p2p.URL{p2p.MustParseURL("tcp+tls://10.0.0.3:9600")},
		})
		time.Sleep(time.Minute)
		o := startOurs(t, n, oursConfig{
			name: "10.0.0.2", seeds: []p2p.URL{addr("10.0.0.1")}, slots: 2,
			external: []p2p.URL{p2p.MustParseURL("tcp+tls://10.0.0.2:9601")},
		})
		e := publish(t, p, "hello")
		time.Sleep(5 * time.Minute)
		if !o.has(e) {
			t.Errorf("ours has not found the node that the seed knows: %v; %+v %v", seed.Known(), o.node.Info(), e.Timestamp)
		}
		if !slices.Contains(seed.Known(), p2p.MustParseURL("tcp+tls://10.0.0.2:9601")) {
			t.Error("ours has not announced itself to the seed")
		}
		harmless(t, nil, seed, p)
	})
}

// Late joiners of both kinds get the history of a mixed network.
func TestLateJoiners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testNetwork()
		p := start(t, n, Config{Name: "10.0.0.1", SkipSync: true})
		o := startOurs(t, n, oursConfig{name: "10.0.0.2", peers: []p2p.URL{addr("10.0.0.1")}})
		time.Sleep(10 * time.Minute)
		var want []eventgraph.Event
		for i := range 40 { // ten hours
			want = append(want, o.publish(fmt.Sprint("ours ", i)), publish(t, p, fmt.Sprint("theirs ", i)))
			time.Sleep(15 * time.Minute)
		}
		lateStock := start(t, n, Config{Name: "10.0.0.3", Peers: []p2p.URL{addr("10.0.0.2")}})
		lateOurs := startOurs(t, n, oursConfig{name: "10.0.0.4", peers: []p2p.URL{addr("10.0.0.1")}})
		time.Sleep(5 * time.Minute)
		if !lateStock.Synced() || !lateOurs.gossip.Synced() {
			t.Error("not synced")
		}
		lacks := map[string]int{}
		for _, e := range want {
			for name, has := range map[string]bool{
				"ours": o.has(e), "stock": p.Has(e.ID()), "late ours": lateOurs.has(e), "late stock": lateStock.Has(e.ID()),
			} {
				if !has {
					lacks[name]++
				}
			}
		}
		if len(lacks) > 0 {
			t.Errorf("of %d events are missing: %v", len(want), lacks)
		}
		harmless(t, nil, p, lateStock)
	})
}

// DS-19, DS-80: a local event is put again and again, for two hours and across the
// rotation, to stock peers with clocks 10 s off either way: no strike.
func TestRetriesNeverStrike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testNetwork()
		var stocks []*Peer
		var urls []p2p.URL
		for i, skew := range []time.Duration{-10 * time.Second, 0, 10 * time.Second} {
			name := fmt.Sprintf("10.0.0.%d", i+1)
			stocks = append(stocks, start(t, n, Config{
				Name: name, SkipSync: true, Now: func() time.Time { return time.Now().Add(skew) },
			}))
			urls = append(urls, addr(name))
		}
		o := startOurs(t, n, oursConfig{name: "10.0.1.1", peers: urls})
		time.Sleep(30 * time.Minute)
		var events []eventgraph.Event
		for i := range 240 { // every 30 s, for two hours
			// Nothing is made around the hour (DS-87).
			if at := time.Now().Minute()*60 + time.Now().Second(); i%20 == 0 && at > 10 && at < 3580 {
				events = append(events, o.publish(fmt.Sprint("head ", i)))
			}
			for _, e := range events {
				o.gossip.Put(t.Context(), e, gossip.PutOptions{})
			}
			time.Sleep(30 * time.Second)
		}
		for _, p := range stocks {
			for i, e := range events {
				if !p.Has(e.ID()) {
					t.Errorf("%s lacks event %d", p.cfg.Name, i)
				}
			}
		}
		harmless(t, nil, stocks...)
	})
}

// A network of both kinds for a day: hourly rotations, clocks up to 10 s apart,
// connections that break, restarts of ours, and traffic from everybody. No stock peer
// ever strikes, closes or bans one of ours, and at the end all of ours hold the same
// events.
func TestMixedNetworkForADay(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	synctest.Test(t, func(t *testing.T) {
		n := p2ptest.New(7, p2ptest.Link{Latency: 30 * time.Millisecond, Jitter: 20 * time.Millisecond, MTBF: 3 * time.Hour})
		random := rand.New(rand.NewPCG(7, 7))
		skews := []time.Duration{-5 * time.Second, 0, 5 * time.Second, 2 * time.Second, -3 * time.Second}
		var stocks []*Peer
		var mine []*ours
		name := func(kind, i int) string { return fmt.Sprintf("10.0.%d.%d", kind, i+1) }
		// A ring of alternating kinds, with a chord each.
		for i := range 4 {
			var peers []p2p.URL
			if i > 0 {
				peers = []p2p.URL{addr(name(1, i-1)), addr(name(0, i-1))}
			}
			stocks = append(stocks, start(t, n, Config{
				Name: name(0, i), SkipSync: true, Peers: peers, Session: Outbound,
				Now: func() time.Time { return time.Now().Add(skews[i]) }, Window: 48, MaxInbound: 64,
			}))
			mine = append(mine, startOurs(t, n, oursConfig{
				name: name(1, i), peers: []p2p.URL{addr(name(0, i)), addr(name(0, (i+1)%4)), addr(name(1, (i+3)%4))},
				skew: skews[i+1],
			}))
		}
		time.Sleep(10 * time.Minute)
		sent := 0
		for time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) < 24*time.Hour {
			time.Sleep(time.Duration(5+random.IntN(55)) * time.Second)
			if at := time.Now().Minute()*60 + time.Now().Second(); at < 20 || at > 3570 {
				continue // DS-87, with our skews
			}
			switch k := random.IntN(8); {
			case k < 4:
				publish(t, stocks[k], fmt.Sprint("stock ", sent))
			case mine[k-4].gossip.Synced():
				mine[k-4].publish(fmt.Sprint("ours ", sent))
			}
			sent++
		}
		time.Sleep(10 * time.Minute)
		want := mine[0].all()
		for _, o := range mine {
			if got := o.all(); len(got) != len(want) {
				t.Errorf("%s has %d events, %s %d", o.name, len(got), mine[0].name, len(want))
			}
		}
		missing := 0
		for id := range want {
			for _, p := range stocks {
				if !p.Has(id) {
					missing++
				}
			}
		}
		t.Logf("%d events sent, %d stored by ours, %d copies missing at 4 stock peers", sent, len(want), missing)
		if len(want) < sent*98/100 {
			t.Errorf("%d of %d events arrived", len(want), sent)
		}
		harmless(t, []Rule{RuleUnsolicited}, stocks...)
	})
}

// Trap 27: events made within seconds of the hour by stock peers whose clocks are
// 10 s apart pass through one of ours. Some may get lost; ours is never to blame.
func TestTrafficAroundTheHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testNetwork()
		var ends []*Peer
		var urls []p2p.URL
		for i, skew := range []time.Duration{-5 * time.Second, 5 * time.Second, 0} {
			name := fmt.Sprintf("10.0.0.%d", i+1)
			ends = append(ends, start(t, n, Config{
				Name: name, SkipSync: true, Now: func() time.Time { return time.Now().Add(skew) },
			}))
			urls = append(urls, addr(name))
		}
		o := startOurs(t, n, oursConfig{name: "10.0.1.1", peers: urls})
		time.Sleep(50 * time.Minute)
		for hour := range 6 {
			for i := range 5 { // some history
				publish(t, ends[i%3], fmt.Sprint("early ", hour, i))
				time.Sleep(10 * time.Second)
			}
			top := time.Now().Truncate(time.Hour).Add(time.Hour)
			time.Sleep(time.Until(top) - 12*time.Second)
			for i := range 24 {
				publish(t, ends[i%3], fmt.Sprint("hour ", hour, i))
				time.Sleep(time.Second)
			}
			time.Sleep(2 * time.Minute)
			publish(t, ends[0], fmt.Sprint("later ", hour))
			time.Sleep(45 * time.Minute)
		}
		if len(o.all()) < 6*20 {
			t.Errorf("only %d events", len(o.all()))
		}
		harmless(t, nil, ends...)
	})
}

// DS-86: three stock sources, each close to what one connection may carry, meet in one
// of ours. It hands on no more than 180 puts a minute, serves the parents that this
// leaves open, and is never struck for what had to wait.
func TestBurstsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testNetwork()
		var sources []*Peer
		var urls []p2p.URL
		for i := range 3 {
			name := fmt.Sprintf("10.0.0.%d", i+1)
			sources = append(sources, start(t, n, Config{Name: name, SkipSync: true}))
			urls = append(urls, addr(name))
		}
		o := startOurs(t, n, oursConfig{name: "10.0.1.1", peers: urls})
		sink := start(t, n, Config{Name: "10.0.0.9", SkipSync: true, Peers: []p2p.URL{addr("10.0.1.1")}})
		time.Sleep(10 * time.Minute)
		for i := range 500 { // five minutes at 100 a minute from each source
			for _, s := range sources {
				publish(t, s, fmt.Sprint("burst ", s.cfg.Name, i))
			}
			time.Sleep(600 * time.Millisecond)
		}
		time.Sleep(10 * time.Minute)
		if got := len(o.all()); got < 1400 {
			t.Errorf("ours has %d of 1500 events", got)
		}
		t.Logf("ours %d, sink %d: %+v", len(o.all()), len(sink.AllEvents()), sink.Counts())
		// One child heals the sink: it fetches what it missed from ours, layer by layer.
		o.publish("after")
		time.Sleep(5 * time.Minute)
		if a, b := len(o.all()), len(sink.AllEvents()); a != b {
			t.Errorf("ours %d, sink %d: %+v", a, b, sink.Counts())
		}
		harmless(t, nil, append(sources, sink)...)
	})
}

// DS-80 over real sockets and their handshakes, in both directions.
func TestMixedPairOverSockets(t *testing.T) {
	for _, listen := range []string{"tcp://127.0.0.1:0", "tcp+tls://127.0.0.1:0", "quic://127.0.0.1:0", "unix://" + t.TempDir() + "/s"} {
		for _, oursDials := range []bool{true, false} {
			url := p2p.MustParseURL(listen)
			t.Run(fmt.Sprintf("%s,oursDials=%v", url.Scheme(), oursDials), func(t *testing.T) {
				pairOverSockets(t, url, oursDials)
			})
		}
	}
}

func pairOverSockets(t *testing.T, url p2p.URL, oursDials bool) {
	params := testParams
	params.Genesis = eventgraph.Slot(time.Now().Truncate(24 * time.Hour).UnixMilli())
	params.Rotation = 0 // the hour may turn
	graph, err := eventgraph.OpenMemory(eventgraph.Config{Params: params})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gossip.New(gossip.Config{Graph: graph, SkipSync: true})
	if err != nil {
		t.Fatal(err)
	}
	scheme := url.Scheme()
	p := New(Config{Name: "stock", Params: params, SkipSync: true, Transport: p2p.DefaultTransports(p2p.TransportConfig{})[scheme]})
	cfg := p2p.Config{
		ActiveProfiles: []string{scheme}, OutboundConnections: -1, Localnet: true,
		Protocols: []p2p.Protocol{g.Protocol()}, Features: g.Features(),
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer func() {
		cancel()
		wg.Wait()
		if err := graph.Close(); err != nil {
			t.Error(err)
		}
	}()
	if oursDials {
		l, err := p.cfg.Transport.Listen(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { _ = p.accept(ctx, l) })
		cfg.Peers = []p2p.URL{l.Addr()}
	} else {
		cfg.Inbound = []p2p.URL{url}
	}
	node, err := p2p.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	wg.Go(func() { _ = node.Run(ctx) })
	wg.Go(func() { _ = g.Run(ctx) })
	if !oursDials {
		<-node.Listening()
		wg.Go(func() { _ = p.Dial(ctx, node.ListenAddrs()[0], Outbound) })
	}
	eventually := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: not in 20 s; %v", what, p.Violations())
			}
		}
	}
	eventually("connection", func() bool { return p.Conns() == 1 && len(node.Peers()) == 1 })
	theirs := publish(t, p, "theirs")
	eventually("their event", func() bool { _, _, err := graph.Find(theirs.ID()); return err == nil })
	eventually("a way back", func() bool { return g.PutTargets() == 1 })
	mine, err := graph.Publish(ctx, []byte("mine"))
	if err != nil {
		t.Fatal(err)
	}
	eventually("our event", func() bool { return p.Has(mine.ID()) })
	harmless(t, nil, p)
}
