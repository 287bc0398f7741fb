// Package outbound is the durable queue between an accepted message and the
// network: nothing that [Queue.Enqueue] accepted is lost, and messages go out one
// after another, each until the network shows evidence of it (spec/delivery.md).
//
// # What it does not know
//
// A message is an opaque [Payload]: the application turns it into an event when
// its turn comes ([Materialiser]) and is the only one that can read it. The package
// knows no channel, nick, key, peer or address; a connection is a number. It does
// not speak to the network; it asks [Network] for the facts of the moment and hands
// it exact events.
//
// # Invariants
//
//   - Positions are dense, allocated inside the transaction, and never reused (DS-31).
//   - Only the head has a generation (DS-35), and the head has at most one active one (DS-41).
//   - Nothing is visible before its generation is durable (DS-40, DS-71).
//   - Only evidence or a person removes a record, once (DS-54, DS-63, DS-64, DS-84).
//   - A replacement keeps its position (DS-39).
//   - An id that is not tracked changes nothing (DS-51, DS-55).
//   - Text is never printed: see [Payload] (DS-44).
//
// # Who runs what
//
// [Worker.Run] is the only goroutine that advances the head (DS-50). [Queue]'s methods
// may be called from any goroutine; those that remove records wait for the worker's
// turn to end (DS-56). [Worker.Observe], [Worker.ObserveTips], [Worker.Arrived] and [Worker.Wake]
// never block and remember a bounded number of bits.
//
// The decisions are in three pure files: head.go (what to do next), tracked.go (what
// counts as evidence) and notice.go (what to tell). worker.go performs them.
package outbound
