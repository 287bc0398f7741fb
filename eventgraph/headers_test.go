package eventgraph

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Checklist 10.5, item 50.
func TestHeadersOfAnUnknownSlot(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	old := g.Slots()[0] - 3_600_000
	if err := g.InsertHeaders(old, headersOf(chain(g.Params(), old, 1))); !errors.Is(err, ErrNoSlot) {
		t.Errorf("%v, want ErrNoSlot", err)
	}
	if _, err := g.HeadersBeyond(old, nil, 10); !errors.Is(err, ErrNoSlot) {
		t.Errorf("%v, want ErrNoSlot", err)
	}
}

// Checklist 10.4, item 35; 10.6, items 54, 55 and 65: headers come first, bodies later,
// and everything agrees in between and after.
func TestHeadersThenBodies(t *testing.T) {
	c := newClock()
	rapid.Check(t, func(rt *rapid.T) {
		g := memory(t, Config{Now: c.now})
		s := g.Current()
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 5))
		events := topological(r, dag(r, g.Params(), s, 30))
		headers := headersOf(events)
		r.Shuffle(len(headers), func(a, b int) { headers[a], headers[b] = headers[b], headers[a] })
		for range 2 {
			if err := g.InsertHeaders(s, append(headers, headers[0])); err != nil {
				rt.Fatal(err)
			}
			if n := g.Stats().HeaderOnly; n != uint64(len(events)) {
				rt.Fatalf("%d headers, want %d", n, len(events))
			}
			checkInvariants(t, g)
		}
		k := r.IntN(len(events))
		for _, e := range events[:k] {
			if g.HasBody(s, e.ID()) || !g.HasHeader(s, e.ID()) {
				rt.Fatal("a header must be known, and its body not")
			}
			mustInsert(t, g, s, e)
		}
		checkInvariants(t, g)
		list, err := g.Missing(s, 1000)
		if err != nil {
			rt.Fatal(err)
		}
		missing := list.All()
		want := headersOf(events[k:])
		slices.SortFunc(want, func(a, b Header) int {
			if a.Layer != b.Layer {
				return int(a.Layer) - int(b.Layer)
			}
			return compareID(a.ID(), b.ID())
		})
		if !slices.Equal(missing, want) {
			rt.Fatalf("missing %d headers, want %d in (layer, id) order", len(missing), len(want))
		}
		if some, err := g.Missing(s, 3); err != nil || !slices.Equal(some.All(), want[:min(3, len(want))]) {
			rt.Fatalf("Missing(3): %v, %v", some, err)
		}
		if k%2 == 0 { // forget what nobody served
			if err := g.DropHeaders(s); err != nil {
				rt.Fatal(err)
			}
			if g.Stats().HeaderOnly != 0 {
				rt.Fatal("headers are left")
			}
			checkInvariants(t, g)
		}
		mustInsert(t, g, s, events...)
		checkInvariants(t, g)
		if n := g.Stats(); n.HeaderOnly != 0 || n.Events != uint64(len(events)) {
			rt.Fatalf("%+v", n)
		}
	})
}

// A child whose parent is known by header only is not stored (trap 18), and says why.
func TestHeaderOnlyParent(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	s := g.Current()
	events := chain(g.Params(), s, 3)
	if err := g.InsertHeaders(s, headersOf(events[:2])); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Insert(t.Context(), s, events[2:], SourcePut); !errors.Is(err, ErrNoParent) {
		t.Errorf("%v, want ErrNoParent", err)
	}
	missing, err := g.MissingParents(s, &events[2].Header)
	if err != nil || !slices.Equal(missing, ids(events[1:2])) {
		t.Errorf("MissingParents: %v, %v", missing, err)
	}
	// The header alone is fine.
	if err := g.InsertHeaders(s, headersOf(events[2:])); err != nil {
		t.Error(err)
	}
	checkInvariants(t, g)
}

// MaxHeaderOnly bounds the headers without a body, at it and one past it.
func TestHeadersFull(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	s := g.Current()
	events := chain(g.Params(), s, MaxHeaderOnly+1)
	if err := g.InsertHeaders(s, headersOf(events)); !errors.Is(err, ErrHeadersFull) {
		t.Fatalf("one past the bound: %v, want ErrHeadersFull", err)
	}
	if n := g.Stats().HeaderOnly; n != 0 {
		t.Fatalf("%d headers were stored", n)
	}
	if err := g.InsertHeaders(s, headersOf(events[:MaxHeaderOnly])); err != nil {
		t.Fatalf("at the bound: %v", err)
	}
	last := headersOf(events[MaxHeaderOnly:])
	if err := g.InsertHeaders(s, last); !errors.Is(err, ErrHeadersFull) {
		t.Fatalf("one past the bound: %v, want ErrHeadersFull", err)
	}
	mustInsert(t, g, s, events[0]) // a body makes room
	if err := g.InsertHeaders(s, last); err != nil {
		t.Fatalf("after a body came: %v", err)
	}
	if err := g.DropHeaders(s); err != nil {
		t.Fatal(err)
	}
	if st := g.Stats(); st.HeaderOnly != 0 || st.Events != 1 {
		t.Errorf("after DropHeaders: %+v", st)
	}
	checkInvariants(t, g)
}

// Checklist 10.5, items 51 and 52: at most 4096, lower layers first, the genesis at the
// start of an answer to an empty map, and a second page goes on where the first ended.
func TestHeadersBeyondPages(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	s := g.Current()
	events := chain(g.Params(), s, MaxHeaders+100)
	mustInsert(t, g, s, events...)
	list, err := g.HeadersBeyond(s, Tips{}, 1<<20)
	page := list.All()
	if err != nil || len(page) != MaxHeaders || page[0] != g.Params().GenesisOf(s).Header {
		t.Fatalf("%d headers, first %+v, %v", len(page), page[0], err)
	}
	if !slices.IsSortedFunc(page, func(a, b Header) int { return int(a.Layer) - int(b.Layer) }) {
		t.Error("not ordered by layer")
	}
	last := page[len(page)-1]
	rest, err := g.HeadersBeyond(s, Tips{last.Layer: {last.ID()}}, MaxHeaders)
	if err != nil || rest.Len() != 101 || rest.Header(0) != events[MaxHeaders-1].Header {
		t.Fatalf("the next page has %d headers, %v", rest.Len(), err)
	}
	tips, err := g.Tips(s)
	if err != nil {
		t.Fatal(err)
	}
	g.unload(g.slots[s])
	if rest, err = g.HeadersBeyond(s, tips, MaxHeaders); err != nil || rest.Len() != 0 {
		t.Errorf("beyond our own tips: %d, %v", rest.Len(), err)
	}
	if g.slots[s].hasIndex() {
		t.Error("nodes in step must not need the index of an old slot")
	}
}
