package relay

import (
	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// sweep ends what has expired, at most limit of each kind, and returns how much it
// ended. It is idempotent: what a crash left undone is due at the next sweep.
func (s *state) sweep(limit int) (n swept) {
	n.Leases = s.sweepLeases(limit)
	n.Clamped = s.clampRows(limit) + s.clampTokens(limit)
	n.Rows, n.Looked = s.sweepRows(limit)
	n.Tokens = s.sweepTokens(limit)
	n.Marks = s.sweepMarks(limit)
	return n
}

// swept counts what a sweep ended, and the tokens whose rows it looked at.
type swept struct{ Leases, Rows, Tokens, Marks, Clamped, Looked int }

func (n swept) any() bool { return n != swept{} }

// sweepLeases ends expired leases: their rows are available again, behind those
// that were not offered yet (MB-15, MB-36).
func (s *state) sweepLeases(limit int) (n int) {
	due := s.due(prefixLeaseExp, limit)
	due = append(due, s.beyond(prefixLeaseExp, profile.LeaseTTL, limit-len(due))...)
	for _, k := range due {
		if !s.mayWork() {
			break
		}
		s.endLease(mailbox.LeaseID(k[9:]))
		n++
	}
	return n
}

// endLease ends one.
func (s *state) endLease(id mailbox.LeaseID) {
	l := s.lease(id)
	if l == nil {
		s.fail(corrupt("lease index"))
		return
	}
	s.delLease(id)
	s.del(key(prefixLeaseExp, be64(l.Expires), id[:]))
	if l.Done {
		s.totals.Acked--
		return
	}
	for i := range l.Rows {
		if w := &l.Rows[i]; !w.Gone {
			s.moveBack(w.Index, w.Seq)
		}
	}
	s.releaseLease(l, id)
	s.dropSet(l, id)
}

// releaseLease takes a lease out of the counts of live ones: its tokens', its client's and
// the relay's.
func (s *state) releaseLease(l *lease, id mailbox.LeaseID) {
	for _, ix := range l.Tokens {
		t := s.token(ix)
		t.Leases = without(t.Leases, id)
		s.setToken(ix)
	}
	a := s.account(l.Client)
	a.Leases = without(a.Leases, id)
	s.setAccount(l.Client)
	if s.totals.Leases == 0 {
		s.fail(corrupt("lease counter"))
		return
	}
	s.totals.Leases--
}

// sweepRows drops envelopes that nobody collected in time, of the tokens that have such,
// and returns how many, and of how many tokens. A lease that holds one keeps its other
// rows.
func (s *state) sweepRows(limit int) (n, looked int) {
	for _, k := range s.due(prefixRowExpiry, limit) {
		if n >= limit || !s.mayWork() {
			break
		}
		looked++
		ix := index(k[9:])
		if s.token(ix).Due != keyTime(k) {
			s.fail(corrupt("row index"))
			return n, looked
		}
		var expired []row
		next := uint64(0)
		s.keysOf(ix, func(r *row) bool {
			if r.Expires <= s.now && n+len(expired) < limit {
				expired = append(expired, *r)
			} else if next == 0 || r.Expires < next {
				next = r.Expires
			}
			return true
		})
		for i := range expired {
			if !s.mayWork() {
				next = s.token(ix).Due // the rest is for the next sweep
				break
			}
			s.expire(&expired[i])
			n++
		}
		s.setDue(ix, s.token(ix), next)
	}
	return n, looked
}

// expire drops one row. Its lease, if it is in one, forgets it.
func (s *state) expire(r *row) {
	if s.sealedOf(r) == nil { // reads whose it is
		s.fail(corrupt("row"))
		return
	}
	s.eachHeld(r.Index, func(w *row) bool {
		if w.Seq != r.Seq {
			return false
		}
		w.Gone = true
		return true
	})
	s.dropRow(r)
	s.delMark(&named{r.Index, r.Content, r.Seq})
}

// sweepTokens ends registrations that were not refreshed.
func (s *state) sweepTokens(limit int) (n int) {
	due := s.due(prefixTokenExp, limit)
	for _, k := range due {
		ix := index(k[9:])
		if !s.mayWork() {
			break
		}
		t := s.token(ix)
		if t.Expires == 0 {
			s.fail(corrupt("registration index"))
			return 0
		}
		s.unregister(ix, t)
		n++
	}
	return n
}

// sweepMarks forgets acknowledged envelopes whose hour is over.
func (s *state) sweepMarks(limit int) (n int) {
	due := s.due(prefixDedupExp, limit)
	due = append(due, s.beyond(prefixDedupExp, profile.DedupTTL, limit-len(due))...)
	for _, k := range due {
		if n >= limit || !s.mayWork() {
			break
		}
		n += s.forget(k, limit)
	}
	return n
}

// clampRows and clampTokens shorten what a clock that ran ahead made last too long: no
// envelope is kept, and no token owned, beyond its time counted from now (MB-50). Rows are
// written anew for it, bodies and all, and are found by a look at every key: only while
// there are such rows.
func (s *state) clampRows(limit int) int {
	most := s.now + wholeSeconds(profile.EnvelopeTTL)
	if s.totals.Latest <= most || !s.mayWork() {
		return 0
	}
	var far []row
	s.eachRow(kv.Scan{Prefix: []byte{prefixRow}, KeysOnly: true}, func(r *row, _ []byte) bool {
		if r.Expires > most {
			far = append(far, *r)
		}
		return len(far) < limit
	})
	n := 0
	for i := range far {
		if !s.mayWork() {
			return n
		}
		s.clampRow(&far[i], s.now+wholeSeconds(s.limits.EnvelopeTTL))
		n++
	}
	if len(far) < limit {
		s.totals.Latest = most
	}
	return n
}

func (s *state) clampRow(r *row, expires uint64) {
	sealed := s.sealedOf(r)
	if sealed == nil {
		s.fail(corrupt("row"))
		return
	}
	s.del(r.key())
	r.Expires = expires
	s.put(r.key(), r.value(sealed))
	d := key(prefixDedup, r.Index[:], r.Content[:])
	var m mark
	if s.get(d, &m, "mark") && m.Seq == r.Seq {
		m.Expires = expires
		s.set(d, &m)
	}
	s.eachHeld(r.Index, func(w *row) bool {
		if w.Seq != r.Seq {
			return false
		}
		w.Expires = expires
		return true
	})
	s.soonest(r.Index, expires)
}

func (s *state) clampTokens(limit int) (n int) {
	far := s.beyond(prefixTokenExp, profile.TokenTTL, limit)
	for _, k := range far {
		if !s.mayWork() {
			break
		}
		ix := index(k[9:])
		t := s.token(ix)
		if t.Expires == 0 {
			s.fail(corrupt("registration index"))
			return 0
		}
		s.del(k)
		t.Refreshed, t.Expires = s.now, s.now+wholeSeconds(s.limits.TokenTTL)
		s.put(key(prefixTokenExp, be64(t.Expires), ix[:]), nil)
		s.setToken(ix)
		n++
	}
	return n
}
