package bench

import (
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// syncEvents is how many events an empty node fetches.
func syncEvents() int {
	if testing.Short() {
		return 2_000
	}
	return 100_000
}

// BenchmarkSync is an empty node that fetches all events of a peer over loopback:
// connect, compare, fetch headers and bodies, verify, store durably. Beside it the
// same bytes without a network or a graph: a scan of one Badger, and batched inserts
// into another.
func BenchmarkSync(b *testing.B) {
	params := oneSlot()
	slot := params.Genesis
	events := chatter(params, slot, syncEvents())
	for _, scheme := range []string{"quic", "tcp+tls", "tcp"} {
		b.Run("hearsay/"+scheme, func(b *testing.B) {
			url := freeURL(b, scheme)
			source := startNode(b, nodeConfig{dir: b.TempDir(), params: params, listen: url, synced: true})
			store(b, source.graph, slot, events)
			begin := cpu()
			for b.Loop() {
				n := startNode(b, nodeConfig{
					dir: b.TempDir(), params: params, listen: freeURL(b, scheme), peers: []p2p.URL{url},
				})
				waitEvents(b, n.graph, uint64(len(events)))
			}
			reportCPU(b, begin, len(events)*b.N)
			b.ReportMetric(float64(len(events)*b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
	b.Run("badger", func(b *testing.B) {
		from := openRaw(b, b.TempDir())
		load := from.NewWriteBatch()
		for i := range events {
			id := events[i].ID()
			if err := load.Set(id[:], events[i].AppendTo(nil)); err != nil {
				b.Fatal(err)
			}
		}
		if err := load.Flush(); err != nil {
			b.Fatal(err)
		}
		begin := cpu()
		for b.Loop() {
			to := openRaw(b, b.TempDir())
			copyRaw(b, from, to)
			if err := to.Close(); err != nil {
				b.Fatal(err)
			}
		}
		reportCPU(b, begin, len(events)*b.N)
		b.ReportMetric(float64(len(events)*b.N)/b.Elapsed().Seconds(), "events/s")
		if err := from.Close(); err != nil {
			b.Fatal(err)
		}
	})
}

func waitEvents(b *testing.B, g *eventgraph.Graph, want uint64) {
	b.Helper()
	for begin := time.Now(); g.Stats().Events < want; time.Sleep(2 * time.Millisecond) {
		if time.Since(begin) > 5*time.Minute {
			b.Fatalf("%d of %d events after 5 minutes", g.Stats().Events, want)
		}
	}
}

// copyRaw scans one store and inserts into the other in batches of 4,096.
func copyRaw(b *testing.B, from, to *badger.DB) {
	b.Helper()
	batch := to.NewTransaction(true)
	n := 0
	err := from.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			v, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			if err := batch.Set(it.Item().KeyCopy(nil), v); err != nil {
				return err
			}
			if n++; n%4096 == 0 {
				if err := batch.Commit(); err != nil {
					return err
				}
				batch = to.NewTransaction(true)
			}
		}
		return batch.Commit()
	})
	if err != nil {
		b.Fatal(err)
	}
}
