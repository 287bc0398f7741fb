package relay

import (
	"bytes"
	"cmp"
	"io"
	"slices"

	"lukechampine.com/blake3"

	"hearsay/mailbox"
)

// pickFactor bounds the rows that a check-in looks at, in pages.
const pickFactor = 4

// sweepPerCheckIn bounds the expired leases of others that one check-in clears away
// before it counts live leases.
const sweepPerCheckIn = 2

// registerBytes bounds what one check-in writes for its tokens, as the store counts, so
// that its commit stays below what a store takes: room for MaxTokens new ones. What is
// left out is for the next check-in.
const (
	registerBytes = 950_000
	newTokenCost  = 230 // record and expiry
	moreTokenCost = 90  // the deletion of the expiry before it
	workCost      = 380 // a row or token of a lease that ends
)

// checkIn registers or refreshes the tokens and answers the client's live lease for
// this set, or makes one over a fair page of what is available (MB-10, MB-11,
// MB-36). It deletes nothing. A nil page is a miss, which looks like a refusal.
func (s *state) checkIn(seal *sealer, random io.Reader, c client, tokens []mailbox.Token) *mailbox.Page {
	if len(tokens) == 0 || len(tokens) > s.limits.RequestTokens {
		return nil
	}
	work := s.clearAway(c)
	wanted := indexes(seal, tokens)
	mine, name := s.register(c, wanted, work), nameOf(wanted)
	if page := s.again(seal, c, name); page != nil {
		return page
	}
	return s.newLease(seal, random, c, name, mine)
}

// clearAway ends the expired leases of c, and some of others, and returns how many rows
// and tokens they held.
func (s *state) clearAway(c client) (work int) {
	for _, id := range s.account(c).Leases {
		var l lease
		if s.get(key(prefixLease, id[:]), &l, "lease") && s.over(l.Expires, profile.LeaseTTL) {
			work += s.endLease(id)
		}
	}
	_, more := s.sweepLeases(sweepPerCheckIn)
	return work + more
}

// indexes are the opaque forms of tokens, each once, in the client's order, which is
// its order of importance.
func indexes(seal *sealer, tokens []mailbox.Token) []index {
	out := make([]index, 0, len(tokens))
	seen := make(map[index]bool, len(tokens))
	for _, t := range tokens {
		if ix := seal.index(t); !seen[ix] {
			seen[ix] = true
			out = append(out, ix)
		}
	}
	return out
}

// nameOf identifies a set of tokens, whatever their order.
func nameOf(set []index) setID {
	set = slices.Clone(set)
	slices.SortFunc(set, func(a, b index) int { return bytes.Compare(a[:], b[:]) })
	h := blake3.New(32, nil)
	for i := range set {
		_, _ = h.Write(set[i][:]) // a hash never fails to write
	}
	var out setID
	h.Sum(out[:0])
	return out
}

// register gives c the tokens that nobody has, refreshes its own at most once a day
// (MB-07), and returns those that are c's (MB-29). work is what the transaction has
// written already, in rows and tokens.
func (s *state) register(c client, set []index, work int) (mine []index) {
	const day = 24 * 60 * 60
	a := s.account(c)
	ttl := wholeSeconds(s.limits.TokenTTL)
	room := registerBytes - work*workCost
	for _, ix := range set {
		t := s.token(ix)
		switch {
		case t.Expires > s.now && t.Client != c:
			continue // another client's until it expires
		case t.Expires > s.now:
			if s.now-min(t.Refreshed, s.now) >= min(day, max(ttl/2, 1)) && room >= newTokenCost+moreTokenCost {
				room -= newTokenCost + moreTokenCost
				s.del(key(prefixTokenExp, be64(t.Expires), ix[:]))
				t.Refreshed, t.Expires = s.now, s.now+ttl
				s.put(key(prefixTokenExp, be64(t.Expires), ix[:]), nil)
				s.setToken(ix, &t)
			}
		default:
			if room < newTokenCost+moreTokenCost && (t.Expires != 0 || room < newTokenCost) {
				continue
			}
			room -= newTokenCost
			if t.Expires != 0 { // expired, not yet swept
				room -= moreTokenCost
				s.unregister(ix, &t)
				if t.Client == c {
					a = s.account(c)
				}
			}
			if a.Tokens >= uint64(s.limits.ClientTokens) {
				continue
			}
			if s.totals.Tokens >= uint64(s.limits.Registrations) && s.sweepTokens(1) == 0 {
				continue
			}
			t = s.token(ix)
			t.Client, t.Refreshed, t.Expires = c, s.now, s.now+ttl
			s.put(key(prefixTokenExp, be64(t.Expires), ix[:]), nil)
			s.setToken(ix, &t)
			s.totals.Tokens++
			a = s.account(c)
			a.Tokens++
			s.setAccount(c, &a)
		}
		mine = append(mine, ix)
	}
	return mine
}

// unregister ends a registration; rows that wait under the token stay until they
// expire.
func (s *state) unregister(ix index, t *token) {
	s.del(key(prefixTokenExp, be64(t.Expires), ix[:]))
	a := s.account(t.Client)
	if a.Tokens == 0 || s.totals.Tokens == 0 {
		s.fail(corrupt("registration counter"))
		return
	}
	a.Tokens--
	s.totals.Tokens--
	s.setAccount(t.Client, &a)
	t.Expires, t.Refreshed = 0, 0
	s.setToken(ix, t)
}

