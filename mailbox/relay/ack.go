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
	l, at, out := s.held(c, id, ids)
	if out != Accepted || l.Done {
		return out
	}
	gone := make(batch, 0, len(at))
	for _, i := range at {
		w := &l.Rows[i]
		if w.Gone {
			continue // acknowledged before, or expired
		}
		w.Gone = true
		s.dropRow(w)
		gone = append(gone, named{w.Index, w.Content, w.Seq})
	}
	s.remember(gone)
	l.Acked = true
	s.dropSet(l, id)
	s.setLease(id)
	if !slices.ContainsFunc(l.Rows, func(w row) bool { return !w.Gone }) {
		s.finish(l, id)
	}
	return Accepted
}

// finish takes a lease that holds nothing out of the counts of live ones, so that a
// collector of many pages need not wait for its leases to expire. It is remembered until
// it would have, so that a repeated acknowledgement is answered alike (MB-16).
func (s *state) finish(l *lease, id mailbox.LeaseID) {
	s.releaseLease(l, id)
	if s.totals.Acked >= uint64(s.limits.AckedLeases) {
		s.delLease(id)
		s.del(key(prefixLeaseExp, be64(l.Expires), id[:]))
		return
	}
	s.totals.Acked++
	l.Done, l.Tokens = true, nil
	s.setLease(id)
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
	l, at, out := s.held(c, id, ids)
	if out != Accepted || l.Done || why == mailbox.RefuseOverQuota {
		return out // the end of the lease moves them back
	}
	for _, i := range at {
		if w := &l.Rows[i]; !w.Gone && !s.box(w.Index, w.Seq) {
			out = RefusedTokenQuota
		}
	}
	return out
}

// held checks that a lease is c's, alive, and the one of all the named rows, and finds
// these in it.
func (s *state) held(c client, id mailbox.LeaseID, ids []mailbox.RowID) (l *lease, at []int, _ Outcome) {
	l = s.lease(id)
	if l == nil || l.Client != c || s.over(l.Expires, profile.LeaseTTL) {
		return nil, nil, RefusedLease
	}
	place := make(map[mailbox.RowID]int, len(l.Rows))
	for i := range l.Rows {
		place[l.Rows[i].ID] = i
	}
	at = make([]int, len(ids))
	for n, rid := range ids {
		var ok bool
		if at[n], ok = place[rid]; !ok {
			return nil, nil, RefusedRow
		}
	}
	return l, at, Accepted
}

// remember keeps acknowledged content ids for a while, so that a sender's repeat is
// accepted without coming to the recipient again (MB-28): their marks stay as they are. When there is no room the oldest
// go: the cost is a duplicate that the recipient recognises.
func (s *state) remember(gone batch) {
	if most := s.limits.DedupRows; len(gone) > most {
		for i := range gone[:len(gone)-most] {
			s.delMark(&gone[i])
		}
		gone = gone[len(gone)-most:]
	}
	if len(gone) == 0 {
		return
	}
	if total := s.totals.Dedups + uint64(len(gone)); total > uint64(s.limits.DedupRows) {
		s.forgetOldest(int(total - uint64(s.limits.DedupRows)))
	}
	until := s.now + wholeSeconds(s.limits.DedupTTL)
	s.set(key(prefixDedupExp, be64(until), be64(s.totals.NextSeq)), &gone)
	s.totals.NextSeq++
	s.totals.Dedups += uint64(len(gone))
}

// forgetOldest forgets that many acknowledged content ids.
func (s *state) forgetOldest(count int) {
	var oldest [][]byte
	seen := 0
	s.scan([]byte{prefixDedupExp}, func(k, v []byte) bool {
		var b batch
		if b.decode(v) != nil {
			s.fail(corrupt("marks"))
			return false
		}
		oldest = append(oldest, slices.Clone(k))
		seen += len(b)
		return seen < count
	})
	for _, k := range oldest {
		count -= s.forget(k, count)
	}
}

// forget removes at most limit of the marks that an expiry key names, and returns how many
// it did.
func (s *state) forget(k []byte, limit int) int {
	var b batch
	if !s.get(k, &b, "marks") {
		s.fail(corrupt("marks"))
		return 0
	}
	n := min(limit, len(b))
	for i := range b[:n] {
		s.delMark(&b[i])
	}
	if b = b[n:]; len(b) == 0 {
		s.del(k)
	} else {
		s.set(k, &b)
	}
	if s.totals.Dedups < uint64(n) {
		s.fail(corrupt("mark counter"))
		return 0
	}
	s.totals.Dedups -= uint64(n)
	return n
}

// delMark removes the mark of a deposit, unless it is that of a later one by now.
func (s *state) delMark(n *named) {
	d := key(prefixDedup, n.Index[:], n.Content[:])
	var m mark
	if s.get(d, &m, "mark") && m.Seq == n.Seq {
		s.del(d)
	}
}
