// Package stock is the strict stock peer: a test double that does what the facts
// pages say an unmodified darkirc node does, and keeps a record of everything for
// which such a node would strike, ban or drop the other side, or would suffer in
// silence.
//
// It shares no code with the packages under test but the encodings of headers and
// events, the byte grammar and the URL type; frames, messages, metering, the
// graph, its sync and its quirks are written here again from the pages ("p2p" and
// "eventgraph" below are those pages). RLN is off, as in darkirc's default. Known
// upstream faults are kept where another node can notice them: the recursive
// parent fetch in one request, the relay limiter, all-or-nothing sync, silence
// while unsynced, the reveal set that is emptied at each rotation.
//
// A [Peer]'s Run owns all of its goroutines; [Peer.Serve] owns those of one
// connection. Nothing waits with a mutex held, so peers run in fake time. All
// state is in memory.
package stock
