// Package arrival is the durable order in which messages came to this node: other
// people's events, own messages from the moment they were accepted, messages from a
// mailbox. IRC history and cursors read it, so a late event with an old timestamp is
// never skipped and nothing is there twice (DS-85).
//
// It lives in the custody store beside the queue and the mailbox. Own messages enter
// in the transaction that enqueues them and leave in the one that cancels them
// ([Log.AppendOwn], [Log.RemoveOwn], called from outbound's hooks); foreign events come
// from the graph's own arrivals ([Log.Ingest], which keeps the graph's cursor in the
// same transaction); mailbox messages in the one that stages them.
//
// The log knows ids, hashes, times, and of each message a [Tag] that whoever can read it gave it:
// history pages through a conversation by it ([Log.Page]). It holds no text and reads none.
//
// Invariants:
//
//   - sequence numbers grow, start at 1 and are never reused; a removed row leaves a gap;
//   - an event id, a logical id and a mailbox message id have at most one row each;
//   - a row with a tag is in both orders of its conversation, by place and by time, for as long
//     as it is there, and nothing else is;
//   - every generation of an own message leads to its one row, which keeps the logical
//     id and the time of acceptance.
//
// The Log starts no goroutine.
package arrival
