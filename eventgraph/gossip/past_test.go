package gossip

import (
	"context"
	"errors"
	"sync"
	"testing"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// A blindGraph cannot be read.
type blindGraph struct {
	*eventgraph.Graph
	err error
}

func (b *blindGraph) Find(id eventgraph.ID) (eventgraph.Event, eventgraph.Slot, error) {
	if b.err != nil {
		return eventgraph.Event{}, 0, b.err
	}
	return b.Graph.Find(id)
}

// DS-12, DS-14: where the store cannot tell whether an event of a closed slot is here, the
// answer is Busy. TooOld would have its author make it anew.
func TestPastPutOfUnreadableStore_DS12_DS14(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, err := eventgraph.OpenMemory(eventgraph.Config{Params: testParams})
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := Config{SkipSync: true}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		blind := &blindGraph{Graph: g, err: errors.New("disk on fire")}
		n := &node{t: t, graph: g}
		n.gossip = newGossip(cfg, blind)
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
		p := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		old := testEvent(uint64(testSlot)-hourMS+6000, genesisID(testSlot-hourMS))
		p.put(old)
		p.wantAnswer(old, eventgraph.NackBusy)
		blind.err = nil
		p.put(old)
		p.wantAnswer(old, eventgraph.NackBusy, eventgraph.NackTooOld)
		n.wantStrikes(0)
	})
}
