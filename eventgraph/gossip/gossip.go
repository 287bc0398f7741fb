package gossip

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// A Gossip keeps one graph in step with all peers. Its Protocol is given to the p2p
// node; Run runs beside it.
type Gossip struct {
	cfg      Config
	graph    graph
	params   eventgraph.Params
	commands map[string]command // never changed

	plans     *plans
	revealed  revealSet
	stage     *stage
	fetches   chan struct{} // a token per fetch of ancestors
	exchanges chan struct{} // a token per exchange of headers and bodies
	building  chan struct{} // a token per answer that is being made
	puts      *budget       // bytes of puts that wait or are in work
	relays    *budget       // bytes of events that wait to be relayed
	stats     counters

	mu     sync.Mutex
	peers  map[p2p.ConnID]*conn
	list   atomic.Pointer[[]*conn] // of peers; replaced, never changed
	onTips []func(conn eventgraph.Conn, capable bool, slot eventgraph.Slot, ids []eventgraph.ID)
}

// New makes a Gossip. It registers itself with the graph, so it must come before the
// graph is used, and starts nothing.
func New(cfg Config) (*Gossip, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.Graph == nil {
		return nil, errNoGraph
	}
	return newGossip(cfg, cfg.Graph), nil
}

func newGossip(cfg Config, store graph) *Gossip {
	g := &Gossip{
		cfg: cfg, graph: store, params: store.Params(),
		commands:  make(map[string]command),
		fetches:   make(chan struct{}, maxFetches),
		exchanges: make(chan struct{}, maxExchanges),
		building:  make(chan struct{}, maxBuilding),
		puts:      newBudget(maxPutBytes),
		relays:    newBudget(maxRelayPool),
		peers:     make(map[p2p.ConnID]*conn),
	}
	g.stage = &stage{g: g, puts: make(map[eventgraph.ID]*staged)}
	for _, c := range commands(cfg.MaxContent, !cfg.NoStatus) {
		g.commands[c.name] = c
	}
	g.list.Store(new([]*conn))
	p := newPlan(g.params, cfg.RequestTimeout, cfg.TipInterval, cfg.SkipSync)
	p.rotate(time.Now(), store.Current(), g.history())
	g.plans = newPlans(p)
	store.OnCommit(g.committed)
	return g
}

// Protocol is what the p2p node attaches to its connections. The node must announce
// [FeatureStatus] on the sessions of the protocol's mask, and on no other, unless
// Config.NoStatus is set.
func (g *Gossip) Protocol() p2p.Protocol {
	p := p2p.Protocol{
		Name:   "eventgraph",
		Mask:   p2p.SessionDefault,
		Attach: func(p *p2p.Peer) p2p.Handler { return g.newConn(p) },
	}
	for _, c := range commands(g.cfg.MaxContent, !g.cfg.NoStatus) {
		p.Commands = append(p.Commands, p2p.Command{Name: c.name, MaxPayload: max(1, c.max), Skip: c.skip})
	}
	return p
}

// Features is what to announce beside the Protocol.
func (g *Gossip) Features() map[string]uint32 {
	if g.cfg.NoStatus {
		return nil
	}
	return map[string]uint32{FeatureStatus: FeatureStatusVersion}
}

// maxRotationPoll is how often the clock is looked at: it may jump (suspend).
const maxRotationPoll = 10 * time.Second

