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

// registerBytes bounds what one check-in writes before its page, as the store counts, so
// that its commit stays below what a store takes: room for MaxTokens new registrations.
// What is left out is for the next check-in.
const (
	registerBytes = 950_000
	expiryCost    = entryLeast // an entry of the index of registrations
)

// checkIn registers or refreshes the tokens and answers the client's live lease for
// this set, or makes one over a fair page of what is available (MB-10, MB-11,
// MB-36). It deletes nothing. A nil page is a miss, which looks like a refusal.
func (s *state) checkIn(seal *sealer, random io.Reader, c client, tokens []mailbox.Token) *mailbox.Page {
	if len(tokens) == 0 || len(tokens) > s.limits.RequestTokens {
		return nil
	}
	s.clearAway(c)
	wanted := indexes(seal, tokens)
	mine, name := s.register(c, wanted), nameOf(wanted)
	if page := s.again(seal, c, name); page != nil {
		return page
	}
	return s.newLease(seal, random, c, name, mine)
}

// clearAway ends the expired leases of c, and some of others.
func (s *state) clearAway(c client) {
	for _, id := range slices.Clone(s.account(c).Leases) {
		if l := s.lease(id); l != nil && s.over(l.Expires, profile.LeaseTTL) && s.mayWork() {
			s.endLease(id)
		}
	}
	s.sweepLeases(sweepPerCheckIn)
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
// (MB-07), and returns those that are c's (MB-29).
func (s *state) register(c client, set []index) (mine []index) {
	const day = 24 * 60 * 60
	a := s.account(c)
	ttl := wholeSeconds(s.limits.TokenTTL)
	for _, ix := range set {
		t, room := s.token(ix), registerBytes-s.written
		switch {
		case t.Expires > s.now && t.Client != c:
			continue // another client's until it expires
		case t.Expires > s.now:
			if s.now-min(t.Refreshed, s.now) >= min(day, max(ttl/2, 1)) && room >= tokenCost+2*expiryCost {
				s.del(key(prefixTokenExp, be64(t.Expires), ix[:]))
				t.Refreshed, t.Expires = s.now, s.now+ttl
				s.put(key(prefixTokenExp, be64(t.Expires), ix[:]), nil)
				s.setToken(ix)
			}
		default:
			if room < tokenCost+2*expiryCost+accountCost {
				continue
			}
			if t.Expires != 0 { // expired, not yet swept
				s.unregister(ix, t)
			}
			if a.Tokens >= uint64(s.limits.ClientTokens) {
				continue
			}
			if s.totals.Tokens >= uint64(s.limits.Registrations) && s.sweepTokens(1) == 0 {
				continue
			}
			t.Client, t.Refreshed, t.Expires = c, s.now, s.now+ttl
			s.put(key(prefixTokenExp, be64(t.Expires), ix[:]), nil)
			s.setToken(ix)
			s.totals.Tokens++
			a.Tokens++
			s.setAccount(c)
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
	s.setAccount(t.Client)
	t.Expires, t.Refreshed = 0, 0
	s.setToken(ix)
}

// again returns the live, unacknowledged lease of the set, with the rows that still
// are: one row's expiry does not void its siblings' lease (MB-38).
func (s *state) again(seal *sealer, c client, name setID) *mailbox.Page {
	id := s.bytes(key(prefixLeaseSet, c[:], name[:]))
	if id == nil {
		return nil
	}
	page := &mailbox.Page{Serving: true, LeaseID: mailbox.LeaseID(id)}
	l := s.lease(page.LeaseID)
	if l == nil || s.over(l.Expires, profile.LeaseTTL) || l.Acked {
		return nil
	}
	page.ExpiresAt = l.Expires
	for i := range l.Rows {
		if w := &l.Rows[i]; !w.Gone && w.Expires > s.now {
			s.appendRow(page, seal, w, s.sealedOf(w))
		}
	}
	return page
}

// appendRow opens a row into a page. A row that does not open is left out: it stays
// until it expires (MB-14).
func (s *state) appendRow(page *mailbox.Page, seal *sealer, r *row, sealed []byte) bool {
	plain, err := seal.open(r.ID, r.Index, sealed)
	if err != nil || s.err != nil {
		return false
	}
	page.Rows = append(page.Rows, mailbox.Row{RowID: r.ID, Envelope: plain})
	return true
}

// open is appendRow for a row that was picked. One that does not open is moved back, not to
// be in the way again.
func (s *state) open(page *mailbox.Page, seal *sealer, p *candidate) bool {
	if p.sealed == nil {
		p.sealed = s.sealedOf(&p.row)
	}
	if s.appendRow(page, seal, &p.row, p.sealed) {
		return true
	}
	if s.written < registerBytes {
		s.moveBack(p.row.Index, p.row.Seq)
	}
	return false
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
	id, ok := s.freshLease(random)
	if !ok {
		return nil
	}
	page := &mailbox.Page{Serving: true, LeaseID: id, ExpiresAt: s.now + wholeSeconds(s.limits.LeaseTTL)}
	l := lease{Client: c, Set: name, Expires: page.ExpiresAt, Rows: make([]row, 0, len(picked))}
	touched := map[index]bool{}
	for i := range picked {
		p := &picked[i]
		if !s.open(page, seal, p) {
			continue
		}
		l.Rows = append(l.Rows, p.row)
		if ix := p.row.Index; !touched[ix] {
			touched[ix] = true
			l.Tokens = append(l.Tokens, ix)
			t := s.token(ix)
			t.Leases = append(t.Leases, id)
			s.setToken(ix)
		}
	}
	if len(l.Rows) == 0 || s.err != nil {
		return nil
	}
	s.addLease(id, &l)
	s.put(key(prefixLeaseSet, c[:], name[:]), id[:])
	s.put(key(prefixLeaseExp, be64(l.Expires), id[:]), nil)
	a.Leases = append(a.Leases, id)
	s.setAccount(c)
	s.totals.Leases++
	return page
}

// candidate is a row that may come into a page.
type candidate struct {
	row    row
	pass   uint8
	sealed []byte // nil: not read yet
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
	spare := pickFactor * s.limits.PageBytes
	for seen := 0; len(mine) > 0 && seen < pickFactor*s.limits.PageRows; mine = mine[1:] {
		if q := s.available(mine[0], &spare); len(q) > 0 {
			queues = append(queues, q)
			seen += len(q)
		}
	}
	// A fixed order of tokens would favour the first ones: the one whose first row was
	// passed least and waits longest begins.
	slices.SortFunc(queues, func(a, b []candidate) int {
		return cmp.Or(cmp.Compare(a[0].pass, b[0].pass), cmp.Compare(a[0].row.Seq, b[0].row.Seq))
	})
	size := 0
	for class := range classes {
		for took := true; took && len(out) < s.limits.PageRows; {
			took = false
			for i, q := range queues {
				if len(q) == 0 || classOf(q[0].pass) != class || len(out) == s.limits.PageRows {
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

// available are the rows of a token that a page can hold, at most a page of them, in the
// order of offering. Where all rows of the token are no more than a page they are read
// with it, as long as there is spare memory for it; else only the keys are.
func (s *state) available(ix index, spare *int) (q []candidate) {
	t := s.token(ix)
	if t.Rows == 0 || len(t.Leases) >= s.limits.TokenLeases {
		return nil
	}
	held, back, fresh := s.heldOf(ix), s.passesOf(ix), 0
	whole := t.Bytes <= uint64(s.limits.PageBytes) && t.Bytes <= uint64(max(*spare, 0))
	q = make([]candidate, 0, min(t.Rows, uint64(s.limits.PageRows)))
	s.rowsOf(ix, !whole, func(r *row, sealed []byte) bool {
		if held[r.Seq] || r.Expires <= s.now {
			return true
		}
		c := candidate{row: *r, pass: back.of(r.Seq)}
		if whole {
			c.sealed = slices.Clone(sealed)
			*spare -= len(sealed)
		}
		q = append(q, c)
		if c.pass == 0 {
			fresh++
		}
		return fresh < s.limits.PageRows
	})
	if t.Passed > 0 {
		slices.SortStableFunc(q, func(a, b candidate) int { return cmp.Compare(a.pass, b.pass) })
	}
	return q[:min(len(q), s.limits.PageRows)]
}

// classes of rows, in the order of offering: new, left unacknowledged, in the penalty
// box.
const classes = 3

func classOf(pass uint8) int {
	switch pass {
	case 0:
		return 0
	case passBoxed:
		return 2
	default:
		return 1
	}
}
