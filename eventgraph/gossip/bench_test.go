package gossip_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/eventgraph/gossip"
	"hearsay/p2p"
	"hearsay/p2p/p2ptest"
)

// unlimited raises what the network limits: a benchmark is a flood.
var unlimited = gossip.Limits{
	FloodPuts: 1 << 30, PacePuts: 1 << 30, RelayFree: gossip.NoRelayLimit, RelayQueue: 1 << 16,
	FloodSpan: time.Millisecond, PaceSpan: time.Millisecond,
}

// benchNodes runs n nodes over a network in memory, in real time, each dialing the
// two before it, and waits until they are synced.
func benchNodes(b *testing.B, n int, disk bool, status bool) []*realNode {
	b.Helper()
	net := p2ptest.New(1, p2ptest.Link{})
	var nodes []*realNode
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i := range n {
		name := fmt.Sprintf("5.0.0.%d", i+1)
		x := &realNode{net: net, host: net.Host(name), url: p2p.MustParseURL("tcp://" + name + ":26661")}
		var err error
		if disk {
			x.graph, err = eventgraph.Open(b.TempDir()+"/graph", eventgraph.Config{})
		} else {
			x.graph, err = eventgraph.OpenMemory(eventgraph.Config{})
		}
		if err != nil {
			b.Fatal(err)
		}
		if x.gossip, err = gossip.New(gossip.Config{Graph: x.graph, SkipSync: true, NoStatus: !status, Limits: unlimited}); err != nil {
			b.Fatal(err)
		}
		pc := p2p.Config{
			Inbound: []p2p.URL{x.url}, Transports: x.host.Transports("tcp"), ActiveProfiles: []string{"tcp"},
			OutboundConnections: -1, Rand: rand.New(rand.NewPCG(1, uint64(i))),
			Protocols: []p2p.Protocol{x.gossip.Protocol()}, Features: x.gossip.Features(),
		}
		for _, peer := range nodes[max(0, i-2):] {
			pc.Peers = append(pc.Peers, peer.url)
		}
		if x.p2p, err = p2p.New(pc); err != nil {
			b.Fatal(err)
		}
		for _, run := range []func(context.Context) error{x.graph.Run, x.gossip.Run, x.p2p.Run} {
			running.Go(func() { _ = run(ctx) })
		}
		nodes = append(nodes, x)
	}
	b.Cleanup(func() {
		cancel()
		running.Wait()
		for _, x := range nodes {
			_ = x.graph.Close()
		}
	})
	for i, x := range nodes {
		want := min(i, 2) + min(n-1-i, 2)
		for deadline := time.Now().Add(30 * time.Second); x.gossip.PutTargets() < want; {
			if time.Now().After(deadline) {
				b.Fatalf("node %d has %d of %d peers", i, x.gossip.PutTargets(), want)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nodes
}

// BenchmarkGossip8 is the time for one event, published by one of 8 nodes in turn, to
// be stored by all, in a steady flood.
func BenchmarkGossip8(b *testing.B) {
	for _, c := range []struct {
		name         string
		disk, status bool
	}{{"memory", false, true}, {"memory,nostatus", false, false}, {"disk", true, true}} {
		b.Run(c.name, func(b *testing.B) {
			nodes := benchNodes(b, 8, c.disk, c.status)
			b.ResetTimer()
			start := time.Now()
			var writers sync.WaitGroup
			for i, x := range nodes {
				writers.Go(func() {
					for k := i; k < b.N; k += len(nodes) {
						if _, err := x.graph.Publish(context.Background(), fmt.Appendf(nil, "event %d of a benchmark, with the length of a chat line or so", k)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			writers.Wait()
			for _, x := range nodes {
				for deadline := time.Now().Add(3 * time.Minute); x.graph.Stats().Events < uint64(b.N); {
					if time.Now().After(deadline) {
						for i, y := range nodes {
							b.Logf("node %d: %+v", i, y.gossip.Stats())
						}
						b.Fatalf("only %d of %d events", x.graph.Stats().Events, b.N)
					}
					time.Sleep(time.Millisecond)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "events/s")
			for i, x := range nodes {
				if s := x.gossip.Stats(); s.Strikes+s.RelaysDropped+s.PutsDropped > 0 {
					b.Logf("node %d: %+v", i, s)
				}
			}
			runtime.KeepAlive(nodes)
		})
	}
}

// BenchmarkSync100k is the time in which an empty node gets 100,000 events of one slot
// from one peer.
func BenchmarkSync100k(b *testing.B) {
	const total = 100_000
	for b.Loop() {
		b.StopTimer()
		nodes := benchNodes(b, 1, false, true)
		slot := nodes[0].graph.Current()
		genesis := nodes[0].graph.Params().GenesisOf(slot)
		events := []eventgraph.Event{genesis}
		ids := []eventgraph.ID{genesis.ID()}
		for i := range total {
			e := eventgraph.Event{Content: fmt.Appendf(nil, "event %d of a benchmark, with the length of a chat line or so", i)}
			e.Timestamp, e.ContentHash = uint64(slot)+uint64(i)%1000+1, eventgraph.HashContent(e.Content)
			for j, back := range []int{1 + i%3, 7, 11} {
				if k := len(events) - back; k >= 0 {
					e.Parents[j], e.Layer = ids[k], max(e.Layer, events[k].Layer+1)
				}
			}
			events, ids = append(events, e), append(ids, e.ID())
		}
		start := time.Now()
		if _, err := nodes[0].graph.Insert(context.Background(), slot, events[1:], eventgraph.SourceSync); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(start).Seconds(), "insert-s")
		b.StartTimer()
		more := benchNodesOn(b, nodes)
		for more.graph.Stats().Events < total {
			time.Sleep(5 * time.Millisecond)
		}
		b.StopTimer()
		b.Logf("%+v", more.gossip.Stats())
		b.StartTimer()
	}
}

// benchNodesOn adds an empty, unsynced node that dials the first.
func benchNodesOn(b *testing.B, nodes []*realNode) *realNode {
	b.Helper()
	x := &realNode{host: nodes[0].net.Host("5.0.1.1")}
	var err error
	if x.graph, err = eventgraph.OpenMemory(eventgraph.Config{}); err != nil {
		b.Fatal(err)
	}
	if x.gossip, err = gossip.New(gossip.Config{Graph: x.graph, Limits: unlimited}); err != nil {
		b.Fatal(err)
	}
	x.p2p, err = p2p.New(p2p.Config{
		Transports: x.host.Transports("tcp"), ActiveProfiles: []string{"tcp"}, Peers: []p2p.URL{nodes[0].url},
		OutboundConnections: -1, Protocols: []p2p.Protocol{x.gossip.Protocol()}, Features: x.gossip.Features(),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{x.graph.Run, x.gossip.Run, x.p2p.Run} {
		running.Go(func() { _ = run(ctx) })
	}
	b.Cleanup(func() {
		cancel()
		running.Wait()
		_ = x.graph.Close()
	})
	return x
}
