// Package relay keeps sealed envelopes for mailboxes and hands them out under
// leases: the relay role of the leased mailbox (spec/mailbox.md).
//
// What it knows of its users is a keyed hash of a token and of a transport key,
// times, and sizes. It cannot open an envelope's body, and imports nothing that
// could.
//
// Each request is one transaction over the store, decided by a function of the
// state, one clock reading, the limits and a source of random ids, with no other
// input: deposit.go, lease.go, ack.go and expire.go, a file per custody transition.
// Every counter that a quota reads lives in the transaction that changes it, so no
// request counts rows, and a crash cannot make them differ. cache.go reads and writes each
// record that rows share once in a transaction.
//
// Invariants, checked with [Recount] in the tests after every step:
//
//   - an accepted deposit has exactly one row until it is acknowledged or expires;
//   - a row is held by at most one live lease;
//   - only an acknowledgement that names a row of its own live lease deletes it;
//   - each counter equals a recount.
//
// [Relay.Run] sweeps what expired; nothing depends on it having run, since every
// request judges expiry by its own clock reading.
package relay
