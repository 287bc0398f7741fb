package kv_test

import (
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"testing"

	"hearsay/internal/kv"
)

func BenchmarkOpen(b *testing.B) {
	o := kv.Options{Dir: b.TempDir(), Kind: "test", Schema: 1, Sync: true}
	b.ReportAllocs()
	for b.Loop() {
		db, err := kv.Open(o)
		if err != nil {
			b.Fatal(err)
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, sync := range []bool{true, false} {
		for _, writers := range []int{1, 16} {
			b.Run(fmt.Sprintf("sync=%t/writers=%d", sync, writers), func(b *testing.B) {
				db, err := kv.Open(kv.Options{Dir: b.TempDir(), Kind: "test", Schema: 1, Sync: sync})
				if err != nil {
					b.Fatal(err)
				}
				benchUpdate(b, db, writers)
				b.ReportMetric(float64(b.N)/float64(db.Commits()-1), "updates/commit")
				if err := db.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("memory/writers=%d", writers), func(b *testing.B) { benchUpdate(b, kv.OpenMemory(), writers) })
	}
}

func benchUpdate(b *testing.B, s kv.Store, writers int) {
	var n atomic.Int64
	value := make([]byte, 300)
	b.ReportAllocs()
	b.SetParallelism(writers) // times GOMAXPROCS
	if writers == 1 {
		for b.Loop() {
			if err := s.Update(release, func(tx kv.Txn) error {
				return tx.Set(fmt.Appendf(nil, "key%012d", n.Add(1)*7919%1_000_003), value)
			}); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	b.SetParallelism(max(1, writers/2))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := s.Update(release, func(tx kv.Txn) error {
				return tx.Set(fmt.Appendf(nil, "key%012d", n.Add(1)*7919%1_000_003), value)
			}); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkGet reads records of 430 bytes in random order, out of 100,000, as a node
// does that serves a sync.
func BenchmarkGet(b *testing.B) {
	db, err := kv.Open(kv.Options{Dir: b.TempDir(), Kind: "test", Schema: 1})
	if err != nil {
		b.Fatal(err)
	}
	const n = 100_000
	key := func(i int) []byte {
		sum := sha256.Sum256(fmt.Append(nil, i))
		return append([]byte("e12345678"), sum[:]...)
	}
	for i := 0; i < n; i += 1000 {
		if err := db.Update(release, func(tx kv.Txn) error {
			for j := i; j < i+1000; j++ {
				if err := tx.Set(key(j), make([]byte, 430)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	i := 0
	b.ReportAllocs()
	err = db.View(func(r kv.Reader) error {
		for b.Loop() {
			if _, err := r.Get(key(i * 7919 % n)); err != nil {
				return err
			}
			i++
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}
