package eventgraph

// A Status is what a peer said of a put: the decoded EventPutStatus (DS-01). It
// is a hint that anybody can forge.
type Status struct {
	ID     ID
	Result Result
}

// A Result is the outcome of a put: the closed set of DS-02.
type Result uint8

// The six results. The zero value is none of them.
const (
	HasInserted   Result = iota + 1 // stored durably, now (DS-16)
	HasAlready                      // was here before (DS-11, DS-12)
	NackTooOld                      // its slot is closed and not held here (DS-12)
	NackNotSynced                   // cannot tell yet (DS-10, DS-12)
	NackInvalid                     // established invalidity (DS-13)
	NackBusy                        // a passing reason (DS-14, DS-15)
)

// Has tells whether the peer claims to hold the event.
func (r Result) Has() bool { return r == HasInserted || r == HasAlready }

// String names the result as logs and status output do.
func (r Result) String() string {
	switch r {
	case HasInserted:
		return "has(inserted)"
	case HasAlready:
		return "has(already)"
	case NackTooOld:
		return "nack(too old)"
	case NackNotSynced:
		return "nack(not synced)"
	case NackInvalid:
		return "nack(invalid)"
	case NackBusy:
		return "nack(busy)"
	}
	return "invalid result"
}

// A Source says how an event came into the graph. It is stored with the event's
// arrival, since only foreign events are evidence (DS-52, DS-53).
type Source uint8

// Sources.
const (
	SourceLocal  Source = iota + 1 // created here
	SourcePut                      // pushed by a peer
	SourceParent                   // fetched as an ancestor of a push
	SourceSync                     // fetched by synchronisation
)

// Foreign tells whether the event came from the network.
func (s Source) Foreign() bool { return s != SourceLocal }
