package ircd

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
)

// TestOnRealGraphs: two servers, each on a graph of its own, with events carried over as a peer
// would. A late server reads everything from its graph.
func TestOnRealGraphs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, bobs := people(t)
		ours.Contacts[0].Label = "Bob"
		params := eventgraph.DarkIRC()
		params.Genesis = eventgraph.Slot(time.Now().Add(-10 * time.Hour).UnixMilli())
		open := func() *eventgraph.Graph {
			g, err := eventgraph.OpenMemory(eventgraph.Config{Params: params})
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		graphs := []*eventgraph.Graph{open(), open()}
		ctx, cancel := context.WithCancel(t.Context())
		start := func(g *eventgraph.Graph, st Settings) *harness {
			keys := new(Keys)
			s, err := New(Config{Graph: g, Outbox: Direct{g, keys}, Keys: keys, Settings: st})
			if err != nil {
				t.Fatal(err)
			}
			h := &harness{t: t, server: s, lis: newPipeListener()}
			s.AddListener(h.lis)
			go s.Run(ctx)
			synctest.Wait()
			return h
		}
		carry := func(from, to *eventgraph.Graph, src eventgraph.Source) {
			t.Helper()
			sub, stop := context.WithCancel(ctx)
			defer stop()
			if from.Last() == 0 {
				return
			}
			for a, err := range from.Subscribe(sub, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if a.Source == eventgraph.SourceLocal {
					if _, err := to.Insert(ctx, a.Slot, []eventgraph.Event{a.Event}, src); err != nil {
						t.Fatal(err)
					}
				}
				if a.Seq == from.Last() {
					break
				}
			}
			synctest.Wait()
		}
		one := start(graphs[0], ours)
		a := one.join("alice", "#dev,#secret")
		time.Sleep(time.Minute)
		want(t, a.do("PRIVMSG #dev :hello", "PRIVMSG #secret :psst", "PRIVMSG Bob :direct"))
		carry(graphs[0], graphs[1], eventgraph.SourceSync)

		two := start(graphs[1], bobs)
		b := two.dial()
		b.send("NICK bobby", "USER b 0 * :b", "JOIN #dev,#secret")
		got := b.got()
		wantPart(t, got, ":alice!~net@darkirc PRIVMSG #dev :hello", ":alice!~net@darkirc PRIVMSG #secret :psst", ":us!~net@darkirc PRIVMSG bobby :direct")
		want(t, b.do("PRIVMSG us :reply", "PRIVMSG #dev :hi"))
		carry(graphs[1], graphs[0], eventgraph.SourcePut)
		want(t, a.got(), ":Bob!~net@darkirc PRIVMSG alice :reply", ":bobby!~net@darkirc PRIVMSG #Dev :hi")
		cancel()
		synctest.Wait()
		for _, g := range graphs {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
