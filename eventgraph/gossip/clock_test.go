package gossip

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// Trap 35: the machine is suspended for eight hours. The wall clock has moved on, timers
// have not: from the next look on everything is judged in the slot of the clock, and the
// gate closes until that slot was compared.
func TestSuspend_Trap35(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var asleep atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(asleep.Load())) }
		g, err := eventgraph.OpenMemory(eventgraph.Config{Params: testParams, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := Config{Now: now}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		n := &node{t: t, graph: g, store: &faultyGraph{Graph: g}}
		n.gossip = newGossip(cfg, n.store)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = n.gossip.Run(ctx) })
		t.Cleanup(func() {
			cancel()
			running.Wait()
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
		var answers atomic.Bool
		answers.Store(true)
		p := newPuppet(t, n, p2p.SessionOutbound, true, func(p *puppet, command string, _ []byte) {
			if answers.Load() {
				inStep(p, command, nil)
			}
		})
		rest(5 * time.Second)
		if !n.gossip.Synced() {
			t.Fatal("not synced before")
		}
		answers.Store(false)
		asleep.Store(int64(8 * time.Hour))
		slot := testSlot + 8*hourMS
		if n.graph.Current() != slot {
			t.Fatalf("current slot %v, want %v", n.graph.Current(), slot)
		}
		e, err := n.graph.NewEvent([]byte("after the sleep"))
		if err != nil || e.Parents[0] != genesisID(slot) {
			t.Errorf("made on %v, %v", e.Parents[0], err)
		}
		// Stamped now by the sleeper's old clock: too old for the slot that it is in now.
		late := testEvent(uint64(testSlot)+600_000, genesisID(testSlot))
		p.put(late)
		p.wantAnswer(late, eventgraph.NackTooOld)
		rest(maxRotationPoll)
		if n.gossip.Synced() {
			t.Error("the gate is open, and nobody was asked for this slot")
		}
		fresh := testEvent(uint64(now().UnixMilli()), genesisID(slot))
		p.put(fresh)
		p.wantAnswer(fresh, eventgraph.NackNotSynced)
		answers.Store(true)
		rest(4 * time.Minute)
		if !n.gossip.Synced() {
			t.Error("not synced after")
		}
		again := testEvent(uint64(now().UnixMilli()), genesisID(slot))
		p.put(again)
		p.wantAnswer(again, eventgraph.HasInserted)
		synctest.Wait()
		n.wantStrikes(0)
	})
}
