package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

const (
	swarmSize = 8
	// inFlight messages are published and not yet everywhere: enough to keep all busy,
	// and below every queue, so that nobody drops.
	inFlight = 128
)

// dials is the topology, the same for all: a ring with chords, every node has four
// peers. The later one dials, so that somebody listens there.
func dials(i int) (earlier []int) {
	for j := range i {
		if d := i - j; d <= 2 || d >= swarmSize-2 {
			earlier = append(earlier, j)
		}
	}
	return earlier
}

// A race counts deliveries. A message is done when all nodes have it.
type race struct {
	slots chan struct{} // one token per message in flight
	mu    sync.Mutex
	seen  map[[32]byte]int
	done  atomic.Int64
	all   chan struct{}
	want  int64
}

func newRace(n int) *race {
	return &race{slots: make(chan struct{}, inFlight), seen: make(map[[32]byte]int), all: make(chan struct{}), want: int64(n)}
}

// delivered says that some node has the message.
func (r *race) delivered(id [32]byte) {
	r.mu.Lock()
	r.seen[id]++
	last := r.seen[id] == swarmSize
	if last {
		delete(r.seen, id)
	}
	r.mu.Unlock()
	if !last {
		return
	}
	<-r.slots
	if r.done.Add(1) == r.want {
		close(r.all)
	}
}

// run publishes n messages from all nodes in turn and waits until they are everywhere.
func (r *race) run(b *testing.B, publish func(node int, content []byte) error) {
	b.Helper()
	begin := cpu()
	b.ResetTimer()
	var wg sync.WaitGroup
	var next atomic.Int64
	for p := range 16 { // publishers: each waits for its own commit
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(p), 7))
			for {
				i := next.Add(1) - 1
				if i >= r.want {
					return
				}
				r.slots <- struct{}{}
				if err := publish(int(i)%swarmSize, content(rng)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case <-r.all:
	case <-time.After(2 * time.Minute):
		b.Fatalf("%d of %d messages arrived everywhere", r.done.Load(), r.want)
	}
	b.StopTimer()
	reportCPU(b, begin, int(r.want))
	b.ReportMetric(float64(r.want)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkGossip is messages of 200 bytes among eight nodes over loopback: how many
// per second reach all. Ours are events: signed by nobody but stored, hashed and
// ordered; with each store, and with and without statuses.
func BenchmarkGossip(b *testing.B) {
	for _, c := range []struct {
		name     string
		storage  storage
		noStatus bool
	}{
		{"hearsay/durable/statuses", durable, false},
		{"hearsay/durable", durable, true},
		{"hearsay/buffered/statuses", buffered, false},
		{"hearsay/buffered", buffered, true},
		{"hearsay/memory/statuses", inMemory, false},
		{"hearsay/memory", inMemory, true},
	} {
		b.Run(c.name, func(b *testing.B) { gossipHearsay(b, "tcp+tls", c.storage, c.noStatus) })
	}
	b.Run("hearsay/quic/memory/statuses", func(b *testing.B) { gossipHearsay(b, "quic", inMemory, false) })
	b.Run("pubsub/floodsub", func(b *testing.B) { gossipPubsub(b, pubsub.NewFloodSub) })
	b.Run("pubsub/gossipsub", func(b *testing.B) { gossipPubsub(b, pubsub.NewGossipSub) })
}

func gossipHearsay(b *testing.B, scheme string, s storage, noStatus bool) {
	r := newRace(b.N)
	params := oneSlot()
	urls := make([]p2p.URL, swarmSize)
	for i := range urls {
		urls[i] = freeURL(b, scheme)
	}
	nodes := make([]*node, swarmSize)
	for i := range nodes {
		var peers []p2p.URL
		for _, j := range dials(i) {
			peers = append(peers, urls[j])
		}
		nodes[i] = startNode(b, nodeConfig{
			dir: b.TempDir(), storage: s, params: params, listen: urls[i], peers: peers, synced: true, noStatus: noStatus,
			onCommit: func(a eventgraph.Arrival) { r.delivered(a.Event.ID()) },
		})
	}
	for _, n := range nodes {
		for len(n.p2p.Peers()) < 4 {
			time.Sleep(5 * time.Millisecond)
		}
	}
	// Inbound peers take puts when they have sent something of the protocol.
	time.Sleep(time.Second)
	r.run(b, func(i int, content []byte) error {
		_, err := nodes[i].graph.Publish(b.Context(), content)
		return err
	})
	for i, n := range nodes {
		if n := len(n.p2p.Peers()); n != 4 {
			b.Errorf("node %d has %d peers left", i, n)
		}
	}
}

func gossipPubsub(b *testing.B, router func(context.Context, host.Host, ...pubsub.Option) (*pubsub.PubSub, error)) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := newRace(b.N)
	hosts := make([]host.Host, swarmSize)
	topics := make([]*pubsub.Topic, swarmSize)
	var readers sync.WaitGroup
	for i := range hosts {
		h := newHost(b)
		hosts[i] = h
		ps, err := router(ctx, h, pubsub.WithPeerOutboundQueueSize(4096), pubsub.WithValidateQueueSize(4096))
		if err != nil {
			b.Fatal(err)
		}
		if topics[i], err = ps.Join("bench"); err != nil {
			b.Fatal(err)
		}
		sub, err := topics[i].Subscribe(pubsub.WithBufferSize(4096))
		if err != nil {
			b.Fatal(err)
		}
		readers.Go(func() {
			for {
				m, err := sub.Next(ctx)
				if err != nil {
					return
				}
				r.delivered(eventgraph.HashContent(m.Data))
			}
		})
	}
	for i, h := range hosts {
		for _, j := range dials(i) {
			if err := h.Connect(ctx, peer.AddrInfo{ID: hosts[j].ID(), Addrs: hosts[j].Addrs()}); err != nil {
				b.Fatal(err)
			}
		}
	}
	for i := range topics {
		for len(topics[i].ListPeers()) < 4 {
			time.Sleep(5 * time.Millisecond)
		}
	}
	time.Sleep(2 * time.Second) // gossipsub's heartbeats build the mesh
	r.run(b, func(i int, content []byte) error { return topics[i].Publish(ctx, content) })
	cancel()
	readers.Wait()
}
