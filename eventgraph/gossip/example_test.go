package gossip_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hearsay/eventgraph"
	"hearsay/eventgraph/gossip"
	"hearsay/p2p"
	"hearsay/p2p/p2ptest"
)

// Two nodes with a graph each, on a network in memory: one fetches what was published
// before it came, and is handed what is published while it is there.
func Example() {
	network := p2ptest.New(1, p2ptest.Link{Latency: time.Millisecond})
	ctx, stop := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	run := func(part func(context.Context) error) { parts.Go(func() { _ = part(ctx) }) } // ends with ctx

	start := func(host string, graph *eventgraph.Graph, first bool, peers ...p2p.URL) *p2p.Node {
		gs, err := gossip.New(gossip.Config{Graph: graph, SkipSync: first})
		if err != nil {
			panic(err)
		}
		node, err := p2p.New(p2p.Config{
			Magic: p2p.Magic{1, 2, 3, 4}, AppName: "notes", AppVersion: "1.0.0",
			Transports: network.Host(host).Transports("quic"), // outside of tests the default
			Inbound:    []p2p.URL{p2p.MustParseURL("quic://" + host + ":9600")},
			Peers:      peers,
			Features:   gs.Features(),
			Protocols:  []p2p.Protocol{gs.Protocol()},
		})
		if err != nil {
			panic(err)
		}
		run(graph.Run)
		run(gs.Run)
		run(node.Run)
		<-node.Listening()
		return node
	}

	var graphs [2]*eventgraph.Graph
	for i := range graphs {
		graph, err := eventgraph.OpenMemory(eventgraph.Config{
			Params: eventgraph.Params{Genesis: 1767225600000, Contents: []byte("notes-v1")},
		})
		if err != nil {
			panic(err)
		}
		defer graph.Close()
		graphs[i] = graph
	}
	alice, bob := graphs[0], graphs[1]

	publish := func(text string) {
		if _, err := alice.Publish(ctx, []byte(text)); err != nil {
			panic(err)
		}
	}
	publish("said before bob came")
	node := start("192.0.2.1", alice, true)
	start("192.0.2.2", bob, false, node.ListenAddrs()...)

	for arrival, err := range bob.Subscribe(ctx, 0) {
		if err != nil {
			panic(err)
		}
		fmt.Printf("bob has %q\n", arrival.Event.Content)
		if arrival.Seq == 2 {
			break
		}
		publish("said to bob")
	}
	stop()
	parts.Wait()
	// Output:
	// bob has "said before bob came"
	// bob has "said to bob"
}
