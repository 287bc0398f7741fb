// Package hearsay is gossip with receipts: a node for DarkIRC's event-graph
// network that keeps every accepted message until the network shows that it has
// it.
//
// The daemon is cmd/hearsay. Go programs build on these packages:
//
//   - eventgraph: the graph itself. Open it, publish content, subscribe to what
//     arrives, ask for ancestry and pages. It does no network I/O.
//   - eventgraph/gossip: the graph's protocol on a peer-to-peer node:
//     propagation, put statuses, synchronisation.
//   - p2p: peers, handshakes, transports. It carries bytes and cannot name an
//     event.
//   - outbound: a durable first-in-first-out queue whose head is sent until there
//     is evidence that it arrived. It cannot read what it orders.
//   - mailbox, with its two ends mailbox/relay and mailbox/endpoint: sealed mail kept
//     under leases for those who are away. Neither end can read it.
//
// A program outside this module can use the first three. The last two take a store of
// internal/kv and keys of internal/box, so they are for programs inside it.
//
// ARCHITECTURE.md is the map, spec/ the wire and storage formats, and
// imports_test.go the dependency diagram in executable form.
package hearsay
