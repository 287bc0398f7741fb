package outbound

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hearsay/eventgraph"
)

// A ConnID names one connection of this process. It is ephemeral: never stored, never
// logged (DS-51), so it prints as a placeholder.
type ConnID uint64

// Format implements [fmt.Formatter].
func (ConnID) Format(f fmt.State, _ rune) { hide(f, "[conn]") }

// MarshalText implements [encoding.TextMarshaler].
func (ConnID) MarshalText() ([]byte, error) { return []byte("[conn]"), nil }

// Facts are what the network side knows at one moment. They are asked for at every
// step; [Worker.Wake] says that they changed.
type Facts struct {
	Synced bool
	// Targets counts the connections that can take a put: inbound, outbound, manual and
	// direct ones, seed and refine never (DS-57).
	Targets int
	// Window is the current slot by the wall clock that Worker's Config.Now reads too.
	Window Window
	// NotBefore is when pacing lets the head's next put go to every target (DS-86).
	// Zero: now.
	NotBefore time.Time
}

// ErrSlotClosed: an event's slot is no longer the current one, so it can no longer
// be inserted.
var ErrSlotClosed = errors.New("outbound: slot is closed")

// A Put is one event to hand to peers.
type Put struct {
	ID    eventgraph.ID
	Event eventgraph.Event // not to be changed
	Blob  []byte           // not to be changed
	// ToStock: also to peers that did not announce the feature (DS-19).
	ToStock bool
	// To is to be called for each connection before the frame is queued on it: from
	// then on its statuses for this event count (DS-52). It does not block.
	To func(ConnID)
}

// Network is what the worker needs of the event graph and its peers. The
// application supplies it; all methods but Insert and Put return at once.
type Network interface {
	Facts() Facts
	// Insert stores the event in the local graph as a local one, before which no peer
	// can see it. nil where it is there already; ErrSlotClosed where its slot is not
	// the current one. It returns after the graph's commit.
	Insert(ctx context.Context, ev eventgraph.Event) error
	// Put hands the event to every connection that may take it now, the head's before
	// relayed ones (DS-86), and returns as soon as one whole frame is written or none
	// can be any more: the number of frames written so far. ctx bounds it.
	Put(ctx context.Context, p Put) (written int)
	// ForeignDescendant tells whether the graph holds a foreign event that rests on one
	// of ids, directly or not (DS-52, at start). Local computation only.
	ForeignDescendant(ctx context.Context, ids []eventgraph.ID) (id eventgraph.ID, found bool, err error)
	// Oldest is the oldest slot that the graph retains (DS-85). With an archive that
	// never ends, a horizon of the application's choice.
	Oldest() eventgraph.Slot
}

// Materialiser makes an event of a payload: encryption with a fresh nonce as fixed at
// acceptance, then an event on fresh tips with the current time (DS-70, DS-74, DS-79). It
// stores nothing and shows nothing. A refusal is a *[Refusal]; any other error parks
// the head as ReasonProcessing.
type Materialiser interface {
	Materialise(ctx context.Context, e Entry) (eventgraph.Event, error)
}

// A RateLimiter reserves a message slot and proves it for an event that has been made
// (DS-78). It must never give out a slot twice, also over restarts; a reservation whose
// event is thrown away is lost. The built-in behaviour (nil) is no rate limiting and
// an empty blob; no implementation is part of the product.
type RateLimiter interface {
	// Prove returns the blob, or a *[Refusal] with ReasonBudget or ReasonIdentity.
	Prove(ctx context.Context, ev eventgraph.Event) (blob []byte, err error)
}

// A Refusal parks the head. It says nothing of the message.
type Refusal struct {
	Reason  Reason    // one of the parking reasons
	RetryAt time.Time // when to try again; zero: at the next wakeup
	Err     error     // may be nil
}

func (r *Refusal) Error() string {
	if r.Err != nil {
		return "outbound: refused: " + r.Reason.String() + ": " + r.Err.Error()
	}
	return "outbound: refused: " + r.Reason.String()
}

// Unwrap is the cause.
func (r *Refusal) Unwrap() error { return r.Err }
