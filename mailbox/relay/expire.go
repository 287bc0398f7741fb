package relay

import "hearsay/mailbox"

// sweepWork bounds the rows and tokens that ending leases touches in one transaction,
// give or take one lease, so that a commit stays below what the store takes.
const sweepWork = 512

// sweep ends what has expired, at most limit of each kind, and returns how much it
// ended. It is idempotent: what a crash left undone is due at the next sweep.
func (s *state) sweep(limit int) (n swept) {
	n.Leases, _ = s.sweepLeases(limit)
	n.Clamped = s.clampRows(limit) + s.clampTokens(limit)
	n.Rows = s.sweepRows(limit)
	n.Tokens = s.sweepTokens(limit)
	n.Marks = s.sweepMarks(limit)
	return n
}

// swept counts what a sweep ended.
type swept struct{ Leases, Rows, Tokens, Marks, Clamped int }

func (n swept) any() bool { return n != swept{} }

// sweepLeases ends expired leases: their rows are available again, behind those
// that were not offered yet (MB-15, MB-36).
func (s *state) sweepLeases(limit int) (n, work int) {
	due := s.due(prefixLeaseExp, limit)
	due = append(due, s.beyond(prefixLeaseExp, profile.LeaseTTL, limit-len(due))...)
	for _, k := range due {
		if work >= sweepWork {
			break
		}
		work += s.endLease(mailbox.LeaseID(k[9:]))
		n++
	}
	return n, work
}

// endLease ends one and returns how many rows and tokens it held: the size of what is
// written.
func (s *state) endLease(id mailbox.LeaseID) (work int) {
	var l lease
	if !s.get(key(prefixLease, id[:]), &l, "lease") {
		s.fail(corrupt("lease index"))
		return 0
	}
	s.del(key(prefixLease, id[:]))
	s.del(key(prefixLeaseExp, be64(l.Expires), id[:]))
	if l.Done {
		s.totals.Acked--
		return 1
	}
	for _, rid := range l.Rows {
		var r row
		if s.get(key(prefixRow, rid[:]), &r, "row") && r.Lease == id {
			s.moveBack(rid, &r)
		}
	}
	s.releaseLease(&l, id)
	s.dropSet(&l, id)
	return 1 + len(l.Rows) + len(l.Tokens)
}

// releaseLease takes a lease out of the counts of live ones: its tokens', its client's and
// the relay's.
func (s *state) releaseLease(l *lease, id mailbox.LeaseID) {
	for _, ix := range l.Tokens {
		t := s.token(ix)
		t.Leases = without(t.Leases, id)
		s.setToken(ix, &t)
	}
	a := s.account(l.Client)
	a.Leases = without(a.Leases, id)
	s.setAccount(l.Client, &a)
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
		id := mailbox.RowID(k[9:])
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
		ix := index(k[9:])
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
	due := s.due(prefixDedupExp, limit)
	due = append(due, s.beyond(prefixDedupExp, profile.DedupTTL, limit-len(due))...)
	for _, k := range due {
		s.forgetMark(k)
	}
	return len(due)
}

// clampRows and clampTokens shorten what a clock that ran ahead made last too long: no
// envelope is kept, and no token owned, beyond its time counted from now (MB-50).
func (s *state) clampRows(limit int) int {
	far := s.beyond(prefixRowExpiry, profile.EnvelopeTTL, limit)
	for _, k := range far {
		id := mailbox.RowID(k[9:])
		var r row
		if !s.get(key(prefixRow, id[:]), &r, "row") {
			s.fail(corrupt("row index"))
			return 0
		}
		s.del(k)
		r.Expires = s.now + wholeSeconds(s.limits.EnvelopeTTL)
		s.put(key(prefixRowExpiry, be64(r.Expires), id[:]), nil)
		s.set(key(prefixRow, id[:]), &r)
	}
	return len(far)
}

func (s *state) clampTokens(limit int) int {
	far := s.beyond(prefixTokenExp, profile.TokenTTL, limit)
	for _, k := range far {
		ix := index(k[9:])
		t := s.token(ix)
		if t.Expires == 0 {
			s.fail(corrupt("registration index"))
			return 0
		}
		s.del(k)
		t.Refreshed, t.Expires = s.now, s.now+wholeSeconds(s.limits.TokenTTL)
		s.put(key(prefixTokenExp, be64(t.Expires), ix[:]), nil)
		s.setToken(ix, &t)
	}
	return len(far)
}
