package eventgraph

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"hearsay/internal/kv"
)

const benchEvents = 100_000

// chatter makes n events of 200 bytes in a plausible shape: a few open ends at a time.
func chatter(p Params, s Slot, n int) []Event {
	r := rand.New(rand.NewPCG(1, 1))
	open := []Event{p.GenesisOf(s)}
	list := make([]Event, n)
	for i := range list {
		content := make([]byte, 200)
		for j := range content {
			content[j] = byte(r.Uint32())
		}
		var parents []*Event
		for _, at := range r.Perm(len(open))[:1+r.IntN(min(len(open), NumParents))] {
			parents = append(parents, &open[at])
		}
		list[i] = forge(uint64(s)+1+uint64(i)*3_000_000/uint64(n), string(content), parents...)
		if open = append(open, list[i]); len(open) > 6 {
			open = open[1:]
		}
	}
	return list
}

// The store's share of a sync of 100,000 events: batches of 4096, durable. Beside it,
// what the same bytes cost without a graph: a scan of the source and batched inserts.
func BenchmarkSyncInto(b *testing.B) {
	c := newClock()
	s := DarkIRC().SlotAt(c.now())
	events := chatter(DarkIRC(), s, benchEvents)
	b.Run("graph", func(b *testing.B) {
		for b.Loop() {
			g, err := Open(b.TempDir()+"/g", Config{Now: c.now})
			if err != nil {
				b.Fatal(err)
			}
			for at := 0; at < len(events); at += MaxHeaders {
				if _, err := g.Insert(b.Context(), s, events[at:min(at+MaxHeaders, len(events))], SourceSync); err != nil {
					b.Fatal(err)
				}
			}
			if err := g.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("raw", func(b *testing.B) {
		rows := make([][]byte, len(events))
		keys := make([][]byte, len(events))
		for i := range events {
			id := events[i].ID()
			rows[i], keys[i] = events[i].AppendTo(nil), appendEventKey(nil, keyEvent, s, &id)
		}
		for b.Loop() {
			st, err := kv.Open(kv.Options{Dir: b.TempDir() + "/raw", Kind: Kind, Schema: Schema, Sync: true})
			if err != nil {
				b.Fatal(err)
			}
			for at := 0; at < len(rows); at += maxCommitEvents / 2 {
				err := st.Update(OpInsert, func(tx kv.Txn) error {
					for i := at; i < min(at+maxCommitEvents/2, len(rows)); i++ {
						if err := tx.Set(keys[i], rows[i]); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			n := 0
			if err := st.View(func(r kv.Reader) error {
				return r.Scan(kv.Scan{}, func(_, v []byte) error {
					n += len(v)
					return nil
				})
			}); err != nil {
				b.Fatal(err)
			}
			if err := st.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Opening a store with 100,000 events in the current slot, and the longest answers
// from it.
func BenchmarkLargeSlot(b *testing.B) {
	c := newClock()
	s := DarkIRC().SlotAt(c.now())
	dir := b.TempDir() + "/g"
	cfg := Config{Now: c.now, NoSync: true}
	g, err := Open(dir, cfg)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := g.Insert(b.Context(), s, chatter(DarkIRC(), s, benchEvents), SourceSync); err != nil {
		b.Fatal(err)
	}
	if err := g.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			g, err := Open(dir, cfg)
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := g.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	if g, err = Open(dir, cfg); err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	var middle Tips
	for n, page := 0, Tips(nil); n < benchEvents/2; n += MaxHeaders {
		hs, err := g.HeadersBeyond(s, page, MaxHeaders)
		if err != nil || hs.Len() == 0 {
			b.Fatal(err)
		}
		page = Tips{}
		for i := hs.Len() - 20; i < hs.Len(); i++ {
			h := hs.Header(i)
			page[h.Layer] = append(page[h.Layer], h.ID())
		}
		middle = page
	}
	b.Run("headers/first", func(b *testing.B) {
		for b.Loop() {
			if _, err := g.HeadersBeyond(s, nil, MaxHeaders); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("headers/middle", func(b *testing.B) {
		for b.Loop() {
			if hs, err := g.HeadersBeyond(s, middle, MaxHeaders); err != nil || hs.Len() != MaxHeaders {
				b.Fatal(hs.Len(), err)
			}
		}
	})
	b.Run("page", func(b *testing.B) {
		for b.Loop() {
			if _, err := g.Page(s, Newest, true, MaxPage); err != nil {
				b.Fatal(err)
			}
		}
	})
	tips, err := g.Tips(s)
	if err != nil {
		b.Fatal(err)
	}
	var tip ID
	for _, ids := range tips {
		tip = ids[0]
	}
	genesis := g.Params().GenesisOf(s)
	b.Run("descends", func(b *testing.B) {
		for b.Loop() {
			if yes, err := g.Descends(tip, genesis.ID()); !yes || err != nil {
				b.Fatal(yes, err)
			}
		}
	})
	b.Run("tips", func(b *testing.B) {
		for b.Loop() {
			if _, err := g.Tips(s); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Live events, one by one, from many connections at once.
func BenchmarkInsertOne(b *testing.B) {
	for _, mode := range []struct {
		name   string
		nosync bool
	}{{"durable", false}, {"nosync", true}} {
		b.Run(mode.name, func(b *testing.B) {
			c := newClock()
			g, err := Open(b.TempDir()+"/g", Config{Now: c.now, NoSync: mode.nosync})
			if err != nil {
				b.Fatal(err)
			}
			defer g.Close()
			s := g.Current()
			genesis := g.Params().GenesisOf(s)
			var n atomic.Uint64
			b.SetParallelism(32)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := n.Add(1)
					e := forge(uint64(s)+1+i%3_000_000, string(make([]byte, 200)), &genesis)
					e.Layer = 1
					e.ContentHash = HashContent(e.Content)
					if _, err := g.Insert(context.Background(), s, []Event{e}, SourcePut); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
