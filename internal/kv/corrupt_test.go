package kv_test

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hearsay/internal/kv"
)

// copyStore copies a store's files as they are, open or not.
func copyStore(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "store")
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(from, path)
		if err != nil || d.IsDir() {
			return errors.Join(err, os.Mkdir(filepath.Join(to, rel), 0o700))
		}
		b, err := os.ReadFile(path)
		if err != nil || filepath.Base(path) == "ballast" {
			return err
		}
		data := bytes.TrimRight(b, "\x00") // logs are mostly holes
		return errors.Join(os.WriteFile(filepath.Join(to, rel), data, 0o600),
			os.Truncate(filepath.Join(to, rel), int64(len(b))))
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	m, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// images returns directories of one store: as a clean stop leaves it, and as a
// killed process does, with writes in the log and more in tables.
func images(t *testing.T) (dirs map[string]string, want map[string]string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	db := mustOpen(t, small(dir))
	want, err := fill(db, 3000)
	if err != nil {
		t.Fatal(err)
	}
	put(t, db, "last", "one")
	want["last"] = "one"
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	dirs = map[string]string{"stopped": copyStore(t, dir)}
	db = mustOpen(t, small(dir))
	for i := range 300 {
		k := strings.Repeat("k", 1+i%100) + string(rune('a'+i%26))
		put(t, db, k, "v")
		want[k] = "v"
	}
	put(t, db, "last", "one")
	dirs["killed"] = copyStore(t, dir)
	return dirs, want
}

// Damage ends in a clear error, or nothing is missing. It never ends in a store
// that lost something, and never in a panic or the end of the process.
func TestDamage(t *testing.T) { // ST-04, failure cases 44, 45
	dirs, want := images(t)
	stopped := maps.Clone(want)
	for k, v := range stopped {
		if v == "v" {
			delete(stopped, k)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	flip := func(at func(n int) int) func([]byte) []byte {
		return func(b []byte) []byte {
			if len(b) > 0 {
				b[at(len(b))] ^= 1 << rng.IntN(8)
			}
			return b
		}
	}
	damages := []struct {
		name string
		f    func([]byte) []byte // nil removes the file
	}{
		{"removed", nil},
		{"emptied", func([]byte) []byte { return nil }},
		{"halved", func(b []byte) []byte { return b[:len(b)/2] }},
		{"one byte short", func(b []byte) []byte { return b[:max(0, len(b)-1)] }},
		{"one byte left", func(b []byte) []byte { return b[:min(1, len(b))] }},
		{"zeroed", func(b []byte) []byte { clear(b); return b }},
		{"start zeroed", func(b []byte) []byte { clear(b[:min(64, len(b))]); return b }},
		{"tail zeroed", func(b []byte) []byte { clear(b[max(0, len(b)-64):]); return b }},
		{"first byte", flip(func(int) int { return 0 })},
		{"last byte", flip(func(n int) int { return n - 1 })},
		{"early byte", flip(func(n int) int { return rng.IntN(min(n, 128)) })},
		{"late byte", flip(func(n int) int { return n - 1 - rng.IntN(min(n, 128)) })},
		{"some byte", flip(func(n int) int { return rng.IntN(n) })},
		{"some other byte", flip(func(n int) int { return rng.IntN(n) })},
		{"garbage after", func(b []byte) []byte { return append(b, "garbage garbage garbage"...) }},
		{"doubled", func(b []byte) []byte { return append(b, b...) }},
	}
	outcomes := map[string]map[string]bool{} // kind of file: damages that were noticed
	for image, src := range dirs {
		must := want
		if image == "stopped" {
			must = stopped
		}
		files := append(glob(t, src, "*"), glob(t, src, "gen-*/*")...)
		kinds := map[string]int{}
		for _, path := range files {
			if fi, err := os.Stat(path); err != nil || fi.IsDir() {
				continue
			}
			rel, _ := filepath.Rel(src, path)
			kind := strings.TrimLeft(filepath.Base(rel), "0123456789")
			if kinds[kind]++; kinds[kind] > 1 && kind != ".mem" {
				continue
			}
			ds := damages
			switch {
			case strings.HasSuffix(kind, ".vlog"), kind == "DISCARD", kind == "KEYREGISTRY", kind == "lock":
				ds = damages[:3] // they hold nothing
			case testing.Short():
				ds = damages[:4]
			}
			for _, d := range ds {
				dir := copyStore(t, src)
				p := filepath.Join(dir, rel)
				if d.f == nil {
					if err := os.Remove(p); err != nil {
						t.Fatal(err)
					}
				} else {
					b, err := os.ReadFile(p)
					if err != nil {
						t.Fatal(err)
					}
					b = d.f(b)
					if err := errors.Join(os.WriteFile(p, bytes.TrimRight(b, "\x00"), 0o600), os.Truncate(p, int64(len(b)))); err != nil {
						t.Fatal(err)
					}
				}
				db, err := kv.Open(small(dir))
				if err == nil {
					if got := dump(t, db); !maps.Equal(got, must) {
						t.Errorf("%s, %s %s: opened with %d of %d pairs", image, rel, d.name, len(got), len(must))
					}
					if err := db.Close(); err != nil {
						t.Errorf("%s, %s %s: %v", image, rel, d.name, err)
					}
					continue
				}
				if !errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, kv.ErrSchema) {
					t.Errorf("%s, %s %s: %v", image, rel, d.name, err)
				}
				if outcomes[kind] == nil {
					outcomes[kind] = map[string]bool{}
				}
				outcomes[kind][d.name] = true
				// And it stays one: nothing was tidied away.
				if _, err := kv.Open(small(dir)); !errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, kv.ErrSchema) {
					t.Errorf("%s, %s %s: the second open: %v", image, rel, d.name, err)
				}
			}
		}
	}
	for kind, names := range map[string][]string{
		"MANIFEST": {"removed", "emptied", "halved", "zeroed", "first byte", "early byte"},
		".sst":     {"removed", "emptied", "halved", "one byte short", "zeroed", "some byte", "last byte", "tail zeroed", "garbage after", "doubled"},
		".mem":     {"removed", "emptied", "zeroed", "start zeroed"},
		"format":   {"removed", "emptied", "halved", "one byte short", "some byte"},
		"witness":  {"removed", "emptied", "halved", "zeroed"},
	} {
		for _, n := range names {
			if !outcomes[kind][n] && !testing.Short() {
				t.Errorf("%s %s was not noticed", kind, n)
			}
		}
	}
}

