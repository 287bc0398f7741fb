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

// BenchmarkHistory starts a server over 100,000 stored messages of one channel, in a store on the disk, all of
// today or all of last week, and asks for a first page of 100 as soon as it is ready.
func BenchmarkHistory(b *testing.B) {
	for name, age := range map[string]time.Duration{"today": 0, "archived": 7 * 24 * time.Hour} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			open := func() (kv.Store, *arrival.Log) {
				store, err := kv.Open(kv.Options{Dir: dir, Kind: "custody", Schema: 1})
				if err != nil {
					b.Fatal(err)
				}
				rows, err := arrival.Open(store, nil)
				if err != nil {
					b.Fatal(err)
				}
				return store, rows
			}
			store, rows := open()
			events, in := eventMap{}, intake{ring: noKeys}
			g := newFakeGraph()
			for len(g.arrivals) < 100_000 {
				from := len(g.arrivals)
				for i := range 500 {
					g.say("#dev", fmt.Sprintf("nick%d", i%100), "some words that somebody said")
					a := &g.arrivals[from+i]
					a.Time = a.Time.Add(-age)
					events[a.Event.ID()] = *a
				}
				if err := rows.Ingest(g.arrivals[from:], func(a *eventgraph.Arrival) (arrival.Place, bool) { return in.look(a, time.Time{}) }); err != nil {
					b.Fatal(err)
				}
			}
			g.arrivals = nil
			if err := store.Close(); err != nil {
				b.Fatal(err)
			}
			store, rows = open()
			defer store.Close()
			heap := func() float64 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return float64(m.HeapAlloc) / (1 << 20)
			}
			for b.Loop() {
				b.StopTimer()
				before := heap()
				b.StartTimer()
				keys := new(Keys)
				log := NewArrivalLog(ArrivalConfig{Log: rows, Graph: events, Keys: keys})
				s, err := New(Config{Log: log, Outbox: &fakeOutbox{}, Keys: keys})
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(b.Context())
				done := make(chan struct{}, 2)
				for _, run := range []func(context.Context) error{log.Run, s.Run} {
					go func() {
						_ = run(ctx)
						done <- struct{}{}
					}()
				}
				caught := make(chan bool)
				for ok := false; !ok; {
					if !s.post(evAnswer{&request{s: s, c: newClient(nil, false, 1)}, func() { go func(ok bool) { caught <- ok }(s.caughtUp) }}) {
						b.Fatal("ended")
					}
					ok = <-caught
				}
				_, tag, _ := s.past("#dev")
				marks, err := (pager{log, tag, 0}).page(arrival.Span{Newest: true, Limit: 100})
				if err != nil {
					b.Fatal(err)
				}
				if page, err := s.fetch(ctx, s.ring, marks); len(page) != 100 || err != nil {
					b.Fatal(len(page), err)
				}
				b.StopTimer()
				b.ReportMetric(heap()-before, "heap-MiB")
				b.StartTimer()
				cancel()
				<-done
				<-done
			}
		})
	}
}
