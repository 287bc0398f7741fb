package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"hearsay/internal/kv"
	"hearsay/outbound"
)

// BenchmarkEnqueue is one accepted message of 100 bytes: durable in the queue (DS-32),
// beside what the disk does at best for the same bytes, and one key in Badger with
// SyncWrites.
func BenchmarkEnqueue(b *testing.B) {
	payload := make([]byte, 100)
	for _, clients := range []int{1, 16} {
		name := fmt.Sprintf("/clients=%d", clients)
		b.Run("hearsay"+name, func(b *testing.B) {
			db, err := kv.Open(kv.Options{Dir: b.TempDir(), Kind: "custody", Schema: 1, Sync: true})
			if err != nil {
				b.Fatal(err)
			}
			q, err := outbound.Open(db, outbound.Config{MaxMessages: 1 << 20, MaxBytes: 1 << 30})
			if err != nil {
				b.Fatal(err)
			}
			commits(b, clients, func([]byte) error {
				_, err := q.Enqueue(b.Context(), outbound.Draft{Payload: payload})
				return err
			})
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
		})
		b.Run("badger"+name, func(b *testing.B) {
			db := openRaw(b, b.TempDir())
			commits(b, clients, func(key []byte) error {
				return db.Update(func(tx *badger.Txn) error { return tx.Set(key, payload) })
			})
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
	b.Run("append+fdatasync/clients=1", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "log"))
		if err != nil {
			b.Fatal(err)
		}
		commits(b, 1, func([]byte) error {
			if _, err := f.Write(payload); err != nil {
				return err
			}
			return datasync(f)
		})
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	})
}
