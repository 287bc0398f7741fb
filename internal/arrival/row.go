package arrival

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// maxGenerations bounds the generations that one own row remembers: the newest ones.
// A message that is recreated hourly for a year has 8,760, of which only those in
// retained slots can come back.
const maxGenerations = 1 << 10

// Seq is a position in the order of arrival, from 1.
type Seq uint64

// An ID names an own message (its logical id) or a mailbox message.
type ID [16]byte

// A Kind says what a row stands for.
type Kind uint8

// Kinds.
const (
	Foreign Kind = iota + 1 // somebody's event
	Own                     // a message accepted here
	Mail                    // a message from a mailbox
)

// A Row is one message in the order of arrival.
type Row struct {
	Seq   Seq
	Kind  Kind
	At    int64           // ms: of acceptance for an own message, of arrival for others
	Slot  eventgraph.Slot // of Event; 0 while there is none
	Event eventgraph.ID   // the event, or the newest generation; null while there is none
	ID    ID              // logical id or mailbox message id; of a foreign event that of the message, if a mailbox brought it too
	Hash  [32]byte        // content hash of Event
	// Position is an own message's place in the queue, for as long as it is there.
	Position uint64
	// Place is what history knows of it.
	Place Place

	generations []generation // older ones of an own message, oldest first; the aliases of a mailbox message
}

type generation struct {
	event eventgraph.ID
	hash  [32]byte
}

// Time is At as a time.
func (r *Row) Time() time.Time { return time.UnixMilli(r.At) }

// Events are the events that the row stands for, the newest first. Only some of them
// may be in the graph.
func (r *Row) Events() (ids []eventgraph.ID) {
	if !r.Event.IsNull() {
		ids = append(ids, r.Event)
	}
	for _, g := range slices.Backward(r.generations) {
		if !g.event.IsNull() {
			ids = append(ids, g.event)
		}
	}
	return ids
}

// readSeq follows an index; 0 where it leads nowhere.
func readSeq(r kv.Reader, k []byte) (Seq, error) {
	v, err := r.Get(k)
	if errors.Is(err, kv.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("arrival: %w: index of %d bytes", kv.ErrCorrupt, len(v))
	}
	return Seq(binary.BigEndian.Uint64(v)), nil
}

func readRow(r kv.Reader, s Seq) (row Row, err error) {
	v, err := r.Get(key(tableRow, be(uint64(s))))
	if errors.Is(err, kv.ErrNotFound) {
		return row, ErrNotFound
	}
	if err != nil {
		return row, err
	}
	row.Seq = s
	return row, row.decode(v)
}

// carries tells whether one of the row's own events has a content, and not only an alias
// of it.
func (r *Row) carries(hash [32]byte) bool {
	if r.Hash == hash {
		return true
	}
	for _, g := range r.generations {
		if g.hash == hash && !g.event.IsNull() {
			return true
		}
	}
	return false
}
