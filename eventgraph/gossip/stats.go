package gossip

import (
	"sync/atomic"

	"hearsay/eventgraph"
)

// Stats are sums over all connections since New, and the state now. They hold
// nothing of any peer.
type Stats struct {
	Peers     int // connections that speak the protocol
	Capable   int // of these, with the status feature
	Targets   int // of these, that can take a put
	Synced    bool
	SlotsDone int // slots compared with a peer or lived through
	SlotsAll  int // slots wanted

	PutsStored, PutsKnown, PutsInvalid, PutsTooOld, PutsNotSynced, PutsBusy, PutsHeld, PutsDropped int64

	OwnPuts, Relayed, RelaysSaved, RelaysStale, RelaysDropped         int64
	StatusesSent, StatusesReceived, StatusesBad                       int64
	Strikes, StruckOut, FloodBans, Unrevealed                         int64
	Served, Skipped, RequestsDropped, Comparisons, Pulls, PullsFailed int64
	Walks                                                             int64
	EventsSynced, FetchFailures, InsertErrors, Strays, StaticAdded    int64
}

// counters are the running sums behind Stats.
type counters struct {
	results [eventgraph.NackBusy + 1]atomic.Int64

	stored, heldPuts, droppedPuts                                     atomic.Int64
	ownPuts, relayed, savedRelays, staleRelays, droppedRelays         atomic.Int64
	statusesOut, statusesIn, badStatuses                              atomic.Int64
	strikes, struckOut, floodBans, unrevealed                         atomic.Int64
	served, skipped, droppedRequests, comparisons, pulls, failedPulls atomic.Int64
	walks                                                             atomic.Int64
	synced, fetchFailures, insertErrors, strays, staticAdded          atomic.Int64
}

func (s *counters) outcome(r eventgraph.Result) { s.results[r].Add(1) }

// Stats returns the counters and the state.
func (g *Gossip) Stats() Stats {
	n := &g.stats
	s := Stats{
		PutsStored:    n.results[eventgraph.HasInserted].Load(),
		PutsKnown:     n.results[eventgraph.HasAlready].Load(),
		PutsInvalid:   n.results[eventgraph.NackInvalid].Load(),
		PutsTooOld:    n.results[eventgraph.NackTooOld].Load(),
		PutsNotSynced: n.results[eventgraph.NackNotSynced].Load(),
		PutsBusy:      n.results[eventgraph.NackBusy].Load(),
		PutsHeld:      n.heldPuts.Load(),
		PutsDropped:   n.droppedPuts.Load(),

		OwnPuts: n.ownPuts.Load(), Relayed: n.relayed.Load(), RelaysSaved: n.savedRelays.Load(),
		RelaysStale: n.staleRelays.Load(), RelaysDropped: n.droppedRelays.Load(),
		StatusesSent: n.statusesOut.Load(), StatusesReceived: n.statusesIn.Load(), StatusesBad: n.badStatuses.Load(),
		Strikes: n.strikes.Load(), StruckOut: n.struckOut.Load(), FloodBans: n.floodBans.Load(), Unrevealed: n.unrevealed.Load(),
		Served: n.served.Load(), Skipped: n.skipped.Load(), RequestsDropped: n.droppedRequests.Load(), Comparisons: n.comparisons.Load(),
		Pulls: n.pulls.Load(), Walks: n.walks.Load(), PullsFailed: n.failedPulls.Load(),
		EventsSynced: n.synced.Load(), FetchFailures: n.fetchFailures.Load(), InsertErrors: n.insertErrors.Load(),
		Strays: n.strays.Load(), StaticAdded: n.staticAdded.Load(),
	}
	s.Synced = g.Synced()
	s.SlotsDone, s.SlotsAll = g.Progress()
	for _, c := range g.conns() {
		s.Peers++
		if c.capable.Load() {
			s.Capable++
		}
		if c.takesPuts() {
			s.Targets++
		}
	}
	return s
}
