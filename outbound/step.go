package outbound

import (
	"fmt"

	"hearsay/eventgraph"
)

// An Input is something that happened: the closed set below.
type Input interface{ input() }

type (
	// Loaded says: this is the record at the head, as the store has it. nil: the queue is empty.
	Loaded struct {
		Record *Record
		Held   bool
	}
	// Tick says: time passed, or the facts changed.
	Tick struct{}
	// Acked says: there is evidence for a generation (DS-52).
	Acked struct{ Generation eventgraph.ID }
	// TooOld says that, to a peer, the slot of this generation is closed (DS-61).
	TooOld struct{ Generation eventgraph.ID }
	// Nudge says: what a parked head waits for may have come (a key, an identity, disk space).
	Nudge struct{}

	// Done says: the last action is done, durably where it is a commit.
	Done struct{}
	// Materialised is the result of Materialise.
	Materialised struct {
		Event eventgraph.Event
		Blob  []byte
	}
	// Refused is the result of Materialise where there is none.
	Refused struct {
		Reason  Reason
		RetryAt instant
	}
	// PutDone is the result of Send.
	PutDone struct{ Written int }
	// Failed says: a commit or the insertion did not happen, as far as is known. Record is
	// what the store has at the head now.
	Failed struct {
		Reason Reason
		Record *Record
		Held   bool
	}
)

func (Loaded) input()       {}
func (Tick) input()         {}
func (Acked) input()        {}
func (TooOld) input()       {}
func (Nudge) input()        {}
func (Done) input()         {}
func (Materialised) input() {}
func (Refused) input()      {}
func (PutDone) input()      {}
func (Failed) input()       {}

// Format implements [fmt.Formatter] without the content.
func (m Materialised) Format(f fmt.State, _ rune) {
	hide(f, "materialised "+m.Event.Header.ID().String())
}

// An Action is work for the driver, performed in order; a commit has reached the disk
// before the next one starts.
type Action interface{ action() }

type (
	// Materialise asks for an event of the head's payload: Materialised or Refused.
	Materialise struct{ Entry Entry }
	// PutGeneration commits the new active generation (DS-40): Done or Failed.
	PutGeneration struct {
		Entry      Entry
		Number     uint32 // from 0
		Generation Generation
		row        generationRow
		due        instant
	}
	// Insert shows the active generation to the local graph: Done or Failed.
	Insert struct {
		Position   Position
		Generation *Generation
	}
	// Send puts the active generation to peers: PutDone.
	Send struct {
		Position   Position
		Generation *Generation
		ToStock    bool
	}
	// SaveRound commits the schedule after a round, SavePark after a change of the
	// park reason: Done.
	SaveRound struct {
		Position Position
		retry    retryRow
	}
	// SavePark is like SaveRound, under a name of its own.
	SavePark struct {
		Position Position
		retry    retryRow
	}
	// Dequeue removes the head (DS-54): Loaded with the next one, or Failed.
	Dequeue struct{ Position Position }
	// Tell is a notice for connected users (DS-76): Done.
	Tell struct{ Notice Notice }
)

func (Materialise) action()   {}
func (PutGeneration) action() {}
func (Insert) action()        {}
func (Send) action()          {}
func (SaveRound) action()     {}
func (SavePark) action()      {}
func (Dequeue) action()       {}
func (Tell) action()          {}

// Format implements [fmt.Formatter] without the content.
func (p PutGeneration) Format(f fmt.State, _ rune) {
	hide(f, fmt.Sprintf("put generation %d of %v", p.Number, p.Entry.Position))
}

// A Record is the head as the store has it.
type Record struct {
	Entry Entry
	// Generations, oldest first; the last is the active one.
	Generations []generationRow
	// Active is the exact event and blob of the last generation; nil without one.
	Active *Generation
	retry  retryRow
}

// has tells whether id is one of the record's generations.
func (r *Record) has(id eventgraph.ID) bool {
	for i := range r.Generations {
		if r.Generations[i].id == id {
			return true
		}
	}
	return false
}

// active is the row of the active generation.
func (r *Record) active() *generationRow { return &r.Generations[len(r.Generations)-1] }

// Format implements [fmt.Formatter] without the text.
func (r *Record) Format(f fmt.State, _ rune) {
	hide(f, fmt.Sprintf("record %v, %d generations", r.Entry.Position, len(r.Generations)))
}
