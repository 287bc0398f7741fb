package gossip

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"hearsay/eventgraph"
)

// params of the tests: the bubble's clock starts at the start of a slot.
var testParams = eventgraph.Params{
	Genesis: 946684800000 - 48*3600*1000, Contents: []byte("test"), Rotation: time.Hour, Drift: time.Minute,
}

const hourMS = 3600 * 1000

// DS-10, DS-11: both come before the flood window.
func TestAdmit_DS10_DS11(t *testing.T) {
	for _, c := range []struct {
		synced, body bool
		want         admission
	}{
		{false, false, admission{outcome: outcome{result: eventgraph.NackNotSynced}}},
		{false, true, admission{outcome: outcome{result: eventgraph.NackNotSynced}}},
		{true, true, admission{outcome: outcome{result: eventgraph.HasAlready}}},
		{true, false, admission{counted: true}},
	} {
		if got := admit(c.synced, c.body); got != c.want {
			t.Errorf("admit(%v, %v) = %+v, want %+v", c.synced, c.body, got, c.want)
		}
	}
}

func testEvent(ts uint64, parents ...eventgraph.ID) eventgraph.Event {
	e := eventgraph.Event{Content: fmt.Appendf(nil, "at %d", ts)}
	e.Timestamp, e.Layer, e.ContentHash = ts, 1, eventgraph.HashContent(e.Content)
	copy(e.Parents[:], parents)
	return e
}

// The rows of facts page section 4.6 that depend on time and form, with DS-12,
// DS-19 a and DS-23. Offsets are from the start of the current slot, in ms.
func TestPlace(t *testing.T) {
	const slot = 946684800000
	parent := eventgraph.ID{1}
	broken := func(change func(*eventgraph.Event)) func(uint64) eventgraph.Event {
		return func(ts uint64) eventgraph.Event {
			e := testEvent(ts, parent)
			change(&e)
			return e
		}
	}
	good := broken(func(*eventgraph.Event) {})
	for _, c := range []struct {
		name        string
		now, ts     int64
		make        func(uint64) eventgraph.Event
		want        placement
		requirement string
	}{
		{"fresh", 30 * 60000, 30 * 60000, good, placeCurrent, ""},
		{"as old as the slot but for the grace", 59 * 60000, 60000, good, placeCurrent, "DS-19 a"},
		{"first moment", 59 * 60000, 0, good, placeGrace, "DS-19 a"},
		{"end of the grace", 59 * 60000, 59999, good, placeGrace, ""},
		{"one ms before the slot", 0, -1, good, placePast, "DS-12"},
		{"last hour", 0, -30 * 60000, good, placePast, "DS-12"},
		{"upper drift bound", 30 * 60000, 31 * 60000, good, placeCurrent, "trap 43"},
		{"one ms beyond it", 30 * 60000, 31*60000 + 1, good, placeFuture, "trap 43"},
		{"next slot, within the drift", hourMS - 1000, hourMS, good, placeHold, "DS-23"},
		{"last ms of this slot", hourMS - 1000, hourMS - 1, good, placeCurrent, "DS-23"},
		{"next slot, at the drift", hourMS - 1000, hourMS + 59000, good, placeHold, "DS-23"},
		{"next slot, beyond the drift", hourMS - 1000, hourMS + 59001, good, placeFuture, "DS-23"},
		{"no content", 60000, 60000, broken(func(e *eventgraph.Event) { e.Content = nil }), placeForm, "DS-13"},
		{"content of another hash", 60000, 60000, broken(func(e *eventgraph.Event) { e.Content = []byte("x") }), placeForm, "DS-13, 67"},
		{"genesis-shaped", 60000, 60000, broken(func(e *eventgraph.Event) { e.Parents = [5]eventgraph.ID{} }), placeForm, "trap 44, 68"},
		{"a parent twice", 60000, 60000, broken(func(e *eventgraph.Event) { e.Parents[3] = parent }), placeForm, "DS-13"},
		{"null between parents", 60000, 60000, broken(func(e *eventgraph.Event) { e.Parents[4] = eventgraph.ID{9} }), placeCurrent, "trap 2"},
		{"ill-formed and past", 0, -1, broken(func(e *eventgraph.Event) { e.Content = nil }), placePast, "no strike, ever"},
		{"ill-formed for the next slot", hourMS - 1000, hourMS, broken(func(e *eventgraph.Event) { e.Content = nil }), placeForm, ""},
	} {
		e := c.make(uint64(slot + c.ts))
		if got := place(testParams, slot, time.UnixMilli(slot+c.now), &e); got != c.want {
			t.Errorf("%s (%s): %d, want %d", c.name, c.requirement, got, c.want)
		}
	}
	// One slot for ever: nothing is held, and the upper bound is the same.
	still := testParams
	still.Rotation = 0
	e := good(slot + 60000)
	if got := place(still, still.Genesis, time.UnixMilli(slot), &e); got != placeCurrent {
		t.Errorf("without rotation: %d", got)
	}
	if e = good(slot + 60001); place(still, still.Genesis, time.UnixMilli(slot), &e) != placeFuture {
		t.Error("without rotation, beyond the drift")
	}
}

func TestPastOutcome_DS12(t *testing.T) {
	for _, c := range []struct {
		held, synced bool
		want         eventgraph.Result
	}{
		{true, true, eventgraph.HasAlready},
		{true, false, eventgraph.HasAlready},
		{false, false, eventgraph.NackNotSynced},
		{false, true, eventgraph.NackTooOld},
	} {
		if got := pastOutcome(c.held, c.synced); got != (outcome{result: c.want}) {
			t.Errorf("pastOutcome(%v, %v) = %+v", c.held, c.synced, got)
		}
	}
}

