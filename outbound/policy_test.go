package outbound

import (
	"testing"
	"time"

	"hearsay/eventgraph"
)

// TestDelay: 30 s doubling up to round R_MAX, then that rate (DS-59).
func TestDelay(t *testing.T) {
	var p Policy
	if err := p.validate(); err != nil {
		t.Fatal(err)
	}
	for n, want := range []time.Duration{30, 30, 60, 120, 240, 480, 480, 480} {
		if got := p.delay(uint32(n)); got != want*time.Second {
			t.Errorf("before round %d: %v", n, got)
		}
	}
	if got := p.delay(1 << 31); got != 480*time.Second {
		t.Errorf("far out: %v", got)
	}
	if p.MinPeers != 2 || p.Wakeup != 30*time.Second || p.Drift != time.Minute || p.NoTipEvidence {
		t.Errorf("defaults %+v", p)
	}
	long := Policy{RetryInitial: time.Hour, RetryRounds: 16}
	if err := long.validate(); err != nil || long.delay(16) != time.Hour<<15 {
		t.Errorf("%v %v", err, long.delay(16))
	}
}

// TestEdge: the guards of DS-87, scaled.
func TestEdge(t *testing.T) {
	const base = 1_000_000_000
	for _, c := range []struct {
		length       time.Duration
		at, want, to int64 // ms after the slot's start; want: may be made; to: else when
	}{
		{time.Hour, 0, 0, 5000},
		{time.Hour, 4999, 0, 5000},
		{time.Hour, 5000, 1, 0},
		{time.Hour, 3_589_999, 1, 0},
		{time.Hour, 3_590_000, 0, 3_605_000},
		{time.Hour, 3_599_999, 0, 3_605_000},
		{2 * time.Minute, 4999, 0, 5000},
		{2 * time.Minute, 110_000, 0, 125_000},
		{time.Minute, 2499, 0, 2500}, // scaled down: 5 s and 2.5 s
		{time.Minute, 2500, 1, 0},
		{time.Minute, 54_999, 1, 0},
		{time.Minute, 55_000, 0, 62_500},
		{0, 0, 0, 1}, // one slot for ever: only its very start
		{0, 1, 1, 0},
	} {
		w := Window{Slot: base}
		if c.length > 0 {
			w.End = uint64(base + c.length.Milliseconds())
		}
		got := w.edge(base + instant(c.at))
		if c.want == 1 && got != 0 || c.want == 0 && got != base+instant(c.to) {
			t.Errorf("%v at %d ms: %d", c.length, c.at, got)
		}
	}
	w := Window{Slot: 100, End: 200}
	for ts, want := range map[uint64]bool{99: false, 100: false, 101: true, 199: true, 200: false} {
		if w.contains(ts) != want {
			t.Errorf("DS-19 (e): contains(%d) is %v", ts, !want)
		}
	}
}

// TestToStock: who may be put to (DS-19 b to d), at every limit.
func TestToStock(t *testing.T) {
	var p Policy
	if err := p.validate(); err != nil {
		t.Fatal(err)
	}
	const slot, hour = 3_600_000, 3_600_000
	g := &generationRow{slot: slot, end: slot + hour}
	ts := uint64(slot + 600_000)
	at := func(off int64) instant { return instant(int64(ts) + off) }
	end := int64(slot+hour) - int64(ts)
	for _, c := range []struct {
		name string
		now  instant
		want bool
	}{
		{"fresh", at(0), true},
		{"just young enough", at(49_999), true},
		{"too old", at(50_000), false},
		{"our clock is behind, a little", at(-49_999), true},
		{"our clock is behind", at(-50_000), false},
		{"the end of the slot", at(end - 1), false},
		{"just closed", at(end), false},
		{"closed for less than 1.5 drifts", at(end + 89_999), false},
		{"closed for 1.5 drifts", at(end + 90_000), true},
		{"days later", at(end + 200*hour), true},
	} {
		w := testWindow(c.now.time(), time.Hour)
		if got := p.toStock(c.now, w, g, ts); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	// The clock went back over the boundary: nobody's slot is the event's.
	early := &generationRow{slot: slot, end: slot + hour}
	if p.toStock(slot-1000, Window{Slot: 0, End: slot}, early, slot+1000) {
		t.Error("put from the slot before its own")
	}
	// The margin shrinks with the drift.
	p.Drift = 12 * time.Second
	if !p.toStock(at(9_999), Window{Slot: slot, End: slot + hour}, g, ts) || p.toStock(at(10_000), Window{Slot: slot, End: slot + hour}, g, ts) {
		t.Error("margin of a drift of 12 s is not 2 s")
	}
	if (Window{Slot: eventgraph.Slot(5)}).closed(5) || !(Window{Slot: 6}).closed(5) {
		t.Error("closed")
	}
}
