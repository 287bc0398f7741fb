// Package gossip keeps the event graphs of connected nodes in step: it pushes new
// events, answers what was pushed, serves requests, and compares slots with each peer.
// It is the only place where package p2p (bytes, connections) and package eventgraph
// (events, rules, store) meet.
//
// It knows nothing of content, retries nothing and keeps nothing on disk: an event
// that did not get through is the business of whoever wants it through, with
// [Gossip.Put] as the verb and [eventgraph.Graph.Receipts] as the evidence.
//
// # The pure parts
//
//   - put.go decides what becomes of a pushed event, and when one may be sent;
//   - plan.go decides which slot is compared with which peer next, and whether the
//     node is synced;
//   - ancestry.go and pull.go's sift and leading judge what a fetch brings;
//   - flood.go counts; messages.go and status.go code.
//
// They take facts and times and return decisions. The other files gather the facts
// and act.
//
// # Invariants
//
//   - Nothing is sent to a peer before it is known to be a full one (p2p facts, trap
//     5), and no status to one that did not announce [FeatureStatus] (DS-80).
//   - What is relayed is stored here (trap 18); what is answered "has" is durable (DS-16).
//   - A peer is asked only for ids that it listed itself, or that are parents of events
//     that it sent (trap 10), and for at most 128 at a time.
//   - One request per reply type and connection is out at a time, two for events,
//     whose replies show what they answer (trap 8, decision 0222).
//   - A fault of our own never strikes a peer, and after the strike that closes, or a
//     ban, nothing is sent (DS-17).
//   - Everything that a peer can make us keep has a bound in limits.go.
//   - A peer that lies, drips or is silent delays nobody but itself.
//
// # Goroutines
//
// [Gossip.Run] is one: it follows the clock's slots and the gate. Each connection has
// the node's reader, which calls Handle and only decodes and queues, and under Run
// five more: puts in (with workers, of which one at a time stores the puts of all
// connections, stage.go), puts out, relays, requests of the peer, comparisons with the
// peer (with two more while bodies come). The graph's commit callback queues local
// events and never blocks.
package gossip
