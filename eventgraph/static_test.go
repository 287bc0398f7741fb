package eventgraph

import (
	"errors"
	"fmt"
	"testing"

	"hearsay/internal/kv"
)

// Facts page sections 1.6, 4.3 and 4.10: the static graph.
func TestStatic(t *testing.T) {
	c := newClock()
	st := kv.OpenMemory()
	g := open(t, st, Config{Now: c.now})
	genesis := g.Params().GenesisOf(g.Params().Genesis)
	if got := fmt.Sprint(g.StaticTips()); got != fmt.Sprint(Tips{0: {genesis.ID()}}) {
		t.Errorf("tips of an empty static graph: %v", got)
	}
	if e, err := g.StaticFind(genesis.ID()); err != nil || string(e.Content) != "darkirc-v1" {
		t.Errorf("genesis: %v, %v", e, err)
	}
	a := forge(1, "a", &genesis) // no rule on the timestamp
	b := forge(2, "b", &a, &genesis)
	b.Layer = 77 // nor on the layer
	if _, err := g.StaticInsert(b); !errors.Is(err, ErrNoParent) {
		t.Errorf("unknown parent: %v, want ErrNoParent", err)
	}
	for i, e := range []Event{a, b, a, genesis} {
		if ok, err := g.StaticInsert(e); ok != (i < 2) || err != nil {
			t.Errorf("insert %d: %v, %v", i, ok, err)
		}
	}
	forged := b
	forged.Content = []byte("evil")
	forged.Layer++
	empty := forge(1, "", &a)
	twice := forge(1, "x", &a)
	twice.Parents[3] = a.ID()
	large := forge(1, string(make([]byte, DefaultMaxContent+1)), &a)
	for name, c := range map[string]struct {
		e    Event
		want error
	}{
		"forged": {forged, errContentHash}, "empty": {empty, errEmpty}, "twice": {twice, errDuplicate},
		"large": {large, ErrTooLarge}, "genesis-shaped": {Event{Header: Header{Timestamp: 4}}, errGenesis},
	} {
		if ok, err := g.StaticInsert(c.e); ok || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v; want %v", name, ok, err, c.want)
		}
	}
	for range 2 {
		if got := fmt.Sprint(g.StaticTips()); got != fmt.Sprint(Tips{77: {b.ID()}}) {
			t.Errorf("tips %v", got)
		}
		if e, err := g.StaticFind(b.ID()); err != nil || e.Layer != 77 || string(e.Content) != "b" {
			t.Errorf("StaticFind: %v, %v", e, err)
		}
		if _, err := g.StaticFind(ID{1}); !errors.Is(err, ErrNotFound) {
			t.Errorf("StaticFind of nothing: %v", err)
		}
		if s := g.Stats(); s.Static != 2 || s.StaticBytes != a.Size()+b.Size() || s.Events != 0 {
			t.Errorf("%+v", s)
		}
		if _, _, err := g.Find(b.ID()); !errors.Is(err, ErrNotFound) {
			t.Error("static events are not in any slot")
		}
		st = st.Reopen()
		g = open(t, st, Config{Now: c.now})
	}
}

// The static graph is bounded in events and in bytes, at the bound and one past it.
func TestStaticFull(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	genesis := g.Params().GenesisOf(g.Params().Genesis)
	for i := range MaxStaticEvents {
		if ok, err := g.StaticInsert(forge(uint64(i), "x", &genesis)); !ok || err != nil {
			t.Fatalf("event %d: %v, %v", i, ok, err)
		}
	}
	if _, err := g.StaticInsert(forge(1<<40, "x", &genesis)); !errors.Is(err, ErrStaticFull) {
		t.Errorf("one event too many: %v, want ErrStaticFull", err)
	}
	if tips := g.StaticTips(); tips.Count() != MaxStaticEvents {
		t.Errorf("%d tips", tips.Count())
	}

	g = memory(t, Config{Now: c.now})
	content := string(make([]byte, DefaultMaxContent))
	room := MaxStaticBytes
	for i := 0; ; i++ {
		e := forge(uint64(i), content, &genesis)
		if e.Size() > room {
			break
		}
		if ok, err := g.StaticInsert(e); !ok || err != nil {
			t.Fatal(ok, err)
		}
		room -= e.Size()
	}
	fill := forge(1, string(make([]byte, room-HeaderSize-3)), &genesis)
	more := fill
	more.Content = append(more.Content[:len(more.Content):len(more.Content)], 0)
	more.ContentHash = HashContent(more.Content)
	if _, err := g.StaticInsert(more); !errors.Is(err, ErrStaticFull) {
		t.Errorf("one byte too many: %v, want ErrStaticFull", err)
	}
	if ok, err := g.StaticInsert(fill); !ok || err != nil {
		t.Errorf("the last byte: %v, %v", ok, err)
	}
}
