package kv_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/internal/kv"
)

// Calls that come while a commit is under way share the next one.
func TestGroupCommit(t *testing.T) {
	var syncs atomic.Int64
	gate := make(chan struct{})
	o := small(t.TempDir()).WithFault(func(p string) error {
		if p == "sync" && syncs.Add(1) == 2 { // the first one was Open's
			<-gate
		}
		return nil
	})
	db := mustOpen(t, o)
	var wg sync.WaitGroup
	wg.Go(func() { put(t, db, "first", "1") })
	for syncs.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	const n = 50
	for i := range n {
		wg.Go(func() {
			if i%2 == 0 {
				put(t, db, fmt.Sprint(i), "1")
				return
			}
			// What is rolled back does not count towards the size of the commit.
			no := errors.New("no")
			if err := db.Update(release, func(tx kv.Txn) error {
				return errors.Join(tx.Set([]byte("x"), make([]byte, 30<<10)), tx.Set([]byte("0"), nil), no)
			}); !errors.Is(err, no) {
				t.Error(err)
			}
		})
	}
	for db.Queued() < n {
		time.Sleep(time.Millisecond)
	}
	close(gate)
	wg.Wait()
	if got := syncs.Load(); got != 3 {
		t.Errorf("%d syncs for %d calls", got-1, n+1)
	}
	if got := len(dump(t, db)); got != n/2+1 {
		t.Errorf("%d rows", got)
	}
}

// A View sees nothing that is not durable yet.
func TestDurableBeforeVisible(t *testing.T) {
	hold, atSync := make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	db := mustOpen(t, small(t.TempDir()).WithFault(func(p string) error {
		if p == "sync" && armed.Load() {
			close(atSync)
			<-hold
		}
		return nil
	}))
	armed.Store(true)
	done := make(chan struct{})
	go func() { defer close(done); put(t, db, "a", "1") }()
	<-atSync
	if got := dump(t, db); len(got) != 0 {
		t.Errorf("visible before its sync: %v", got)
	}
	close(hold)
	<-done
	armed.Store(false)
	if got := dump(t, db); got["a"] != "1" {
		t.Errorf("not visible after: %v", got)
	}
}

// A group too large for one commit becomes several, without running a function
// twice; each call is in one of them, whole.
func TestGroupSplit(t *testing.T) {
	gate := make(chan struct{})
	var syncs atomic.Int64
	db := mustOpen(t, small(t.TempDir()).WithFault(func(p string) error {
		if p == "sync" && syncs.Add(1) == 2 {
			<-gate
		}
		return nil
	}))
	var wg sync.WaitGroup
	wg.Go(func() { put(t, db, "first", "1") })
	for syncs.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	const n, size = 20, 30 << 10 // 4 of them fit one commit of this store
	var ran atomic.Int64
	for i := range n {
		wg.Go(func() {
			err := db.Update(release, func(tx kv.Txn) error {
				ran.Add(1)
				// Every call sees the ones before it, over the seams too.
				c, err := count(tx)
				return errors.Join(err, tx.Set([]byte("n"), fmt.Append(nil, c+1)),
					tx.Set(fmt.Appendf(nil, "row%d", i), make([]byte, size)))
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for db.Queued() < n {
		time.Sleep(time.Millisecond)
	}
	close(gate)
	wg.Wait()
	got := dump(t, db)
	if got["n"] != fmt.Sprint(n) || len(got) != n+2 {
		t.Errorf("counter %s, %d rows", got["n"], len(got))
	}
	if ran.Load() != n {
		t.Errorf("%d runs of %d functions", ran.Load(), n)
	}
	if syncs.Load()-1 > n/2 || syncs.Load() < 5 {
		t.Errorf("%d syncs", syncs.Load()-1)
	}
}

// Old versions go when nobody reads them: a counter does not fill the disk.
func TestOverwritesAreDropped(t *testing.T) {
	o := small(t.TempDir())
	o.Sync = false
	db := mustOpen(t, o)
	v := make([]byte, 2000)
	for range 20_000 { // 40 MB
		if err := db.Update(release, func(tx kv.Txn) error { return tx.Set([]byte("n"), v) }); err != nil {
			t.Fatal(err)
		}
	}
	if got := db.Size(); got > 16<<20 {
		t.Errorf("%d MB on disk", got>>20)
	}
}

// Run syncs a store that does not sync each commit, and ends with its context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "store")
		var syncs atomic.Int64
		o := small(dir).WithFault(func(p string) error {
			if p == "sync" {
				syncs.Add(1)
			}
			return nil
		})
		o.Sync = false
		db := mustOpen(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- db.Run(ctx) }()
		put(t, db, "a", "1")
		before := syncs.Load()
		time.Sleep(90 * time.Second)
		synctest.Wait()
		if got := syncs.Load() - before; got != 1 {
			t.Errorf("%d syncs of one commit", got)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
