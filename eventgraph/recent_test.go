package eventgraph

import (
	"bytes"
	"reflect"
	"testing"
	"time"
)

// FindAll finds what Find finds, in the order asked for and as much as fits, whether
// the records were listed before or not.
func TestFindAll(t *testing.T) {
	g := memory(t, Config{Now: newClock().now})
	s := g.Current()
	events := chain(g.Params(), s, recentPage+10)
	large := forge(uint64(s)+9000, string(bytes.Repeat([]byte("x"), inlineContent+1)), &events[5])
	events = append(events, large)
	mustInsert(t, g, s, events...)
	genesis := g.Params().GenesisOf(s)
	ids := []ID{genesis.ID(), large.ID(), {1}, events[3].ID(), events[3].ID(), events[recentPage].ID(), events[0].ID()}
	want := []Event{genesis, large, events[3], events[3], events[recentPage], events[0]}
	for _, listed := range []bool{false, true, true} {
		if listed {
			if _, err := g.HeadersBeyond(s, nil, MaxHeaders); err != nil {
				t.Fatal(err)
			}
			if n := len(g.recent.gens[0]); n != len(events) {
				t.Fatalf("%d records are kept", n)
			}
		}
		if got := g.FindAll(ids, 1<<20); !reflect.DeepEqual(got, want) {
			t.Errorf("listed %v: %d events", listed, len(got))
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
	}
	if n := len(g.recent.gens[0]); n != len(events)-4 {
		t.Errorf("%d records are left of %d", n, len(events))
	}
	g.slots[s].dropped.Store(true)
	if got := g.FindAll(ids, 1<<20); len(got) != 0 {
		t.Error("of a slot that is gone")
	}
}

// The pages that wait for their bodies are bounded in number, records and bytes, and
// go after a pause.
func TestRecentRecordsBound(t *testing.T) {
	now := time.Unix(1000, 0)
	var c recentRecords
	c.put(1, ID{1}, []byte("no page"))
	for page := range 3 {
		c.open(now)
		for i := range MaxHeaders + 1 {
			c.put(1, ID{byte(page), byte(i), byte(i >> 8)}, make([]byte, maxRecentBytes/MaxHeaders))
		}
	}
	if len(c.gens[0]) != MaxHeaders || len(c.gens[1]) != MaxHeaders || c.take(1, &ID{0, 1}, now) != nil {
		t.Errorf("%d, %d", len(c.gens[0]), len(c.gens[1]))
	}
	if c.take(2, &ID{1, 1}, now) != nil || c.take(1, &ID{1, 1}, now) == nil || c.take(1, &ID{1, 1}, now) != nil {
		t.Error("a record is for its slot, once")
	}
	c.open(now)
	c.put(1, ID{9}, make([]byte, maxRecentBytes))
	c.put(1, ID{8}, make([]byte, 1))
	if len(c.gens[0]) != 1 {
		t.Error("more bytes than a page may have")
	}
	c.dropIdle(now.Add(recentIdle))
	if len(c.gens[0]) != 1 {
		t.Error("dropped too early")
	}
	c.dropIdle(now.Add(recentIdle + 1))
	if len(c.gens[0])+len(c.gens[1]) != 0 {
		t.Error("never dropped")
	}
}
