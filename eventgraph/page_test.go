package eventgraph

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Checklist 10.4, items 36, 38, 41 and 42: pages of any size, in either direction, over
// events that share timestamps and headers without a body, list every stored event
// once, in time order, and end exhausted.
func TestPageProperties(t *testing.T) {
	c := newClock()
	rapid.Check(t, func(rt *rapid.T) {
		g := memory(t, Config{Now: c.now})
		s := g.Current()
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 6))
		events := dag(r, g.Params(), s, rapid.IntRange(0, 50).Draw(rt, "events"))
		for i := range events { // few timestamps
			events[i].Timestamp = uint64(s) + 1 + events[i].Timestamp%4
		}
		events = reparent(g.Params(), s, events)
		mustInsert(t, g, s, events...)
		extra := 0
		if len(events) > 0 {
			for i := range r.IntN(3) {
				h := forge(uint64(s)+1+uint64(r.IntN(4)), "header only", &events[i%len(events)]).Header
				if err := g.InsertHeaders(s, []Header{h}); err != nil {
					rt.Fatal(err)
				}
				extra++
			}
		}
		want := slices.Clone(events)
		slices.SortFunc(want, func(a, b Event) int {
			if a.Timestamp != b.Timestamp {
				return int(a.Timestamp) - int(b.Timestamp)
			}
			return compareID(a.ID(), b.ID())
		})
		backward := rapid.Bool().Draw(rt, "backward")
		from := Cursor{}
		if backward {
			slices.Reverse(want)
			from = Newest
		}
		limit := rapid.IntRange(1, 10).Draw(rt, "limit")
		var got []ID
		for pages := 0; ; pages++ {
			p, err := g.Page(s, from, backward, limit)
			if err != nil {
				rt.Fatal(err)
			}
			if len(p.Events) > limit {
				rt.Fatalf("%d events on a page of %d", len(p.Events), limit)
			}
			got = append(got, ids(p.Events)...)
			if n := len(p.Events); n > 0 && n == limit && p.Next != (Cursor{p.Events[n-1].Timestamp, p.Events[n-1].ID()}) {
				rt.Fatal("the cursor of a full page is its last event")
			}
			if p.Exhausted {
				if len(p.Events) == limit {
					rt.Fatal("a full page is never exhausted")
				}
				break
			}
			if p.Next == from && extra < pageScanFactor*limit {
				rt.Fatal("stuck")
			}
			from = p.Next
		}
		if !slices.Equal(got, ids(want)) {
			rt.Fatalf("%d events, want %d in time order", len(got), len(want))
		}
	})
}

// reparent makes a chain out of events that were edited.
func reparent(p Params, s Slot, events []Event) []Event {
	last := p.GenesisOf(s)
	for i := range events {
		events[i] = forge(events[i].Timestamp, string(events[i].Content), &last)
		last = events[i]
	}
	return events
}

// Checklist 10.4, items 37 and 39; facts page section 5.4.
func TestPageLimits(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	s := g.Current()
	events := chain(g.Params(), s, MaxPage+20)
	mustInsert(t, g, s, events...)
	p, err := g.Page(s, Cursor{}, false, 1<<30)
	if err != nil || len(p.Events) != MaxPage || p.Exhausted {
		t.Errorf("%d events, exhausted %v, %v; want %d", len(p.Events), p.Exhausted, err, MaxPage)
	}
	at := Cursor{Timestamp: 17, ID: ID{4}}
	for name, got := range map[string]func() (Page, error){
		"unknown slot": func() (Page, error) { return g.Page(s+1, at, false, 10) },
		"limit 0":      func() (Page, error) { return g.Page(s, at, false, 0) },
		"limit -1":     func() (Page, error) { return g.Page(s, at, true, -1) },
	} {
		p, err := got()
		if err != nil || len(p.Events) != 0 || p.Next != at || !p.Exhausted {
			t.Errorf("%s: %+v, %v; want nothing, the same cursor, exhausted", name, p, err)
		}
	}
}

// Checklist 10.8, item 76.
func TestPageBackwardExample(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	s := g.Current()
	events := chain(g.Params(), s, 3)
	mustInsert(t, g, s, events...)
	p, err := g.Page(s, Newest, true, 2)
	if err != nil || !slices.Equal(ids(p.Events), []ID{events[2].ID(), events[1].ID()}) ||
		p.Next != (Cursor{events[1].Timestamp, events[1].ID()}) || p.Exhausted {
		t.Errorf("%+v, %v", p, err)
	}
}

// Trap 13: a stretch of headers without bodies does not move the cursor, and costs no
// more than pageScanFactor times the limit.
func TestPageOverHeaders(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	s := g.Current()
	events := chain(g.Params(), s, 10)
	if err := g.InsertHeaders(s, headersOf(events)); err != nil {
		t.Fatal(err)
	}
	first := Cursor{uint64(s), g.slots[s].genesisID}
	p, err := g.Page(s, first, false, 2)
	if err != nil || len(p.Events) != 0 || p.Next != first || p.Exhausted {
		t.Errorf("8 of 10 headers looked at: %+v, %v", p, err)
	}
	p, err = g.Page(s, first, false, 3)
	if err != nil || len(p.Events) != 0 || p.Next != first || !p.Exhausted {
		t.Errorf("all headers looked at: %+v, %v", p, err)
	}
}

// MaxPageBytes ends a page of large events early, and the next page goes on there.
func TestPageBytes(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now, MaxContent: maxMaxContent})
	s := g.Current()
	genesis := g.Params().GenesisOf(s)
	var events []Event
	for i := range 9 {
		events = append(events, forge(uint64(s)+uint64(i)+1, string(make([]byte, maxMaxContent)), &genesis))
		mustInsert(t, g, s, events[i])
	}
	var got []ID
	var from Cursor
	for {
		p, err := g.Page(s, from, false, MaxPage)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Events) > 4 {
			t.Errorf("%d events of 256 KiB on one page", len(p.Events))
		}
		got = append(got, ids(p.Events)...)
		if p.Exhausted {
			break
		}
		from = p.Next
	}
	if !slices.Equal(got, ids(events)) {
		t.Errorf("%d events, want %d", len(got), len(events))
	}
}
