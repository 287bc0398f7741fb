package kv_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"hearsay/internal/kv"
)

// While the disk fills up, gossip is refused first, then enqueues, then
// generations, and releases never.
func TestRefusalOrder(t *testing.T) { // ST-02
	free := int64(1 << 40)
	o := small(t.TempDir()).WithFree(func() int64 { return free })
	o.Reserve = kv.Reserve{Gossip: 3000, Enqueue: 2000, Generation: 1000}
	db := mustOpen(t, o)
	put(t, db, "a", "1")
	base := db.Need(kv.ClassRelease)
	if base <= 0 {
		t.Fatal("background work needs nothing?")
	}
	for _, c := range []struct {
		free    int64
		refused int // how many classes, from gossip on
	}{{base + 3000, 0}, {base + 2999, 1}, {base + 2000, 1}, {base + 1999, 2}, {base + 1000, 2}, {base + 999, 3}, {0, 3}} {
		free = c.free
		for class := kv.ClassGossip; class <= kv.ClassRelease; class++ {
			before := db.Commits()
			ran := false
			err := db.Update(kv.Op{Name: "x", Class: class}, func(tx kv.Txn) error {
				ran = true
				return tx.Set([]byte("a"), []byte("2"))
			})
			refused := int(class) < c.refused
			if errors.Is(err, kv.ErrDiskFull) != refused || ran == refused || (db.Commits() == before) != refused {
				t.Errorf("%d free, class %d: %v (ran: %t)", c.free-base, class, err, ran)
			}
		}
	}
	free = 1 << 40
	if err := db.Update(kv.Op{Name: "x"}, func(kv.Txn) error { return nil }); err != nil {
		t.Errorf("after there is room again: %v", err)
	}
}

// Stores on one disk leave room for each other's background work.
func TestSharedDisk(t *testing.T) { // ST-02
	disk := new(kv.Disk)
	a, b := small(t.TempDir()), small(t.TempDir())
	a.Disk, b.Disk = disk, disk
	da := mustOpen(t, a)
	alone := da.Need(kv.ClassGossip)
	db := mustOpen(t, b)
	both := da.Need(kv.ClassGossip)
	if both <= alone || both != db.Need(kv.ClassGossip) {
		t.Errorf("need %d alone, %d and %d together", alone, both, db.Need(kv.ClassGossip))
	}
	db.Close()
	if got := da.Need(kv.ClassGossip); got != alone {
		t.Errorf("need %d after the other closed, %d before it opened", got, alone)
	}
}

// The ballast is given up for an Open or a release that has no room, and comes
// back.
func TestBallast(t *testing.T) { // ST-02
	dir := filepath.Join(t.TempDir(), "store")
	free := int64(1 << 40)
	o := small(dir).WithFree(func() int64 { return free })
	o.Ballast = 1 << 20
	path := filepath.Join(dir, "ballast")
	held := func() bool {
		fi, err := os.Stat(path)
		if err == nil && (fi.Size() != o.Ballast || fi.Sys().(*syscall.Stat_t).Blocks*512 < o.Ballast) {
			t.Errorf("ballast of %d bytes, %d blocks", fi.Size(), fi.Sys().(*syscall.Stat_t).Blocks)
		}
		return err == nil
	}
	db := mustOpen(t, o)
	if !held() {
		t.Fatal("no ballast")
	}
	free = db.Need(kv.ClassRelease)
	put(t, db, "a", "1")
	if !held() {
		t.Error("given up too early")
	}
	free--
	put(t, db, "a", "2")
	if held() {
		t.Error("kept while a release has no room")
	}
	db.Maintain()
	if held() {
		t.Error("restored while there is no room")
	}
	free = db.Need(kv.ClassEnqueue) + o.Ballast
	db.Maintain()
	if !held() {
		t.Error("not restored")
	}
	db.Close()

	calls := 0
	o = o.WithFree(func() int64 {
		if _, err := os.Stat(path); err == nil {
			return 1000
		}
		calls++
		return 1 << 40
	})
	o.Ballast = 0
	db = mustOpen(t, o)
	if calls == 0 {
		t.Error("opened without giving the ballast up")
	}
	db.Close()
	os.Remove(path)
	if _, err := kv.Open(small(dir).WithFree(func() int64 { return 1000 })); !errors.Is(err, kv.ErrDiskFull) {
		t.Errorf("full, no ballast: %v", err)
	}
	mustOpen(t, small(dir))
}

// The log that is mapped for writing has its blocks before it is written.
func TestLogIsAllocated(t *testing.T) { // ST-02
	dir := t.TempDir()
	db := mustOpen(t, small(dir))
	for range 2 {
		logs := glob(t, dir, "gen-*/*.mem")
		fi, err := os.Stat(logs[len(logs)-1])
		if err != nil {
			t.Fatal(err)
		}
		if got := fi.Sys().(*syscall.Stat_t).Blocks * 512; got < 1<<20*5/4 {
			t.Errorf("%s has %d bytes of blocks", logs[len(logs)-1], got)
		}
		if _, err := fill(db, 2000); err != nil { // into the next log
			t.Fatal(err)
		}
	}
}

