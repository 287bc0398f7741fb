package eventgraph

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"hearsay/internal/kv"
)

// A clock is a wall clock that tests set.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = t
}

func (c *clock) add(d time.Duration) { c.set(c.now().Add(d)) }

// testStart is one minute into a slot of the public network.
var testStart = Slot(1784829600000).Time().Add(time.Minute)

func newClock() *clock { return &clock{t: testStart} }

// open makes a graph on st that is closed with the test.
func open(t testing.TB, st kv.Store, cfg Config) *Graph {
	t.Helper()
	g, err := OpenStore(st, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Error(err)
		}
	})
	return g
}

func memory(t testing.TB, cfg Config) *Graph {
	t.Helper()
	return open(t, kv.OpenMemory(), cfg)
}

// forge makes a valid event on the given parents.
func forge(ts uint64, content string, parents ...*Event) Event {
	e := Event{Header: Header{Timestamp: ts, ContentHash: HashContent([]byte(content))}, Content: []byte(content)}
	for i, p := range parents {
		e.Parents[i] = p.ID()
		e.Layer = max(e.Layer, p.Layer+1)
	}
	return e
}

// chain makes n events, each on the one before, from the slot's genesis.
func chain(p Params, s Slot, n int) []Event {
	last := p.GenesisOf(s)
	list := make([]Event, n)
	for i := range list {
		list[i] = forge(uint64(s)+1+uint64(i), fmt.Sprintf("chain %d", i), &last)
		last = list[i]
	}
	return list
}

// dag makes n events with 1 to 5 random parents each.
func dag(r *rand.Rand, p Params, s Slot, n int) []Event {
	all := []Event{p.GenesisOf(s)}
	for i := range n {
		used := map[int]bool{}
		var parents []*Event
		for range 1 + r.IntN(NumParents) {
			// Mostly recent ones, as in life.
			at := max(0, len(all)-1-r.IntN(8))
			if r.IntN(10) == 0 {
				at = r.IntN(len(all))
			}
			if !used[at] {
				used[at] = true
				parents = append(parents, &all[at])
			}
		}
		e := forge(uint64(s)+1+uint64(r.IntN(1000)), fmt.Sprintf("dag %d", i), parents...)
		// Positions matter for the id only.
		r.Shuffle(NumParents, func(a, b int) { e.Parents[a], e.Parents[b] = e.Parents[b], e.Parents[a] })
		all = append(all, e)
	}
	return all[1:]
}

func ids(events []Event) []ID {
	list := make([]ID, len(events))
	for i := range events {
		list[i] = events[i].ID()
	}
	return list
}

func headersOf(events []Event) []Header {
	list := make([]Header, len(events))
	for i := range events {
		list[i] = events[i].Header
	}
	return list
}

func mustInsert(t testing.TB, g *Graph, s Slot, events ...Event) {
	t.Helper()
	if _, err := g.Insert(t.Context(), s, events, SourceSync); err != nil {
		t.Fatal(err)
	}
}

// checkInvariants verifies the whole store from its records alone, and that memory
// agrees with it.
func checkInvariants(t testing.TB, g *Graph) {
	t.Helper()
	type slotView struct {
		events map[ID]record
		size   map[ID]int
		count  slotCount
	}
	slots := map[Slot]*slotView{}
	view := func(s Slot) *slotView {
		if slots[s] == nil {
			slots[s] = &slotView{events: map[ID]record{}, size: map[ID]int{}}
		}
		return slots[s]
	}
	arrivals := map[Seq]arrivalRow{}
	var m meta
	err := g.store.View(func(r kv.Reader) error {
		var err error
		if m, err = readMeta(r); err != nil {
			return err
		}
		return r.Scan(kv.Scan{}, func(k, v []byte) error {
			switch k[0] {
			case keySlot:
				s, err := parseSlotKey(k)
				if err != nil {
					return err
				}
				view(s).count, err = decodeSlotCount(v)
				return err
			case keyEvent:
				s, _ := parseSlotKey(k[:9])
				id, err := parseEventKey(k)
				if err != nil {
					return err
				}
				rec, err := decodeRecord(v)
				rec.content = nil
				view(s).events[id] = rec
				return err
			case keyArrival:
				q, err := parseSlotKey(k)
				if err != nil {
					return err
				}
				arrivals[Seq(q)], err = decodeArrival(v)
				return err
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	bodies := 0
	for s, v := range slots {
		if v.count.pruning { // its arrivals go with its events
			for id, rec := range v.events {
				if rec.hasBody() && arrivals[rec.arrival].id == id {
					bodies++
				}
			}
			continue
		}
		genesis := g.cfg.GenesisOf(s)
		gid := genesis.ID()
		var want slotCount
		referenced := map[ID]bool{}
		for id, rec := range v.events {
			want.headers++
			if rec.header.ID() != id {
				t.Errorf("slot %v: key %v holds event %v", s, id, rec.header.ID())
			}
			var top uint64
			for _, p := range rec.header.Parents {
				if p.IsNull() {
					continue
				}
				pr, ok := v.events[p]
				if p == gid {
					pr, ok = record{header: genesis.Header, arrival: 1}, true
				}
				if !ok {
					t.Errorf("slot %v: parent %v of %v is not stored", s, p, id)
				}
				if rec.hasBody() && !pr.hasBody() {
					t.Errorf("slot %v: body %v is stored without its parent's body", s, id)
				}
				top = max(top, pr.header.Layer+1)
				if rec.hasBody() {
					referenced[p] = true
				}
			}
			if top != rec.header.Layer {
				t.Errorf("slot %v: layer %d of %v, want %d", s, rec.header.Layer, id, top)
			}
			if !rec.hasBody() {
				want.bytes += HeaderSize
				continue
			}
			bodies++
			want.bodies++
			want.bytes += eventSize(rec.size)
			if a := arrivals[rec.arrival]; a.id != id || a.slot != s {
				t.Errorf("slot %v: arrival %d is not that of %v", s, rec.arrival, id)
			}
			err := g.store.View(func(r kv.Reader) error {
				_, _, ok, err := readEvent(r, s, &id)
				if err == nil && !ok {
					t.Errorf("slot %v: %v does not read back", s, id)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		if want != v.count {
			t.Errorf("slot %v: counters %+v, recount %+v", s, v.count, want)
		}
		tips := Tips{}
		if !referenced[gid] {
			tips[0] = []ID{gid}
		}
		for id, rec := range v.events {
			if rec.hasBody() && !referenced[id] {
				tips[rec.header.Layer] = append(tips[rec.header.Layer], id)
			}
		}
		tips.sort()
		got, err := g.Tips(s)
		if errors.Is(err, ErrNoSlot) {
			continue // outside the window
		}
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(tips) {
			t.Errorf("slot %v: tips %v, recomputed %v", s, got, tips)
		}
	}
	if len(arrivals) != bodies {
		t.Errorf("%d arrivals for %d bodies", len(arrivals), bodies)
	}
	for q := range arrivals {
		if q == 0 || uint64(q) > m.arrival {
			t.Errorf("arrival %d, the last is %d", q, m.arrival)
		}
	}
	if uint64(g.Last()) != m.arrival {
		t.Errorf("Last is %d, stored %d", g.Last(), m.arrival)
	}
}

func TestPublishAndFind(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	e, err := g.Publish(t.Context(), []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	got, slot, err := g.Find(e.ID())
	if err != nil || string(got.Content) != "hello" || slot != g.Current() {
		t.Fatalf("Find: %q in %v, %v", got.Content, slot, err)
	}
	checkInvariants(t, g)
}
