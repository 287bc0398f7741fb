package kvtest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hearsay/internal/kv"
)

// An Opener returns a store: a new one if prev is nil, else the one that prev was,
// which is closed. It registers the closing of what it returns with tb.
type Opener func(tb testing.TB, prev kv.Store) kv.Store

var op = kv.Op{Name: "test", Class: kv.ClassRelease}

// Suite checks what every kv.Store does.
func Suite(t *testing.T, open Opener) {
	for name, f := range map[string]func(*testing.T, Opener){
		"ReadYourWrites": testReadYourWrites,
		"Rollback":       testRollback,
		"Scan":           testScan,
		"ScanAndWrite":   testScanAndWrite,
		"Snapshot":       testSnapshot,
		"Copies":         testCopies,
		"Limits":         testLimits,
		"Concurrent":     testConcurrent,
		"Reopen":         testReopen,
		"Close":          testClose,
		"Panic":          testPanic,
		"Model":          testModel,
	} {
		t.Run(name, func(t *testing.T) { f(t, open) })
	}
}

func set(tb testing.TB, s kv.Store, pairs ...string) {
	tb.Helper()
	err := s.Update(op, func(tx kv.Txn) error {
		for i := 0; i < len(pairs); i += 2 {
			if err := tx.Set([]byte(pairs[i]), []byte(pairs[i+1])); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// list returns what a scan visits as "key=value" (or "key" if keys only).
func list(tb testing.TB, r kv.Reader, sc kv.Scan) []string {
	tb.Helper()
	out := []string{}
	err := r.Scan(sc, func(k, v []byte) error {
		if sc.KeysOnly {
			if v != nil {
				return fmt.Errorf("value in a scan of keys only: %q", v)
			}
			out = append(out, string(k))
			return nil
		}
		if v == nil {
			return fmt.Errorf("nil value of %q", k)
		}
		out = append(out, string(k)+"="+string(v))
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func view(tb testing.TB, s kv.Store, sc kv.Scan) (out []string) {
	tb.Helper()
	if err := s.View(func(r kv.Reader) error { out = list(tb, r, sc); return nil }); err != nil {
		tb.Fatal(err)
	}
	return out
}

func equal(tb testing.TB, got, want []string) {
	tb.Helper()
	if d := cmp.Diff(want, got); d != "" {
		tb.Fatalf("-want +got:\n%s", d)
	}
}

func testReadYourWrites(t *testing.T, open Opener) {
	s := open(t, nil)
	set(t, s, "a", "1", "b", "2")
	err := s.Update(op, func(tx kv.Txn) error {
		if v, err := tx.Get([]byte("a")); err != nil || string(v) != "1" {
			t.Errorf("committed: %q %v", v, err)
		}
		if err := tx.Set([]byte("a"), []byte("9")); err != nil {
			return err
		}
		if v, err := tx.Get([]byte("a")); err != nil || string(v) != "9" {
			t.Errorf("overwritten: %q %v", v, err)
		}
		if err := tx.Delete([]byte("b")); err != nil {
			return err
		}
		if _, err := tx.Get([]byte("b")); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("deleted: %v", err)
		}
		if err := tx.Set([]byte("empty"), nil); err != nil {
			return err
		}
		equal(t, list(t, tx, kv.Scan{}), []string{"a=9", "empty="})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, view(t, s, kv.Scan{}), []string{"a=9", "empty="})
	err = s.View(func(r kv.Reader) error {
		if v, err := r.Get([]byte("empty")); err != nil || v == nil || len(v) != 0 {
			t.Errorf("empty value: %v %v", v, err)
		}
		_, err := r.Get([]byte("none"))
		return err
	})
	if !errors.Is(err, kv.ErrNotFound) {
		t.Fatalf("missing key: %v", err)
	}
}

func testRollback(t *testing.T, open Opener) {
	s := open(t, nil)
	set(t, s, "a", "1", "b", "2")
	want := errors.New("no")
	err := s.Update(op, func(tx kv.Txn) error {
		return errors.Join(tx.Set([]byte("a"), []byte("x")), tx.Delete([]byte("b")), tx.Set([]byte("c"), nil), want)
	})
	if !errors.Is(err, want) {
		t.Fatalf("the function's error: %v", err)
	}
	equal(t, view(t, s, kv.Scan{}), []string{"a=1", "b=2"})

	// Only its own writes: the others of the same group stay.
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			err := s.Update(op, func(tx kv.Txn) error {
				if err := tx.Set(fmt.Appendf(nil, "n%02d", i), nil); err != nil {
					return err
				}
				if err := tx.Set([]byte("shared"), fmt.Appendf(nil, "%02d", i)); err != nil {
					return err
				}
				if i%2 == 1 {
					return want
				}
				return nil
			})
			if (i%2 == 1) != errors.Is(err, want) {
				t.Errorf("call %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if got := view(t, s, kv.Scan{Prefix: []byte("n"), KeysOnly: true}); len(got) != 20 {
		t.Fatalf("kept %v", got)
	}
	if got := view(t, s, kv.Scan{Prefix: []byte("shared")}); len(got) != 1 || (got[0][len(got[0])-1]-'0')%2 != 0 {
		t.Fatalf("a rolled back call's value stayed: %v", got)
	}
}

func testScan(t *testing.T, open Opener) {
	s := open(t, nil)
	set(t, s, "a", "0", "b", "1", "b\x00", "2", "ba", "3", "bb", "4", "b\xff", "5", "b\xff\xff", "6", "c", "7", "\xff", "8", "\xff\xff", "9")
	type b []byte
	for _, c := range []struct {
		name string
		scan kv.Scan
		want string
	}{
		{"all", kv.Scan{}, "0123456789"},
		{"all reverse", kv.Scan{Reverse: true}, "9876543210"},
		{"prefix", kv.Scan{Prefix: b("b")}, "123456"},
		{"prefix reverse", kv.Scan{Prefix: b("b"), Reverse: true}, "654321"},
		{"prefix ff", kv.Scan{Prefix: b("\xff")}, "89"},
		{"prefix ff reverse", kv.Scan{Prefix: b("\xff"), Reverse: true}, "98"},
		{"prefix b ff reverse", kv.Scan{Prefix: b("b\xff"), Reverse: true}, "65"},
		{"start", kv.Scan{Start: b("bb")}, "456789"},
		{"start between", kv.Scan{Start: b("b\x01")}, "3456789"},
		{"start reverse", kv.Scan{Start: b("bb"), Reverse: true}, "43210"},
		{"start between reverse", kv.Scan{Start: b("b\x01"), Reverse: true}, "210"},
		{"prefix start", kv.Scan{Prefix: b("b"), Start: b("ba")}, "3456"},
		{"prefix start before", kv.Scan{Prefix: b("b"), Start: b("a")}, "123456"},
		{"prefix start after", kv.Scan{Prefix: b("b"), Start: b("c")}, ""},
		{"prefix start reverse", kv.Scan{Prefix: b("b"), Start: b("ba"), Reverse: true}, "321"},
		{"prefix start before reverse", kv.Scan{Prefix: b("b"), Start: b("a"), Reverse: true}, ""},
		{"prefix start after reverse", kv.Scan{Prefix: b("b"), Start: b("c"), Reverse: true}, "654321"},
		{"prefix none", kv.Scan{Prefix: b("x")}, ""},
		{"prefix none reverse", kv.Scan{Prefix: b("x"), Reverse: true}, ""},
	} {
		read := func(r kv.Reader) string {
			var sb strings.Builder
			for _, p := range list(t, r, c.scan) {
				sb.WriteString(p[strings.LastIndex(p, "=")+1:])
			}
			return sb.String()
		}
		err := s.View(func(r kv.Reader) error {
			if got := read(r); got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
			keys := c.scan
			keys.KeysOnly = true
			if got := len(list(t, r, keys)); got != len(c.want) {
				t.Errorf("%s: %d keys only", c.name, got)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		// The same with half of it pending.
		rollBack := errors.New("roll back")
		err = s.Update(op, func(tx kv.Txn) error {
			for i, k := range []string{"a", "b\x00", "bb", "b\xff\xff", "\xff"} {
				if err := tx.Set(b(k), fmt.Appendf(nil, "%d", 2*i)); err != nil {
					return err
				}
			}
			if got := read(tx); got != c.want {
				t.Errorf("%s, pending: %q, want %q", c.name, got, c.want)
			}
			return rollBack
		})
		if !errors.Is(err, rollBack) {
			t.Fatal(err)
		}
	}
	stop := errors.New("stop")
	err := s.View(func(r kv.Reader) error {
		n := 0
		if err := r.Scan(kv.Scan{}, func(_, _ []byte) error { n++; return kv.ErrStop }); err != nil || n != 1 {
			t.Errorf("ErrStop: %v after %d", err, n)
		}
		return r.Scan(kv.Scan{}, func(_, _ []byte) error { return stop })
	})
	if !errors.Is(err, stop) {
		t.Errorf("the function's error: %v", err)
	}
}

func testScanAndWrite(t *testing.T, open Opener) {
	s := open(t, nil)
	set(t, s, "a", "1", "b", "2", "c", "3")
	err := s.Update(op, func(tx kv.Txn) error {
		if err := tx.Set([]byte("d"), []byte("4")); err != nil {
			return err
		}
		var seen []string
		err := tx.Scan(kv.Scan{}, func(k, _ []byte) error {
			seen = append(seen, string(k))
			return errors.Join(tx.Delete(k), tx.Set(append([]byte("z"), k...), k))
		})
		equal(t, seen, []string{"a", "b", "c", "d"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, view(t, s, kv.Scan{}), []string{"za=a", "zb=b", "zc=c", "zd=d"})
}

func testSnapshot(t *testing.T, open Opener) {
	s := open(t, nil)
	set(t, s, "a", "1")
	err := s.View(func(r kv.Reader) error {
		for i := range 50 {
			set(t, s, "a", "2", fmt.Sprintf("b%d", i), "x")
		}
		equal(t, list(t, r, kv.Scan{}), []string{"a=1"})
		if v, err := r.Get([]byte("a")); err != nil || string(v) != "1" {
			t.Errorf("%q %v", v, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(view(t, s, kv.Scan{})); n != 51 {
		t.Fatalf("%d keys after", n)
	}
}

func testCopies(t *testing.T, open Opener) {
	s := open(t, nil)
	k, v := []byte("key"), []byte("value")
	err := s.Update(op, func(tx kv.Txn) error {
		err := tx.Set(k, v)
		k[0], v[0] = 'X', 'X'
		got, gerr := tx.Get([]byte("key"))
		if gerr == nil {
			got[0] = 'Y'
		}
		return errors.Join(err, gerr)
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err = s.View(func(r kv.Reader) error {
			got, err := r.Get([]byte("key"))
			if err != nil || string(got) != "value" {
				t.Errorf("%q %v", got, err)
			}
			got[0] = 'Z'
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func testLimits(t *testing.T, open Opener) {
	s := open(t, nil)
	try := func(key, value []byte) error {
		return s.Update(op, func(tx kv.Txn) error { return tx.Set(key, value) })
	}
	long := bytes.Repeat([]byte("k"), kv.MaxKeySize+1)
	big := make([]byte, kv.MaxValueSize+1)
	for _, c := range []struct {
		name       string
		key, value []byte
		want       error
	}{
		{"longest key", long[:kv.MaxKeySize], nil, nil},
		{"key too long", long, nil, kv.ErrTooLarge},
		{"largest value", []byte("v"), big[:kv.MaxValueSize], nil},
		{"value too large", []byte("v"), big, kv.ErrTooLarge},
		{"empty key", nil, nil, kv.ErrKey},
		{"Badger's key", []byte("!badger!x"), nil, kv.ErrKey},
		{"the store's key", []byte("!kv!seq"), nil, kv.ErrKey},
		{"near the store's key", []byte("!kv"), nil, nil},
	} {
		if err := try(c.key, c.value); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	// One commit that is too large changes nothing, not even what is before it.
	before := view(t, s, kv.Scan{KeysOnly: true})
	err := s.Update(op, func(tx kv.Txn) error {
		for i := range 100_000 {
			if err := tx.Set(fmt.Appendf(nil, "many%06d", i), make([]byte, 100)); err != nil {
				return err
			}
		}
		return nil
	})
	if !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("too large a commit: %v", err)
	}
	equal(t, view(t, s, kv.Scan{KeysOnly: true}), before)
	if err := s.View(func(r kv.Reader) error {
		for _, k := range [][]byte{nil, long, []byte("!kv!seq")} {
			if _, err := r.Get(k); !errors.Is(err, kv.ErrNotFound) {
				t.Errorf("Get(%.8q): %v", k, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func testConcurrent(t *testing.T, open Opener) {
	s := open(t, nil)
	const writers, each = 16, 25
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range each {
				// A dense counter, and a row per value: no position is lost or used twice.
				err := s.Update(op, func(tx kv.Txn) error {
					var n int
					v, err := tx.Get([]byte("n"))
					if err == nil {
						_, err = fmt.Sscan(string(v), &n)
					} else if errors.Is(err, kv.ErrNotFound) {
						err = nil
					}
					return errors.Join(err, tx.Set([]byte("n"), fmt.Append(nil, n+1)),
						tx.Set(fmt.Appendf(nil, "row%06d", n), fmt.Append(nil, w)))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				err := s.View(func(r kv.Reader) error {
					v, err := r.Get([]byte("n"))
					if errors.Is(err, kv.ErrNotFound) {
						return nil
					}
					rows := len(list(t, r, kv.Scan{Prefix: []byte("row"), KeysOnly: true}))
					if err == nil && string(v) != fmt.Sprint(rows) {
						t.Errorf("counter %s, %d rows", v, rows)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(done)
	readers.Wait()
	rows := view(t, s, kv.Scan{Prefix: []byte("row"), KeysOnly: true})
	if len(rows) != writers*each || rows[len(rows)-1] != fmt.Sprintf("row%06d", writers*each-1) {
		t.Fatalf("%d rows", len(rows))
	}
}

func testReopen(t *testing.T, open Opener) {
	s := open(t, nil)
	var want []string
	for i := range 200 {
		k := fmt.Sprintf("k%03d", i)
		set(t, s, k, strings.Repeat("v", i), "last", k)
		if i%3 == 0 {
			if err := s.Update(op, func(tx kv.Txn) error { return tx.Delete([]byte(k)) }); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want = append(want, k+"="+strings.Repeat("v", i))
	}
	want = append(want, "last=k199")
	for range 3 {
		if s.Size() <= 0 {
			t.Error("no size")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, s)
		equal(t, view(t, s, kv.Scan{}), want)
	}
}

func testClose(t *testing.T, open Opener) {
	s := open(t, nil)
	set(t, s, "a", "1")
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.View(func(kv.Reader) error { return nil }); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("View: %v", err)
	}
	if err := s.Update(op, func(kv.Txn) error { return nil }); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("Update: %v", err)
	}
}

func testPanic(t *testing.T, open Opener) {
	s := open(t, nil)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a function's panic got lost")
			}
		}()
		_ = s.Update(op, func(tx kv.Txn) error {
			_ = tx.Set([]byte("p"), nil)
			panic("ours")
		})
	}()
	// A goroutine that ends inside its function (t.FailNow) leaves a usable store.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Update(op, func(tx kv.Txn) error {
			_ = tx.Set([]byte("p"), nil)
			runtime.Goexit()
			return nil
		})
	}()
	<-ended
	var leaked kv.Txn
	if err := s.Update(op, func(tx kv.Txn) error { leaked = tx; return tx.Set([]byte("a"), nil) }); err != nil {
		t.Fatal(err)
	}
	if err := leaked.Set([]byte("late"), nil); err == nil {
		t.Error("a transaction works after its function")
	}
	equal(t, view(t, s, kv.Scan{}), []string{"a="})
}

// testModel compares random commits and scans with a sorted map.
func testModel(t *testing.T, open Opener) {
	s := open(t, nil)
	model := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[ab\x00\xff]{1,3}`)
		next := maps.Clone(model)
		abort := rapid.Bool().Draw(t, "abort")
		rollBack := errors.New("roll back")
		steps := rapid.IntRange(1, 8).Draw(t, "steps")
		check := func(r kv.Reader, m map[string]string) {
			sc := kv.Scan{
				Prefix:  []byte(rapid.StringMatching(`[ab\xff]{0,2}`).Draw(t, "prefix")),
				Reverse: rapid.Bool().Draw(t, "reverse"),
			}
			if rapid.Bool().Draw(t, "with start") {
				sc.Start = []byte(key.Draw(t, "start"))
			}
			var want []string
			for _, k := range slices.Sorted(maps.Keys(m)) {
				if strings.HasPrefix(k, string(sc.Prefix)) &&
					(sc.Start == nil || !sc.Reverse && k >= string(sc.Start) || sc.Reverse && k <= string(sc.Start)) {
					want = append(want, k+"="+m[k])
				}
			}
			if sc.Reverse {
				slices.Reverse(want)
			}
			var got []string
			if err := r.Scan(sc, func(k, v []byte) error {
				got = append(got, string(k)+"="+string(v))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("scan %+v: got %q, want %q", sc, got, want)
			}
		}
		err := s.Update(op, func(tx kv.Txn) error {
			for range steps {
				k := key.Draw(t, "key")
				if rapid.Bool().Draw(t, "delete") {
					delete(next, k)
					if err := tx.Delete([]byte(k)); err != nil {
						return err
					}
				} else {
					v := rapid.StringMatching(`[a-z]{0,3}`).Draw(t, "value")
					next[k] = v
					if err := tx.Set([]byte(k), []byte(v)); err != nil {
						return err
					}
				}
				check(tx, next)
			}
			if abort {
				return rollBack
			}
			return nil
		})
		switch {
		case abort && errors.Is(err, rollBack):
		case !abort && err == nil:
			model = next
		default:
			t.Fatal(err)
		}
		if err := s.View(func(r kv.Reader) error { check(r, model); return nil }); err != nil {
			t.Fatal(err)
		}
	})
}