func init() {
	// fills writes with every class until it is refused, then releases many times
	// over, in a store that flushes and compacts meanwhile.
	children["fills"] = func(args []string) error {
		db, err := kv.Open(small(args[0]))
		if err != nil {
			return err
		}
		n := 0
		for class := range kv.ClassRelease {
			for {
				err := db.Update(kv.Op{Name: "x", Class: class}, func(tx kv.Txn) error {
					n++
					return tx.Set(fmt.Appendf(nil, "%x/%d", n*7919%65536, n), make([]byte, 4000))
				})
				if errors.Is(err, kv.ErrDiskFull) {
					break
				}
				if err != nil {
					return err
				}
			}
			fmt.Println("refused", class, "after", n)
		}
		var keys [][]byte
		err = db.View(func(r kv.Reader) error {
			return r.Scan(kv.Scan{KeysOnly: true}, func(k, _ []byte) error {
				keys = append(keys, append([]byte(nil), k...))
				return nil
			})
		})
		if err != nil {
			return err
		}
		if len(keys) != n || n < 1000 { // a refused call does not run
			return fmt.Errorf("%d of %d stored", len(keys), n)
		}
		for _, k := range keys {
			if err := db.Update(release, func(tx kv.Txn) error { return tx.Delete(k) }); err != nil {
				return err
			}
		}
		fmt.Println("released", len(keys))
		db.Maintain()
		return db.Close()
	}
	// accepts writes and says what is acknowledged; a refusal ends it.
	children["accepts"] = func(args []string) error {
		db, err := kv.Open(small(args[0]))
		if err != nil {
			return err
		}
		fmt.Println("open")
		for n := 0; ; n++ {
			err := db.Update(kv.Op{Name: "x", Class: kv.ClassRelease}, func(tx kv.Txn) error {
				return tx.Set(fmt.Append(nil, n), make([]byte, 3000))
			})
			if err != nil {
				return err
			}
			fmt.Println(n)
		}
	}
}

// smallDisk mounts a tmpfs.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a tmpfs")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",mode=700"); err != nil {
		t.Skip("cannot mount a tmpfs:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// eat takes all free space of dir's file system, as a foreign writer does.
func eat(t *testing.T, dir string) string {
	t.Helper()
	name := filepath.Join(dir, "foreign")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, n := range []int{1 << 20, 4096, 1} {
		for err = nil; err == nil; _, err = f.Write(make([]byte, n)) {
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return name
}

// Our own writing ends in refusals, never in SIGBUS, and what was stored drains on
// a disk that somebody else has filled to the last byte.
func TestSmallDisk(t *testing.T) { // ST-02
	disk := smallDisk(t, "64m")
	dir := filepath.Join(disk, "store")
	for range 3 {
		lines, err := startChild(t, "fills", dir).wait()
		if err != nil {
			t.Fatalf("after %v: %v", lines, err)
		}
		t.Log(lines)
		if len(lines) != 4 {
			t.Fatal("incomplete")
		}
	}
	db := mustOpen(t, small(dir))
	for i := range 1000 {
		put(t, db, fmt.Sprint(i), "x")
	}
	db.Close()
	foreign := eat(t, disk)
	for range 5 { // again and again: opening does not eat up the room it needs
		db := mustOpen(t, small(dir))
		err := db.Update(kv.Op{Name: "enqueue", Class: kv.ClassEnqueue}, func(kv.Txn) error { return nil })
		if !errors.Is(err, kv.ErrDiskFull) {
			t.Errorf("enqueue on a full disk: %v", err)
		}
		for i := range 200 {
			if err := db.Update(release, func(tx kv.Txn) error { return tx.Delete(fmt.Append(nil, i)) }); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(dump(t, db)); got != 800 {
			t.Errorf("%d left", got)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	db = mustOpen(t, small(dir))
	if err := db.Update(kv.Op{Name: "gossip"}, func(kv.Txn) error { return nil }); err != nil {
		t.Error("with room again:", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ballast")); err != nil {
		t.Error("with room again:", err)
	}
}

// A foreign writer that fills the disk while we write may end the process. Nothing
// that was acknowledged is lost by it.
func TestForeignWriter(t *testing.T) { // ST-02
	disk := smallDisk(t, "32m")
	dir := filepath.Join(disk, "store")
	for round := range 4 {
		c := startChild(t, "accepts", dir)
		if !c.out.Scan() {
			_, err := c.wait()
			t.Fatal(err)
		}
		time.Sleep(time.Duration(round*20) * time.Millisecond)
		foreign := eat(t, disk)
		stop := time.AfterFunc(2*time.Second, func() { _ = c.cmd.Process.Kill() })
		acked, err := c.wait()
		stop.Stop()
		t.Logf("%d acknowledged, then %.60v", len(acked), err)
		if err := os.Remove(foreign); err != nil {
			t.Fatal(err)
		}
		db, err := kv.Open(small(dir))
		if err != nil {
			t.Fatal(err)
		}
		rows := dump(t, db)
		for _, k := range acked {
			if len(rows[k]) != 3000 {
				t.Fatalf("round %d: %s is lost", round, k)
			}
		}
		// Make room for the next round.
		err = db.Update(release, func(tx kv.Txn) error {
			for k := range rows {
				if err := tx.Delete([]byte(k)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, kv.ErrTooLarge) {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// An update of many goroutines on a filling disk does not slip under the reserve.
func TestRefusedTogether(t *testing.T) { // ST-02
	var mu sync.Mutex
	free := int64(1 << 40)
	db := mustOpen(t, small(t.TempDir()).WithFree(func() int64 { mu.Lock(); defer mu.Unlock(); return free }))
	mu.Lock()
	free = db.Need(kv.ClassEnqueue) - 1
	mu.Unlock()
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			class := kv.Class(i % 4)
			err := db.Update(kv.Op{Name: "x", Class: class}, func(tx kv.Txn) error { return tx.Set(fmt.Append(nil, i), nil) })
			if errors.Is(err, kv.ErrDiskFull) != (class <= kv.ClassEnqueue) {
				t.Errorf("class %d: %v", class, err)
			}
		})
	}
	wg.Wait()
}
