package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"hearsay/internal/kv"
)

// BenchmarkCommit is one durable commit of one row of 300 bytes: ours, Badger's
// own with SyncWrites, and what the disk does at best (append and fdatasync).
func BenchmarkCommit(b *testing.B) {
	value := make([]byte, 300)
	for _, writers := range []int{1, 16} {
		name := fmt.Sprintf("/writers=%d", writers)
		b.Run("hearsay"+name, func(b *testing.B) {
			db, err := kv.Open(kv.Options{Dir: b.TempDir(), Kind: "bench", Schema: 1, Sync: true})
			if err != nil {
				b.Fatal(err)
			}
			commits(b, writers, func(key []byte) error {
				return db.Update(kv.Op{Name: "bench", Class: kv.ClassRelease}, func(tx kv.Txn) error { return tx.Set(key, value) })
			})
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
		})
		b.Run("badger"+name, func(b *testing.B) {
			db := openRaw(b, b.TempDir())
			commits(b, writers, func(key []byte) error {
				return db.Update(func(tx *badger.Txn) error { return tx.Set(key, value) })
			})
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
	b.Run("append+fdatasync/writers=1", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "log"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		commits(b, 1, func([]byte) error {
			if _, err := f.Write(value); err != nil {
				return err
			}
			return datasync(f)
		})
	})
}

// openRaw opens Badger as its documentation has it, with durable writes.
func openRaw(b *testing.B, dir string) *badger.DB {
	b.Helper()
	db, err := badger.Open(badger.DefaultOptions(dir).WithSyncWrites(true).WithLogger(nil).WithMetricsEnabled(false))
	if err != nil {
		b.Fatal(err)
	}
	return db
}

func commits(b *testing.B, writers int, commit func(key []byte) error) {
	b.Helper()
	var n atomic.Uint64
	one := func() {
		key := fmt.Appendf(nil, "key%012d", n.Add(1)*7919%1_000_003)
		if err := commit(key); err != nil {
			b.Error(err)
		}
	}
	b.ReportAllocs()
	if writers == 1 {
		for b.Loop() {
			one()
		}
	} else {
		work := make(chan struct{})
		done := make(chan struct{})
		for range writers {
			go func() {
				defer func() { done <- struct{}{} }()
				for range work {
					one()
				}
			}()
		}
		b.ResetTimer()
		for range b.N {
			work <- struct{}{}
		}
		close(work)
		for range writers {
			<-done
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}
