package eventgraph

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"hearsay/internal/kv"
)

// A Graph is the store of events and the rules about them. It does no network
// I/O and knows of no peer.
type Graph struct {
	cfg   Config
	store kv.Store

	mu    sync.Mutex // guards slots; held for moments, never during store calls
	slots map[Slot]*slotState

	turns  turns  // in-memory effects of commits happen in commit order
	feed   feed   // subscribers
	pipe   pipe   // receipts
	static static // the static graph

	onCommit []func(Arrival) // fixed before use
	indexed  atomic.Int64    // entries of all loaded indexes
}

// Open opens or creates the graph in dir, which only its owner may read. It reads
// the headers of at most 150,000 of the newest events; older ones are read when
// they are asked for. Records that do not decode are ErrCorrupt, a store of another
// network is ErrConfig, and an invalid cfg is ErrConfig before anything is created.
func Open(dir string, cfg Config) (*Graph, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	st, err := kv.Open(kv.Options{Dir: dir, Kind: Kind, Schema: Schema, Sync: !cfg.NoSync, Logger: cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("eventgraph: open: %w", err)
	}
	g, err := newGraph(st, cfg)
	if err != nil {
		_ = st.Close() // the first error says more
		return nil, err
	}
	return g, nil
}

// OpenMemory makes a graph that is lost with the process.
func OpenMemory(cfg Config) (*Graph, error) {
	return OpenStore(kv.OpenMemory(), cfg)
}

// OpenStore makes a graph on a store that the caller opened as [Kind] and [Schema]
// (cfg.NoSync says nothing then): for stores that share a disk, a memory store that
// outlives a simulated restart, or one that fails on purpose. The Graph closes it,
// unless OpenStore fails.
func OpenStore(st kv.Store, cfg Config) (*Graph, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return newGraph(st, cfg)
}

func newGraph(st kv.Store, cfg Config) (*Graph, error) {
	g := &Graph{cfg: cfg, store: st, slots: map[Slot]*slotState{}}
	g.feed.init()
	if err := g.initStore(); err != nil {
		return nil, fmt.Errorf("eventgraph: open: %w", err)
	}
	if err := g.loadAll(); err != nil {
		return nil, fmt.Errorf("eventgraph: open: %w", err)
	}
	return g, nil
}

// initStore writes or checks the version row and reads the counters.
func (g *Graph) initStore() error {
	var m meta
	fresh := false
	err := g.store.View(func(r kv.Reader) (err error) {
		fresh, err = g.checkVersion(r)
		if err != nil || fresh {
			return err
		}
		if m, err = readMeta(r); err != nil {
			return err
		}
		return r.Scan(kv.Scan{Prefix: []byte{keySlot}}, func(k, v []byte) error {
			s, err := parseSlotKey(k)
			if err != nil {
				return err
			}
			c, err := decodeSlotCount(v)
			if err != nil {
				return err
			}
			st := g.newState(s)
			st.count = c
			st.dropped.Store(c.pruning)
			g.slots[s] = st
			return nil
		})
	})
	if err != nil {
		return err
	}
	g.turns.init(m)
	if fresh {
		return g.store.Update(OpInit, func(tx kv.Txn) error {
			if err := tx.Set(versionKey, g.versionRow()); err != nil {
				return err
			}
			return tx.Set(metaKey, meta{}.encode())
		})
	}
	return nil
}

// loadAll indexes retained slots from the newest to the oldest as far as memory is
// allowed, which also verifies their records.
func (g *Graph) loadAll() error {
	room := int64(maxIndexed)
	for _, st := range g.retained() {
		if !st.stored() {
			continue
		}
		if room -= int64(st.counts().headers); room < 0 && st.slot != g.Current() {
			break
		}
		if err := g.load(st); err != nil {
			return err
		}
	}
	return g.loadStatic()
}

// Run prunes expired slots, drops idle indexes and maintains the store until ctx
// ends. It returns early only with an error after which the process should end: the
// store failed.
func (g *Graph) Run(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	if st, ok := g.store.(interface{ Run(context.Context) error }); ok {
		tasks.Go(func() error { return st.Run(ctx) })
	}
	tasks.Go(func() error { return g.housekeeping(ctx) })
	return tasks.Wait()
}

func (g *Graph) housekeeping(ctx context.Context) error {
	tick := time.NewTicker(runInterval)
	defer tick.Stop()
	var p pruner
	for {
		if err := p.step(ctx, g, time.Now()); err != nil {
			return err
		}
		g.dropIdle(time.Now())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-g.turns.dead:
			return g.turns.cause()
		case <-tick.C:
		}
	}
}

// Close closes the store. No other call may be under way; sequences of Subscribe end.
func (g *Graph) Close() error {
	g.turns.fail(ErrClosed)
	if err := g.store.Close(); err != nil {
		return fmt.Errorf("eventgraph: close: %w", err)
	}
	return nil
}

// A Stats is what the graph holds.
type Stats struct {
	Slots       int    // slots that hold events
	Events      uint64 // with a body, geneses excluded
	HeaderOnly  uint64
	EventBytes  uint64 // encoded events
	Static      int    // static events, genesis excluded
	StaticBytes int
	StoreBytes  int64 // on disk, roughly
	Indexed     int64 // events indexed in memory
	Arrived     Seq   // the last arrival
	Tips        int   // of the current slot
}

// Stats reads counters; it is cheap.
func (g *Graph) Stats() Stats {
	var s Stats
	for _, st := range g.retained() {
		c := st.counts()
		if c.headers == 0 {
			continue
		}
		s.Slots++
		s.Events += c.bodies
		s.HeaderOnly += c.headers - c.bodies
		s.EventBytes += c.bytes
	}
	if st, err := g.state(g.Current()); err == nil {
		s.Tips = st.tipCount()
	}
	s.Static, s.StaticBytes = g.static.counts()
	s.StoreBytes = g.store.Size()
	s.Indexed = g.indexed.Load()
	s.Arrived = g.Last()
	return s
}

// SlotStats is what one slot holds: events with a body and headers without one,
// the genesis excluded. Zero for a slot that is not retained.
func (g *Graph) SlotStats(slot Slot) (events, headerOnly uint64) {
	st, err := g.state(slot)
	if err != nil {
		return 0, 0
	}
	c := st.counts()
	return c.bodies, c.headers - c.bodies
}
