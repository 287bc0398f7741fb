package eventgraph

import (
	"errors"
	"math"
	"testing"
)

// Checklist 10.5, items 44 to 46; facts page sections 4.2 and 4.3, rule by rule.
func TestRules(t *testing.T) {
	c := newClock()
	var validated int
	g := memory(t, Config{Now: c.now, MaxContent: 100, Validate: func(e Event) error {
		validated++
		if string(e.Content) == "refused" {
			return errors.New("not ours")
		}
		return nil
	}})
	s := g.Current()
	genesis := g.Params().GenesisOf(s)
	a := forge(uint64(s)+1, "a", &genesis)
	b := forge(uint64(s)+2, "b", &a)
	mustInsert(t, g, s, a, b)
	unknown := forge(uint64(s)+3, "never stored", &b)
	foreign := Params{Genesis: 1740787200000, Contents: []byte("darkirc"), Rotation: g.Params().Rotation}
	alien := foreign.GenesisOf(s)

	edit := func(e Event, change func(*Event)) Event {
		change(&e)
		return e
	}
	good := forge(uint64(s)+10, "good", &b)
	for name, x := range map[string]struct {
		e    Event
		want error
	}{
		"good":                    {good, nil},
		"gap between parents":     {edit(good, func(e *Event) { e.Parents = [NumParents]ID{1: b.ID(), 4: a.ID()} }), nil},
		"two layers of parents":   {edit(good, func(e *Event) { e.Parents[1] = genesis.ID() }), nil},
		"layer skips one":         {edit(good, func(e *Event) { e.Layer++ }), errLayer},
		"layer too low":           {edit(good, func(e *Event) { e.Layer-- }), errLayer},
		"layer 0":                 {edit(good, func(e *Event) { e.Layer = 0 }), errLayer},
		"same parent twice":       {edit(good, func(e *Event) { e.Parents[4] = b.ID() }), errDuplicate},
		"genesis-shaped":          {edit(good, func(e *Event) { e.Parents = [NumParents]ID{} }), errGenesis},
		"the genesis itself":      {genesis, errGenesis},
		"unknown parent":          {forge(uint64(s)+10, "x", &unknown), ErrNoParent},
		"one unknown parent":      {forge(uint64(s)+10, "x", &b, &unknown), ErrNoParent},
		"unknown and wrong layer": {edit(good, func(e *Event) { e.Parents[1] = unknown.ID(); e.Layer = 2 }), errLayer},
		"foreign genesis":         {forge(uint64(s)+10, "x", &alien), ErrForeign},
		"both geneses":            {forge(uint64(s)+10, "x", &genesis, &alien), ErrForeign},
		"before the slot":         {edit(good, func(e *Event) { e.Timestamp = uint64(s) - 60_001 }), errBounds},
		"just before the slot":    {edit(good, func(e *Event) { e.Timestamp = uint64(s) - 60_000 }), nil},
		"after the slot":          {edit(good, func(e *Event) { e.Timestamp = uint64(s) + 3_660_000 }), errBounds},
		"just after the slot":     {edit(good, func(e *Event) { e.Timestamp = uint64(s) + 3_659_999 }), nil},
		"empty content":           {edit(good, func(e *Event) { e.Content = nil; e.ContentHash = HashContent(nil) }), errEmpty},
		"other content":           {edit(good, func(e *Event) { e.Content = []byte("evil") }), errContentHash},
		"largest content":         {forge(uint64(s)+10, string(make([]byte, 100)), &b), nil},
		"too large content":       {forge(uint64(s)+10, string(make([]byte, 101)), &b), ErrTooLarge},
		"refused by application":  {forge(uint64(s)+10, "refused", &b), ErrInvalid},
	} {
		e := x.e
		if err := g.CheckEvent(s, &e); !errors.Is(err, x.want) {
			t.Errorf("%s: CheckEvent: %v, want %v", name, err, x.want)
		}
		if x.want == nil || e.GenesisShaped() {
			continue
		}
		before := g.Stats()
		_, err := g.Insert(t.Context(), s, []Event{good, e}, SourcePut)
		var ee *EventError
		if !errors.Is(err, x.want) || !errors.As(err, &ee) || ee.ID != e.ID() {
			t.Errorf("%s: Insert: %v, want %v about %v", name, err, x.want, e.ID())
		}
		if after := g.Stats(); after != before {
			t.Errorf("%s: a refused batch changed the store: %+v, before %+v", name, after, before)
		}
		if errors.Is(x.want, errEmpty) || errors.Is(x.want, errContentHash) || errors.Is(x.want, ErrTooLarge) || name == "refused by application" {
			continue // nothing about the header
		}
		if err := g.CheckHeader(s, &e.Header); !errors.Is(err, x.want) {
			t.Errorf("%s: CheckHeader: %v, want %v", name, err, x.want)
		}
		if err := g.InsertHeaders(s, []Header{good.Header, e.Header}); !errors.Is(err, x.want) {
			t.Errorf("%s: InsertHeaders: %v, want %v", name, err, x.want)
		}
		if g.HasHeader(s, good.ID()) {
			t.Fatalf("%s: a refused batch of headers was stored in part", name)
		}
	}
	if validated == 0 {
		t.Error("the application was never asked")
	}
	if !errors.Is(ErrForeign, ErrInvalid) {
		t.Error("a foreign event is invalid as well")
	}
	checkInvariants(t, g)
}

// Checklist 10.5, item 46, and facts page section 1.4: nothing grows on the last layer.
func TestLastLayer(t *testing.T) {
	top := ID{1}
	find := func(id *ID) (known, error) { return known{math.MaxUint64, true, true}, nil }
	for _, layer := range []uint64{0, 1, math.MaxUint64} {
		h := Header{Parents: [NumParents]ID{top}, Layer: layer}
		if err := checkParents(&h, find, true); !errors.Is(err, errOverflow) {
			t.Errorf("layer %d: %v, want overflow", layer, err)
		}
	}
}

// A self-parent cannot be made (it would need a fixed point of the hash), so the
// rule is shown with an id that is given.
func TestSelfParent(t *testing.T) {
	id := ID{7}
	h := Header{Parents: [NumParents]ID{2: id}, Layer: 2}
	if err := checkShape(&h, &id, &ID{}); !errors.Is(err, errSelf) {
		t.Errorf("%v, want self-parent", err)
	}
}
