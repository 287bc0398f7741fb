package eventgraph

import (
	"bytes"
	"reflect"
	"testing"
)

// FindAll finds what Find finds, in the order asked for and as much as fits.
func TestFindAll(t *testing.T) {
	g := memory(t, Config{Now: newClock().now})
	s := g.Current()
	events := chain(g.Params(), s, 10)
	large := forge(uint64(s)+9000, string(bytes.Repeat([]byte("x"), inlineContent+1)), &events[5])
	events = append(events, large)
	mustInsert(t, g, s, events...)
	genesis := g.Params().GenesisOf(s)
	ids := []ID{genesis.ID(), large.ID(), {1}, events[3].ID(), events[3].ID(), events[9].ID(), events[0].ID()}
	want := []Event{genesis, large, events[3], events[3], events[9], events[0]}
	if got := g.FindAll(ids, 1<<20); !reflect.DeepEqual(got, want) {
		t.Errorf("%d events", len(got))
	}
	size := want[0].Size() + want[1].Size()
	if got := g.FindAll(ids, size); len(got) != 2 {
		t.Errorf("%d events in the bytes of two", len(got))
	}
	if got := g.FindAll(ids, size-1); len(got) != 1 {
		t.Errorf("%d events in less than the bytes of two", len(got))
	}
	if got := g.FindAll(ids[1:], 1); len(got) != 1 {
		t.Errorf("%d events where not even one fits", len(got))
	}
	// Read by two, it is the same: a prefix of what there is, and never one with a gap.
	many := chain(g.Params(), s, 4*findTogether)[10:] // behind the ten
	for i := range many {
		if i >= len(many)/2 { // those that fit behind where the first half was cut
			many[i] = forge(many[i].Timestamp, "s", &events[9])
		} else {
			many[i] = forge(many[i].Timestamp, string(bytes.Repeat([]byte("l"), 900)), &events[9])
		}
	}
	mustInsert(t, g, s, many...)
	var all []ID
	total := 0
	for i := range many {
		all = append(all, many[i].ID())
		total += many[i].Size()
	}
	for most := 1; most < total+500; most += 333 {
		got := g.FindAll(all, most)
		size := 0
		for i := range got {
			size += got[i].Size()
		}
		if !reflect.DeepEqual(got, many[:len(got)]) || size > most && len(got) > 1 ||
			len(got) < len(many) && size+many[len(got)].Size() <= most {
			t.Fatalf("%d events of %d bytes in %d", len(got), size, most)
		}
	}
	g.slots[s].dropped.Store(true)
	if got := g.FindAll(ids, 1<<20); len(got) != 0 {
		t.Error("of a slot that is gone")
	}
}
