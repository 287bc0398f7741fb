package relay

import (
	"slices"

	"hearsay/mailbox"
)

// sweep ends what has expired, at most limit of each kind, and returns how much it
// ended. It is idempotent: what a crash left undone is due at the next sweep.
func (s *state) sweep(limit int) (n swept) {
	n.Leases = s.sweepLeases(limit)
	n.Rows = s.sweepRows(limit)
	n.Tokens = s.sweepTokens(limit)
	n.Marks = s.sweepMarks(limit)
	return n
}

// swept counts what a sweep ended.
type swept struct{ Leases, Rows, Tokens, Marks int }

func (n swept) any() bool { return n != swept{} }

// sweepLeases ends expired leases: their rows are available again, behind those
// that were not offered yet (MB-15, MB-36).
func (s *state) sweepLeases(limit int) int {
	due := s.due(prefixLeaseExp, limit)
	for _, k := range due {
		s.endLease(mailbox.LeaseID(k))
	}
	return len(due)
}

func (s *state) endLease(id mailbox.LeaseID) {
	var l lease
	if !s.get(key(prefixLease, id[:]), &l, "lease") {
		s.fail(corrupt("lease index"))
		return
	}
	for _, rid := range l.Rows {
		var r row
		if s.get(key(prefixRow, rid[:]), &r, "row") && r.Lease == id {
			s.moveBack(rid, &r)
		}
	}
	for _, ix := range l.Tokens {
		t := s.token(ix)
		t.Leases = without(t.Leases, id)
		s.setToken(ix, &t)
	}
	a := s.account(l.Client)
	a.Leases = without(a.Leases, id)
	s.setAccount(l.Client, &a)
	s.dropSet(&l, id)
	s.del(key(prefixLease, id[:]))
	s.del(key(prefixLeaseExp, be64(l.Expires), id[:]))
	if s.totals.Leases == 0 {
		s.fail(corrupt("lease counter"))
		return
	}
	s.totals.Leases--
}

// sweepRows drops envelopes that nobody collected in time. A lease that holds one
// keeps its other rows.
func (s *state) sweepRows(limit int) int {
	due := s.due(prefixRowExpiry, limit)
	for _, k := range due {
		id := mailbox.RowID(k)
		var r row
		if !s.get(key(prefixRow, id[:]), &r, "row") {
			s.fail(corrupt("row index"))
			return 0
		}
		s.dropRow(id, &r)
		d := key(prefixDedup, r.Index[:], r.Content[:])
		if mark := s.bytes(d); len(mark) == len(id) && mailbox.RowID(mark) == id {
			s.del(d)
		}
	}
	return len(due)
}

// sweepTokens ends registrations that were not refreshed.
func (s *state) sweepTokens(limit int) int {
	due := s.due(prefixTokenExp, limit)
	for _, k := range due {
		ix := index(k)
		t := s.token(ix)
		if t.Expires == 0 {
			s.fail(corrupt("registration index"))
			return 0
		}
		s.unregister(ix, &t)
	}
	return len(due)
}

// sweepMarks forgets acknowledged envelopes whose hour is over.
func (s *state) sweepMarks(limit int) (n int) {
	var due [][]byte
	s.scan([]byte{prefixDedupExp}, func(k, _ []byte) bool {
		if len(due) >= limit || keyTime(k) > s.now {
			return false
		}
		due = append(due, slices.Clone(k))
		return true
	})
	for _, k := range due {
		s.forgetMark(k)
	}
	return len(due)
}
