package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/eventgraph/gossip"
	"hearsay/internal/kv"
	"hearsay/internal/stock"
	"hearsay/p2p"
	"hearsay/p2p/p2ptest"
)

// Params is the simulated network: DarkIRC's, but born when bubbles are.
var Params = eventgraph.Params{
	Genesis: 946684800000, Contents: []byte("sim-v1"), Rotation: time.Hour, Drift: time.Minute,
}

// Window is how many slots the nodes keep.
const Window = 24

// A Config says what to simulate.
type Config struct {
	// Seed decides everything that is drawn.
	Seed uint64
	// Nodes is the number of our nodes, Stock that of stock peers.
	Nodes, Stock int
	// Duration is how long things happen and go wrong.
	Duration time.Duration
	// Rest is how long the healed network has to agree.
	Rest time.Duration
	// Skew is the most that a clock is off, either way.
	Skew time.Duration
	// Gap is the mean time between two events of the network.
	Gap time.Duration
	// Trouble is the mean time between two troubles: a crash, a restart, an absence, a
	// partition, a broken link, a clock that is set. 0: none.
	Trouble time.Duration
	// MTBF is the mean lifetime of a connection. 0: for ever.
	MTBF time.Duration
	// Heartbeat and TipInterval are the nodes' settings. They are what a long simulation
	// spends its time on.
	Heartbeat, TipInterval time.Duration
}

// A World is a network under way.
type World struct {
	t      testing.TB
	cfg    Config
	random *rand.Rand
	net    *p2ptest.Network
	nodes  []*Node
	stocks []*stockPeer

	published map[eventgraph.ID]eventgraph.Slot
	log       []string // the last things that happened
	counts    map[string]int
}

// A Node is one of ours. Its store outlives its runs.
type Node struct {
	w     *World
	name  string
	host  *p2ptest.Host
	peers []p2p.URL

	mu   sync.Mutex // guards skew, which the node's goroutines read
	skew time.Duration

	store  *kv.Mem
	away   time.Time // not to be started before; zero while it runs
	graph  *eventgraph.Graph
	gossip *gossip.Gossip
	p2p    *p2p.Node
	cancel context.CancelFunc
	dying  atomic.Bool // crashed: how its parts end says nothing
	wg     sync.WaitGroup
	past   gossip.Stats // of earlier runs: strikes and bans only
	bans   uint64
}

type stockPeer struct {
	*stock.Peer
	name string
}

const port = 9600

func addr(name string) p2p.URL { return p2p.MustParseURL(fmt.Sprintf("tcp+tls://%s:%d", name, port)) }

// New makes the network and starts all of it.
func New(t testing.TB, cfg Config) *World {
	w := &World{
		t: t, cfg: cfg,
		random:    rand.New(rand.NewPCG(cfg.Seed, 0x73696d)), //nolint:gosec // replayable on purpose
		published: map[eventgraph.ID]eventgraph.Slot{},
		counts:    map[string]int{},
	}
	w.net = p2ptest.New(cfg.Seed, p2ptest.Link{Latency: 30 * time.Millisecond, Jitter: 40 * time.Millisecond, MTBF: cfg.MTBF})
	var names []string
	for i := range cfg.Nodes {
		names = append(names, fmt.Sprintf("10.1.%d.%d", i/250, i%250+1))
	}
	for i := range cfg.Stock {
		names = append(names, fmt.Sprintf("10.2.0.%d", i+1))
	}
	// A ring of ours keeps them in one piece: what a stock peer has missed while it was
	// connected it never asks for, so nothing is sure to get through one. A ring of all,
	// and chords, mix everybody.
	dials := make([][]p2p.URL, len(names))
	total := len(names)
	places := w.random.Perm(total)
	for i := range names {
		dial := map[int]bool{}
		if i < cfg.Nodes {
			dial[(i+1)%cfg.Nodes] = true
		}
		dial[places[(slices.Index(places, i)+1)%total]] = true
		dial[w.random.IntN(total)] = true
		delete(dial, i)
		for _, j := range slices.Sorted(maps.Keys(dial)) {
			dials[i] = append(dials[i], addr(names[j]))
		}
	}
	for i, name := range names {
		if i >= cfg.Nodes {
			w.addStock(name, dials[i])
			continue
		}
		n := &Node{w: w, name: name, host: w.net.Host(name), peers: dials[i], store: kv.OpenMemory()}
		n.skew = w.drawSkew()
		w.nodes = append(w.nodes, n)
	}
	for _, n := range w.nodes {
		n.start()
	}
	return w
}

