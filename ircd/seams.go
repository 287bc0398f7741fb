package ircd

import (
	"context"
	"errors"
	"iter"
	"time"

	"hearsay/eventgraph"
)

// A Graph is where messages come from.
type Graph interface {
	// Subscribe yields the stored arrivals after from in order, then new ones as they
	// come, until ctx ends. A slow reader of it blocks nobody.
	Subscribe(ctx context.Context, from eventgraph.Seq) iter.Seq2[eventgraph.Arrival, error]
	// Last is the newest arrival there is, 0 for none; it may have been pruned.
	Last() eventgraph.Seq
}

var _ Graph = (*eventgraph.Graph)(nil)

// An Outbox takes messages that must not be lost.
type Outbox interface {
	// Accept makes the parts of one message durable, in order, all or none, and
	// returns one Accepted for each. Only a nil error is an acceptance (DS-31, DS-32).
	// Errors that clients are told apart: ErrQueueFull, ErrStorageUnknown, ErrNoKey;
	// any other is a storage error. It may block for a disk, not for the network, and
	// is called from several goroutines.
	Accept(ctx context.Context, parts []Message) ([]Accepted, error)
}

// Accepted names a message for ever.
type Accepted struct {
	ID   string    // logical id: 1 to 64 letters and digits
	Time time.Time // when it was accepted
}

// Generations knows the events that accepted messages became (DS-85).
type Generations interface {
	// Logical returns what Accept returned for the message of which the event id is a
	// generation. It is called for every arrival.
	Logical(id eventgraph.ID) (Accepted, bool)
}

// A Network tells clients whether anybody can hear them.
type Network interface {
	// State is asked once a second and must not block.
	State() NetworkState
}

// NetworkState is a moment's view.
type NetworkState struct {
	Peers  int  // connections that can take a message
	Needed int  // how many are wanted before anything is sent
	Synced bool // the current slot is complete as far as the peers know
}

// Refusals of an Outbox, with the codes of the outer contract.
var (
	ErrQueueFull      = errors.New("ircd: outbound queue is full")
	ErrTooLong        = errors.New("ircd: message too long")
	ErrStorage        = errors.New("ircd: storage failed; the message was not accepted")
	ErrStorageUnknown = errors.New("ircd: storage failed; whether the message was accepted is unknown")
	ErrNoKey          = errors.New("ircd: the conversation's key is gone or was changed")
)
