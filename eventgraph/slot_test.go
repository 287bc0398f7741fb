package eventgraph

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"hearsay/internal/kv"
)

// Checklist 10.3, item 25 and item 23: the window is exactly the newest n slots, in
// ascending order, whatever the clock says, at the very moment of the call (trap 35).
func TestWindowFollowsTheClock(t *testing.T) {
	for window := 1; window <= 6; window++ {
		c := newClock()
		g := memory(t, Config{Window: window, Now: c.now})
		for _, step := range []time.Duration{0, time.Hour, 59 * time.Minute, 100 * time.Hour, -3 * time.Hour} {
			c.add(step)
			cur := DarkIRC().SlotAt(c.now())
			var want []Slot
			for i := range window {
				want = append(want, cur-Slot((window-1-i)*3_600_000))
			}
			if got := g.Slots(); !slices.Equal(got, want) || g.Current() != cur {
				t.Errorf("window %d: %v, want %v; current %v, want %v", window, got, want, g.Current(), cur)
			}
			if _, err := g.Tips(want[0] - 3_600_000); !errors.Is(err, ErrNoSlot) {
				t.Errorf("window %d: the slot before the window: %v", window, err)
			}
			if _, err := g.Tips(want[0]); err != nil {
				t.Errorf("window %d: the oldest slot: %v", window, err)
			}
			if _, err := g.Tips(cur + 1); !errors.Is(err, ErrNoSlot) {
				t.Errorf("a slot that is not aligned: %v", err)
			}
		}
	}
}

func TestWindowDoesNotReachBeforeTheFirstSlot(t *testing.T) {
	c := &clock{t: Slot(1740787200000).Time().Add(90 * time.Minute)}
	g := memory(t, Config{Now: c.now})
	if got, want := g.Slots(), []Slot{1740787200000, 1740790800000}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	c.set(time.Unix(0, 0))
	if got, want := g.Slots(), []Slot{1740787200000}; !slices.Equal(got, want) {
		t.Errorf("before the network began: %v, want %v", got, want)
	}
	if _, err := g.NewEvent([]byte("x")); !errors.Is(err, ErrNoSlot) {
		t.Errorf("NewEvent before the network began: %v, want ErrNoSlot", err)
	}
}

// Checklist 10.3, items 24 and 26: archive mode keeps all slots, also over a restart.
func TestArchive(t *testing.T) {
	c := newClock()
	st := kv.OpenMemory()
	g := open(t, st, Config{Archive: true, Window: 2, Now: c.now})
	var first Event
	for i := range 30 {
		e, err := g.Publish(t.Context(), []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = e
		}
		c.add(time.Hour)
		runPruner(t, g)
	}
	for range 2 {
		if got := g.Slots(); len(got) != 31 || !slices.IsSorted(got) { // and the empty current one
			t.Errorf("%d slots, want 31, ascending", len(got))
		}
		if _, _, err := g.Find(first.ID()); err != nil {
			t.Errorf("the oldest event: %v", err)
		}
		checkInvariants(t, g)
		st = st.Reopen()
		g = open(t, st, Config{Archive: true, Window: 2, Now: c.now})
	}
}

// runPruner lets the pruner see the clock twice, a grace apart.
func runPruner(t *testing.T, g *Graph) {
	t.Helper()
	var p pruner
	now := time.Now()
	for _, d := range []time.Duration{0, pruneGrace} {
		if err := p.step(t.Context(), g, now.Add(d)); err != nil {
			t.Fatal(err)
		}
	}
}

