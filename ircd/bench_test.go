package ircd

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"hearsay/internal/arrival"
)

// BenchmarkCatchUp reads 100,000 stored messages of 20 channels and two private conversations'
// worth of trial decryption, as at start.
func BenchmarkCatchUp(b *testing.B) {
	ours, bobs := people(b)
	g := newFakeGraph()
	sealed := seal(b, bobs, "#secret", "rob", "some words that somebody said")
	for i := range 100_000 {
		if i%10 == 0 {
			g.hear(sealed) // all but the first are replays: opened, and dropped
			continue
		}
		g.say(fmt.Sprintf("#c%d", i%20), fmt.Sprintf("nick%d", i%100), "some words that somebody said")
	}
	b.ReportAllocs()
	for b.Loop() {
		s, err := New(Config{Log: g, Outbox: &fakeOutbox{}, Settings: ours})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = s.Run(ctx)
		}()
		for g.reads() < 100_000 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		<-ended
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(s.logBytes)/(1<<20), "log-MiB")
	}
}

// BenchmarkDeliver shows one message of the network to 100 clients.
func BenchmarkDeliver(b *testing.B) {
	s, _ := newLoop(b, nil)
	var all []*client
	for i := range 100 {
		c := connect(s, b, fmt.Sprintf("n%d", i), capServerTime|capMessageTags)
		s.input(b, c, "JOIN #dev")
		all = append(all, c)
	}
	seq := arrival.Seq(0)
	b.ReportAllocs()
	for b.Loop() {
		seq++
		s.handle(b.Context(), evArrival{0, incoming{seq: seq, kind: 1, name: "#dev", nick: "rob", lines: []string{"some words"}, time: time.Now(), arrived: time.Now(), logical: "id"}})
		for _, c := range all {
			c.queue.mu.Lock()
			c.queue.buf = c.queue.buf[:0]
			c.queue.mu.Unlock()
		}
	}
}
