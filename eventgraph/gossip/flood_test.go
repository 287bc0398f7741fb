package gossip

import (
	"math/rand/v2"
	"testing"
	"time"
)

var t0 = time.UnixMilli(946684800000)

// The flood window: 200 within 60 s pass, the 201st does not; sliding.
func TestFloodWindow(t *testing.T) {
	w := window{limit: 200, span: time.Minute}
	for i := range 200 {
		if w.tick(t0.Add(time.Duration(i) * 100 * time.Millisecond)) {
			t.Fatalf("number %d", i+1)
		}
	}
	if !w.tick(t0.Add(59999 * time.Millisecond)) {
		t.Error("the 201st within the span passes")
	}
	if w.tick(t0.Add(time.Minute)) {
		t.Error("the first has left the span")
	}
	if !w.tick(t0.Add(time.Minute)) {
		t.Error("the second has not")
	}
	if len(w.times) != 200 {
		t.Errorf("keeps %d times", len(w.times))
	}
}

// DS-86: whatever comes, no span holds more than the limit; and waiting as told
// is enough.
func TestPacingWindow_DS86(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := window{limit: 18, span: 6 * time.Second}
	var sent []time.Time
	now := t0
	for range 5000 {
		now = now.Add(time.Duration(rng.Int64N(int64(400 * time.Millisecond))))
		limit := 1 + rng.IntN(18)
		if d := w.wait(now, limit); d > 0 {
			if w.wait(now.Add(d-1), limit) == 0 {
				t.Fatal("waits longer than it has to")
			}
			now = now.Add(d)
		}
		if w.wait(now, limit) != 0 || w.tick(now) {
			t.Fatal("waited, and may not go")
		}
		sent = append(sent, now)
		n := 0
		for i := len(sent) - 1; i >= 0 && now.Sub(sent[i]) < w.span; i-- {
			n++
		}
		if n > limit {
			t.Fatalf("%d within the span, limit %d", n, limit)
		}
	}
}

// The relay limiter: six at once, then 250 ms more each; in a steady stream about one
// event a second (facts page, section 4.8).
func TestRelayLimiter(t *testing.T) {
	l := limiter{free: 6, step: 250 * time.Millisecond, span: 10 * time.Second}
	now := t0
	for i := range 6 {
		if d := l.tick(now); d != 0 {
			t.Fatalf("number %d waits %v", i+1, d)
		}
	}
	if d := l.tick(now); d != 250*time.Millisecond {
		t.Errorf("number 7 waits %v", d)
	}
	if d := l.tick(now); d != 500*time.Millisecond {
		t.Errorf("number 8 waits %v", d)
	}
	l = limiter{free: 6, step: 250 * time.Millisecond, span: 10 * time.Second}
	for range 300 {
		now = now.Add(l.tick(now))
	}
	start := now
	for range 100 {
		now = now.Add(l.tick(now))
	}
	if d := now.Sub(start); d < 90*time.Second || d > 110*time.Second {
		t.Errorf("100 events take %v", d)
	}
	off := limiter{free: NoRelayLimit, step: time.Hour, span: time.Hour}
	for range 1000 {
		if off.tick(now) != 0 {
			t.Fatal("the limit is off")
		}
	}
	if len(off.times) > 0 {
		t.Error("and nothing is kept")
	}
}