// DS-13 to DS-17: what an insert's error says and costs.
func TestInsertOutcome_DS13_DS14_DS15_DS16_DS17(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("x: %w", &eventgraph.EventError{Err: err}) }
	for _, c := range []struct {
		err  error
		want outcome
	}{
		{nil, outcome{result: eventgraph.HasInserted}},
		{wrap(eventgraph.ErrInvalid), outcome{result: eventgraph.NackInvalid, strike: true}},
		{wrap(eventgraph.ErrForeign), outcome{result: eventgraph.NackInvalid, strike: true}},
		{wrap(eventgraph.ErrTooLarge), outcome{result: eventgraph.NackInvalid}},
		{wrap(eventgraph.ErrNoParent), outcome{result: eventgraph.NackBusy}},
		{eventgraph.ErrBusy, outcome{result: eventgraph.NackBusy}},
		{eventgraph.ErrNoSlot, outcome{result: eventgraph.NackBusy}},
		{eventgraph.ErrCorrupt, outcome{result: eventgraph.NackBusy}},
		{errors.New("disk on fire"), outcome{result: eventgraph.NackBusy}},
		{context.DeadlineExceeded, outcome{result: eventgraph.NackBusy}},
		{context.Canceled, outcome{}},
	} {
		if got := insertOutcome(c.err); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.err, got, c.want)
		}
	}
}

// DS-19 b, c, d: when an event may go to whom. Offsets from the slot's start, in s.
func TestMayPut_DS19(t *testing.T) {
	const slot = 946684800000
	for _, c := range []struct {
		name    string
		ts, now float64
		stock   bool // may go to a peer without the capability
	}{
		{"fresh", 100, 100, true},
		{"younger than drift less 10 s", 100, 149.999, true},
		{"at it", 100, 150, false},
		{"hours old", 100, 3000, false},
		{"slot just closed", 3599, 3600, false},
		{"closed for less than 1.5 drifts", 100, 3600 + 89.999, false},
		{"closed for 1.5 drifts", 100, 3600 + 90, true},
		{"a day old", 100, 86400, true},
		{"stamped 50 s ahead", 150, 100, true},
		{"stamped more ahead", 150.001, 100, false},
		{"stamped in the next slot", 3605, 3595, true},
	} {
		ts := uint64(slot + c.ts*1000)
		now := time.UnixMilli(int64(slot + c.now*1000))
		if got := mayPut(testParams, now, ts, false); got != c.stock {
			t.Errorf("%s: %v", c.name, got)
		}
		if !mayPut(testParams, now, ts, true) {
			t.Errorf("%s: not to a capable peer", c.name)
		}
	}
	short := testParams
	short.Drift, short.Rotation = 6*time.Second, time.Minute // margin 1 s
	for age, want := range map[time.Duration]bool{4999 * time.Millisecond: true, 5 * time.Second: false} {
		if got := mayPut(short, time.UnixMilli(slot+10000).Add(age), slot+10000, false); got != want {
			t.Errorf("drift of 6 s, age %v: %v", age, got)
		}
	}
}

// A peer whose clock is up to 10 s off, and that gets every event that mayPut lets
// go, never sees one that it strikes: it strikes what is of its current slot and more
// than the drift off its clock (DS-19).
func TestMayPutNeverStruck_DS19(t *testing.T) {
	const slot = 946684800000
	for _, stampSkew := range []int64{-10000, -5000, 0, 5000, 10000} { // author against us
		for _, skew := range []int64{-9999, -1, 0, 1, 9999} { // receiver against us
			for age := int64(0); age < 2*hourMS; age += 137 {
				now := slot + 1000 + age
				ts := int64(slot+1000) + stampSkew
				if ts < slot {
					continue
				}
				if !mayPut(testParams, time.UnixMilli(now), uint64(ts), false) {
					continue
				}
				theirs := now + skew
				current := int64(testParams.SlotAt(time.UnixMilli(theirs)))
				if off := theirs - ts; ts >= current && (off > 60000 || off < -60000) {
					t.Fatalf("struck: stamped %+d ms, sent at age %d, receiver %+d ms", stampSkew, age, skew)
				}
			}
		}
	}
}

func TestInBounds(t *testing.T) {
	const slot = 946684800000
	for off, want := range map[int64]bool{
		-60000: true, -60001: false, hourMS + 59999: true, hourMS + 60000: false, // checklist 47
	} {
		if got := inBounds(testParams, slot, uint64(slot+off)); got != want {
			t.Errorf("%+d: %v", off, got)
		}
	}
	still := testParams
	still.Rotation = 0
	if !inBounds(still, still.Genesis, 1<<62) {
		t.Error("without rotation there is no upper bound here")
	}
}

// Trap 11: between the moment a peer without the capability showed an id and the
// moment we ask for it, its clock (up to 10 s off) must not have turned the slot.
func TestMayAsk_Trap11(t *testing.T) {
	const slot = 946684800000
	at := func(s float64) time.Time { return time.UnixMilli(int64(slot + s*1000)) }
	for _, c := range []struct {
		learned, now float64
		want         bool
	}{
		{600, 601, true},
		{10, 11, true},
		{9.9, 11, false},
		{600, 3584.9, true},
		{600, 3585, false},
		{3000, 3700, false},
		{3609, 3640, false},
		{3610, 3640, true},
	} {
		if got := mayAsk(testParams, at(c.learned), at(c.now), false); got != c.want {
			t.Errorf("shown at %v s, asked at %v s: %v", c.learned, c.now, got)
		}
		if !mayAsk(testParams, at(c.learned), at(c.now), true) {
			t.Error("a capable peer keeps what it has shown")
		}
	}
	still := testParams
	still.Rotation = 0
	if !mayAsk(still, at(0), at(86400), false) {
		t.Error("without rotation nothing is forgotten")
	}
}
