package ircd

import (
	"context"
	"errors"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/arrival"
	"hearsay/outbound"
)

// A Log is where messages come from, in the order in which they came to this node
// (DS-85). An [ArrivalLog] is one.
type Log interface {
	// Read lists recent messages after from, in order. It looks at no more than limit rows,
	// not all of which are messages any more, or recent enough to be shown unasked; next is where to go on, and from itself
	// where there was nothing.
	Read(from arrival.Seq, limit int) (page []Arrival, next arrival.Seq, err error)
	// Last is the place of the newest row, 0 where there is none: Read has gone that far
	// when everything that was accepted or had come before this call was looked at.
	Last() (arrival.Seq, error)
	// Changed returns a channel that is closed when, after this call, Read may have
	// more or Complete may have changed.
	Changed() <-chan struct{}
	// Complete tells whether everything that was stored when the keys were last set is
	// there: what follows is new.
	Complete() bool

	Past
}

// Past is what a Log knows of messages however old they are, as long as this node keeps
// their texts.
type Past interface {
	// Find is the mark of a message by its Arrival.ID; ok is false where it has none.
	Find(id string) (at arrival.Mark, ok bool, err error)
	// Page lists marks of a conversation, as [arrival.Log.Page] does.
	Page(of arrival.Tag, sp arrival.Span) ([]arrival.Mark, error)
	// Newest is when the newest message of a conversation came, of those up to last.
	Newest(of arrival.Tag, last arrival.Seq) (came time.Time, ok bool, err error)
	// Get reads the message at a place; ok is false where it is gone.
	Get(at arrival.Seq) (a Arrival, ok bool, err error)
	// Extent is how much there is.
	Extent() (arrival.Extent, error)
}

// An Arrival is one message of a Log.
type Arrival struct {
	Seq  arrival.Seq
	Came time.Time // when it came here, or was accepted
	Own  bool      // accepted here
	ID   string    // what it is called for ever: the logical id, or the event's
	Time time.Time // what its author's clock said, or when it was accepted
	// Notice: it was accepted as a NOTICE.
	Notice bool

	// Message is what was accepted, while it waits to be sent. Otherwise Content is
	// the encoded privmsg, and Event the event that it came in, if it was one.
	Message *Message
	Content []byte
	Event   eventgraph.ID
}

// An Outbox takes messages that must not be lost.
type Outbox interface {
	// Accept makes the parts of one message durable, in order, all or none, and
	// returns one Accepted for each. Only a nil error is an acceptance (DS-31, DS-32).
	// Errors that clients are told apart: ErrQueueFull, ErrTooLong, ErrStorageUnknown,
	// ErrNoKey; any other is a storage error. It may block for a disk, not for the
	// network, and is called from several goroutines. What it accepted is in the Log.
	Accept(ctx context.Context, parts []Message) ([]Accepted, error)
}

// Accepted names a message for ever.
type Accepted struct {
	ID   string    // logical id: 1 to 64 letters and digits
	Time time.Time // when it was accepted
}

// A Network tells clients whether anybody can hear them.
type Network interface {
	// State is asked once a second and must not block.
	State() NetworkState
}

// A Blockable is a Network that knows what holds accepted messages up.
type Blockable interface {
	Network
	// Blocked is what a client that connects now is told of it (DS-76). It must not
	// block.
	Blocked() (n outbound.Notice, ok bool)
}

// NetworkState is a moment's view.
type NetworkState struct {
	Peers     int  // connections that can take a message
	Needed    int  // how many are wanted before anything is sent
	Synced    bool // the current slot is complete as far as the peers know
	Connected int  // connections at all
}

// Refusals of an Outbox, with the codes of the outer contract.
var (
	ErrQueueFull      = errors.New("ircd: outbound queue is full")
	ErrTooLong        = errors.New("ircd: message too long")
	ErrStorage        = errors.New("ircd: storage failed; the message was not accepted")
	ErrStorageUnknown = errors.New("ircd: storage failed; whether the message was accepted is unknown")
	ErrNoKey          = errors.New("ircd: the conversation's key is gone or was changed")
)
