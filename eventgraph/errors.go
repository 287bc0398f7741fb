package eventgraph

import (
	"errors"
	"fmt"
)

// Errors that callers branch on.
var (
	// ErrNotFound: no such event in any retained slot.
	ErrNotFound = errors.New("eventgraph: no such event")
	// ErrNoSlot: the slot is not retained (or not aligned to the rotation).
	ErrNoSlot = errors.New("eventgraph: slot is not loaded")
	// ErrInvalid is wrapped with the rule that was broken. It is final: the event
	// can never become valid in that slot.
	ErrInvalid = errors.New("eventgraph: invalid event")
	// ErrForeign: the event grows from another genesis. It is also an ErrInvalid.
	ErrForeign = fmt.Errorf("%w: header of another network", ErrInvalid)
	// ErrNoParent: a parent (its body, where a body is to be stored) is not here. It
	// may still come.
	ErrNoParent = errors.New("eventgraph: a parent is not stored")
	// ErrTooLarge: content above Config.MaxContent, or a batch above MaxBatch.
	ErrTooLarge = errors.New("eventgraph: too large")
	// ErrHeadersFull: the slot holds MaxHeaderOnly headers without a body.
	ErrHeadersFull = errors.New("eventgraph: too many headers without a body")
	// ErrStaticFull: the static graph is at its bound.
	ErrStaticFull = errors.New("eventgraph: static graph is full")
	// ErrConfig: see the wrapped text.
	ErrConfig = errors.New("eventgraph: invalid configuration")
	// ErrBusy: the disk is below its reserve and the store refuses new events (ST-02).
	ErrBusy = errors.New("eventgraph: store refuses new events")
	// ErrRotating: the slot changed again and again while an event was made.
	ErrRotating = errors.New("eventgraph: slot changed; make the event again")
	// ErrCorrupt: a stored record does not decode or contradicts another one (ST-04).
	ErrCorrupt = errors.New("eventgraph: store is corrupt")
	// ErrClosed: the graph was closed.
	ErrClosed = errors.New("eventgraph: closed")
)

// The rules, as errors that are made once.
var (
	errBounds      = fmt.Errorf("%w: timestamp outside its slot", ErrInvalid)
	errGenesis     = fmt.Errorf("%w: no parent", ErrInvalid)
	errSelf        = fmt.Errorf("%w: its own parent", ErrInvalid)
	errDuplicate   = fmt.Errorf("%w: a parent twice", ErrInvalid)
	errLayer       = fmt.Errorf("%w: layer is not 1 + the highest parent layer", ErrInvalid)
	errOverflow    = fmt.Errorf("%w: layer overflows", ErrInvalid)
	errEmpty       = fmt.Errorf("%w: empty content", ErrInvalid)
	errContentHash = fmt.Errorf("%w: content does not match its hash", ErrInvalid)
)

// An EventError names the event of a batch that an error is about.
type EventError struct {
	ID  ID
	Err error
}

func (e *EventError) Error() string { return fmt.Sprintf("event %v: %v", e.ID, e.Err) }

// Unwrap returns the rule that was broken.
func (e *EventError) Unwrap() error { return e.Err }
