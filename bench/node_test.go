package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/eventgraph/gossip"
	"hearsay/p2p"
)

// storage says what is under a node's graph.
type storage uint8

const (
	durable storage = iota // on disk, every commit synced (in groups)
	buffered
	inMemory
)

func (s storage) String() string { return [...]string{"durable", "buffered", "memory"}[s] }

// A node is a whole hearsay node without its IRC face, over real sockets.
type node struct {
	graph  *eventgraph.Graph
	gossip *gossip.Gossip
	p2p    *p2p.Node
}

type nodeConfig struct {
	dir      string
	storage  storage
	params   eventgraph.Params
	listen   p2p.URL
	peers    []p2p.URL
	synced   bool
	noStatus bool
	onCommit func(eventgraph.Arrival)
}

// unlimited is put traffic without the limits whose defaults are the network's.
var unlimited = gossip.Limits{
	FloodPuts: 1 << 30, PacePuts: 1 << 30, RelayFree: gossip.NoRelayLimit, RelayQueue: 1 << 16,
}

// startNode runs a node until the benchmark's cleanup.
func startNode(b *testing.B, c nodeConfig) *node {
	b.Helper()
	n := &node{}
	var err error
	gc := eventgraph.Config{Params: c.params, NoSync: c.storage == buffered}
	if c.storage == inMemory {
		n.graph, err = eventgraph.OpenMemory(gc)
	} else {
		n.graph, err = eventgraph.Open(filepath.Join(c.dir, "graph"), gc)
	}
	if err != nil {
		b.Fatal(err)
	}
	if c.onCommit != nil {
		n.graph.OnCommit(c.onCommit)
	}
	n.gossip, err = gossip.New(gossip.Config{
		Graph: n.graph, SkipSync: c.synced, NoStatus: c.noStatus, Limits: unlimited, TipInterval: time.Hour,
	})
	if err != nil {
		b.Fatal(err)
	}
	n.p2p, err = p2p.New(p2p.Config{
		Localnet: true, OutboundConnections: -1, InboundConnections: 64,
		Inbound: []p2p.URL{c.listen}, Peers: c.peers,
		Features:       n.gossip.Features(),
		Protocols:      []p2p.Protocol{n.gossip.Protocol()},
		Transports:     p2p.DefaultTransports(p2p.TransportConfig{}),
		ActiveProfiles: []string{c.listen.Scheme()},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{n.graph.Run, n.gossip.Run, n.p2p.Run} {
		running.Go(func() {
			if err := run(ctx); ctx.Err() == nil {
				b.Errorf("a part of the node ended: %v", err)
			}
		})
	}
	stop := sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err := n.graph.Close(); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(stop)
	<-n.p2p.Listening()
	return n
}

// freeURL returns a loopback address that nobody listens on.
func freeURL(b *testing.B, scheme string) p2p.URL {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return p2p.MustParseURL(fmt.Sprintf("%s://%s", scheme, l.Addr()))
}

// oneSlot is a network of a single slot that began an hour ago.
func oneSlot() eventgraph.Params {
	return eventgraph.Params{
		Genesis:  eventgraph.Slot(time.Now().Add(-time.Hour).UnixMilli()),
		Contents: []byte("bench"), Drift: time.Minute,
	}
}

const contentSize = 200

func content(r *rand.Rand) []byte {
	c := make([]byte, contentSize)
	for i := range c {
		c[i] = byte(r.Uint32())
	}
	return c
}

// chatter makes n events of 200 bytes in the shape that a busy channel has: an event
// follows all open ends (at most 5), and three in ten are made at the same time as the
// one before, on the same parents.
func chatter(p eventgraph.Params, slot eventgraph.Slot, n int) []eventgraph.Event {
	r := rand.New(rand.NewPCG(1, 1))
	tips := []eventgraph.Event{p.GenesisOf(slot)}
	parents := tips
	list := make([]eventgraph.Event, n)
	for i := range list {
		if r.IntN(10) >= 3 || len(tips) == eventgraph.NumParents {
			parents, tips = tips, nil
		}
		e := eventgraph.Event{Content: content(r)}
		e.Timestamp = uint64(slot) + 1 + uint64(i)*3_000_000/uint64(n)
		e.ContentHash = eventgraph.HashContent(e.Content)
		for j := range parents {
			e.Parents[j] = parents[j].ID()
			e.Layer = max(e.Layer, parents[j].Layer+1)
		}
		list[i] = e
		tips = append(tips, e)
	}
	return list
}

// store puts events into a graph.
func store(b *testing.B, g *eventgraph.Graph, slot eventgraph.Slot, events []eventgraph.Event) {
	b.Helper()
	for at := 0; at < len(events); at += eventgraph.MaxHeaders {
		part := events[at:min(at+eventgraph.MaxHeaders, len(events))]
		if _, err := g.Insert(b.Context(), slot, part, eventgraph.SourceSync); err != nil {
			b.Fatal(err)
		}
	}
}
