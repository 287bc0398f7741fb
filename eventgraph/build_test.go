package eventgraph

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// An index built at once from events in any order equals one that grew, apart from the
// order of entries on one layer; broken sets are refused (ST-04).
func TestIndexBuilder(t *testing.T) {
	p, s := DarkIRC(), Slot(1740787200000)
	genesis := p.GenesisOf(s)
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 9))
		events := dag(r, p, s, 1+r.IntN(60))
		bodies := 1 + r.IntN(len(events)) // in topological order: the rest is header only
		grown := newIndex(genesis.ID(), &genesis.Header, 0)
		for i := range events {
			if !grown.add(events[i].ID(), &events[i].Header, i < bodies) {
				rt.Fatal("does not fit")
			}
		}
		mixed := r.Perm(len(events))
		build := func(without int, bare int) (*index, error) {
			b := newIndexBuilder(genesis.ID(), &genesis.Header, 0)
			for _, i := range mixed {
				if i != without {
					b.push(events[i].ID(), &events[i].Header, i < bodies && i != bare)
				}
			}
			return b.finish()
		}
		x, err := build(-1, -1)
		if err != nil {
			rt.Fatal(err)
		}
		if !slices.IsSortedFunc(x.ids, func(a, b ID) int {
			na, _ := x.find(&a)
			nb, _ := x.find(&b)
			return x.inOrder(na, nb)
		}) {
			rt.Fatal("not in (layer, id) order")
		}
		if x.len() != grown.len() || x.bodies != grown.bodies || fmt.Sprint(x.tipMap()) != fmt.Sprint(grown.tipMap()) {
			rt.Fatalf("%d entries, %d bodies; want %d and %d", x.len(), x.bodies, grown.len(), grown.bodies)
		}
		if !slices.IsSortedFunc(x.timeOrder(), x.cmpTime) {
			rt.Fatal("not in time order")
		}
		for n, id := range x.ids {
			g, ok := grown.find(&id)
			a, b := x.entries[n], grown.entries[g]
			if at, found := x.find(&id); !ok || !found || int(at) != n || a.layer != b.layer || a.timestamp != b.timestamp || a.body != b.body {
				rt.Fatalf("entry %d: %+v, grown %+v", n, a, b)
			}
			one := HeaderList{x.ids, x.entries, []uint32{uint32(n)}}
			if h := one.Header(0); h.ID() != id || one.ID(0) != id {
				rt.Fatalf("entry %d: its header has another id", n)
			}
			for k := range a.parents {
				if (a.parents[k] == noParent) != (b.parents[k] == noParent) ||
					a.parents[k] != noParent && x.ids[a.parents[k]] != grown.ids[b.parents[k]] {
					rt.Fatalf("entry %d: parents differ", n)
				}
			}
		}
		gone := r.IntN(len(events))
		hasChild := slices.ContainsFunc(events, func(e Event) bool { return slices.Contains(e.Parents[:], events[gone].ID()) })
		if _, err := build(gone, -1); hasChild != errors.Is(err, ErrCorrupt) {
			rt.Fatalf("a lost event (a parent: %v): %v", hasChild, err)
		}
		hasBodyChild := slices.ContainsFunc(events[:bodies], func(e Event) bool { return slices.Contains(e.Parents[:], events[gone].ID()) })
		if _, err := build(-1, gone); hasBodyChild != errors.Is(err, ErrCorrupt) {
			rt.Fatalf("a lost body (a body's parent: %v): %v", hasBodyChild, err)
		}
	})
}
