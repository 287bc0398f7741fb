package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"testing"

	"hearsay/internal/kv"
)

func filled(t testing.TB, records map[string]string) kv.Store {
	t.Helper()
	s := kv.OpenMemory()
	t.Cleanup(func() { _ = s.Close() })
	err := s.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error {
		for k, v := range records {
			if err := tx.Set([]byte(k), []byte(v)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// unpack reads a snapshot into maps.
func unpack(b []byte) (h snapshotHeader, stores []map[string]string, err error) {
	err = readSnapshot(bytes.NewReader(b), func(got snapshotHeader) error {
		if len(got.Stores) > 8 {
			return errors.New("too many stores for this test")
		}
		h = got
		for range got.Stores {
			stores = append(stores, map[string]string{})
		}
		return nil
	}, func(store int, k, v []byte) error {
		stores[store][string(k)] = string(v)
		return nil
	})
	return h, stores, err
}

// ST-06: what a backup was made of comes back, and no damaged or cut one is taken for
// whole.
func TestSnapshot(t *testing.T) {
	one := map[string]string{"a": "1", "empty": "", "long": string(make([]byte, 100_000))}
	two := map[string]string{}
	for i := range 1000 {
		two[fmt.Sprintf("key %d", i)] = fmt.Sprint(i)
	}
	var b bytes.Buffer
	h := snapshotHeader{Version: "v", Created: "c", Stores: []snapshotStore{{"one", 1}, {"two", 2}}}
	if err := writeSnapshot(&b, h, filled(t, one), filled(t, two)); err != nil {
		t.Fatal(err)
	}
	got, stores, err := unpack(b.Bytes())
	if err != nil || fmt.Sprint(got) != fmt.Sprint(h) || !maps.Equal(stores[0], one) || !maps.Equal(stores[1], two) {
		t.Fatal(got, err)
	}
	for n := 0; n < b.Len(); n += 97 {
		if _, _, err := unpack(b.Bytes()[:n]); !errors.Is(err, errSnapshot) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if n > len(snapshotMagic)+200 && n%3 == 0 {
			broken := bytes.Clone(b.Bytes())
			broken[n] ^= 0x40
			if _, _, err := unpack(broken); !errors.Is(err, errSnapshot) {
				t.Fatalf("flipped at %d: %v", n, err)
			}
		}
	}
	if _, _, err := unpack(append(b.Bytes(), 0)); !errors.Is(err, errSnapshot) {
		t.Error("more behind it:", err)
	}
}

func FuzzReadSnapshot(f *testing.F) {
	var b bytes.Buffer
	h := snapshotHeader{Stores: []snapshotStore{{"one", 1}}}
	if err := writeSnapshot(&b, h, filled(f, map[string]string{"a": "1", "b": ""})); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(snapshotMagic + `{"stores":[{},{}]}` + "\n\x01a\xff\xff\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, stores, err := unpack(b)
		if err != nil {
			return
		}
		var all []kv.Store
		for _, s := range stores {
			all = append(all, filled(t, s))
		}
		var again bytes.Buffer
		if err := writeSnapshot(&again, h, all...); err != nil {
			t.Fatal(err)
		}
		if _, got, err := unpack(again.Bytes()); err != nil || fmt.Sprint(got) != fmt.Sprint(stores) {
			t.Fatal(err)
		}
	})
}
