// Package p2p meets peers and carries frames: sessions, host lists, framing, rate
// limits and bans, as the network of DarkIRC has them (spec/wire.md).
//
// A [Node] is made with [New] from a [Config] and runs in [Node.Run]. An application
// registers a [Protocol]: its commands and their bounds, and a function that makes a
// [Handler] for each connection. Handlers get messages from the connection's reader
// and send with [Peer.Send] and [Peer.TrySend].
//
// # What it does not know
//
// No message's meaning but those of the six base commands; no event, no chat, no
// store but the host list file. It never retries a message.
//
// # Invariants
//
//   - Handlers are attached before the first byte is read, so no command of ours is
//     ever unknown. What is sent beyond the base commands is the application's to gate
//     on [Peer.Feature] (DS-80).
//   - A frame is written whole by one goroutine. Frames are cut only where a peer does
//     not read, or the process dies (ST-07).
//   - Memory follows bytes that arrived, never what is announced, and all peers of one
//     kind together have a bound (limits.go).
//   - Nothing a peer does stops an accept loop.
//   - No address goes to the log: transport errors, which hold some, are mapped to the
//     causes in fault.go first. [Event] and [Info] hold addresses, for viewers.
//
// # Goroutines
//
// Run owns them all and returns after the last: one per listener, outbound slot, manual
// peer and seed; peer discovery, the refinery and the saver of the host list; and per
// connection the session's (which waits for its end), the reader, the writer, and one
// per handler. [Handler.Handle] runs in the reader, [Message].Written in the writer.
package p2p
