package relay

import (
	"maps"
	"sync"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// maxHeads bounds the tokens whose heads are remembered: 48 bytes each, about 4 MiB with
// the map. Beyond it all are forgotten, which costs one longer scan a token.
const maxHeads = 1 << 16

// heads remembers where the rows of a token that were not offered yet begin: no such row
// has a lower sequence number. It only saves time: an iterator of the store passes every
// deleted key before it comes to the first live one, so that without it a check-in costs
// more with each row that the token ever had. What it does not know is 0, which is
// always true.
//
// A head is learned in a transaction and holds from its commit on. It stays true, since
// new rows have higher numbers and rows that come back are in a later pass.
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

// queue calls fn for the rows of a token in the order of offering, until it returns
// false, and notes where they begin.
func (s *state) queue(ix index, fn func(id mailbox.RowID) bool) {
	if s.err != nil {
		return
	}
	prefix := key(prefixQueue, ix[:])
	from := key(prefixQueue, ix[:], []byte{0}, be64(s.heads.of(ix)))
	head, first := s.totals.NextSeq, true
	s.fail(s.tx.Scan(kv.Scan{Prefix: prefix, Start: from, KeysOnly: true}, func(k, _ []byte) error {
		place := k[len(prefix):] // pass | seq | row id
		if first && place[0] == 0 {
			head = beTime(place[1:9])
		}
		first = false
		if !fn(mailbox.RowID(place[9:])) || s.err != nil {
			return kv.ErrStop
		}
		return nil
	}))
	if s.found == nil {
		s.found = map[index]uint64{}
	}
	s.found[ix] = head
}
