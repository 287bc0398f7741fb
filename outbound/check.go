package outbound

import (
	"errors"
	"fmt"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// check reads the whole queue from the head on and compares it with the invariants
// of spec/delivery.md, section 3. Anything that does not fit is kv.ErrCorrupt: a store
// that lost rows is never taken for an empty queue (ST-04). Its cost grows with the
// depth, not with what was acknowledged.
func check(r kv.Reader) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("outbound: %w: "+format, append([]any{kv.ErrCorrupt}, args...)...)
	}
	m, err := getMeta(r)
	if err != nil {
		return err
	}
	if m.head == 0 || m.head > m.next {
		return bad("head %v beyond %v", m.head, m.next)
	}
	var bytes uint64
	positions := func(tab byte, fn func(p Position, k, v []byte) error) error {
		s := kv.Scan{Prefix: table(tab), Start: positionKey(tab, m.head)}
		return r.Scan(s, func(k, v []byte) error {
			p, err := keyPosition(k)
			if err != nil {
				return err
			}
			if p >= m.next {
				return bad("table %q: row at %v, not given out yet", k[:2], p)
			}
			bytes += rowSize(k, v)
			return fn(p, k, v)
		})
	}
	seen := map[Position]byte{}
	err = positions(tableEntry, func(p Position, k, v []byte) error {
		seen[p] = tableEntry
		return unseal(k, v, into(new(entryRow), readEntry))
	})
	if err != nil {
		return err
	}
	depth := len(seen)
	err = positions(tableTombstone, func(p Position, k, v []byte) error {
		if seen[p] != 0 {
			return bad("%v is cancelled and queued", p)
		}
		seen[p] = tableTombstone
		return unseal(k, v, into(new(struct{}), readEmpty))
	})
	if err != nil {
		return err
	}
	if len(seen) != int(m.next-m.head) {
		return bad("%d records between %v and %v", len(seen), m.head, m.next)
	}
	if m.head < m.next && seen[m.head] != tableEntry {
		return bad("head %v is a tombstone", m.head)
	}
	if depth != int(m.depth) || len(seen)-depth != int(m.tombstones) {
		return bad("%d records and %d tombstones, counted %d and %d", depth, len(seen)-depth, m.depth, m.tombstones)
	}
	for _, tab := range []byte{tableRetry, tableGeneration, tableActive} {
		err := positions(tab, func(p Position, k, _ []byte) error {
			if p != m.head {
				return bad("table %q: row at %v, which is not the head", k[:2], p)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if bytes != m.bytes {
		return bad("%d bytes, counted %d", bytes, m.bytes)
	}
	if m.head < m.next {
		if err := checkHead(r, m.head); err != nil {
			return err
		}
	}
	return checkOwners(r, m.owners)
}

// checkHead reads the head's record, which validates its chain, and its exact bytes.
func checkHead(r kv.Reader, p Position) error {
	rec, err := readRecord(r, p)
	if err != nil {
		return err
	}
	size := uint64(len(rec.Generations) * (len(generationKey(p, 0)) + generationRowSize))
	if size != rec.retry.genBytes {
		return fmt.Errorf("outbound: %w: %d bytes of generations, counted %d", kv.ErrCorrupt, size, rec.retry.genBytes)
	}
	if rec.Active == nil {
		_, err := r.Get(positionKey(tableActive, p))
		if !errors.Is(err, kv.ErrNotFound) {
			return fmt.Errorf("outbound: %w: active event without a generation", kv.ErrCorrupt)
		}
	}
	return nil
}

// checkOwners counts the owners and their index.
func checkOwners(r kv.Reader, want uint32) error {
	var ages, owners uint32
	err := r.Scan(kv.Scan{Prefix: table(tableAge), KeysOnly: true}, func(k, _ []byte) error {
		ages++
		_, _, err := parseAgeKey(k)
		return err
	})
	if err != nil {
		return err
	}
	err = r.Scan(kv.Scan{Prefix: table(tableOwner)}, func(k, v []byte) error {
		owners++
		var o ownerRow
		if err := unseal(k, v, into(&o, readOwner)); err != nil {
			return err
		}
		if len(k) != 2+32 {
			return fmt.Errorf("outbound: %w: owner key of %d bytes", kv.ErrCorrupt, len(k))
		}
		_, err := r.Get(ageKey(o.slot, eventgraph.ID(k[2:])))
		return corrupt("age of an owner", err)
	})
	if err != nil {
		return err
	}
	if ages != want || owners != want {
		return fmt.Errorf("outbound: %w: %d owners and %d ages, counted %d", kv.ErrCorrupt, owners, ages, want)
	}
	return nil
}
