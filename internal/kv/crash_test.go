package kv_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hearsay/internal/kv"
	"hearsay/internal/kv/kvtest"
)

func init() {
	// writer opens the store and writes rows from 4 goroutines until it is killed,
	// saying which are acknowledged. Each commit keeps a counter of the rows.
	children["writer"] = func(args []string) error {
		db, err := kv.Open(small(args[0]))
		if err != nil {
			return err
		}
		var out sync.Mutex
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					key := fmt.Sprintf("%s/%d/%06d", args[1], w, i)
					err := db.Update(release, func(tx kv.Txn) error {
						n, err := count(tx)
						return errors.Join(err, tx.Set([]byte("n"), strconv.AppendInt(nil, n+1, 10)),
							tx.Set([]byte("row/"+key), []byte(strings.Repeat(key, 40))))
					})
					if err != nil {
						panic(err)
					}
					out.Lock()
					fmt.Println(key)
					out.Unlock()
				}
			})
		}
		wg.Wait()
		return nil
	}
}

func count(r kv.Reader) (int64, error) {
	v, err := r.Get([]byte("n"))
	if errors.Is(err, kv.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(v), 10, 64)
}

// Whatever was acknowledged is there after kill -9, whole commits only, and the
// counter equals a recount.
func TestKill(t *testing.T) { // ST-01, ST-04, failure cases 1, 46
	rounds := 25
	if testing.Short() {
		rounds = 4
	}
	dir := filepath.Join(t.TempDir(), "store")
	acked := map[string]bool{}
	for round := range rounds {
		c := startChild(t, "writer", dir, strconv.Itoa(round))
		time.AfterFunc(time.Duration(20+rand.IntN(150))*time.Millisecond, func() { _ = c.cmd.Process.Kill() })
		lines, _ := c.wait()
		if c.err.Len() > 0 {
			t.Fatal(c.err)
		}
		for _, l := range lines {
			acked[l] = true
		}
		db, err := kv.Open(small(dir))
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		rows := dump(t, db)
		n, err := strconv.Atoi(rows["n"])
		if err != nil && len(acked) > 0 {
			t.Fatal(err)
		}
		if delete(rows, "n"); len(rows) != n {
			t.Fatalf("round %d: %d rows, counter says %d", round, len(rows), n)
		}
		for k := range acked {
			if rows["row/"+k] != strings.Repeat(k, 40) {
				t.Fatalf("round %d: acknowledged row %s is lost", round, k)
			}
		}
		// Every second time the next process has to go on with what this one cleaned up.
		if round%2 == 0 {
			_ = db.Close()
		} else if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d acknowledged rows over %d kills", len(acked), rounds)
}

// A commit that fails: everything from then on is refused, the process has to end,
// and the next Open copies what is live into new files. The failed commit is there
// or not, nothing else changed.
func TestUnknownOutcome(t *testing.T) { // ST-03
	for _, point := range []string{"apply", "sync"} {
		t.Run(point, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			broken := false
			o := small(dir).WithFault(func(p string) error {
				if broken && p == point {
					return errors.New("EIO")
				}
				return nil
			})
			db := mustOpen(t, o)
			want, err := fill(db, 2000)
			if err != nil {
				t.Fatal(err)
			}
			gen := glob(t, dir, "gen-*")
			broken = true
			const writers = 8
			var wg sync.WaitGroup
			for i := range writers {
				wg.Go(func() {
					err := db.Update(release, func(tx kv.Txn) error { return tx.Set(fmt.Appendf(nil, "lost%d", i), nil) })
					if !errors.Is(err, kv.ErrUnknown) {
						t.Errorf("the failing commit: %v", err)
					}
				})
			}
			wg.Wait()
			broken = false // the kernel reports a failed sync once
			if err := db.Update(release, func(kv.Txn) error { return nil }); !errors.Is(err, kv.ErrUnknown) {
				t.Errorf("the next Update: %v", err)
			}
			if err := db.View(func(kv.Reader) error { return nil }); !errors.Is(err, kv.ErrUnknown) {
				t.Errorf("the next View: %v", err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db = mustOpen(t, small(dir))
			if now := glob(t, dir, "gen-*"); len(now) != 1 || slices.Equal(now, gen) {
				t.Errorf("files before %v, after %v", gen, now)
			}
			got := dump(t, db)
			for i := range writers {
				delete(got, fmt.Sprintf("lost%d", i))
			}
			equalMaps(t, got, want)
			put(t, db, "after", "1")
			db.Close()
			// Once: the next Open does not copy again.
			gen = glob(t, dir, "gen-*")
			mustOpen(t, small(dir))
			if now := glob(t, dir, "gen-*"); !slices.Equal(now, gen) {
				t.Errorf("copied again: %v, then %v", gen, now)
			}
		})
	}
}

// The copy can stop anywhere: the next Open does it again, or has it.
func TestInterruptedRewrite(t *testing.T) { // ST-03
	dir := filepath.Join(t.TempDir(), "store")
	db := mustOpen(t, small(dir))
	want, err := fill(db, 3000)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	for _, point := range []string{"rewrite:batch", "sync", "apply", "rewrite:switch", "rewrite:remove"} {
		for skip := range 3 {
			o := small(dir)
			o.Rewrite = true
			n := skip
			db, err := kv.Open(o.WithFault(func(p string) error {
				if p != point {
					return nil
				}
				if n--; n >= 0 {
					return nil
				}
				return errors.New("stop")
			}))
			if err == nil && skip == 0 {
				t.Fatalf("%s was not reached", point)
			}
			if err == nil {
				db.Close()
			}
			mustReopen(t, dir, want)
		}
	}
	if now := glob(t, dir, "gen-*"); len(now) != 1 {
		t.Errorf("left over: %v", now)
	}
}

func mustReopen(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	db, err := kv.Open(small(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	equalMaps(t, dump(t, db), want)
}

func equalMaps(t *testing.T, got, want map[string]string) {
	t.Helper()
	for k, v := range want {
		if got[k] != v {
			t.Fatalf("%q is %.20q, want %.20q", k, got[k], v)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d pairs, want %d", len(got), len(want))
	}
}

// Deleted text is in the files until the store is rewritten.
func TestRewriteErases(t *testing.T) { // DS-83
	dir := filepath.Join(t.TempDir(), "store")
	const secret = "a secret that was said"
	db := mustOpen(t, small(dir))
	put(t, db, "a", secret)
	put(t, db, "b", "kept")
	if err := db.Update(release, func(tx kv.Txn) error { return tx.Delete([]byte("a")) }); err != nil {
		t.Fatal(err)
	}
	db.Close()
	if !grep(t, dir, secret) {
		t.Fatal("the test cannot find what it looks for")
	}
	o := small(dir)
	o.Rewrite = true
	db = mustOpen(t, o)
	if got := dump(t, db)["b"]; got != "kept" {
		t.Errorf("b = %q", got)
	}
	if grep(t, dir, secret) {
		t.Error("still there while open")
	}
	db.Close()
	if grep(t, dir, secret) {
		t.Error("still there")
	}
}

// kvtest.Faulty fails as it says.
func TestFaulty(t *testing.T) {
	for _, applied := range []bool{false, true} {
		for _, sticky := range []bool{false, true} {
			m := kv.OpenMemory()
			f := &kvtest.Faulty{Store: m, Op: "b", Applied: applied, Sticky: sticky, Skip: 1}
			ran := 0
			do := func(name string) error {
				return f.Update(kv.Op{Name: name}, func(tx kv.Txn) error {
					ran++
					return tx.Set(fmt.Append(nil, ran), nil)
				})
			}
			if err := errors.Join(do("a"), do("b")); err != nil || f.Failed() {
				t.Fatal(err)
			}
			if err := do("b"); !errors.Is(err, kvtest.ErrInjected) || !errors.Is(err, kv.ErrUnknown) {
				t.Errorf("the failing commit: %v", err)
			}
			if err := do("b"); errors.Is(err, kv.ErrUnknown) != sticky {
				t.Errorf("the next (sticky: %t): %v", sticky, err)
			}
			want := 2
			if applied {
				want++
			}
			if !sticky {
				want++
			}
			if got := dump(t, m); len(got) != want {
				t.Errorf("applied %t, sticky %t: %v", applied, sticky, got)
			}
			if got := f.Seen(); !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("seen %v", got)
			}
		}
	}
}
