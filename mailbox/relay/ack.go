package relay

import (
	"slices"

	"hearsay/mailbox"
)

// ack deletes exactly the named rows of c's live lease, in this transaction, and
// ends the idempotent return of the lease (MB-13, MB-16). An id that is not of
// the lease refuses the whole. Naming rows again is answered alike while the lease
// is remembered, which is until it expires.
func (s *state) ack(c client, id mailbox.LeaseID, ids []mailbox.RowID) Outcome {
	l, out := s.held(c, id, ids)
	if out != Accepted {
		return out
	}
	for _, rid := range ids {
		var r row
		if !s.get(key(prefixRow, rid[:]), &r, "row") || r.Lease != id {
			continue // acknowledged before, or expired
		}
		s.dropRow(rid, &r)
		s.remember(r.Index, r.Content)
	}
	if l.Done {
		return Accepted
	}
	l.Acked = true
	s.dropSet(&l, id)
	if s.holdsNothing(&l, id) {
		s.finish(&l, id)
	} else {
		s.set(key(prefixLease, id[:]), &l)
	}
	return Accepted
}

func (s *state) holdsNothing(l *lease, id mailbox.LeaseID) bool {
	for _, rid := range l.Rows {
		var r row
		if s.get(key(prefixRow, rid[:]), &r, "row") && r.Lease == id {
			return false
		}
	}
	return true
}

// finish takes a lease that holds nothing out of the counts of live ones, so that a
// collector of many pages need not wait for its leases to expire. It is remembered until
// it would have, so that a repeated acknowledgement is answered alike (MB-16).
func (s *state) finish(l *lease, id mailbox.LeaseID) {
	s.releaseLease(l, id)
	if s.totals.Acked >= uint64(s.limits.AckedLeases) {
		s.del(key(prefixLease, id[:]))
		s.del(key(prefixLeaseExp, be64(l.Expires), id[:]))
		return
	}
	s.totals.Acked++
	l.Done, l.Tokens = true, nil
	s.set(key(prefixLease, id[:]), l)
}

// dropSet forgets that l is what its set is answered with, unless a later lease is.
func (s *state) dropSet(l *lease, id mailbox.LeaseID) {
	k := key(prefixLeaseSet, l.Client[:], l.Set[:])
	if cur := s.bytes(k); cur != nil && mailbox.LeaseID(cur) == id {
		s.del(k)
	}
}

// refuse puts the named rows into the penalty box of their token, where they wait
// behind everything else once the lease has ended; those that their recipient had no
// room for only go behind what was not offered yet. It deletes nothing (MB-14, MB-36).
// Not accepted means that a box is full: its rows then come last like all that was
// left unacknowledged.
func (s *state) refuse(c client, id mailbox.LeaseID, ids []mailbox.RowID, why mailbox.RefuseReason) Outcome {
	_, out := s.held(c, id, ids)
	if out != Accepted || why == mailbox.RefuseOverQuota {
		return out // the end of the lease moves them back
	}
	for _, rid := range ids {
		var r row
		if s.get(key(prefixRow, rid[:]), &r, "row") && r.Lease == id && !s.box(rid, &r) {
			out = RefusedTokenQuota
		}
	}
	return out
}

// held checks that a lease is c's, alive, and the one of all the named rows.
func (s *state) held(c client, id mailbox.LeaseID, ids []mailbox.RowID) (l lease, _ Outcome) {
	if !s.get(key(prefixLease, id[:]), &l, "lease") || l.Client != c || s.over(l.Expires, profile.LeaseTTL) {
		return l, RefusedLease
	}
	for _, rid := range ids {
		if !slices.Contains(l.Rows, rid) {
			return l, RefusedRow
		}
	}
	return l, Accepted
}

// remember keeps an acknowledged content id for a while, so that a sender's repeat
// is accepted without coming to the recipient again (MB-28). When there is no room
// the oldest mark goes: the cost is a duplicate that the recipient recognises.
func (s *state) remember(ix index, content content) {
	until := s.now + wholeSeconds(s.limits.DedupTTL)
	if old := s.bytes(key(prefixDedup, ix[:], content[:])); len(old) == markSize {
		s.forgetMark(key(prefixDedupExp, old, ix[:], content[:])) // a row that expired and its repeat, both leased
	}
	if s.totals.Dedups >= uint64(s.limits.DedupRows) {
		s.scan([]byte{prefixDedupExp}, func(k, _ []byte) bool {
			s.forgetMark(slices.Clone(k))
			return false
		})
	}
	s.put(key(prefixDedup, ix[:], content[:]), be64(until))
	s.put(key(prefixDedupExp, be64(until), ix[:], content[:]), nil)
	s.totals.Dedups++
}

// forgetMark removes the mark that an expiry key names.
func (s *state) forgetMark(k []byte) {
	s.del(k)
	d := key(prefixDedup, k[9:])
	if mark := s.bytes(d); len(mark) == markSize && beTime(mark) == keyTime(k) {
		s.del(d)
	}
	if s.totals.Dedups == 0 {
		s.fail(corrupt("mark counter"))
		return
	}
	s.totals.Dedups--
}
