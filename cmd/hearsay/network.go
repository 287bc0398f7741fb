package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hearsay/eventgraph"
	"hearsay/eventgraph/gossip"
	"hearsay/internal/config"
	"hearsay/outbound"
)

// archiveHorizon is how long an archive that never ends remembers whose a generation
// is (decision 0120).
const archiveHorizon = 90 * 24 * time.Hour

// keeps says for how long texts are there.
func keeps(s config.Slots) string {
	if s.Archive {
		return "for ever, as archive_mode says; mail for 45 days"
	}
	return fmt.Sprintf("for %d hours, as history_retention_dags says; mail for 45 days", s.Retain)
}

// network is what the queue's worker sees of the graph and its peers.
type network struct {
	graph   *eventgraph.Graph
	gossip  *gossip.Gossip
	archive bool
}

var _ outbound.Network = network{}

// Facts implements outbound.Network. Peers are paced one by one, the head's put before
// relayed ones (DS-86), so there is never a reason to hold it back here.
func (n network) Facts() outbound.Facts {
	slot := n.graph.Current()
	end := uint64(n.graph.Params().End(slot))
	if n.graph.Params().Rotation == 0 {
		end = 0
	}
	return outbound.Facts{
		Synced: n.gossip.Synced(), Targets: n.gossip.PutTargets(),
		Window: outbound.Window{Slot: slot, End: end},
	}
}

// Insert implements outbound.Network.
func (n network) Insert(ctx context.Context, ev eventgraph.Event) error {
	slot := n.graph.Params().SlotAt(eventgraph.Slot(ev.Timestamp).Time())
	if slot != n.graph.Current() {
		return outbound.ErrSlotClosed
	}
	_, err := n.graph.Insert(ctx, slot, []eventgraph.Event{ev}, eventgraph.SourceLocal)
	if errors.Is(err, eventgraph.ErrNoSlot) {
		return outbound.ErrSlotClosed
	}
	return err
}

// Put implements outbound.Network. Who may take it by DS-19 is decided once more, for
// each connection and at the very moment, by gossip.
func (n network) Put(ctx context.Context, p outbound.Put) int {
	report := n.gossip.Put(ctx, p.Event, gossip.PutOptions{
		First:   true,
		Sending: func(c eventgraph.Conn) { p.To(outbound.ConnID(c)) },
	})
	return len(report.Written)
}

// ForeignDescendant implements outbound.Network.
func (n network) ForeignDescendant(ctx context.Context, ids []eventgraph.ID) (id eventgraph.ID, found bool, err error) {
	for _, id := range ids {
		list, err := n.graph.Descendants(id)
		if errors.Is(err, eventgraph.ErrNotFound) {
			continue
		}
		if err != nil {
			return id, false, err
		}
		for _, d := range list {
			if err := ctx.Err(); err != nil {
				return id, false, err
			}
			a, err := n.graph.Arrival(d)
			switch {
			case errors.Is(err, eventgraph.ErrNotFound): // pruned meanwhile
			case err != nil:
				return id, false, err
			case a.Source.Foreign():
				return id, true, nil
			}
		}
	}
	return id, false, nil
}

// Oldest implements outbound.Network.
func (n network) Oldest() eventgraph.Slot {
	oldest := n.graph.Slots()[0]
	if n.archive {
		if from := uint64(n.graph.Current()) - uint64(archiveHorizon.Milliseconds()); from > uint64(oldest) && from < uint64(n.graph.Current()) {
			return eventgraph.Slot(from)
		}
	}
	return oldest
}

// wakeInterval is how often facts that nobody announces are compared: an inbound
// connection that has become old enough, the turn of a slot.
const wakeInterval = time.Second

// wake tells the worker when what it decides by has changed, until ctx ends.
func (n network) wake(ctx context.Context, w *outbound.Worker) error {
	tick := time.NewTicker(wakeInterval)
	defer tick.Stop()
	last := n.Facts()
	for {
		changed := n.gossip.Changed()
		if now := n.Facts(); now != last {
			last = now
			w.Wake()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-tick.C:
		}
	}
}

// observe gives the worker what counts as evidence: statuses, tips of peers that cannot
// answer puts, and what the graph stores. Before anything runs.
func (n network) observe(w *outbound.Worker) {
	n.graph.ObserveReceipts(func(r eventgraph.Receipt) { w.Observe(r.Status, outbound.ConnID(r.Conn)) })
	n.graph.OnCommit(func(a eventgraph.Arrival) {
		w.Arrived(a.Event.ID(), a.Event.Parents[:], a.Source)
	})
	n.gossip.OnTips(func(_ eventgraph.Conn, capable bool, _ eventgraph.Slot, ids []eventgraph.ID) {
		if !capable {
			w.ObserveTips(ids)
		}
	})
}

func policy(d *daemon) outbound.Policy {
	o := d.cfg.Outbound
	return outbound.Policy{
		MinPeers: o.MinConnections, Wakeup: o.Wakeup, RetryInitial: o.RetryInitial, RetryRounds: o.RetryRounds,
		Drift: d.cfg.Graph.TimeDrift, NoTipEvidence: !o.TipEvidence,
	}
}
