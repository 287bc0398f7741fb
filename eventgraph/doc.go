// Package eventgraph is the store of a DarkIRC event graph and the rules about
// it: which events are valid, where a new one attaches, what is kept and for how
// long, and in which order things arrived here.
//
// # Using it
//
// [Open] a directory (or [OpenMemory]), start [Graph.Run] in a goroutine, and
//
//   - write with [Graph.Publish], or with [Graph.NewEvent] and [Graph.Insert] where the
//     event must be kept elsewhere first;
//   - read what arrives with [Graph.Subscribe], from a cursor that survives restarts;
//   - page through history with [Graph.Page];
//   - ask [Graph.Descends] whether one event rests on another;
//   - refuse content that is not the application's with [Config].Validate.
//
// Package eventgraph/gossip carries events between nodes; this package does no
// network I/O, knows no peer and retries nothing. Statuses that peers sent pass
// through [Graph.PublishReceipt] unfiltered, without being understood here.
//
// # The life of a slot
//
// Time is cut into slots of [Params].Rotation. Each slot is a graph of its own
// that grows from its genesis, an event that every node computes for itself:
//
//	  future ──▶ current ──▶ retained ──▶ expired ──▶ gone
//	(within a   the wall    the Window-1  refuses     pruned by Run in
//	 drift:     clock is    slots before  everything  bounded transactions
//	 stores,    inside
//	 no tip)
//
// Nothing is carried from one slot to the next. Which slot is current follows the
// wall clock at every call, so a process that slept through three rotations wakes
// up in the right slot. No event fires at a boundary.
//
// # Invariants
//
//   - A body is stored only when the bodies of all its parents are.
//   - An event's layer is 1 + the highest layer of its parents.
//   - What is stored under an id hashes to that id, content included.
//   - A commit writes record, arrival and counters in one transaction; the index in
//     memory is rebuilt from records alone, so nothing on disk can disagree with it.
//   - Arrival numbers are dense and in commit order; a number is visible only once
//     its commit is durable.
//   - Slots that lie in the future of the clock are never deleted, nor is anything
//     unless the clock has insisted on it for two minutes.
//
// # Goroutines and locks
//
// Open starts none. Run is one goroutine: it prunes and drops idle caches. All
// methods may be called concurrently. Functions given to [Graph.OnCommit] and
// [Graph.ObserveReceipts] run on the caller that committed or published.
package eventgraph
