package sealed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hearsay/internal/kv"
)

func put(t testing.TB, s kv.Store, key, value string) {
	t.Helper()
	if err := s.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error { return tx.Set([]byte(key), []byte(value)) }); err != nil {
		t.Fatal(err)
	}
}

func all(t testing.TB, s kv.Store) map[string]string {
	t.Helper()
	rows := map[string]string{}
	err := s.View(func(r kv.Reader) error {
		return r.Scan(kv.Scan{}, func(k, v []byte) error {
			rows[string(k)] = string(v)
			got, err := r.Get(k)
			if err == nil && !bytes.Equal(got, v) {
				t.Errorf("Get and Scan differ for %q", k)
			}
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// What is written comes back, transactions see their own writes, and nothing of a value
// is below.
func TestSealed(t *testing.T) {
	below := kv.OpenMemory()
	s, err := Wrap(below, Key{1})
	if err != nil {
		t.Fatal(err)
	}
	if len(all(t, s)) != 0 {
		t.Error("the marker shows")
	}
	err = s.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error {
		for i := range 3 {
			if err := tx.Set(fmt.Appendf(nil, "k%d", i), fmt.Appendf(nil, "canary%d", i)); err != nil {
				return err
			}
		}
		if v, err := tx.Get([]byte("k1")); err != nil || string(v) != "canary1" {
			t.Error(string(v), err)
		}
		return tx.Delete([]byte("k2"))
	})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "empty", "")
	if got := all(t, s); len(got) != 3 || got["k0"] != "canary0" || got["k1"] != "canary1" || got["empty"] != "" {
		t.Error(got)
	}
	for k, v := range all(t, below) {
		if strings.Contains(v, "canary") || k != string(markerKey) && len(v) < Overhead {
			t.Errorf("%q: %q", k, v)
		}
	}
	n := 0
	err = s.View(func(r kv.Reader) error {
		if _, err := r.Get([]byte("k2")); !errors.Is(err, kv.ErrNotFound) {
			t.Error(err)
		}
		if _, err := r.Get(markerKey); !errors.Is(err, kv.ErrNotFound) {
			t.Error(err)
		}
		return r.Scan(kv.Scan{KeysOnly: true, Reverse: true}, func(_, v []byte) error {
			if n++; v != nil {
				t.Error("a value")
			}
			return nil
		})
	})
	if err != nil || n != 3 {
		t.Error(n, err)
	}
	err = s.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error { return tx.Set(markerKey, nil) })
	if !errors.Is(err, kv.ErrKey) {
		t.Error(err)
	}
	err = s.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error { return tx.Delete(markerKey) })
	if !errors.Is(err, kv.ErrKey) {
		t.Error(err)
	}
}

// A store is sealed with one key or not at all, and says which.
func TestWrongWay(t *testing.T) {
	below := kv.OpenMemory()
	if err := CheckPlain(below); err != nil {
		t.Error(err)
	}
	s, err := Wrap(below, Key{1})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "k", "v")
	if _, err := Wrap(below, Key{1}); err != nil {
		t.Error(err)
	}
	if _, err := Wrap(below, Key{2}); !errors.Is(err, ErrKey) {
		t.Error(err)
	}
	if err := CheckPlain(below); !errors.Is(err, ErrSealed) {
		t.Error(err)
	}
	plain := kv.OpenMemory()
	put(t, plain, "k", "v")
	if _, err := Wrap(plain, Key{1}); !errors.Is(err, ErrPlain) {
		t.Error(err)
	}
	if err := CheckPlain(plain); err != nil {
		t.Error(err)
	}
}

// ST-04: a value that was changed, cut or moved to another key does not open.
func TestTampered(t *testing.T) {
	below := kv.OpenMemory()
	s, err := Wrap(below, Key{1})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", "one")
	put(t, s, "b", "two")
	rows := all(t, below)
	for name, bad := range map[string]string{
		"moved": rows["b"], "changed": rows["a"][:10] + "x" + rows["a"][11:], "cut": rows["a"][:20], "empty": "",
	} {
		put(t, below, "a", bad)
		err := s.View(func(r kv.Reader) error { _, err := r.Get([]byte("a")); return err })
		if !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		err = s.View(func(r kv.Reader) error { return r.Scan(kv.Scan{}, func(_, _ []byte) error { return nil }) })
		if !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nonces are fresh: the same value twice is two values.
func TestFreshNonces(t *testing.T) {
	s, err := Wrap(kv.OpenMemory(), Key{1})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(s.seal([]byte("k"), []byte("v")), s.seal([]byte("k"), []byte("v"))) {
		t.Error("twice the same")
	}
}

func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	if err := NewKeyFile(path); err != nil {
		t.Fatal(err)
	}
	if err := NewKeyFile(path); !errors.Is(err, ErrKeyFile) {
		t.Error("overwrites:", err)
	}
	k, err := ReadKey(path)
	if err != nil || k == (Key{}) {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		fmt.Fprintf(&out, verb, k)
	}
	j, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(j)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "k", k)
	if text, err := os.ReadFile(path); err != nil || strings.Contains(out.String(), strings.TrimSpace(string(text))) ||
		strings.Count(out.String(), keyWord) != 8 {
		t.Error(out.String(), err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKey(path); !errors.Is(err, ErrKeyFile) || !strings.Contains(err.Error(), "read by others") {
		t.Error(err)
	}
	for name, text := range map[string]string{"short": "00", "long": strings.Repeat("0", 66), "letters": strings.Repeat("z", 64), "none": ""} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadKey(path); !errors.Is(err, ErrKeyFile) {
			t.Error(name, err)
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, "nowhere")} {
		if _, err := ReadKey(path); !errors.Is(err, ErrKeyFile) {
			t.Error(err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	s, err := Wrap(kv.OpenMemory(), Key{1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("k"), s.seal([]byte("k"), []byte("value")))
	f.Add([]byte("k"), []byte{})
	f.Fuzz(func(t *testing.T, key, sealed []byte) {
		v, err := s.open(key, sealed)
		if err == nil && len(v) != len(sealed)-Overhead {
			t.Fatal("opened to something else")
		}
		if again, err := s.open(key, s.seal(key, sealed)); err != nil || !bytes.Equal(again, sealed) {
			t.Fatal(err)
		}
	})
}
