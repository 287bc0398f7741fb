package endpoint

import (
	"encoding/binary"
	"errors"
	"slices"

	"hearsay/internal/kv"
)

var opDrop = kv.Op{Name: "endpoint/drop", Class: kv.ClassRelease}

// Drop forgets, for a person, the envelopes to the contacts that match, with or without
// their receipt (MB-34); receipts of our own go on. nil matches all. It tells how many.
func (e *Endpoint) Drop(match func(ContactID) bool) (n int, err error) {
	var due []uint64
	err = e.eachPending(func(seq uint64, c ContactID) {
		if match == nil || match(c) {
			due = append(due, seq)
		}
	})
	if err != nil {
		return 0, err
	}
	for batch := range slices.Chunk(due, pruneBatch) {
		gone := 0
		if err := e.store.Update(opDrop, func(tx kv.Txn) error {
			gone = 0
			t, err := begin(tx)
			if err != nil {
				return err
			}
			for _, seq := range batch {
				p, err := readParcel(t, seq)
				if errors.Is(err, kv.ErrNotFound) {
					continue // receipted meanwhile
				}
				if err != nil {
					return err
				}
				t.dropParcel(seq, &p)
				gone++
			}
			return t.end()
		}); err != nil {
			return n, err
		}
		n += gone
	}
	return n, nil
}

// PendingBy counts the envelopes without their receipt for each contact.
func (e *Endpoint) PendingBy() (map[ContactID]int, error) {
	n := map[ContactID]int{}
	err := e.eachPending(func(_ uint64, c ContactID) { n[c]++ })
	return n, err
}

// eachPending visits the envelopes of messages and aliases.
func (e *Endpoint) eachPending(visit func(seq uint64, to ContactID)) error {
	return e.store.View(func(r kv.Reader) error {
		return r.Scan(kv.Scan{Prefix: key(tableParcel)}, func(k, v []byte) error {
			var p parcel
			if err := p.decode(v); err != nil {
				return err
			}
			if p.kind != parcelReceipt {
				visit(binary.BigEndian.Uint64(k[2:]), p.contact)
			}
			return nil
		})
	})
}
