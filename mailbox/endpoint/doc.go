// Package endpoint is the mailbox as a node uses it: it deposits what was said to a
// contact at the contact's relays, and collects what waits at its own
// (spec/mailbox.md, use by the node).
//
// It knows envelopes and where they go. What is in one, and for whom, is the
// application's: it seals and opens.
package endpoint
