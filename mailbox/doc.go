// Package mailbox is what both ends of the leased mailbox share: the envelope, the
// canonical CBOR of its requests and responses, the limits and the errors
// (spec/mailbox.md; requirements MB-01 to MB-60).
//
// A relay (mailbox/relay) keeps sealed envelopes for people who are away. Taking
// them out is in two steps, so that nothing is lost wherever either side stops:
//
//	deposited ──Lease──► leased ──AckLease(row ids)──► deleted
//	    ▲                  │
//	    └── lease expires ─┘
//
// A lease deletes nothing. An acknowledgement deletes exactly the rows that it
// names, after the recipient has them on disk.
//
// The package does no I/O and keeps no state. It can decode an envelope's header;
// it cannot open its body.
package mailbox
