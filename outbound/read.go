package outbound

import (
	"errors"

	"hearsay/internal/kv"
)

// Entry reads a record that is still queued, its payload included: ErrNotFound where
// it has been removed, or never was.
func (q *Queue) Entry(p Position) (e Entry, err error) {
	err = q.store.kv.View(func(r kv.Reader) error {
		m, err := getMeta(r)
		if err != nil {
			return err
		}
		row, err := readQueued(r, &m, p)
		e = row.entry(p)
		return err
	})
	if err != nil {
		return Entry{}, err
	}
	return e, nil
}

// Queued tells whether the record at p is still queued, for a neighbouring table that
// looks in a transaction of its own.
func Queued(r kv.Reader, p Position) (bool, error) {
	m, err := getMeta(r)
	if err != nil {
		return false, err
	}
	_, err = readQueued(r, &m, p)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func readQueued(r kv.Reader, m *meta, p Position) (row entryRow, err error) {
	if p < m.head || p >= m.next {
		return row, ErrNotFound // also what was removed and came back (ST-04)
	}
	row, err = get(r, positionKey(tableEntry, p), readEntry)
	if errors.Is(err, kv.ErrNotFound) {
		err = ErrNotFound // a tombstone
	}
	return row, err
}
