package kv_test

import (
	"testing"
	"testing/synctest"

	"hearsay/internal/kv"
	"hearsay/internal/kv/kvtest"
)

func openDisk(tb testing.TB, prev kv.Store) kv.Store {
	dir, ok := dirs[prev]
	if !ok {
		dir = tb.TempDir()
	}
	db, err := kv.Open(kv.Options{Dir: dir, Kind: "test", Schema: 1, Sync: true})
	if err != nil {
		tb.Fatal(err)
	}
	dirs[db] = dir
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return db
}

var dirs = map[kv.Store]string{}

func openMem(tb testing.TB, prev kv.Store) kv.Store {
	m := kv.OpenMemory()
	if p, ok := prev.(*kv.Mem); ok {
		m = p.Reopen()
	}
	tb.Cleanup(func() { _ = m.Close() })
	return m
}

func TestSuiteDisk(t *testing.T)   { kvtest.Suite(t, openDisk) }
func TestSuiteMemory(t *testing.T) { kvtest.Suite(t, openMem) }

func TestSuiteFaulty(t *testing.T) {
	kvtest.Suite(t, func(tb testing.TB, prev kv.Store) kv.Store {
		if f, ok := prev.(*kvtest.Faulty); ok {
			prev = f.Store
		}
		return &kvtest.Faulty{Store: openMem(tb, prev)}
	})
}

// A store works in fake time when it is opened and closed in the bubble.
func TestSynctest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := kv.Open(kv.Options{Dir: t.TempDir(), Kind: "test", Schema: 1, Sync: true})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			err := db.Update(kv.Op{Name: "x"}, func(tx kv.Txn) error { return tx.Set([]byte("a"), []byte("b")) })
			if err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
