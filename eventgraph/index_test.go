package eventgraph

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// indexOf builds an index with the events in the given order.
func indexOf(t testing.TB, p Params, s Slot, events []Event) *index {
	t.Helper()
	genesis := p.GenesisOf(s)
	x := newIndex(genesis.ID(), &genesis.Header, 0)
	for i := range events {
		if !x.add(events[i].ID(), &events[i].Header, true) {
			t.Fatalf("event %d does not fit", i)
		}
	}
	return x
}

// recomputeTips is the definition: bodies that are no parent of a body.
func recomputeTips(genesis Event, events []Event) Tips {
	all := append([]Event{genesis}, events...)
	referenced := map[ID]bool{}
	for _, e := range all {
		for _, p := range e.Parents {
			referenced[p] = true
		}
	}
	t := Tips{}
	for _, e := range all {
		if id := e.ID(); !referenced[id] {
			t[e.Layer] = append(t[e.Layer], id)
		}
	}
	t.sort()
	return t
}

// Checklist 10.2, item 12.
func TestTipsCap(t *testing.T) {
	tips := Tips{1: {{9}, {3}, {5}}, 2: {{1}, {2}}, 7: {{4}}}
	for n, want := range map[int]string{
		0: fmt.Sprint(Tips{}),
		2: fmt.Sprint(Tips{1: {{3}, {5}}}),
		4: fmt.Sprint(Tips{1: {{3}, {5}, {9}}, 2: {{1}}}),
		6: fmt.Sprint(Tips{1: {{3}, {5}, {9}}, 2: {{1}, {2}}, 7: {{4}}}),
		9: fmt.Sprint(Tips{1: {{3}, {5}, {9}}, 2: {{1}, {2}}, 7: {{4}}}),
	} {
		got := tips.Cap(n)
		if fmt.Sprint(got) != want || got.Count() != min(n, 6) {
			t.Errorf("Cap(%d) = %v, want %v", n, got, want)
		}
	}
	if fmt.Sprint(tips[1]) != fmt.Sprint([]ID{{9}, {3}, {5}}) {
		t.Error("Cap changed its receiver")
	}
}

// Checklist 10.2, item 13, and facts page section 7.
func TestAttach(t *testing.T) {
	for _, c := range []struct {
		tips    Tips
		parents [NumParents]ID
		layer   uint64
	}{
		{Tips{0: {{1}}}, [NumParents]ID{{1}}, 1},
		{Tips{3: {{1}}, 5: {{2}}, 4: {{3}}}, [NumParents]ID{{2}, {3}, {1}}, 6},
		{Tips{1: {{1}, {2}, {3}, {4}, {5}, {6}}}, [NumParents]ID{{1}, {2}, {3}, {4}, {5}}, 2},
		{Tips{1: {{1}, {2}, {3}}, 2: {{4}, {5}, {6}}}, [NumParents]ID{{4}, {5}, {6}, {1}, {2}}, 3},
		{Tips{math.MaxUint64: {{7}}, 1: {{1}}}, [NumParents]ID{{7}, {1}}, math.MaxUint64},
		{Tips{}, [NumParents]ID{}, math.MaxUint64},
	} {
		parents, layer := attach(c.tips)
		if parents != c.parents || layer != c.layer {
			t.Errorf("attach(%v) = %v, %d; want %v, %d", c.tips, parents, layer, c.parents, c.layer)
		}
	}
}

