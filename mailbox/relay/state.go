package relay

import (
	"errors"
	"slices"
	"time"

	"hearsay/internal/kv"
)

// A record is a value of the store.
type record interface {
	encode() []byte
	decode([]byte) error
}

// state is the typed view of one transaction: what the transitions in deposit.go,
// lease.go, ack.go and expire.go work on. The first error sticks in err, and the
// transaction is rolled back because of it.
type state struct {
	tx     kv.Txn
	now    uint64 // s: the one clock reading of this transaction (MB-38)
	limits *Limits
	totals totals
	heads  *heads           // where queues begin: saves time, decides nothing
	found  map[index]uint64 // and what this transaction learned of it
	cache  cache
	// written is what the transaction writes, in bytes as the store counts, for the bounds
	// of what one commit may hold; shared records are counted when they first change.
	written int
	err     error
}

// load starts a transaction's state; save ends it.
func load(tx kv.Txn, now uint64, limits *Limits, heads *heads) *state {
	s := &state{tx: tx, now: now, limits: limits, heads: heads}
	s.get(key(prefixTotals), &s.totals, "totals")
	return s
}

func (s *state) save() error {
	s.flush()
	s.set(key(prefixTotals), &s.totals)
	return s.err
}

func (s *state) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// get reads a record; false if there is none.
func (s *state) get(k []byte, into record, what string) bool {
	if s.err != nil {
		return false
	}
	b, err := s.tx.Get(k)
	if errors.Is(err, kv.ErrNotFound) {
		return false
	}
	if err != nil {
		s.fail(err)
		return false
	}
	if into.decode(b) != nil {
		s.fail(corrupt(what))
		return false
	}
	return true
}

func (s *state) bytes(k []byte) []byte {
	if s.err != nil {
		return nil
	}
	b, err := s.tx.Get(k)
	if err != nil {
		if !errors.Is(err, kv.ErrNotFound) {
			s.fail(err)
		}
		return nil
	}
	return b
}

// entryCost is what an entry costs a commit beyond its bytes. One counts at least
// entryLeast, since a store bounds the number of a commit's entries as well: 10,000.
const (
	entryCost  = 40
	entryLeast = 100
)

// workBytes bounds what ends on the way in one transaction, leases and rows whose time is
// over, in bytes as the store counts and give or take one lease, so that its commit stays
// below what a store takes. What is left out is for the next one.
const workBytes = 500_000

// mayWork tells whether there is room for more of that.
func (s *state) mayWork() bool { return s.err == nil && s.written < workBytes }

func (s *state) set(k []byte, v record) { s.put(k, v.encode()) }

func (s *state) put(k, v []byte) {
	if s.err == nil {
		s.written += max(len(k)+len(v)+entryCost, entryLeast)
		s.fail(s.tx.Set(k, v))
	}
}

func (s *state) del(k []byte) {
	if s.err == nil {
		s.written += max(len(k)+entryCost, entryLeast)
		s.fail(s.tx.Delete(k))
	}
}

// scan calls fn for each key with the prefix, in order, until it returns false.
func (s *state) scan(prefix []byte, fn func(k, v []byte) bool) {
	if s.err != nil {
		return
	}
	s.fail(s.tx.Scan(kv.Scan{Prefix: prefix}, func(k, v []byte) error {
		if !fn(k, v) || s.err != nil {
			return kv.ErrStop
		}
		return nil
	}))
}

// due collects, from an index in order of expiry, at most limit keys whose time has
// come.
func (s *state) due(prefix byte, limit int) (out [][]byte) {
	s.scan([]byte{prefix}, func(k, _ []byte) bool {
		if len(out) >= limit || keyTime(k) > s.now {
			return false
		}
		out = append(out, slices.Clone(k))
		return true
	})
	return out
}

// beyond collects, from an index in order of expiry, at most limit keys that are
// further away than anything made now could be: they were made by a clock that ran
// ahead and was set back (MB-37).
func (s *state) beyond(prefix byte, life time.Duration, limit int) (out [][]byte) {
	if s.err != nil {
		return nil
	}
	start := key(prefix, be64(s.now+wholeSeconds(life)+1))
	s.fail(s.tx.Scan(kv.Scan{Prefix: []byte{prefix}, Start: start, KeysOnly: true}, func(k, _ []byte) error {
		if len(out) >= limit {
			return kv.ErrStop
		}
		out = append(out, slices.Clone(k))
		return nil
	}))
	return out
}

// over tells whether something that lasts at most life has ended, by this
// transaction's clock. What would last longer than that was made by a clock that has
// been set back since; it ends now, so that it blocks nobody (MB-37).
func (s *state) over(expires uint64, life time.Duration) bool {
	return expires <= s.now || expires > s.now+wholeSeconds(life)
}

func wholeSeconds(d time.Duration) uint64 { return uint64(d / time.Second) }

func keyTime(k []byte) (v uint64) {
	if len(k) < 9 {
		return 0
	}
	for _, c := range k[1:9] {
		v = v<<8 | uint64(c)
	}
	return v
}
