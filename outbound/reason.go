package outbound

import "errors"

// A Reason says why the head does not move. The zero value: it does.
type Reason uint8

// Reasons. The first group parks the head (DS-42, DS-75, DS-79) and is stored; the
// second is read off the facts of the moment.
const (
	ReasonNone       Reason = iota
	ReasonBudget            // rate limit exhausted until the epoch rolls over
	ReasonIdentity          // no rate-limit identity
	ReasonKey               // the key that was fixed at acceptance is gone or changed
	ReasonProcessing        // the event could not be made
	ReasonStorage           // a store refuses writes
	ReasonCapacity          // the queue's own bound leaves no room for a replacement

	ReasonHeld        // a restored queue waits for its user (ST-06)
	ReasonNotSynced   // the graph is not synced
	ReasonConnections // fewer than K connections can take a put
	ReasonNoAck       // R_MAX rounds without evidence
)

var errReason = errors.New("unknown park reason")

// stored tells whether r may stand in a stored record.
func (r Reason) stored() bool { return r <= ReasonCapacity }

// String is the word that status output and notices use.
func (r Reason) String() string {
	switch r {
	case ReasonNone:
		return ""
	case ReasonBudget:
		return "budget"
	case ReasonIdentity:
		return "identity"
	case ReasonKey:
		return "key"
	case ReasonProcessing:
		return "processing"
	case ReasonStorage:
		return "storage"
	case ReasonCapacity:
		return "capacity"
	case ReasonHeld:
		return "held"
	case ReasonNotSynced:
		return "not synced"
	case ReasonConnections:
		return "connections"
	case ReasonNoAck:
		return "no ack"
	}
	return "unknown"
}
