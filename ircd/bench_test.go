package ircd

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/arrival"
	"hearsay/internal/kv"
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

// eventMap is an EventSource of events that are there.
type eventMap map[eventgraph.ID]eventgraph.Arrival

func (eventMap) Subscribe(context.Context, eventgraph.Seq) iter.Seq2[eventgraph.Arrival, error] {
	return func(func(eventgraph.Arrival, error) bool) {}
}
func (eventMap) Last() eventgraph.Seq { return 0 }
func (m eventMap) Arrival(id eventgraph.ID) (eventgraph.Arrival, error) {
	return m[id], nil
}

// BenchmarkChathistory reads pages of 100 out of 100,000 messages of one channel: the newest ones, those
// before a message in the middle, by time, and the first ones.
func BenchmarkChathistory(b *testing.B) {
	g := newFakeGraph()
	for i := range 100_000 {
		g.say("#dev", fmt.Sprintf("nick%d", i%100), "some words that somebody said")
		g.arrivals[i].Event.Timestamp -= uint64(100_000 - i)
	}
	rows, err := arrival.Open(kv.OpenMemory(), nil)
	if err != nil {
		b.Fatal(err)
	}
	events := eventMap{}
	in := intake{ring: noKeys}
	for i := 0; i < len(g.arrivals); i += arrival.MaxIngest {
		batch := g.arrivals[i:min(i+arrival.MaxIngest, len(g.arrivals))]
		for _, a := range batch {
			events[a.Event.ID()] = a
		}
		if err := rows.Ingest(batch, func(a *eventgraph.Arrival) (arrival.Place, bool) { return in.look(a, time.Time{}) }); err != nil {
			b.Fatal(err)
		}
	}
	keys := new(Keys)
	s, err := New(Config{Log: NewArrivalLog(ArrivalConfig{Log: rows, Graph: events, Keys: keys}), Outbox: &fakeOutbox{}, Keys: keys})
	if err != nil {
		b.Fatal(err)
	}
	_, tag, _ := s.past("#dev")
	at := func(seq arrival.Seq) ref { return ref{Ref: arrival.Ref{Seq: seq}} }
	for name, q := range map[string]query{
		"latest": {sub: "LATEST", refs: []ref{{}}, limit: 100},
		"before": {sub: "BEFORE", refs: []ref{at(50_000)}, limit: 100},
		"first":  {sub: "BEFORE", refs: []ref{at(101)}, limit: 100},
		"time":   {sub: "BEFORE", refs: []ref{{Ref: arrival.Ref{Time: int64(g.arrivals[50_000].Event.Timestamp), Timed: true}}}, limit: 100},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				marks, err := (pager{s.cfg.Log, tag, 0}).pick(&q)
				if err != nil {
					b.Fatal(err)
				}
				page, err := s.fetch(b.Context(), s.ring, marks)
				if err != nil || len(page) != 100 {
					b.Fatal(len(page), err)
				}
			}
		})
	}
}