// Checklist 10.3, item 23: what leaves the window is deleted, completely, and nothing
// else is.
func TestRetention(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Window: 3, Now: c.now})
	var slots []Slot
	var last []ID
	for i := range 6 {
		slots = append(slots, g.Current())
		// More events than one pruning transaction takes, some with large content.
		for _, e := range chain(g.Params(), g.Current(), pruneKeys+10) {
			mustInsert(t, g, g.Current(), e)
			last = append(last, e.ID())
		}
		big, err := g.NewEvent(make([]byte, inlineContent+1))
		if err != nil {
			t.Fatal(err)
		}
		mustInsert(t, g, g.Current(), big)
		if i < 5 {
			c.add(time.Hour)
		}
	}
	runPruner(t, g)
	checkInvariants(t, g)
	n := 0
	if err := g.store.View(func(r kv.Reader) error {
		return r.Scan(kv.Scan{KeysOnly: true}, func(k, _ []byte) error {
			if k[0] == keyEvent || k[0] == keyContent || k[0] == keySlot {
				if s, _ := parseSlotKey(k[:9]); s < slots[3] {
					n++
				}
			}
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	if n != 0 {
		t.Errorf("%d records of expired slots are left", n)
	}
	for i, id := range last {
		slot := slots[i/(pruneKeys+10)]
		if got, want := g.HasBody(slot, id), slot >= slots[3]; got != want {
			t.Fatalf("event %d of slot %v: stored %v, want %v", i, slot, got, want)
		}
	}
	if s := g.Stats(); s.Slots != 3 || s.Events != 3*(pruneKeys+11) || s.HeaderOnly != 0 {
		t.Errorf("%+v", s)
	}
	if _, err := g.Insert(t.Context(), slots[0], chain(g.Params(), slots[0], 1), SourceSync); !errors.Is(err, ErrNoSlot) {
		t.Errorf("insert into an expired slot: %v, want ErrNoSlot", err)
	}
}

// A clock that was wrong and is set right, in either direction, deletes nothing, as
// long as it does not insist for pruneGrace (failure case 37).
func TestClockJumps(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Window: 2, Now: c.now})
	e, err := g.Publish(t.Context(), []byte("here"))
	if err != nil {
		t.Fatal(err)
	}
	slot := g.Current()
	var p pruner
	now := time.Now()
	look := func(after time.Duration) {
		t.Helper()
		now = now.Add(after)
		if err := p.step(t.Context(), g, now); err != nil {
			t.Fatal(err)
		}
	}
	c.add(1000 * time.Hour) // forward, and back before the grace is over
	look(0)
	look(pruneGrace - 1)
	future, err := g.Publish(t.Context(), []byte("from the future"))
	if err != nil {
		t.Fatal(err)
	}
	c.add(-1000 * time.Hour)
	look(1)
	look(pruneGrace)
	if !g.HasBody(slot, e.ID()) {
		t.Fatal("the clock was wrong for less than the grace, and events are gone")
	}
	if _, _, err := g.Find(future.ID()); err != nil {
		t.Errorf("an event of a slot in the future: %v", err)
	}
	if got := g.Slots(); got[len(got)-1] != slot {
		t.Errorf("the current slot is %v, want %v", got[len(got)-1], slot)
	}
	c.add(-1000 * time.Hour) // further back
	look(0)
	look(pruneGrace)
	c.add(1000 * time.Hour)
	if !g.HasBody(slot, e.ID()) {
		t.Error("a clock that went back deleted events")
	}
	// It insists: gone.
	c.add(1000 * time.Hour)
	look(0)
	look(pruneGrace)
	if g.HasBody(slot, e.ID()) || !g.HasBody(g.Current(), future.ID()) {
		t.Error("after the grace the old slot must be gone and the future one current")
	}
	checkInvariants(t, g)
}

// Failure case 37: no walk of the clock makes anything panic or fail.
func TestClockWalk(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Window: 2, Now: c.now})
	var p pruner
	now := time.Now()
	for i, d := range []time.Duration{1, -1, 3600, -7200, 1e7, -2e7, 86400, -1e9, 1e9, -1e10, 1e10, 5e10} {
		c.add(d * time.Second)
		now = now.Add(pruneGrace)
		if err := p.step(t.Context(), g, now); err != nil {
			t.Fatal(err)
		}
		g.Slots()
		g.Stats()
		if _, err := g.Publish(t.Context(), fmt.Append(nil, i)); err != nil && !errors.Is(err, ErrNoSlot) {
			t.Errorf("step %d at %v: %v", i, c.now(), err)
		}
		checkInvariants(t, g)
	}
}

// A slot that begins within the drift takes events before it is current: another
// clock may be ahead (DS-23 holds them one layer above).
func TestNextSlotWithinDrift(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	next, _ := g.Params().Next(c.now())
	events := chain(g.Params(), next, 1)
	c.set(next.Time().Add(-time.Minute - time.Millisecond))
	if _, err := g.Insert(t.Context(), next, events, SourcePut); !errors.Is(err, ErrNoSlot) {
		t.Errorf("more than the drift ahead: %v, want ErrNoSlot", err)
	}
	c.set(next.Time().Add(-time.Minute))
	mustInsert(t, g, next, events...)
	if g.Current() == next {
		t.Error("it must not be current yet")
	}
}

// Checklist 10.3, item 29, cannot happen: the current slot is made when it is used.
func TestCurrentSlotIsNeverMissing(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Window: 1, Now: c.now})
	for range 5 {
		c.add(1234 * time.Hour)
		e, err := g.NewEvent([]byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		genesis := g.Params().GenesisOf(g.Current())
		if e.Layer != 1 || e.Parents != [NumParents]ID{genesis.ID()} {
			t.Errorf("layer %d on %v", e.Layer, e.Parents)
		}
	}
}

// DS-19(e): an event's timestamp lies strictly inside its slot, at its first moment too.
func TestTimestampInsideSlot(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	next, _ := g.Params().Next(c.now())
	for _, x := range []struct {
		now  time.Time
		want uint64
	}{
		{next.Time().Add(-time.Millisecond), uint64(next) - 1},
		{next.Time(), uint64(next) + 1},
		{next.Time().Add(time.Millisecond), uint64(next) + 1},
	} {
		c.set(x.now)
		if e, err := g.NewEvent([]byte("x")); err != nil || e.Timestamp != x.want {
			t.Errorf("at %v: timestamp %d, %v; want %d", x.now, e.Timestamp, err, x.want)
		}
	}
}