// Run follows the slots of the clock and opens the gate, until ctx ends. Connections
// run under the p2p node.
func (g *Gossip) Run(ctx context.Context) error {
	was := g.Synced()
	for {
		g.plans.rotate(g.graph.Current(), g.history())
		synced, wait, changed := g.plans.gate()
		if synced != was {
			was = synced
			g.cfg.Logger.Info("sync state changed", "synced", synced)
		}
		poll := maxRotationPoll
		if next, ok := g.params.Next(g.cfg.Now()); ok {
			poll = min(poll, max(next.Time().Sub(g.cfg.Now()), time.Millisecond))
		}
		for again := true; again; {
			timer := time.NewTimer(sooner(poll, wait))
			select {
			case <-changed:
				// Only the gate is looked at again; the slots wait for the timer.
				synced, wait, changed = g.plans.gate()
				if synced != was {
					was = synced
					g.cfg.Logger.Info("sync state changed", "synced", synced)
				}
			case <-timer.C:
				again = false
			case <-ctx.Done():
			}
			timer.Stop()
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
}

// history lists the wanted slots before the current one, newest first.
func (g *Gossip) history() []eventgraph.Slot {
	slots, current := g.graph.Slots(), g.graph.Current()
	slots = slices.DeleteFunc(slots, func(s eventgraph.Slot) bool { return s >= current })
	slices.Reverse(slots)
	return slots[:min(len(slots), g.cfg.SyncSlots-1)]
}

// Synced tells whether the current slot holds what the peers have (decision 0032):
// events may be made, and puts are accepted.
func (g *Gossip) Synced() bool { return g.plans.synced.Load() }

// Changed returns a channel that is closed when Synced or Progress may have changed
// since the call. Read them after the call, then wait.
func (g *Gossip) Changed() <-chan struct{} {
	g.plans.mu.Lock()
	defer g.plans.mu.Unlock()
	return g.plans.changed
}

// WaitSynced returns nil once Synced is true, or ctx's error.
func (g *Gossip) WaitSynced(ctx context.Context) error {
	for {
		changed := g.Changed()
		if g.Synced() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Progress is how many of the wanted slots were compared with a peer, or lived
// through.
func (g *Gossip) Progress() (done, total int) { return g.plans.count() }

// OnTips registers fn, called with the tips that a peer lists for a slot in an
// ordinary comparison (DS-65), on that connection's goroutine. capable says whether
// the peer can answer puts. It must not block. Register before Run.
func (g *Gossip) OnTips(fn func(conn eventgraph.Conn, capable bool, slot eventgraph.Slot, ids []eventgraph.ID)) {
	g.onTips = append(g.onTips, fn)
}

func (g *Gossip) observeTips(c *conn, slot eventgraph.Slot, ids []eventgraph.ID) {
	for _, fn := range g.onTips {
		fn(eventgraph.Conn(c.id), c.capable.Load(), slot, ids)
	}
}

// committed is called by the graph for each arrival, in order. It does not block.
// Events go out from here, so that they leave in the order of commits.
func (g *Gossip) committed(a eventgraph.Arrival) {
	g.revealed.addParents(g.graph.Current(), &a.Event.Header)
	switch {
	case a.Source == eventgraph.SourceLocal && !g.cfg.ManualPut:
		g.broadcast(newArticle(&a.Event, a.Event.ID()), 0, true)
	case a.Source == eventgraph.SourcePut:
		id := a.Event.ID()
		if c := g.stage.from(id); c != nil {
			c.relay(&a.Event, id, a.Slot)
		}
	}
}

func (g *Gossip) add(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.peers[c.id] = c
	g.relist()
}

func (g *Gossip) remove(c *conn) {
	c.running.Store(false)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.peers, c.id)
	g.relist()
}

// relist replaces the list. mu is held.
func (g *Gossip) relist() {
	list := make([]*conn, 0, len(g.peers))
	for _, c := range g.peers {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *conn) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	g.list.Store(&list)
}

// conns are the running connections, in the order in which they came.
func (g *Gossip) conns() []*conn { return *g.list.Load() }

func (g *Gossip) kick(id p2p.ConnID, slot eventgraph.Slot) { g.plans.kick(id, slot) }

func (g *Gossip) slotSynced(s eventgraph.Slot) bool {
	// A slot that is not wanted is not synced by anybody, and not kept either: too old.
	if slices.Contains(g.graph.Slots(), s) {
		return g.plans.slotSynced(s)
	}
	return true
}

// slotOf is the slot that a timestamp lies in.
func (g *Gossip) slotOf(ts uint64) eventgraph.Slot {
	return g.params.SlotAt(eventgraph.Slot(ts).Time())
}

func (g *Gossip) genesisID(s eventgraph.Slot) eventgraph.ID {
	e := g.params.GenesisOf(s)
	return e.ID()
}

// headersOnly tells whether only headers of a slot are fetched (Config.FastMode).
func (g *Gossip) headersOnly(s eventgraph.Slot) bool {
	return g.cfg.FastMode && s != g.graph.Current()
}