// A store that lost all its files is not an empty store.
func TestLostFiles(t *testing.T) { // ST-04
	for name, lose := range map[string]func(t *testing.T, dir string){
		"everything in the generation": func(t *testing.T, dir string) {
			for _, f := range glob(t, dir, "gen-*/*") {
				if err := os.Remove(f); err != nil {
					t.Fatal(err)
				}
			}
		},
		"all but the witness": func(t *testing.T, dir string) {
			for _, f := range glob(t, dir, "gen-*/*") {
				if filepath.Base(f) == "witness" {
					continue
				}
				if err := os.Remove(f); err != nil {
					t.Fatal(err)
				}
			}
		},
		"the generation": func(t *testing.T, dir string) {
			for _, f := range glob(t, dir, "gen-*") {
				if err := os.RemoveAll(f); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		for _, written := range []bool{false, true} { // even before the first record
			dir := filepath.Join(t.TempDir(), "store")
			db := mustOpen(t, small(dir))
			if written {
				put(t, db, "a", "1")
			}
			db.Close()
			lose(t, dir)
			if _, err := kv.Open(small(dir)); !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("%s (written: %t): %v", name, written, err)
			}
		}
	}
}

func FuzzScanWAL(f *testing.F) { // ST-04, failure case 44
	dir := f.TempDir()
	db, err := kv.Open(small(filepath.Join(dir, "store")))
	if err != nil {
		f.Fatal(err)
	}
	for _, k := range []string{"a", "bb", "ccc"} {
		if err := db.Update(release, func(tx kv.Txn) error { return tx.Set([]byte(k), []byte(k)) }); err != nil {
			f.Fatal(err)
		}
	}
	logs, _ := filepath.Glob(filepath.Join(dir, "store", "gen-*", "*.mem"))
	for _, l := range logs {
		b, err := os.ReadFile(l)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:512])
	}
	if err := db.Close(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := filepath.Join(t.TempDir(), "00001.mem")
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := kv.ScanWAL(p)
		if err != nil {
			return
		}
		// What was read once reads the same again: nothing of it was cut off.
		if r2, err := kv.ScanWAL(p); err != nil || r2 != r {
			t.Fatalf("%v, then %v %v", r, r2, err)
		}
	})
}

func FuzzCheckTable(f *testing.F) { // ST-04
	f.Add([]byte{})
	f.Add(make([]byte, 64))
	f.Add([]byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		p := filepath.Join(t.TempDir(), "000001.sst")
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := kv.CheckTable(p); err == nil {
			t.Fatal("a table out of nothing")
		}
	})
}

// grep tells whether any file below dir contains text.
func grep(t *testing.T, dir, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		found = found || bytes.Contains(b, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
