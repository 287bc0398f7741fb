package p2p_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/p2p"
	"hearsay/p2p/p2ptest"
)

// run starts a node and returns it and what stops it.
func run(t *testing.T, cfg p2p.Config) (*p2p.Node, func()) {
	t.Helper()
	n, err := p2p.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	select {
	case <-n.Listening():
	case err := <-done:
		t.Fatal(err)
	}
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return n, stop
}

func address(i int) p2p.URL { return p2p.MustParseURL(fmt.Sprintf("tcp://5.0.0.%d:9600", i)) }

func config(net *p2ptest.Network, i int) p2p.Config {
	u := address(i)
	return p2p.Config{
		Transports: net.Host(u.Host()).Transports("tcp"), Inbound: []p2p.URL{u}, ExternalAddrs: []p2p.URL{u},
		Rand: rand.New(rand.NewPCG(7, uint64(i))),
	}
}

// A peer whose machine dies without a word is noticed by its missing pong, and found
// again when it is back.
func TestHalfOpenPeerIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := p2ptest.New(1, p2ptest.Link{Latency: 50 * time.Millisecond})
		b, err := p2p.New(config(net, 2))
		if err != nil {
			t.Fatal(err)
		}
		died := make(chan error, 1)
		go func() { died <- b.Run(t.Context()) }()
		cfg := config(net, 1)
		cfg.Peers, cfg.OutboundConnections = []p2p.URL{address(2)}, -1
		a, _ := run(t, cfg)
		time.Sleep(time.Second)
		if len(a.Peers()) != 1 {
			t.Fatal("not connected")
		}
		p := a.Peers()[0]
		net.Host("5.0.0.2").Crash()
		start := time.Now()
		<-p.Context().Done()
		if d := time.Since(start); d > 46*time.Second || !errors.Is(context.Cause(p.Context()), p2p.ErrNoPong) {
			t.Errorf("%v after %v", context.Cause(p.Context()), d)
		}
		if err := <-died; err == nil { // a listener that is gone ends a node
			t.Error("Run returned nil")
		}
		run(t, config(net, 2))
		time.Sleep(time.Minute)
		if len(a.Peers()) != 1 {
			t.Error("not connected again")
		}
	})
}

// Nodes that know only a seed find each other, and stay connected through a network
// that breaks connections; nobody is ever banned.
func TestNetworkForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 8
		net := p2ptest.New(3, p2ptest.Link{Latency: 30 * time.Millisecond, Jitter: 20 * time.Millisecond, MTBF: 2 * time.Hour})
		seed := config(net, 100)
		seed.OutboundConnections, seed.InboundConnections, seed.BanPolicy = -1, 64, p2p.BanRelaxed
		run(t, seed)
		var nodes []*p2p.Node
		for i := 1; i <= count; i++ {
			cfg := config(net, i)
			cfg.Seeds, cfg.OutboundConnections = []p2p.URL{address(100)}, 3
			n, _ := run(t, cfg)
			nodes = append(nodes, n)
		}
		time.Sleep(time.Hour)
		lonely := 0
		for range 20 {
			time.Sleep(30 * time.Minute)
			for _, n := range nodes {
				if len(n.Peers()) == 0 {
					lonely++
				}
			}
		}
		if lonely > 2 {
			t.Errorf("%d times of %d somebody was alone", lonely, 20*count)
		}
		for i, n := range nodes {
			if s := n.Stats(); s.Bans != 0 || s.Faults != 0 {
				t.Errorf("node %d: %+v", i+1, s)
			}
			known := n.Info().Hosts
			if known["gold"]+known["white"]+known["grey"] < count/2 {
				t.Errorf("node %d knows %v", i+1, known)
			}
		}
	})
}
