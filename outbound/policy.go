package outbound

import (
	"fmt"
	"time"

	"hearsay/eventgraph"
)

// An instant is wall time in milliseconds since the UNIX epoch: what is stored, and
// what the schedule is computed in, so that a restart changes no due time. Zero
// means none.
type instant int64

func toInstant(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return instant(t.UnixMilli())
}

func (i instant) time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(i)).UTC()
}

func (i instant) add(d time.Duration) instant { return i + instant(d.Milliseconds()) }

// Policy is how the head is served. The zero value of each field is the default.
type Policy struct {
	// MinPeers is K: how many connections that can take a put there must be before
	// anything is sent. Default 2.
	MinPeers int
	// Wakeup is the longest time between two looks at the head, and the rate at which
	// parked conditions are retried. Default 30 s, at least 100 ms.
	Wakeup time.Duration
	// RetryInitial is the delay before the first round. Default 30 s, at least 100 ms.
	RetryInitial time.Duration
	// RetryRounds is R_MAX: the round at which the delay stops doubling. Default 5, at
	// most 16.
	RetryRounds int
	// Drift is the network's clock tolerance (DS-19). Default 60 s.
	Drift time.Duration
	// NoTipEvidence ignores tips of peers without the feature (DS-65).
	NoTipEvidence bool
}

func (p *Policy) validate() error {
	if p.MinPeers == 0 {
		p.MinPeers = 2
	}
	if p.Wakeup == 0 {
		p.Wakeup = 30 * time.Second
	}
	if p.RetryInitial == 0 {
		p.RetryInitial = 30 * time.Second
	}
	if p.RetryRounds == 0 {
		p.RetryRounds = 5
	}
	if p.Drift == 0 {
		p.Drift = time.Minute
	}
	switch {
	case p.MinPeers < 0:
		return fmt.Errorf("%w: MinPeers %d", ErrConfig, p.MinPeers)
	case p.Wakeup < 100*time.Millisecond || p.Wakeup > time.Hour:
		return fmt.Errorf("%w: Wakeup %v is not between 100ms and 1h", ErrConfig, p.Wakeup)
	case p.RetryInitial < 100*time.Millisecond || p.RetryInitial > time.Hour:
		return fmt.Errorf("%w: RetryInitial %v is not between 100ms and 1h", ErrConfig, p.RetryInitial)
	case p.RetryRounds < 0 || p.RetryRounds > 16:
		return fmt.Errorf("%w: RetryRounds %d is not between 1 and 16", ErrConfig, p.RetryRounds)
	case p.Drift < 0:
		return fmt.Errorf("%w: Drift %v", ErrConfig, p.Drift)
	}
	return nil
}

// delay is the time before round n, counted from 1 (DS-59): it doubles up to round
// R_MAX and stays there.
func (p *Policy) delay(n uint32) time.Duration {
	n = max(n, 1)
	return p.RetryInitial << (min(n, uint32(p.RetryRounds)) - 1)
}

// A Window is the current slot of the event graph: [Slot, End) in ms since the epoch.
type Window struct {
	Slot eventgraph.Slot
	End  uint64 // 0: the slot never ends
}

// closed tells whether s lies before the window: its slot has been rotated away.
func (w Window) closed(s eventgraph.Slot) bool { return s < w.Slot }

// edge is zero where a generation may be made at now, else the time at which it may
// (DS-87). The guards shrink with the slot.
func (w Window) edge(now instant) instant {
	start := instant(w.Slot)
	if w.End == 0 {
		if now <= start {
			return start + 1
		}
		return 0
	}
	length := time.Duration(w.End-uint64(w.Slot)) * time.Millisecond
	tail, lead := min(10*time.Second, length/12), min(5*time.Second, length/24)
	end := instant(w.End)
	switch {
	case now < start.add(lead) || now == start:
		return max(start.add(lead), start+1)
	case now >= end.add(-tail):
		return end.add(lead)
	}
	return 0
}

// contains tells whether a timestamp lies strictly inside the window (DS-19 e).
func (w Window) contains(ts uint64) bool {
	return ts > uint64(w.Slot) && (w.End == 0 || ts < w.End)
}

// toStock tells whether a generation stamped ts may be put to peers without the
// feature at now (DS-19 b, d): upstream strikes a put more than the drift off its
// clock, unless the event's own slot has moved on there.
func (p *Policy) toStock(now instant, w Window, g *generationRow, ts uint64) bool {
	switch {
	case w.closed(g.slot):
		return now >= instant(g.end).add(p.Drift+p.Drift/2)
	case g.slot != w.Slot:
		return false // our clock went back: nobody's slot is the event's
	}
	age := time.Duration(int64(now)-int64(ts)) * time.Millisecond
	return age.Abs() < p.Drift-min(10*time.Second, p.Drift/6)
}
