package relay

import (
	"errors"
	"slices"
	"time"

	"hearsay/internal/kv"
	"hearsay/mailbox"
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
	err    error
}

// load starts a transaction's state; save ends it.
func load(tx kv.Txn, now uint64, limits *Limits, heads *heads) *state {
	s := &state{tx: tx, now: now, limits: limits, heads: heads}
	s.get(key(prefixTotals), &s.totals, "totals")
	return s
}

func (s *state) save() error {
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

func (s *state) set(k []byte, v record) { s.put(k, v.encode()) }

func (s *state) put(k, v []byte) {
	if s.err == nil {
		s.fail(s.tx.Set(k, v))
	}
}

func (s *state) del(k []byte) {
	if s.err == nil {
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

// token and account return a zero record where there is none.
func (s *state) token(ix index) (v token) {
	s.get(key(prefixToken, ix[:]), &v, "token")
	return v
}

// setToken writes a token, or removes one that holds nothing any more.
func (s *state) setToken(ix index, v *token) {
	if v.Expires == 0 && v.Rows == 0 && len(v.Leases) == 0 {
		s.del(key(prefixToken, ix[:]))
		return
	}
	s.set(key(prefixToken, ix[:]), v)
}

func (s *state) account(c client) (v account) {
	s.get(key(prefixClient, c[:]), &v, "account")
	return v
}

func (s *state) setAccount(c client, v *account) {
	if v.Tokens == 0 && v.Rows == 0 && len(v.Leases) == 0 {
		s.del(key(prefixClient, c[:]))
		return
	}
	s.set(key(prefixClient, c[:]), v)
}

func queueKey(id mailbox.RowID, r *row) []byte {
	return key(prefixQueue, r.Index[:], []byte{r.Pass}, be64(r.Seq), id[:])
}

// addRow stores a new row with its indexes and counts it everywhere.
func (s *state) addRow(id mailbox.RowID, r *row, sealed []byte) {
	r.Seq = s.totals.NextSeq
	s.totals.NextSeq++
	s.set(key(prefixRow, id[:]), r)
	s.put(key(prefixBody, id[:]), sealed)
	s.put(queueKey(id, r), nil)
	s.put(key(prefixDedup, r.Index[:], r.Content[:]), id[:])
	s.put(key(prefixRowExpiry, be64(r.Expires), id[:]), nil)
	s.count(r, 1)
}

// dropRow removes a row with its indexes and uncounts it. The mark by which a
// repeat is recognised is the caller's to keep or to remove.
func (s *state) dropRow(id mailbox.RowID, r *row) {
	s.del(key(prefixRow, id[:]))
	s.del(key(prefixBody, id[:]))
	s.del(queueKey(id, r))
	s.del(key(prefixRowExpiry, be64(r.Expires), id[:]))
	s.count(r, -1)
}

func (s *state) count(r *row, sign int) {
	add := func(v *uint64, n uint64) {
		switch {
		case sign > 0:
			*v += n
		case *v < n:
			s.fail(corrupt("counter"))
		default:
			*v -= n
		}
	}
	add(&s.totals.Rows, 1)
	add(&s.totals.Bytes, r.Size)
	t := s.token(r.Index)
	add(&t.Rows, 1)
	add(&t.Bytes, r.Size)
	if r.Pass == passBoxed {
		add(&t.Boxed, 1)
	}
	s.setToken(r.Index, &t)
	a := s.account(r.Owner)
	add(&a.Rows, 1)
	add(&a.Bytes, r.Size)
	s.setAccount(r.Owner, &a)
}

// moveBack offers a row later than it was offered before: its next pass (MB-36).
func (s *state) moveBack(id mailbox.RowID, r *row) {
	r.Lease = mailbox.LeaseID{}
	if r.Pass < passMost {
		s.del(queueKey(id, r))
		r.Pass++
		s.put(queueKey(id, r), nil)
	}
	s.set(key(prefixRow, id[:]), r)
}

// box puts a row behind everything else (MB-36), or says that the box of its token is
// full.
func (s *state) box(id mailbox.RowID, r *row) bool {
	if r.Pass == passBoxed {
		return true
	}
	t := s.token(r.Index)
	if t.Boxed >= uint64(s.limits.PenaltyRows) {
		return false
	}
	t.Boxed++
	s.setToken(r.Index, &t)
	s.del(queueKey(id, r))
	r.Pass = passBoxed
	s.put(queueKey(id, r), nil)
	s.set(key(prefixRow, id[:]), r)
	return true
}

func without(ids []mailbox.LeaseID, id mailbox.LeaseID) []mailbox.LeaseID {
	return slices.DeleteFunc(ids, func(v mailbox.LeaseID) bool { return v == id })
}
