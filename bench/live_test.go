package bench

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
	"hearsay/p2p"
)

// BenchmarkLive is how long one event takes from a peer's socket to a subscriber of a
// node that stores it durably first (the author's store is in memory), one at a time;
// beside it, one durable commit of the same bytes.
func BenchmarkLive(b *testing.B) {
	for _, scheme := range []string{"quic", "tcp+tls"} {
		b.Run("hearsay/"+scheme, func(b *testing.B) {
			params := oneSlot()
			url := freeURL(b, scheme)
			reader := startNode(b, nodeConfig{dir: b.TempDir(), params: params, listen: url, synced: true})
			author := startNode(b, nodeConfig{
				storage: inMemory, params: params, listen: freeURL(b, scheme), peers: []p2p.URL{url}, synced: true,
			})
			for len(author.p2p.Peers()) == 0 || len(reader.p2p.Peers()) == 0 {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Second)
			ctx, cancel := context.WithCancel(context.Background())
			arrived := make(chan eventgraph.ID)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for a, err := range reader.graph.Subscribe(ctx, reader.graph.Last()) {
					if err != nil {
						return
					}
					arrived <- a.Event.ID()
				}
			}()
			rng := rand.New(rand.NewPCG(1, 1))
			for b.Loop() {
				e, err := author.graph.Publish(b.Context(), content(rng))
				if err != nil {
					b.Fatal(err)
				}
				select {
				case id := <-arrived:
					if id != e.ID() {
						b.Fatal("another event")
					}
				case <-time.After(30 * time.Second):
					b.Fatal("the event did not arrive")
				}
			}
			cancel()
			<-ended
		})
	}
	b.Run("commit", func(b *testing.B) {
		db, err := kv.Open(kv.Options{Dir: b.TempDir(), Kind: "bench", Schema: 1, Sync: true})
		if err != nil {
			b.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		key, value := make([]byte, 40), append(content(rng), make([]byte, eventgraph.HeaderSize)...)
		for b.Loop() {
			for i := range key {
				key[i] = byte(rng.Uint32()) | 0x80
			}
			if err := db.Update(kv.Op{Name: "bench", Class: kv.ClassRelease}, func(tx kv.Txn) error { return tx.Set(key, value) }); err != nil {
				b.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	})
}
