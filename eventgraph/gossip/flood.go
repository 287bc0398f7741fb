package gossip

import "time"

// A window counts what happened within a span of time, up to a limit: the flood
// window of a connection (above it: ban) and the pacing towards one (at it: wait).
// It keeps at most limit times, so a limit bounds its memory.
type window struct {
	limit int
	span  time.Duration
	times []time.Time // ring of the last limit times; grows up to limit
	next  int         // where the oldest is, once the ring is full
}

// tick records now and tells whether that makes more than limit within the span.
// An excess is not recorded.
func (w *window) tick(now time.Time) (over bool) {
	if w.wait(now, w.limit) > 0 {
		return true
	}
	if len(w.times) < w.limit {
		w.times = append(w.times, now)
		return false
	}
	w.times[w.next] = now
	w.next = (w.next + 1) % w.limit
	return false
}

// wait is how long after now fewer than limit of the recorded times are within the
// span; limit is at most w.limit. 0: already.
func (w *window) wait(now time.Time, limit int) time.Duration {
	if len(w.times) < limit {
		return 0
	}
	// The limit-th newest time must have left the span.
	i := len(w.times) - limit
	if len(w.times) == w.limit {
		i = (w.next + w.limit - limit) % w.limit
	}
	return max(0, w.times[i].Add(w.span).Sub(now))
}

// A limiter is the network's relay limiter: the more was relayed in the last ten
// seconds, the longer the next relay waits. It bounds what one source makes us send.
type limiter struct {
	free  int           // that many within the span do not wait
	step  time.Duration // per item above free
	span  time.Duration
	times []time.Time // oldest first; bounded by the rate that the waiting enforces
}

// tick records now and returns how long to sleep before sending.
func (l *limiter) tick(now time.Time) time.Duration {
	if l.free >= NoRelayLimit {
		return 0
	}
	l.expire(now)
	l.times = append(l.times, now)
	return time.Duration(max(0, len(l.times)-l.free)) * l.step
}

// ready is tick where that asks for no delay; else nothing is recorded.
func (l *limiter) ready(now time.Time) bool {
	if l.expire(now); len(l.times) >= l.free {
		return false
	}
	return l.tick(now) == 0
}

func (l *limiter) expire(now time.Time) {
	n := 0
	for n < len(l.times) && !l.times[n].After(now.Add(-l.span)) {
		n++
	}
	if n > 0 {
		l.times = append(l.times[:0], l.times[n:]...)
	}
}
