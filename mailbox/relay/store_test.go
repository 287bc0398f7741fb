package relay

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"hearsay/internal/kv"
)

// mapStore is a store whose whole state can be copied and compared, for searches.
// It enforces what a kv.Store promises: atomic updates, copies at the border.
type mapStore struct{ m map[string]string }

func newMapStore() *mapStore { return &mapStore{map[string]string{}} }

func (s *mapStore) clone() *mapStore { return &mapStore{maps.Clone(s.m)} }

func (s *mapStore) View(fn func(kv.Reader) error) error { return fn(&mapTxn{s.m}) }

func (s *mapStore) Update(_ kv.Op, fn func(kv.Txn) error) error {
	next := maps.Clone(s.m)
	if err := fn(&mapTxn{next}); err != nil {
		return err
	}
	s.m = next
	return nil
}

func (s *mapStore) Size() int64  { return int64(len(s.m)) }
func (s *mapStore) Close() error { return nil }

type mapTxn struct{ m map[string]string }

func (t *mapTxn) Get(k []byte) ([]byte, error) {
	v, ok := t.m[string(k)]
	if !ok {
		return nil, kv.ErrNotFound
	}
	return []byte(v), nil
}

func (t *mapTxn) Set(k, v []byte) error { t.m[string(k)] = string(v); return nil }
func (t *mapTxn) Delete(k []byte) error { delete(t.m, string(k)); return nil }

func (t *mapTxn) Scan(sc kv.Scan, fn func(k, v []byte) error) error {
	var keys []string
	for k := range t.m {
		if bytes.HasPrefix([]byte(k), sc.Prefix) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	if sc.Reverse {
		slices.Reverse(keys)
	}
	for _, k := range keys {
		if sc.Start != nil && (!sc.Reverse && k < string(sc.Start) || sc.Reverse && k > string(sc.Start)) {
			continue
		}
		if err := fn([]byte(k), []byte(t.m[k])); errors.Is(err, kv.ErrStop) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
