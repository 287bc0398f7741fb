package gossip

import (
	"math"
	"slices"
	"time"

	"hearsay/eventgraph"
)

// This file decides what becomes of an EventPut. It does no I/O and reads no
// clock; inbox.go gathers the facts and acts. The rows are those of requirements
// DS-10 to DS-23 and of the facts page, section 4.6.

// admission is the first decision, before the flood window counts the put.
type admission struct {
	outcome
	counted bool // goes on, and counts in the flood window
}

// admit: an unsynced node cannot tell (DS-10); a body that is here already costs
// its sender nothing (DS-11).
func admit(synced, hasBody bool) admission {
	switch {
	case !synced:
		return admission{outcome: outcome{result: eventgraph.NackNotSynced}}
	case hasBody:
		return admission{outcome: outcome{result: eventgraph.HasAlready}}
	default:
		return admission{counted: true}
	}
}

// A placement says where in time a put belongs.
type placement uint8

const (
	placeCurrent placement = iota // of the current slot: check and insert
	placeGrace                    // of the current slot by its stamp, or a late one of the one before
	placePast                     // stamped before the current slot: only a lookup (DS-12)
	placeHold                     // of the next slot, within the drift: wait for it (DS-23)
	placeFuture                   // beyond the drift: a strike
	placeForm                     // breaks the rules that need no other event: a strike
)

// place judges a put by its stamp, against the time it arrived at: waiting for an
// ancestor must not make it stale (trap 26). There is no lower bound but the start
// of the current slot (DS-19 a), so an unchanged rebroadcast is welcome.
func place(p eventgraph.Params, current eventgraph.Slot, arrived time.Time, e *eventgraph.Event) placement {
	ts, drift := e.Timestamp, uint64(p.Drift.Milliseconds())
	switch now := millis(arrived); {
	case ts < uint64(current):
		return placePast
	case ts > now && ts-now > drift:
		return placeFuture
	case !wellFormed(e):
		return placeForm
	case ts >= uint64(p.End(current)):
		return placeHold
	case ts-uint64(current) < drift:
		return placeGrace
	default:
		return placeCurrent
	}
}

// wellFormed is the part of validity that needs neither store nor clock: content
// that is there and matches its hash, one parent at least, none twice. It comes
// before the id is remembered anywhere, for the id does not cover the content.
func wellFormed(e *eventgraph.Event) bool {
	if len(e.Content) == 0 || eventgraph.HashContent(e.Content) != e.ContentHash {
		return false
	}
	n := 0
	for i, p := range e.Parents {
		if p.IsNull() {
			continue
		}
		if slices.Contains(e.Parents[:i], p) {
			return false
		}
		n++
	}
	return n > 0
}

// pastOutcome answers a put stamped before the current slot (DS-12). It never
// strikes: an honest peer may be a moment behind.
func pastOutcome(held, slotSynced bool) outcome {
	switch {
	case held:
		return outcome{result: eventgraph.HasAlready}
	case !slotSynced:
		return outcome{result: eventgraph.NackNotSynced}
	default:
		return outcome{result: eventgraph.NackTooOld}
	}
}

// inBounds tells whether a header may belong to a slot at all (facts page, section
// 4.1). Ancestors that do not are not fetched further: trap 27.
func inBounds(p eventgraph.Params, slot eventgraph.Slot, ts uint64) bool {
	drift := uint64(p.Drift.Milliseconds())
	end := uint64(p.End(slot))
	return ts >= uint64(slot)-min(uint64(slot), drift) && (end > math.MaxUint64-drift || ts < end+drift)
}

// mayPut is DS-19 b to d: whether an event may go to a peer now, own or relayed. A
// peer without the status capability strikes puts that are more than the drift off
// its clock, so it gets the event only while that is certainly not so, and again
// once the slot has been closed for 1.5 times the drift, when it drops it silently.
func mayPut(p eventgraph.Params, now time.Time, ts uint64, capable bool) bool {
	if capable {
		return true
	}
	t, margin := millis(now), p.Drift-putMargin(p.Drift)
	slot := p.SlotAt(time.UnixMilli(int64(min(ts, math.MaxInt64))))
	if end := uint64(p.End(slot)); p.Rotation > 0 && t >= end {
		return t-end >= uint64((p.Drift + p.Drift/2).Milliseconds())
	}
	if ts > t {
		return ts-t <= uint64(margin.Milliseconds())
	}
	return t-ts < uint64(margin.Milliseconds())
}

// mayAsk tells whether ids that a peer without the capability showed at learned may be
// asked for now. Such a peer forgets at each rotation what it has shown, and strikes
// for everything that it has forgotten (trap 11): no turn of the slot by its clock may
// lie in between.
func mayAsk(p eventgraph.Params, learned, now time.Time, capable bool) bool {
	m := putMargin(p.Drift)
	return capable || p.SlotAt(learned.Add(-m)) == p.SlotAt(now.Add(m+m/2))
}

// putMargin is how far clocks may be apart without a strike.
func putMargin(drift time.Duration) time.Duration { return min(10*time.Second, drift/6) }

// millis is t in ms since the epoch, 0 before it.
func millis(t time.Time) uint64 { return uint64(max(t.UnixMilli(), 0)) }
