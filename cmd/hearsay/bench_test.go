package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/eventgraph/gossip"
	"hearsay/internal/kv"
	"hearsay/outbound"
	"hearsay/p2p"
)

// benchNode is a node without IRC on a real disk, over QUIC on loopback, whose puts are
// not paced.
func benchNode(b *testing.B, seen func(eventgraph.Arrival), peers ...string) *simNode {
	b.Helper()
	dir := b.TempDir()
	params := eventgraph.DarkIRC()
	params.Rotation = 0
	n := &simNode{t: b}
	var err error
	if n.graph, err = eventgraph.Open(filepath.Join(dir, "graph"), eventgraph.Config{Params: params}); err != nil {
		b.Fatal(err)
	}
	limits := gossip.Limits{FloodPuts: 1 << 30, PacePuts: 1 << 30, RelayFree: gossip.NoRelayLimit}
	if n.gossip, err = gossip.New(gossip.Config{Graph: n.graph, SkipSync: true, ManualPut: true, Limits: limits}); err != nil {
		b.Fatal(err)
	}
	cfg := parse(b, "[graph]\nrotation = \"0s\"\n")
	cfg.Datastore = dir
	store, err := kv.Open(custodyOptions(cfg, noLog))
	if err != nil {
		b.Fatal(err)
	}
	if n.custody, err = newCustody(store, cfg, noLog); err != nil {
		b.Fatal(err)
	}
	n.network = network{n.graph, n.gossip, false}
	n.worker, err = outbound.NewWorker(n.custody.queue, n.network, plainMaterialiser{n.graph}, outbound.WorkerConfig{Policy: outbound.Policy{MinPeers: 1}})
	if err != nil {
		b.Fatal(err)
	}
	n.network.observe(n.worker)
	if seen != nil {
		n.graph.OnCommit(seen)
	}
	var urls []p2p.URL
	for _, p := range peers {
		urls = append(urls, p2p.MustParseURL(p))
	}
	n.node, err = p2p.New(p2p.Config{
		Transports: p2p.DefaultTransports(p2p.TransportConfig{}), Inbound: []p2p.URL{p2p.MustParseURL("quic://127.0.0.1:0")},
		ActiveProfiles: []string{"quic"}, Peers: urls, OutboundConnections: -1, Localnet: true,
		Protocols: []p2p.Protocol{n.gossip.Protocol()}, Features: n.gossip.Features(),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	for _, run := range []func(context.Context) error{
		n.graph.Run, n.gossip.Run, n.node.Run, n.worker.Run,
		func(ctx context.Context) error { return n.network.wake(ctx, n.worker) },
	} {
		n.wg.Go(func() { _ = run(ctx) })
	}
	b.Cleanup(func() {
		n.stop()
		n.wg.Wait()
		_, _ = n.graph.Close(), n.custody.store.Close()
	})
	<-n.node.Listening()
	return n
}

// benchPair is a node and a peer that sees what it says.
func benchPair(b *testing.B) (n *simNode, seen <-chan string) {
	ch := make(chan string, 1<<16)
	peer := benchNode(b, func(a eventgraph.Arrival) {
		select {
		case ch <- string(a.Event.Content[:32]):
		default: // nobody wants to know
		}
	})
	n = benchNode(b, nil, strings.TrimSuffix(peer.node.ListenAddrs()[0].String(), "/"))
	for n.gossip.PutTargets() == 0 {
		time.Sleep(time.Millisecond)
	}
	return n, ch
}

// BenchmarkEnqueueToVisible is one message at a time: from the call of Enqueue until
// the peer has stored its event.
func BenchmarkEnqueueToVisible(b *testing.B) {
	n, seen := benchPair(b)
	var times []time.Duration
	for b.Loop() {
		began := time.Now()
		id := n.say().String()
		for got := range seen {
			if got == id {
				break
			}
		}
		times = append(times, time.Since(began))
		for n.summary().Depth > 0 { // its acknowledgement is not the next one's delay
			time.Sleep(100 * time.Microsecond)
		}
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkFIFO drains a full queue: each message waits for the one before it.
func BenchmarkFIFO(b *testing.B) {
	n, _ := benchPair(b)
	const batch = 200
	began, messages := time.Now(), 0
	for b.Loop() {
		messages += batch
		drafts := make([]outbound.Draft, batch)
		for i := range drafts {
			drafts[i].Payload = outbound.Payload("x")
		}
		if _, err := n.custody.queue.Enqueue(context.Background(), drafts...); err != nil {
			b.Fatal(err)
		}
		for n.summary().Depth > 0 {
			time.Sleep(100 * time.Microsecond)
		}
	}
	b.ReportMetric(float64(messages)/time.Since(began).Seconds(), "messages/s")
}

// BenchmarkFloor is what a message of a strict FIFO cannot do without: a durable commit
// on each side and a round trip, of which loopback's is next to nothing.
func BenchmarkFloor(b *testing.B) {
	var stores []*kv.DB
	for range 2 {
		s, err := kv.Open(kv.Options{Dir: filepath.Join(b.TempDir(), "s"), Kind: "bench", Schema: 1, Sync: true})
		if err != nil {
			b.Fatal(err)
		}
		stores = append(stores, s)
		b.Cleanup(func() { _ = s.Close() })
	}
	var wg sync.WaitGroup
	for b.Loop() {
		for _, s := range stores {
			wg.Go(func() {
				if err := s.Update(kv.Op{Name: "bench"}, func(tx kv.Txn) error { return tx.Set([]byte("k"), make([]byte, 200)) }); err != nil {
					b.Error(err)
				}
			})
			wg.Wait() // one after the other
		}
	}
}
