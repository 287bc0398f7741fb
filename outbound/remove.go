package outbound

import (
	"errors"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// cancel removes the record at p: the head goes at once, another leaves a tombstone
// without text (DS-84).
func (s *store) cancel(p Position) error {
	return s.kv.Update(opCancel, func(tx kv.Txn) error {
		t, err := begin(tx)
		if err != nil {
			return err
		}
		if err := s.cancelIn(t, p); err != nil {
			return err
		}
		return t.end()
	})
}

func (s *store) cancelIn(t *txn, p Position) error {
	if p < t.head || p >= t.next {
		return ErrNotFound
	}
	key := positionKey(tableEntry, p)
	row, err := get(t, key, readEntry)
	if errors.Is(err, kv.ErrNotFound) {
		return ErrNotFound // a tombstone
	}
	if err != nil {
		return err
	}
	generations := 0
	if p == t.head {
		retry, _, err := readRetryOf(t, p)
		if err != nil {
			return err
		}
		generations = int(retry.generations)
		if err := t.removeHead(); err != nil {
			return err
		}
	} else {
		if t.tombstones >= 2*MaxTombstones {
			return ErrFull
		}
		if err := t.drop(key); err != nil {
			return err
		}
		if err := t.put(positionKey(tableTombstone, p), nil, 0); err != nil {
			return err
		}
		t.depth--
		t.tombstones++
	}
	t.cancelled++
	if s.hooks.Cancelled != nil {
		return fromHook(s.hooks.Cancelled(t.Txn, p, row.id, generations))
	}
	return nil
}

// purge cancels up to limit records from the head on and tells how many.
func (s *store) purge(limit int) (n int, err error) {
	err = s.kv.Update(opPurge, func(tx kv.Txn) error {
		n = 0
		t, err := begin(tx)
		if err != nil {
			return err
		}
		for ; n < limit && t.head < t.next; n++ {
			if err := s.cancelIn(t, t.head); err != nil {
				return err
			}
		}
		return t.end()
	})
	return n, err
}

// hold sets or clears the flag of a restored queue (ST-06).
func (s *store) hold(on bool) error {
	return s.kv.Update(opHold, func(tx kv.Txn) error {
		t, err := begin(tx)
		if err != nil {
			return err
		}
		t.held = on
		return t.end()
	})
}

// prune forgets owners of slots before oldest, at most pruneRows (DS-85). It is part of
// each generation's commit: a queue that makes none writes nothing, and each makes more
// more room than it takes.
func (t *txn) prune(oldest eventgraph.Slot) error {
	keys, err := agedKeys(t, oldest, pruneRows)
	if err != nil {
		return err
	}
	for _, k := range keys {
		_, id, err := parseAgeKey(k)
		if err != nil {
			return err
		}
		if err := errors.Join(t.Delete(k), t.Delete(ownerKey(id))); err != nil {
			return err
		}
		t.owners--
	}
	return nil
}

// agedKeys lists at most limit rows of the age table before oldest.
func agedKeys(r kv.Reader, oldest eventgraph.Slot, limit int) (keys [][]byte, err error) {
	err = r.Scan(kv.Scan{Prefix: table(tableAge), KeysOnly: true}, func(k, _ []byte) error {
		slot, _, err := parseAgeKey(k)
		if err != nil {
			return err
		}
		if slot >= oldest || len(keys) >= limit {
			return kv.ErrStop
		}
		keys = append(keys, append([]byte(nil), k...))
		return nil
	})
	return keys, err
}

// sweep deletes at most limit rows of removed records: generation rows that a dequeue
// left, and rows that came back (ST-04). It writes nothing where there are none.
func (s *store) sweep(limit int) (n int, err error) {
	var keys [][]byte
	find := func(r kv.Reader) error {
		keys = nil
		m, err := getMeta(r)
		if err != nil {
			return err
		}
		for _, tab := range []byte{tableEntry, tableTombstone, tableRetry, tableGeneration, tableActive} {
			err := r.Scan(kv.Scan{Prefix: table(tab), KeysOnly: true}, func(k, _ []byte) error {
				p, err := keyPosition(k)
				if err != nil {
					return err
				}
				if p >= m.head || len(keys) >= limit {
					return kv.ErrStop
				}
				keys = append(keys, append([]byte(nil), k...))
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.kv.View(find); err != nil || len(keys) == 0 {
		return 0, err
	}
	err = s.kv.Update(opSweep, func(tx kv.Txn) error {
		for _, k := range keys { // below a head that only moves on
			if err := tx.Delete(k); err != nil {
				return err
			}
		}
		return nil
	})
	return len(keys), err
}
