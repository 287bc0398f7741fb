package relay

import (
	"slices"

	"hearsay/mailbox"
)

// addRow stores a new row and counts it everywhere.
func (s *state) addRow(r *row, sealed []byte) {
	r.Seq = s.totals.NextSeq
	s.totals.NextSeq++
	s.totals.Latest = max(s.totals.Latest, r.Expires)
	s.put(r.key(), r.value(sealed))
	s.set(key(prefixDedup, r.Index[:], r.Content[:]), &mark{r.Seq, r.Expires, r.ID})
	s.count(r, 1)
	s.soonest(r.Index, r.Expires)
}

// dropRow removes a row and uncounts it. The mark by which a repeat is recognised is the
// caller's to keep or to remove, and so is what leases say of it.
func (s *state) dropRow(r *row) {
	s.del(r.key())
	s.setPass(r.Index, r.Seq, 0)
	s.count(r, -1)
	if t := s.token(r.Index); t.Rows == 0 {
		s.setDue(r.Index, t, 0)
	}
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
	t, a := s.token(r.Index), s.account(r.Owner)
	for _, rows := range []*uint64{&s.totals.Rows, &t.Rows, &a.Rows} {
		add(rows, 1)
	}
	for _, bytes := range []*uint64{&s.totals.Bytes, &t.Bytes, &a.Bytes} {
		add(bytes, r.Size)
	}
	s.setToken(r.Index)
	s.setAccount(r.Owner)
}

// soonest notes that a row of a token expires then.
func (s *state) soonest(ix index, expires uint64) {
	if t := s.token(ix); t.Due == 0 || expires < t.Due {
		s.setDue(ix, t, expires)
	}
}

// setDue moves a token in the index of those whose rows expire.
func (s *state) setDue(ix index, t *token, due uint64) {
	if t.Due == due {
		return
	}
	if t.Due != 0 {
		s.del(key(prefixRowExpiry, be64(t.Due), ix[:]))
	}
	if t.Due = due; due != 0 {
		s.put(key(prefixRowExpiry, be64(due), ix[:]), nil)
	}
	s.setToken(ix)
}

// moveBack offers a row later than it was offered before: its next pass (MB-36).
func (s *state) moveBack(ix index, seq uint64) {
	if p := s.passesOf(ix).of(seq); p < passMost {
		s.setPass(ix, seq, p+1)
	}
}

// box puts a row behind everything else (MB-36), or says that the box of its token is
// full.
func (s *state) box(ix index, seq uint64) bool {
	if s.passesOf(ix).of(seq) == passBoxed {
		return true
	}
	if s.token(ix).Boxed >= uint64(s.limits.PenaltyRows) {
		return false
	}
	s.setPass(ix, seq, passBoxed)
	return true
}

// eachHeld calls fn for every row of a token that a lease holds, and writes that lease if
// fn says that it changed it.
func (s *state) eachHeld(ix index, fn func(*row) (changed bool)) {
	for _, id := range s.token(ix).Leases {
		l := s.lease(id)
		if l == nil {
			s.fail(corrupt("lease of a token"))
			return
		}
		for i := range l.Rows {
			if w := &l.Rows[i]; w.Index == ix && !w.Gone && fn(w) {
				s.setLease(id)
			}
		}
	}
}

// heldOf are the numbers of a token's rows that are in a lease that has not ended.
func (s *state) heldOf(ix index) map[uint64]bool {
	var out map[uint64]bool
	s.eachHeld(ix, func(w *row) bool {
		if out == nil {
			out = map[uint64]bool{}
		}
		out[w.Seq] = true
		return false
	})
	return out
}

// sealedOf reads the ciphertext of a row, nil if there is none.
func (s *state) sealedOf(r *row) []byte {
	b := s.bytes(r.key())
	if b == nil {
		return nil
	}
	sealed, err := r.setValue(b)
	if err != nil {
		s.fail(corrupt("row"))
	}
	return sealed
}

func without(ids []mailbox.LeaseID, id mailbox.LeaseID) []mailbox.LeaseID {
	return slices.DeleteFunc(ids, func(v mailbox.LeaseID) bool { return v == id })
}
