package kv_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hearsay/internal/kv"
)

var release = kv.Op{Name: "release", Class: kv.ClassRelease}

// small is a store that flushes and compacts soon.
func small(dir string) kv.Options {
	return kv.Options{Dir: dir, Kind: "test", Schema: 1, Sync: true, Memtable: 1 << 20, Table: 1 << 20}
}

func mustOpen(t *testing.T, o kv.Options) *kv.DB {
	t.Helper()
	db, err := kv.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func put(t *testing.T, s kv.Store, key, value string) {
	t.Helper()
	if err := s.Update(release, func(tx kv.Txn) error { return tx.Set([]byte(key), []byte(value)) }); err != nil {
		t.Fatal(err)
	}
}

// dump returns all pairs.
func dump(t *testing.T, s kv.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := s.View(func(r kv.Reader) error {
		return r.Scan(kv.Scan{}, func(k, v []byte) error { out[string(k)] = string(v); return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fill makes a store write logs, tables and compactions, in n pairs.
func fill(s kv.Store, n int) (map[string]string, error) {
	want := map[string]string{}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < n; i += 10 {
		err := s.Update(release, func(tx kv.Txn) error {
			for j := i; j < i+10; j++ {
				k := fmt.Sprintf("%016x-%d", rng.Uint64(), j)
				v := strings.Repeat(k, 50)
				want[k] = v
				if err := tx.Set([]byte(k), []byte(v)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return want, nil
}

// checkOwnerOnly fails for every file with a group or other bit.
func checkOwnerOnly(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a log that was just flushed
		}
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if fi.Mode().Perm()&0o077 != 0 {
			return fmt.Errorf("%s has mode %v", path, fi.Mode())
		}
		return nil
	})
}

func init() {
	children["modes"] = func(args []string) error {
		umask, err := strconv.ParseInt(args[1], 8, 32)
		if err != nil {
			return err
		}
		syscall.Umask(int(umask))
		db, err := kv.Open(small(args[0]))
		if err != nil {
			return err
		}
		for range 4 {
			if _, err := fill(db, 2000); err != nil {
				return err
			}
			if err := checkOwnerOnly(args[0]); err != nil {
				return fmt.Errorf("open: %w", err)
			}
		}
		if db.Tables() == 0 {
			return errors.New("no table was written")
		}
		if err := db.Close(); err != nil {
			return err
		}
		return checkOwnerOnly(args[0])
	}
	children["open"] = func(args []string) error {
		fmt.Println("ready")
		db, err := kv.Open(small(args[0]))
		if err != nil {
			return err
		}
		fmt.Println("open")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent closes it
		return db.Close()
	}
}

func TestOwnerOnly(t *testing.T) { // ST-01, failure case 66
	for _, umask := range []string{"022", "0", "077", "0277"} {
		if _, err := startChild(t, "modes", filepath.Join(t.TempDir(), "new", "store"), umask).wait(); err != nil {
			t.Errorf("umask %s: %v", umask, err)
		}
	}
	// What a restore left readable is closed on open.
	dir := filepath.Join(t.TempDir(), "store")
	mustOpen(t, small(dir)).Close()
	es, _ := filepath.Glob(filepath.Join(dir, "gen-*", "*"))
	for _, f := range es {
		if err := os.Chmod(f, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mustOpen(t, small(dir))
	if err := checkOwnerOnly(dir); err != nil {
		t.Error(err)
	}
}

func TestUnsafePath(t *testing.T) { // ST-01
	root := t.TempDir()
	real := filepath.Join(root, "real")
	db := mustOpen(t, small(real))
	put(t, db, "a", "1")
	db.Close()

	link := filepath.Join(root, "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Open(small(link)); !errors.Is(err, kv.ErrPermission) {
		t.Errorf("symlink: %v", err)
	}
	dangling := filepath.Join(root, "dangling")
	if err := os.Symlink(filepath.Join(root, "nowhere"), dangling); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Open(small(dangling)); !errors.Is(err, kv.ErrPermission) {
		t.Errorf("dangling symlink: %v", err)
	}
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Open(small(file)); !errors.Is(err, kv.ErrPermission) {
		t.Errorf("file: %v", err)
	}
	if err := os.Chmod(real, 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Open(small(real)); !errors.Is(err, kv.ErrPermission) {
		t.Errorf("readable by the group: %v", err)
	}
	if err := os.Chmod(real, 0o700); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, small(real))
}

func TestSecondProcess(t *testing.T) { // ST-01
	dir := t.TempDir()
	c := startChild(t, "open", dir)
	for c.out.Scan() && c.out.Text() != "open" {
	}
	if _, err := kv.Open(small(dir)); !errors.Is(err, kv.ErrLocked) {
		t.Errorf("another process: %v", err)
	}
	c.in.Close()
	if _, err := c.wait(); err != nil {
		t.Fatal(err)
	}
	db := mustOpen(t, small(dir))
	if _, err := kv.Open(small(dir)); !errors.Is(err, kv.ErrLocked) {
		t.Errorf("the same process: %v", err)
	}
	db.Close()
	mustOpen(t, small(dir))
}

func TestSchema(t *testing.T) { // ST-01
	dir := t.TempDir()
	o := small(dir)
	db := mustOpen(t, o)
	put(t, db, "a", "1")
	db.Close()
	for name, o := range map[string]kv.Options{
		"newer": {Dir: dir, Kind: "test", Schema: 2}, "other kind": {Dir: dir, Kind: "relay", Schema: 1},
	} {
		if _, err := kv.Open(o); !errors.Is(err, kv.ErrSchema) {
			t.Errorf("%s: %v", name, err)
		}
	}
	rec := filepath.Join(dir, "format")
	b, err := os.ReadFile(rec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(rec, newerRecord(b), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Open(o); !errors.Is(err, kv.ErrSchema) {
		t.Errorf("record of a newer program: %v", err)
	}
	if err := os.WriteFile(rec, b, 0o600); err != nil {
		t.Fatal(err)
	}
	// Sizes are those of the record: a smaller memtable would not take its own log.
	o.Memtable = 2 << 20
	db = mustOpen(t, o)
	if got := dump(t, db)["a"]; got != "1" {
		t.Errorf("a = %q", got)
	}
	db.Close()
	if after, _ := os.ReadFile(rec); string(after) != string(b) {
		t.Errorf("the record changed:\n%s", after)
	}
	// A rewrite takes the new ones.
	o.Rewrite = true
	mustOpen(t, o).Close()
	if after, _ := os.ReadFile(rec); !strings.Contains(string(after), "memtable 2097152") {
		t.Errorf("the rewritten record:\n%s", after)
	}
}

func TestKilledFirstOpen(t *testing.T) { // ST-01, failure case 48
	n := 100
	if testing.Short() {
		n = 10
	}
	opened := 0
	for i := range n {
		dir := filepath.Join(t.TempDir(), "store")
		c := startChild(t, "open", dir)
		if !c.out.Scan() {
			t.Fatal("no child")
		}
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		if err := c.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		lines, _ := c.wait()
		opened += len(lines)
		db, err := kv.Open(small(dir))
		if err != nil {
			es, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
			t.Fatalf("kill %d: %v\n%v", i, err, es)
		}
		put(t, db, "a", "1")
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of %d were open when killed", opened, n)
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]kv.Options{
		"no dir":      {Kind: "test", Schema: 1},
		"no kind":     {Dir: t.TempDir(), Schema: 1},
		"odd kind":    {Dir: t.TempDir(), Kind: "a b", Schema: 1},
		"no schema":   {Dir: t.TempDir(), Kind: "test"},
		"memtable":    {Dir: t.TempDir(), Kind: "test", Schema: 1, Memtable: 1},
		"table":       {Dir: t.TempDir(), Kind: "test", Schema: 1, Table: 1 << 30},
		"reserves":    {Dir: t.TempDir(), Kind: "test", Schema: 1, Reserve: kv.Reserve{Gossip: 1, Enqueue: 2, Generation: 3}},
		"sync period": {Dir: t.TempDir(), Kind: "test", Schema: 1, SyncEvery: -1},
	} {
		if db, err := kv.Open(o); err == nil {
			db.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}