func (w *World) drawSkew() time.Duration {
	if w.cfg.Skew == 0 {
		return 0
	}
	return time.Duration(w.random.Int64N(int64(2*w.cfg.Skew))) - w.cfg.Skew
}

func (w *World) addStock(name string, peers []p2p.URL) {
	skew := w.drawSkew()
	cfg := stock.Config{
		Name: name, Params: Params, Transport: w.net.Host(name).Transport(), Listen: []p2p.URL{addr(name)},
		Peers: peers, Session: stock.Outbound, SkipSync: true, Window: Window, MaxInbound: 64,
		Heartbeat: w.cfg.Heartbeat, Seed: w.random.Uint64(),
		Now: func() time.Time { return time.Now().Add(skew) },
	}
	w.stocks = append(w.stocks, &stockPeer{stock.New(cfg), name})
}

// note keeps what happened for the report of a failure.
func (w *World) note(format string, args ...any) {
	w.log = append(w.log, time.Now().UTC().Format("Jan 02 15:04:05 ")+fmt.Sprintf(format, args...))
	if len(w.log) > 200 {
		w.log = w.log[1:]
	}
}

// Now is the node's wall clock.
func (n *Node) Now() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Now().Add(n.skew)
}

func (n *Node) setSkew(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.skew = d
}

func (n *Node) up() bool { return n.cancel != nil }

// start runs the node on its store.
func (n *Node) start() {
	w := n.w
	graph, err := eventgraph.OpenStore(n.store, eventgraph.Config{Params: Params, Window: Window, Now: n.Now})
	if err != nil {
		w.t.Fatalf("%s: %v", n.name, err)
	}
	g, err := gossip.New(gossip.Config{Graph: graph, Now: n.Now, TipInterval: w.cfg.TipInterval})
	if err != nil {
		w.t.Fatalf("%s: %v", n.name, err)
	}
	node, err := p2p.New(p2p.Config{
		Transports: n.host.Transports("tcp+tls"),
		Inbound:    []p2p.URL{p2p.MustParseURL(fmt.Sprintf("tcp+tls://0.0.0.0:%d", port))},
		Peers:      n.peers, OutboundConnections: -1, InboundConnections: 64, Localnet: true,
		Profiles:  map[string]p2p.Profile{"tcp+tls": {Heartbeat: w.cfg.Heartbeat}},
		Protocols: []p2p.Protocol{g.Protocol()}, Features: g.Features(),
		Now: n.Now, Rand: rand.New(rand.NewPCG(w.cfg.Seed, w.random.Uint64())), //nolint:gosec // replayable
	})
	if err != nil {
		w.t.Fatalf("%s: %v", n.name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.graph, n.gossip, n.p2p, n.cancel = graph, g, node, cancel
	n.away = time.Time{}
	n.dying.Store(false)
	for _, run := range []func(context.Context) error{node.Run, g.Run, graph.Run} {
		n.wg.Go(func() {
			if err := run(ctx); !errors.Is(err, context.Canceled) && !n.dying.Load() {
				w.t.Errorf("%s: %v", n.name, err)
			}
		})
	}
}

// stop ends the node; crash means that its peers are not told.
func (n *Node) stop(crash bool) {
	n.dying.Store(crash)
	if crash {
		n.host.Crash()
	}
	n.cancel()
	n.wg.Wait()
	s := n.gossip.Stats()
	n.past.Strikes += s.Strikes
	n.past.FloodBans += s.FloodBans
	n.bans += n.p2p.Stats().Bans
	if err := n.graph.Close(); err != nil {
		n.w.t.Errorf("%s: %v", n.name, err)
	}
	n.store = n.store.Reopen()
	n.cancel = nil
}

// Close ends everything.
func (w *World) Close() {
	for _, n := range w.nodes {
		if n.up() {
			n.stop(false)
		}
	}
}
