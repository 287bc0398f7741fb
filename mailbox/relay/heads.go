package relay

import (
	"maps"
	"sync"

	"hearsay/internal/kv"
)

// maxHeads bounds the tokens whose heads are remembered: 48 bytes each, about 4 MiB with
// the map. Beyond it all are forgotten, which costs one longer scan a token.
const maxHeads = 1 << 16

// heads remembers where the rows of a token begin: none has a lower number. It only saves time: an iterator of the store passes every
// deleted key before it comes to the first live one, so that without it a check-in costs
// more with each row that the token ever had. What it does not know is 0, which is
// always true.
//
// A head is learned in a transaction and holds from its commit on. It stays true, since
// new rows have higher numbers and rows that come back keep theirs.
type heads struct {
	mu sync.Mutex
	m  map[index]uint64
}

func (h *heads) of(ix index) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.m[ix]
}

// learn takes over what a committed transaction found.
func (h *heads) learn(found map[index]uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.m)+len(found) > maxHeads {
		h.m = nil
	}
	if h.m == nil {
		h.m = make(map[index]uint64, len(found))
	}
	maps.Copy(h.m, found)
}

// keysOf calls fn for the rows of a token in the order of deposit, until it returns false,
// without what their keys do not say, and notes where they begin.
func (s *state) keysOf(ix index, fn func(*row) bool) {
	s.rowsOf(ix, true, func(r *row, _ []byte) bool { return fn(r) })
}

// rowsOf is keysOf with the whole row, and its ciphertext, valid during the call, unless
// only the keys are wanted.
func (s *state) rowsOf(ix index, keysOnly bool, fn func(r *row, sealed []byte) bool) {
	head, first := s.totals.NextSeq, true
	from := key(prefixRow, ix[:], be64(s.heads.of(ix)))
	s.eachRow(kv.Scan{Prefix: key(prefixRow, ix[:]), Start: from, KeysOnly: keysOnly}, func(r *row, sealed []byte) bool {
		if first {
			head, first = r.Seq, false
		}
		return fn(r, sealed)
	})
	if s.found == nil {
		s.found = map[index]uint64{}
	}
	s.found[ix] = head
}

// eachRow calls fn for rows, each valid during the call.
func (s *state) eachRow(sc kv.Scan, fn func(r *row, sealed []byte) bool) {
	if s.err != nil {
		return
	}
	var r row // one for all: it would be garbage for each
	s.fail(s.tx.Scan(sc, func(k, v []byte) (err error) {
		if err := r.setKey(k); err != nil {
			return corrupt("row")
		}
		if !sc.KeysOnly {
			if v, err = r.setValue(v); err != nil {
				return corrupt("row")
			}
		}
		if !fn(&r, v) || s.err != nil {
			return kv.ErrStop
		}
		return nil
	}))
}
