package p2p_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hearsay/p2p"
	"hearsay/p2p/p2ptest"
)

// A greeter says hello to every peer, and tells when one has said it.
type greeter struct {
	peer  *p2p.Peer
	heard chan<- string
}

// Handle takes the messages of greetings.
func (g *greeter) Handle(_ string, payload []byte) error {
	g.heard <- string(payload)
	return nil
}

// Run starts once the handshake is done.
func (g *greeter) Run(ctx context.Context) error {
	if v, ok := g.peer.Feature("greet"); !ok || v < 1 {
		return nil // a peer that did not announce it would ban us for an unknown command
	}
	return g.peer.Send(ctx, p2p.Message{Command: "greet::Hello", Payload: []byte("hello")})
}

// Two nodes with a protocol of their own, on a network in memory.
func Example() {
	network := p2ptest.New(1, p2ptest.Link{Latency: time.Millisecond})
	ctx, stop := context.WithCancel(context.Background())
	var nodes sync.WaitGroup

	start := func(host string, heard chan string, peers ...p2p.URL) *p2p.Node {
		node, err := p2p.New(p2p.Config{
			AppName: "greetings", AppVersion: "1.0.0",
			Transports: network.Host(host).Transports("quic"),
			Inbound:    []p2p.URL{p2p.MustParseURL("quic://" + host + ":9600")},
			Peers:      peers,
			Features:   map[string]uint32{"greet": 1},
			Protocols: []p2p.Protocol{{
				Name: "greetings", Mask: p2p.SessionDefault,
				Commands: []p2p.Command{{Name: "greet::Hello", MaxPayload: 100}},
				Attach:   func(p *p2p.Peer) p2p.Handler { return &greeter{p, heard} },
			}},
		})
		if err != nil {
			panic(err)
		}
		nodes.Go(func() { _ = node.Run(ctx) }) // ends with ctx
		<-node.Listening()
		return node
	}

	heardByAlice, heardByBob := make(chan string, 1), make(chan string, 1)
	alice := start("192.0.2.1", heardByAlice)
	start("192.0.2.2", heardByBob, alice.ListenAddrs()...)

	fmt.Println("alice heard", <-heardByAlice)
	fmt.Println("bob heard", <-heardByBob)
	stop()
	nodes.Wait()
	// Output:
	// alice heard hello
	// bob heard hello
}
