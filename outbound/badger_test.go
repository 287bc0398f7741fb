package outbound

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"hearsay/internal/kv"
)

func openDisk(t testing.TB, dir string, rewrite bool) *kv.DB {
	t.Helper()
	db, err := kv.Open(kv.Options{Dir: dir, Kind: "custody", Schema: 1, Sync: true, Rewrite: rewrite})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// TestOnDisk: what is accepted is there after a restart, in order, and after a purge and
// a rewrite no byte of it is left on the disk (DS-32, DS-83).
func TestOnDisk(t *testing.T) {
	const secret = "palimpsest-of-the-queue"
	dir := filepath.Join(t.TempDir(), "custody")
	db := openDisk(t, dir, false)
	q := openQueue(t, db, Config{})
	for range 5 {
		if _, err := q.Enqueue(t.Context(), drafts("a", secret, "b")...); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if found(t, dir, secret) == 0 {
		t.Fatal("the search for text finds nothing even while it is queued")
	}
	db = openDisk(t, dir, false)
	q = openQueue(t, db, Config{})
	if s, err := q.Summary(); s.Depth != 15 || err != nil {
		t.Errorf("%+v %v", s, err)
	}
	if n, err := q.Purge(t.Context()); n != 15 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openDisk(t, dir, true)
	q = openQueue(t, db, Config{})
	if s, err := q.Summary(); s.Depth != 0 || s.Cancelled != 15 || err != nil {
		t.Errorf("%+v %v", s, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if n := found(t, dir, secret); n != 0 {
		t.Errorf("purged text is in %d files", n)
	}
}

func found(t *testing.T, dir, text string) (files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			files++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// BenchmarkEnqueue: durable enqueues, one client and sixteen.
func BenchmarkEnqueue(b *testing.B) {
	d := Draft{Payload: make(Payload, 200)}
	for _, clients := range []int{1, 16} {
		b.Run(map[int]string{1: "1", 16: "16"}[clients], func(b *testing.B) {
			db := openDisk(b, filepath.Join(b.TempDir(), "custody"), false)
			defer db.Close()
			q := openQueue(b, db, Config{MaxMessages: 1 << 20, MaxBytes: 1 << 30})
			b.ReportAllocs()
			b.SetParallelism(clients)
			if clients == 1 {
				for b.Loop() {
					if _, err := q.Enqueue(b.Context(), d); err != nil {
						b.Fatal(err)
					}
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := q.Enqueue(b.Context(), d); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkHeadLookup: on a queue without a past, and after 20,000 acknowledgements (ST-05).
func BenchmarkHeadLookup(b *testing.B) {
	for name, acked := range map[string]int{"new": 0, "acked": 100_000} {
		b.Run(name, func(b *testing.B) {
			db, err := kv.Open(kv.Options{Dir: filepath.Join(b.TempDir(), "custody"), Kind: "custody", Schema: 1})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			q := openQueue(b, db, Config{})
			for acked > 0 {
				if _, err := q.Enqueue(b.Context(), make([]Draft, MaxBatch)...); err != nil {
					b.Fatal(err)
				}
				for range MaxBatch {
					rec, _, err := q.store.head()
					if err != nil {
						b.Fatal(err)
					}
					if _, _, err := q.store.dequeue(rec.Entry.Position); err != nil {
						b.Fatal(err)
					}
				}
				acked -= MaxBatch
			}
			if _, err := q.Enqueue(b.Context(), Draft{Payload: make(Payload, 200)}); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := q.store.head(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
