package gossip

import (
	"context"
	"errors"
	"fmt"

	"hearsay/eventgraph"
	"hearsay/internal/serial"
)

// FeatureStatus and FeatureStatusVersion announce that this node can take an
// EventPutStatus (DS-80). They belong into the version message of inbound,
// outbound, manual and direct sessions, and of no other.
const (
	FeatureStatus               = "event_put_status"
	FeatureStatusVersion uint32 = 1
	statusSize                  = idSize + 2
	tagHas, tagNack      uint8  = 0, 1
	reasonTooOld         uint8  = 0
	reasonNotSynced      uint8  = 1
	reasonInvalid        uint8  = 2
	reasonBusy           uint8  = 3
)

// AppendStatus appends the 34 bytes of an EventPutStatus (DS-01, DS-02).
func AppendStatus(b []byte, s eventgraph.Status) []byte {
	b = append(b, s.ID[:]...)
	switch s.Result {
	case eventgraph.HasAlready:
		return append(b, tagHas, 0)
	case eventgraph.HasInserted:
		return append(b, tagHas, 1)
	case eventgraph.NackTooOld:
		return append(b, tagNack, reasonTooOld)
	case eventgraph.NackNotSynced:
		return append(b, tagNack, reasonNotSynced)
	case eventgraph.NackInvalid:
		return append(b, tagNack, reasonInvalid)
	case eventgraph.NackBusy:
		return append(b, tagNack, reasonBusy)
	}
	panic("gossip: status without a result")
}

// DecodeStatus reads a whole EventPutStatus payload. Anything but 34 bytes and an
// unknown tag or reason are errors; the bool is true unless it is 0, as everywhere.
func DecodeStatus(b []byte) (eventgraph.Status, error) {
	r := serial.NewReader(b)
	var s eventgraph.Status
	copy(s.ID[:], r.Take(idSize))
	switch tag := r.Uint8(); tag {
	case tagHas:
		s.Result = eventgraph.HasAlready
		if r.Bool() {
			s.Result = eventgraph.HasInserted
		}
	case tagNack:
		switch reason := r.Uint8(); reason {
		case reasonTooOld:
			s.Result = eventgraph.NackTooOld
		case reasonNotSynced:
			s.Result = eventgraph.NackNotSynced
		case reasonInvalid:
			s.Result = eventgraph.NackInvalid
		case reasonBusy:
			s.Result = eventgraph.NackBusy
		default:
			r.Fail(fmt.Errorf("%w: nack reason %d", errTag, reason))
		}
	default:
		r.Fail(fmt.Errorf("%w: result %d", errTag, tag))
	}
	if err := r.Done(); err != nil {
		return eventgraph.Status{}, err
	}
	return s, nil
}

// An outcome is what a put comes to: what its sender is told, and what it costs.
type outcome struct {
	result eventgraph.Result // 0: nothing is said
	strike bool
}

// insertOutcome is the one place that maps the store's errors to an answer. Only an
// established fault of the event strikes its sender; ours never do (DS-13, DS-15, DS-17).
func insertOutcome(err error) outcome {
	switch {
	case err == nil:
		return outcome{result: eventgraph.HasInserted}
	case errors.Is(err, context.Canceled):
		return outcome{}
	case errors.Is(err, eventgraph.ErrTooLarge):
		// Legal on the network, not kept here: the sender may be honest.
		return outcome{result: eventgraph.NackInvalid}
	case errors.Is(err, eventgraph.ErrInvalid), errors.Is(err, eventgraph.ErrForeign):
		return outcome{result: eventgraph.NackInvalid, strike: true}
	default:
		return outcome{result: eventgraph.NackBusy}
	}
}
