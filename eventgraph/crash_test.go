package eventgraph

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"hearsay/internal/kv"
	"hearsay/internal/kv/kvtest"
)

// scene goes through every commit of the package. It stops at the first error and
// returns what was reported as stored until then.
func scene(g *Graph, c *clock, t *testing.T) (stored []ID, err error) {
	insert := func(s Slot, src Source, events ...Event) {
		if err != nil {
			return
		}
		var got []ID
		got, err = g.Insert(t.Context(), s, events, src)
		stored = append(stored, got...)
	}
	do := func(f func() error) {
		if err == nil {
			err = f()
		}
	}
	s := g.Current()
	events := chain(g.Params(), s, 6)
	insert(s, SourceLocal, events[0])
	insert(s, SourcePut, events[1], events[2])
	do(func() error { return g.InsertHeaders(s, headersOf(events[3:])) })
	insert(s, SourceSync, events[3])
	do(func() error { return g.DropHeaders(s) })
	do(func() error { return g.InsertHeaders(s, headersOf(chain(g.Params(), s, 2*pruneKeys))) })
	do(func() error { return g.DropHeaders(s) })
	genesis := g.Params().GenesisOf(g.Params().Genesis)
	do(func() error {
		_, err := g.StaticInsert(forge(1, "static", &genesis))
		return err
	})
	// A slot that takes three transactions to prune, then its expiry.
	c.add(time.Hour)
	insert(g.Current(), SourceSync, chain(g.Params(), g.Current(), 2*pruneKeys+1)...)
	c.add(time.Hour)
	insert(g.Current(), SourceLocal, chain(g.Params(), g.Current(), 1)...)
	do(func() error {
		var p pruner
		now := time.Now()
		if err := p.step(t.Context(), g, now); err != nil {
			return err
		}
		return p.step(t.Context(), g, now.Add(pruneGrace))
	})
	return stored, err
}

// ST-03, and failure case 46: whichever commit fails, applied or not, the store is
// sound when it is opened again, holds everything that was reported as stored and is
// still retained, and the same scene then runs to its end.
func TestCrashTable(t *testing.T) {
	seen := map[string]bool{}
	for _, op := range Ops() {
		for _, applied := range []bool{false, true} {
			for skip := 0; ; skip++ {
				c := newClock()
				mem := kv.OpenMemory()
				st := &kvtest.Faulty{Store: mem, Op: op.Name, Applied: applied, Skip: skip, Sticky: true}
				name := fmt.Sprintf("%s, applied %v, occurrence %d", op.Name, applied, skip)
				cfg := Config{Now: c.now, Window: 1}
				var stored []ID
				g, err := OpenStore(st, cfg)
				if err == nil {
					stored, err = scene(g, c, t)
					_ = g.Close()
				}
				if !st.Failed() {
					if skip == 0 {
						t.Errorf("%s never happened", op.Name)
					}
					if err != nil {
						t.Errorf("%s: without a failure: %v", name, err)
					}
					break
				}
				seen[op.Name] = true
				if !errors.Is(err, kv.ErrUnknown) {
					t.Errorf("%s: %v, want an unknown outcome", name, err)
				}
				mem = mem.Reopen()
				if g, err = OpenStore(mem, cfg); err != nil {
					t.Errorf("%s: reopen: %v", name, err)
					continue
				}
				checkInvariants(t, g)
				var current []ID
				for _, id := range stored {
					if e, _, err := g.Find(id); err == nil {
						current = append(current, e.ID())
					}
				}
				last := chain(g.Params(), g.Current(), 1)[0].ID()
				if slices.Contains(stored, last) && !slices.Contains(current, last) {
					t.Errorf("%s: an event that was reported as stored is gone", name)
				}
				// Life goes on, from the start of the scene, once Run has finished what
				// pruning was interrupted.
				runPruner(t, g)
				checkInvariants(t, g)
				c.set(testStart)
				if _, err := scene(g, c, t); err != nil {
					t.Errorf("%s: the scene after it: %v", name, err)
				}
				runPruner(t, g)
				checkInvariants(t, g)
				if s := g.Stats(); s.Slots != 1 || s.Events != 1 || s.HeaderOnly != 0 || s.Static != 1 {
					t.Errorf("%s: after the scene: %+v", name, s)
				}
				_ = g.Close()
			}
		}
	}
	for _, op := range Ops() {
		if !seen[op.Name] {
			t.Errorf("commit %s was never broken", op.Name)
		}
	}
}
