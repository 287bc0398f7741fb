// Package rpc is hearsay's control socket: JSON-RPC 2.0, one object a line, over
// a unix socket that only its owner may use, and optionally over a TCP listener
// that offers upstream's read-only methods and nothing else.
//
// It speaks the protocol and knows the shapes that upstream's viewers expect
// ([P2PInfo], [NetEvent], [GraphNode]). It does not know where the numbers come
// from: methods are functions that cmd/hearsay supplies, and it imports no other
// package of the module.
//
// Invariants:
//   - A method that is not [Method.Public] never runs for a TCP client.
//   - One request line, one connection's output, the number of connections and a
//     subscriber's backlog are bounded (limits.go). A client that does not read is
//     dropped; it blocks nobody.
//   - A socket file is made owner-only before it has its name, and a file that is no
//     socket is never removed.
//
// [Server.Run] owns all goroutines: one per listener, one per connection and one
// per subscription. [Client] has none.
package rpc