// again returns the live, unacknowledged lease of the set, with the rows that still
// are: one row's expiry does not void its siblings' lease (MB-38).
func (s *state) again(seal *sealer, c client, name setID) *mailbox.Page {
	id := s.bytes(key(prefixLeaseSet, c[:], name[:]))
	if id == nil {
		return nil
	}
	var l lease
	if !s.get(key(prefixLease, id), &l, "lease") || s.over(l.Expires, profile.LeaseTTL) || l.Acked {
		return nil
	}
	page := &mailbox.Page{Serving: true, LeaseID: mailbox.LeaseID(id), ExpiresAt: l.Expires}
	for _, rid := range l.Rows {
		var r row
		if s.get(key(prefixRow, rid[:]), &r, "row") && r.Lease == page.LeaseID && r.Expires > s.now {
			s.appendRow(page, seal, rid, &r)
		}
	}
	return page
}

// appendRow opens a row into a page. A row that does not open is left out: it stays
// until it expires (MB-14).
func (s *state) appendRow(page *mailbox.Page, seal *sealer, id mailbox.RowID, r *row) bool {
	plain, err := seal.open(id, r.Index, s.bytes(key(prefixBody, id[:])))
	if err != nil || s.err != nil {
		return false
	}
	page.Rows = append(page.Rows, mailbox.Row{RowID: id, Envelope: plain})
	return true
}

// newLease holds a page for c.
func (s *state) newLease(seal *sealer, random io.Reader, c client, name setID, mine []index) *mailbox.Page {
	a := s.account(c)
	if len(a.Leases) >= s.limits.ClientLeases || s.totals.Leases >= uint64(s.limits.RelayLeases) {
		return nil
	}
	picked := s.pick(random, mine)
	if len(picked) == 0 {
		return nil
	}
	page := &mailbox.Page{Serving: true, ExpiresAt: s.now + uint64(s.limits.LeaseTTL.Seconds())}
	l := lease{Client: c, Set: name, Expires: page.ExpiresAt}
	var id mailbox.LeaseID
	if !s.fresh(random, id[:], prefixLease) {
		return nil
	}
	touched := map[index]bool{}
	for _, p := range picked {
		if !s.appendRow(page, seal, p.id, &p.row) {
			s.moveBack(p.id, &p.row) // it does not open; let it not be in the way again
			continue
		}
		p.row.Lease = id
		s.set(key(prefixRow, p.id[:]), &p.row)
		l.Rows = append(l.Rows, p.id)
		if !touched[p.row.Index] {
			touched[p.row.Index] = true
			l.Tokens = append(l.Tokens, p.row.Index)
			t := s.token(p.row.Index)
			t.Leases = append(t.Leases, id)
			s.setToken(p.row.Index, &t)
		}
	}
	if len(l.Rows) == 0 || s.err != nil {
		return nil
	}
	page.LeaseID = id
	s.set(key(prefixLease, id[:]), &l)
	s.put(key(prefixLeaseSet, c[:], name[:]), id[:])
	s.put(key(prefixLeaseExp, be64(l.Expires), id[:]), nil)
	a.Leases = append(a.Leases, id)
	s.setAccount(c, &a)
	s.totals.Leases++
	return page
}

type candidate struct {
	id  mailbox.RowID
	row row
}

// pick chooses a page of available rows: first what was not offered yet, then what came
// back unacknowledged, then the penalty box; in each the tokens take turns, each in the
// order of its own queue (MB-36). Tokens that
// are in the most leases they may be in wait. A client with very many mailboxes is
// served from a random place in them on, so that a check-in looks at a bounded number
// of rows and every mailbox has its turn.
func (s *state) pick(random io.Reader, mine []index) (out []candidate) {
	var start [8]byte
	if _, err := io.ReadFull(random, start[:]); err != nil {
		s.fail(err)
		return nil
	}
	if len(mine) > 0 {
		n := int(beTime(start[:]) % uint64(len(mine)))
		mine = append(slices.Clone(mine[n:]), mine[:n]...)
	}
	var queues [][]candidate
	for seen := 0; len(mine) > 0 && seen < pickFactor*s.limits.PageRows; mine = mine[1:] {
		ix := mine[0]
		if t := s.token(ix); t.Rows == 0 || len(t.Leases) >= s.limits.TokenLeases {
			continue
		}
		var q []candidate
		s.queue(ix, func(id mailbox.RowID) bool {
			var r row
			if s.get(key(prefixRow, id[:]), &r, "row") && r.Lease.IsZero() && r.Expires > s.now {
				q = append(q, candidate{id, r})
			}
			return len(q) < s.limits.PageRows
		})
		if len(q) > 0 {
			queues = append(queues, q)
			seen += len(q)
		}
	}
	// A fixed order of tokens would favour the first ones: the one whose first row was
	// passed least and waits longest begins.
	slices.SortFunc(queues, func(a, b []candidate) int {
		return cmp.Or(cmp.Compare(a[0].row.Pass, b[0].row.Pass), cmp.Compare(a[0].row.Seq, b[0].row.Seq))
	})
	size := 0
	for class := range classes {
		for took := true; took && len(out) < s.limits.PageRows; {
			took = false
			for i, q := range queues {
				if len(q) == 0 || classOf(&q[0].row) != class || len(out) == s.limits.PageRows {
					continue
				}
				if size+int(q[0].row.Size) > s.limits.PageBytes {
					queues[i] = nil // this token's next row is for another page
					continue
				}
				size += int(q[0].row.Size)
				out = append(out, q[0])
				queues[i], took = q[1:], true
			}
		}
	}
	return out
}

// classes of rows, in the order of offering: new, left unacknowledged, in the penalty
// box.
const classes = 3

func classOf(r *row) int {
	switch r.Pass {
	case 0:
		return 0
	case passBoxed:
		return 2
	default:
		return 1
	}
}