// Checklist 10.2, item 14.
func TestTipsExample(t *testing.T) {
	p, s := DarkIRC(), Slot(1740787200000)
	genesis := p.GenesisOf(s)
	e2 := forge(uint64(s)+1, "e2", &genesis)
	e3 := forge(uint64(s)+2, "e3", &e2)
	e4 := forge(uint64(s)+3, "e4", &genesis)
	x := indexOf(t, p, s, []Event{e2, e3, e4})
	if got, want := fmt.Sprint(x.tipMap()), fmt.Sprint(Tips{2: {e3.ID()}, 1: {e4.ID()}}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// Checklist 10.2, item 15; and the other walks against their definitions, on random
// graphs that arrive in random orders.
func TestIndexProperties(t *testing.T) {
	p, s := DarkIRC(), Slot(1740787200000)
	genesis := p.GenesisOf(s)
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		events := dag(r, p, s, rapid.IntRange(0, 60).Draw(rt, "events"))
		// Any order with parents first.
		shuffled := topological(r, events)
		x := indexOf(t, p, s, shuffled)

		if got, want := fmt.Sprint(x.tipMap()), fmt.Sprint(recomputeTips(genesis, events)); got != want {
			rt.Fatalf("tips %v, recomputed %v", got, want)
		}
		// The tips that a new event is put on are the best of all tips.
		wantParents, wantLayer := attach(x.tipMap())
		if parents, layer := attach(x.topTips(NumParents)); parents != wantParents || layer != wantLayer {
			rt.Fatalf("parents %v on layer %d, want %v on %d", parents, layer, wantParents, wantLayer)
		}

		all := append([]Event{genesis}, events...)
		byID := map[ID]*Event{}
		for i := range all {
			byID[all[i].ID()] = &all[i]
		}
		ancestors := map[ID]map[ID]bool{}
		var walk func(ID) map[ID]bool
		walk = func(id ID) map[ID]bool {
			if a := ancestors[id]; a != nil {
				return a
			}
			a := map[ID]bool{}
			ancestors[id] = a
			for _, q := range byID[id].Parents {
				if !q.IsNull() {
					a[q] = true
					for z := range walk(q) {
						a[z] = true
					}
				}
			}
			return a
		}
		for range 40 {
			d, a := all[r.IntN(len(all))].ID(), all[r.IntN(len(all))].ID()
			nd, _ := x.find(&d)
			na, _ := x.find(&a)
			if got, want := x.descends(nd, na), walk(d)[a]; got != want {
				rt.Fatalf("descends(%v, %v) = %v, want %v", d, a, got, want)
			}
		}
		a := all[r.IntN(len(all))].ID()
		na, _ := x.find(&a)
		descendants := x.descendants(na)
		n := 0
		for id := range byID {
			if walk(id)[a] {
				n++
			}
		}
		if len(descendants) != n || !slices.IsSorted(descendants) {
			rt.Fatalf("%d descendants, want %d, parents first", len(descendants), n)
		}
		for _, d := range descendants {
			if !walk(x.ids[d])[a] {
				rt.Fatalf("%v does not descend from %v", x.ids[d], a)
			}
		}

		// HeaderReq: everything but known ids and their ancestors, in (layer, id) order.
		known := Tips{}
		excluded := map[ID]bool{}
		for range r.IntN(4) {
			id := all[r.IntN(len(all))].ID()
			l := uint64(r.IntN(3)) // whatever the peer says of layers
			known[l] = append(known[l], id, ID{0xee})
			for _, ids := range known {
				for _, id := range ids {
					if byID[id] == nil {
						continue
					}
					excluded[id] = true
					for z := range walk(id) {
						excluded[z] = true
					}
				}
			}
		}
		var want []uint32
		for i := range x.ids {
			if !excluded[x.ids[i]] {
				want = append(want, uint32(i))
			}
		}
		slices.SortFunc(want, x.inOrder)
		limit := 1 + r.IntN(70)
		want = want[:min(limit, len(want))]
		if got := x.lowest(x.beyond(known), limit); !slices.Equal(got, want) {
			rt.Fatalf("beyond %v: %v, want %v", known, got, want)
		}

		// Time order, asked for in between as well.
		y := newIndex(genesis.ID(), &genesis.Header, 0)
		for i := range shuffled {
			y.add(shuffled[i].ID(), &shuffled[i].Header, true)
			if r.IntN(5) == 0 {
				y.timeOrder()
			}
		}
		if order := y.timeOrder(); !slices.IsSortedFunc(order, y.cmpTime) || len(order) != len(all) {
			rt.Fatalf("time order of %d entries is not sorted", len(order))
		}
	})
}

// topological is a random order of events with parents first.
func topological(r *rand.Rand, events []Event) []Event {
	left := slices.Clone(events)
	placed := map[ID]bool{}
	in := map[ID]bool{}
	for i := range left {
		in[left[i].ID()] = true
	}
	var out []Event
	for len(left) > 0 {
		r.Shuffle(len(left), func(a, b int) { left[a], left[b] = left[b], left[a] })
		left = slices.DeleteFunc(left, func(e Event) bool {
			for _, p := range e.Parents {
				if in[p] && !placed[p] {
					return false
				}
			}
			placed[e.ID()] = true
			out = append(out, e)
			return true
		})
	}
	return out
}

// Checklist 10.4, items 32 to 35.
func TestTimeIndex(t *testing.T) {
	p, s := DarkIRC(), Slot(1740787200000)
	genesis := p.GenesisOf(s)
	var events []Event
	for i, ts := range []uint64{5, 3, 3, 9, 3} {
		events = append(events, forge(uint64(s)+ts, fmt.Sprint(i), &genesis))
	}
	x := indexOf(t, p, s, events)
	for range 2 {
		all := x.beyondCursor(Cursor{}, false, 100)
		if len(all) != 6 || !slices.IsSortedFunc(all, x.cmpTime) {
			t.Errorf("from the beginning: %v", all)
		}
		down := x.beyondCursor(Newest, true, 100)
		slices.Reverse(down)
		if !slices.Equal(all, down) {
			t.Errorf("backward from the end: %v, want %v reversed", down, all)
		}
		if got := x.beyondCursor(Cursor{}, true, 100); len(got) != 0 {
			t.Errorf("before 0: %v", got)
		}
		if got := x.beyondCursor(Newest, false, 100); len(got) != 0 {
			t.Errorf("after the end of time: %v", got)
		}
		// Exclusive, on the pair: inside the three with one timestamp.
		mid := Cursor{x.entries[all[2]].timestamp, x.ids[all[2]]}
		if got := x.beyondCursor(mid, false, 2); !slices.Equal(got, all[3:5]) {
			t.Errorf("after the third: %v, want %v", got, all[3:5])
		}
		if got := x.beyondCursor(mid, true, 100); !slices.Equal(got, []uint32{all[1], all[0]}) {
			t.Errorf("before the third: %v", got)
		}
		// Again: nothing grows.
		for i := range events {
			x.add(events[i].ID(), &events[i].Header, false)
			x.add(events[i].ID(), &events[i].Header, true)
		}
	}
	if x.len() != 6 || x.bodies != 6 || len(x.byTime) != 6 {
		t.Errorf("%d entries, %d bodies, %d times; want 6", x.len(), x.bodies, len(x.byTime))
	}
}
