package eventgraph

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hearsay/internal/kv"
)

// Checklist 10.3, items 27, 28 and 30; 10.8, item 75; ST-04: a record that does not
// decode, or contradicts another, is a clear error at open.
func TestOpenCorrupt(t *testing.T) {
	c := newClock()
	event := func(s Slot, id ID) []byte { return appendEventKey(nil, keyEvent, s, &id) }
	for name, spoil := range map[string]func(tx kv.Txn, s Slot, events []Event) error{
		"event record too short": func(tx kv.Txn, s Slot, events []Event) error {
			return tx.Set(event(s, events[1].ID()), []byte("short"))
		},
		"event record too long": func(tx kv.Txn, s Slot, events []Event) error {
			return tx.Set(event(s, events[1].ID()), append(appendRecord(nil, &events[1], 2), 0))
		},
		"event record cut": func(tx kv.Txn, s Slot, events []Event) error {
			b := appendRecord(nil, &events[1], 2)
			return tx.Set(event(s, events[1].ID()), b[:len(b)-1])
		},
		"another event's record": func(tx kv.Txn, s Slot, events []Event) error {
			return tx.Set(event(s, events[1].ID()), appendRecord(nil, &events[0], 2))
		},
		"body without arrival": func(tx kv.Txn, s Slot, events []Event) error {
			return tx.Set(event(s, events[1].ID()), appendRecord(nil, &events[1], 0))
		},
		"lost parent": func(tx kv.Txn, s Slot, events []Event) error {
			return tx.Delete(event(s, events[1].ID()))
		},
		"lost parent's body": func(tx kv.Txn, s Slot, events []Event) error {
			return tx.Set(event(s, events[1].ID()), events[1].Header.AppendTo(nil))
		},
		"lost tip": func(tx kv.Txn, s Slot, events []Event) error {
			return tx.Delete(event(s, events[2].ID()))
		},
		"event key": func(tx kv.Txn, s Slot, events []Event) error {
			return tx.Set(append(slotKey(keyEvent, s), 1), nil)
		},
		"slot counters": func(tx kv.Txn, s Slot, _ []Event) error { return tx.Set(slotKey(keySlot, s), []byte{1}) },
		"slot key":      func(tx kv.Txn, _ Slot, _ []Event) error { return tx.Set([]byte{keySlot, 1}, slotCount{}.encode()) },
		"counters":      func(tx kv.Txn, _ Slot, _ []Event) error { return tx.Set(metaKey, []byte{1}) },
		"no counters":   func(tx kv.Txn, _ Slot, _ []Event) error { return tx.Delete(metaKey) },
		"version row":   func(tx kv.Txn, _ Slot, _ []Event) error { return tx.Set(versionKey, nil) },
		"static event":  func(tx kv.Txn, _ Slot, _ []Event) error { return tx.Set([]byte{keyStatic, 1}, []byte("short")) },
		"static key": func(tx kv.Txn, _ Slot, events []Event) error {
			return tx.Set(staticKey(&ID{1}), events[0].AppendTo(nil))
		},
	} {
		st := kv.OpenMemory()
		g := open(t, st, Config{Now: c.now})
		s := g.Current()
		events := chain(g.Params(), s, 3)
		mustInsert(t, g, s, events...)
		if err := st.Update(kv.Op{Name: "spoil"}, func(tx kv.Txn) error { return spoil(tx, s, events) }); err != nil {
			t.Fatal(err)
		}
		_, err := OpenStore(st.Reopen(), Config{Now: c.now})
		if !errors.Is(err, ErrCorrupt) || !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}

// Checklist 10.4, item 43: a page, and a subscriber, over a record that does not decode
// fail instead of leaving it out.
func TestReadCorrupt(t *testing.T) {
	c := newClock()
	st := kv.OpenMemory()
	g := open(t, st, Config{Now: c.now})
	s := g.Current()
	e := chain(g.Params(), s, 1)[0]
	mustInsert(t, g, s, e)
	forged := e
	forged.Content = []byte("forged")
	if err := st.Update(kv.Op{Name: "spoil"}, func(tx kv.Txn) error {
		id := e.ID()
		return tx.Set(appendEventKey(nil, keyEvent, s, &id), appendRecord(nil, &forged, 1))
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Page(s, Cursor{}, false, 10); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Page: %v", err)
	}
	if _, _, err := g.Find(e.ID()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Find: %v", err)
	}
	for _, err := range g.Subscribe(t.Context(), 0) {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("Subscribe: %v", err)
		}
	}
}

// A store belongs to one network and one schema (ST-01).
func TestOpenOtherNetwork(t *testing.T) {
	c := newClock()
	st := kv.OpenMemory()
	open(t, st, Config{Now: c.now})
	p := DarkIRC()
	p.Contents = []byte("darkirc")
	if _, err := OpenStore(st.Reopen(), Config{Params: p, Now: c.now}); !errors.Is(err, ErrConfig) {
		t.Errorf("another genesis: %v, want ErrConfig", err)
	}
	st = st.Reopen()
	if err := st.Update(kv.Op{Name: "spoil"}, func(tx kv.Txn) error {
		b, err := tx.Get(versionKey)
		if err != nil {
			return err
		}
		b[3]++
		return tx.Set(versionKey, b)
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(st.Reopen(), Config{Now: c.now}); !errors.Is(err, kv.ErrSchema) {
		t.Errorf("a newer schema: %v, want ErrSchema", err)
	}
}

// A restart changes nothing (failure case 46: counters equal a recount at open).
func TestReopen(t *testing.T) {
	c := newClock()
	dir := t.TempDir() + "/graph"
	r := rand.New(rand.NewPCG(8, 8))
	var all []Event
	for round := range 4 {
		g, err := Open(dir, Config{Now: c.now, NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		checkInvariants(t, g)
		for _, e := range all {
			got, _, err := g.Find(e.ID())
			if err != nil || string(got.Content) != string(e.Content) || got.Header != e.Header {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if got := g.Last(); got != Seq(len(all)) {
			t.Errorf("round %d: last arrival %d, want %d", round, got, len(all))
		}
		events := dag(r, g.Params(), g.Current(), 50)
		mustInsert(t, g, g.Current(), events...)
		all = append(all, events...)
		c.add(1e9 * 3600)
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Indexes come and go; nobody notices.
func TestIndexEviction(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	r := rand.New(rand.NewPCG(9, 9))
	s := g.Current()
	events := dag(r, g.Params(), s, 100)
	mustInsert(t, g, s, events[:50]...)
	st := g.slots[s]
	want, err := g.Tips(s)
	if err != nil {
		t.Fatal(err)
	}
	g.unload(st)
	if got, _ := g.Tips(s); fmt.Sprint(got) != fmt.Sprint(want) || st.hasIndex() {
		t.Error("a few tips are kept without the index")
	}
	if !g.HasBody(s, events[3].ID()) || g.HasBody(s, events[60].ID()) || !g.HasBody(s, st.genesisID) || st.hasIndex() {
		t.Error("a look-up must not need the index")
	}
	if err := g.CheckEvent(s, &events[50]); err != nil {
		t.Error(err)
	}
	mustInsert(t, g, s, events[50:]...)
	g.unload(st)
	if p, err := g.Page(s, Cursor{}, false, 100); err != nil || len(p.Events) != 100 {
		t.Errorf("%d events, %v", len(p.Events), err)
	}
	g.unload(st)
	if yes, err := g.Descends(events[99].ID(), st.genesisID); !yes || err != nil {
		t.Errorf("%v, %v", yes, err)
	}
	if got, want := g.indexed.Load(), int64(101); got != want {
		t.Errorf("%d entries accounted for, want %d", got, want)
	}
	checkInvariants(t, g)

	// Beyond the bound, the least recently used slot goes, never the current one.
	c.add(1e9 * 3600)
	e, err := g.Publish(t.Context(), []byte("next slot"))
	if err != nil {
		t.Fatal(err)
	}
	g.indexed.Add(maxIndexed)
	if _, err := g.Publish(t.Context(), []byte("again")); err != nil {
		t.Fatal(err)
	}
	g.indexed.Add(-maxIndexed)
	if st.hasIndex() || !g.slots[g.Current()].hasIndex() {
		t.Error("the old slot's index must be dropped, the current one's stay")
	}
	if !g.HasBody(g.Current(), e.ID()) {
		t.Error("event lost")
	}
	// Idle ones go too.
	if _, err := g.Page(s, Cursor{}, false, 1); err != nil {
		t.Fatal(err)
	}
	g.dropIdle(timeOf(st).Add(indexIdle))
	if !st.hasIndex() {
		t.Error("dropped too early")
	}
	g.dropIdle(timeOf(st).Add(indexIdle + 1e6))
	if st.hasIndex() {
		t.Error("an idle index stays")
	}
}

func timeOf(st *slotState) time.Time { return time.UnixMilli(st.used.Load()) }

// Descends, Descendants and Find across slots.
func TestAncestry(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	s1 := g.Current()
	a := chain(g.Params(), s1, 3)
	mustInsert(t, g, s1, a...)
	bare := forge(uint64(s1)+9, "header only", &a[1])
	if err := g.InsertHeaders(s1, []Header{bare.Header}); err != nil {
		t.Fatal(err)
	}
	c.add(1e9 * 3600)
	b := chain(g.Params(), g.Current(), 2)
	mustInsert(t, g, g.Current(), b...)
	for _, x := range []struct {
		d, a ID
		want bool
		err  error
	}{
		{a[2].ID(), a[0].ID(), true, nil},
		{a[0].ID(), a[2].ID(), false, nil},
		{a[1].ID(), a[1].ID(), false, nil},
		{b[1].ID(), a[0].ID(), false, nil},
		{b[1].ID(), g.slots[g.Current()].genesisID, true, nil},
		{b[1].ID(), ID{1}, false, nil},
		{ID{1}, b[1].ID(), false, ErrNotFound},
		{bare.ID(), a[0].ID(), true, nil},
	} {
		if got, err := g.Descends(x.d, x.a); got != x.want || !errors.Is(err, x.err) {
			t.Errorf("Descends(%v, %v) = %v, %v; want %v, %v", x.d, x.a, got, err, x.want, x.err)
		}
	}
	if got, err := g.Descendants(a[0].ID()); err != nil || !slices.Equal(got, ids(a[1:])) {
		t.Errorf("Descendants: %v, %v", got, err)
	}
	if _, err := g.Descendants(ID{1}); !errors.Is(err, ErrNotFound) {
		t.Errorf("Descendants of nothing: %v", err)
	}
	for _, s := range g.Slots() {
		genesis := g.Params().GenesisOf(s)
		if e, at, err := g.Find(genesis.ID()); err != nil || at != s || string(e.Content) != "darkirc-v1" {
			t.Errorf("genesis of %v: %v in %v, %v", s, e, at, err)
		}
	}
	if _, _, err := g.Find(ID{1}); !errors.Is(err, ErrNotFound) {
		t.Errorf("Find nothing: %v", err)
	}
	if _, err := g.Arrival(ID{1}); !errors.Is(err, ErrNotFound) {
		t.Errorf("Arrival of nothing: %v", err)
	}
}
