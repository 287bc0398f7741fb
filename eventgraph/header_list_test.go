package eventgraph

import (
	"slices"
	"testing"
)

// Headers out of the index are those that came in, null positions between parents
// included (facts page, section 1.1). A list stays as it was when it was made.
func TestHeaderList(t *testing.T) {
	g := memory(t, Config{Now: newClock().now})
	s := g.Current()
	genesis := g.Params().GenesisOf(s)
	a := forge(uint64(s)+1, "a", &genesis)
	b := forge(uint64(s)+2, "b", &genesis)
	gaps := forge(uint64(s)+3, "gaps", &a)
	gaps.Parents = [NumParents]ID{NullID, b.ID(), NullID, a.ID(), NullID}
	last := forge(uint64(s)+4, "last", &a)
	last.Parents = [NumParents]ID{NullID, NullID, NullID, NullID, a.ID()}
	all := []Event{a, b, gaps, last}
	want := append([]Header{genesis.Header}, headersOf(all)...)
	slices.SortFunc(want, func(a, b Header) int {
		if a.Layer != b.Layer {
			return int(a.Layer) - int(b.Layer)
		}
		return compareID(a.ID(), b.ID())
	})
	if err := g.InsertHeaders(s, headersOf(all)); err != nil {
		t.Fatal(err)
	}
	var lists []HeaderList
	for range 2 { // of an index that grew, and of one that was read from the store
		list, err := g.HeadersBeyond(s, nil, MaxHeaders)
		if err != nil {
			t.Fatal(err)
		}
		lists = append(lists, list)
		g.unload(g.slots[s])
	}
	mustInsert(t, g, s, all...)
	mustInsert(t, g, s, forge(uint64(s)+6, "more", &last))
	for n, list := range lists {
		if !slices.Equal(list.All(), want) {
			t.Errorf("list %d: %+v", n, list.All())
		}
		for i := range list.Len() {
			if list.ID(i) != want[i].ID() {
				t.Errorf("list %d: id %d", n, i)
			}
		}
	}
}
