package relay

import (
	"slices"

	"hearsay/mailbox"
)

// cache holds what a transaction read of the records that many rows share, so that each is
// read and written once, however many rows of it change.
type cache struct {
	tokens   map[index]*cached[token]
	passes   map[index]*cached[passes]
	accounts map[client]*cached[account]
	leases   map[mailbox.LeaseID]*cached[lease]
}

type cached[T any] struct {
	v     T
	there bool // in the store
	keep  bool // is to be in the store: only of leases
	dirty bool
}

// lookup reads a record once.
func lookup[K comparable, T any, R interface {
	*T
	record
}](s *state, m *map[K]*cached[T], id K, k []byte, what string) *cached[T] {
	if c := (*m)[id]; c != nil {
		return c
	}
	c := new(cached[T])
	c.there = s.get(k, R(&c.v), what)
	c.keep = c.there
	if *m == nil {
		*m = map[K]*cached[T]{}
	}
	(*m)[id] = c
	return c
}

// What the writes of shared records count for before they are encoded, in bytes as the
// store counts: at most, but for passes and leases, which are counted by what is in them.
const (
	tokenCost   = 170
	emptyCost   = 125 // of a token without rows and leases
	accountCost = 170
)

func (s *state) touch(dirty *bool, cost int) {
	if !*dirty {
		*dirty = true
		s.written += cost
	}
}

func (s *state) tokenEntry(ix index) *cached[token] {
	return lookup(s, &s.cache.tokens, ix, key(prefixToken, ix[:]), "token")
}

// token and account return a zero record where there is none. What is changed in it is
// written with setToken and setAccount.
func (s *state) token(ix index) *token { return &s.tokenEntry(ix).v }

func (s *state) setToken(ix index) {
	c := s.tokenEntry(ix)
	if c.v.Rows == 0 && len(c.v.Leases) == 0 {
		s.touch(&c.dirty, emptyCost)
		return
	}
	s.touch(&c.dirty, tokenCost)
}

func (s *state) accountEntry(c client) *cached[account] {
	return lookup(s, &s.cache.accounts, c, key(prefixClient, c[:]), "account")
}

func (s *state) account(c client) *account { return &s.accountEntry(c).v }

func (s *state) setAccount(c client) { s.touch(&s.accountEntry(c).dirty, accountCost) }

func (s *state) leaseEntry(id mailbox.LeaseID) *cached[lease] {
	return lookup(s, &s.cache.leases, id, key(prefixLease, id[:]), "lease")
}

// lease returns nil where there is none.
func (s *state) lease(id mailbox.LeaseID) *lease {
	if c := s.leaseEntry(id); c.keep {
		return &c.v
	}
	return nil
}

// setLease writes a lease that lease returned; addLease a new one; delLease removes one.
func (s *state) setLease(id mailbox.LeaseID) {
	c := s.leaseEntry(id)
	s.touch(&c.dirty, 150+32*len(c.v.Tokens)+96*len(c.v.Rows))
}

func (s *state) addLease(id mailbox.LeaseID, l *lease) {
	c := s.leaseEntry(id)
	c.v, c.keep = *l, true
	s.setLease(id)
}

func (s *state) delLease(id mailbox.LeaseID) {
	c := s.leaseEntry(id)
	c.keep = false
	s.touch(&c.dirty, entryLeast)
}

// passesOf returns the rows of a token that came back; it reads nothing if there is none.
func (s *state) passesOf(ix index) *passes {
	if s.token(ix).Passed == 0 && s.cache.passes[ix] == nil {
		return new(passes)
	}
	return &s.passesEntry(ix).v
}

func (s *state) passesEntry(ix index) *cached[passes] {
	return lookup(s, &s.cache.passes, ix, key(prefixPasses, ix[:]), "passes")
}

// of is the pass of a row: 0 if it did not come back.
func (v *passes) of(seq uint64) uint8 {
	if at, ok := v.find(seq); ok {
		return (*v)[at].Pass
	}
	return 0
}

func (v *passes) find(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(*v, seq, func(p pass, seq uint64) int {
		switch {
		case p.Seq < seq:
			return -1
		case p.Seq > seq:
			return 1
		}
		return 0
	})
}

// setPass notes the pass of a row; 0 forgets it.
func (s *state) setPass(ix index, seq uint64, to uint8) {
	t := s.token(ix)
	if to == 0 && t.Passed == 0 {
		return
	}
	c := s.passesEntry(ix)
	at, there := c.v.find(seq)
	switch {
	case !there && to == 0:
		return
	case !there:
		c.v = slices.Insert(c.v, at, pass{seq, to})
	default:
		if c.v[at].Pass == passBoxed {
			if t.Boxed == 0 {
				s.fail(corrupt("counter of the penalty box"))
				return
			}
			t.Boxed--
		}
		if c.v[at].Pass = to; to == 0 {
			c.v = slices.Delete(c.v, at, at+1)
		}
	}
	if to == passBoxed {
		t.Boxed++
	}
	t.Passed = uint64(len(c.v))
	s.touch(&c.dirty, 90+7*len(c.v))
	s.setToken(ix)
}

// flush writes the shared records that changed. One that says nothing any more is removed.
func (s *state) flush() {
	for id, c := range s.cache.leases {
		writeBack(s, c, key(prefixLease, id[:]), &c.v, c.keep)
	}
	for ix, c := range s.cache.passes {
		writeBack(s, c, key(prefixPasses, ix[:]), &c.v, len(c.v) > 0)
	}
	for ix, c := range s.cache.tokens {
		writeBack(s, c, key(prefixToken, ix[:]), &c.v, c.v.Expires != 0 || c.v.Rows != 0 || len(c.v.Leases) != 0)
	}
	for id, c := range s.cache.accounts {
		writeBack(s, c, key(prefixClient, id[:]), &c.v, c.v.Tokens != 0 || c.v.Rows != 0 || len(c.v.Leases) != 0)
	}
}

func writeBack[T any](s *state, c *cached[T], k []byte, v record, keep bool) {
	switch {
	case !c.dirty:
	case keep:
		s.set(k, v)
	case c.there:
		s.del(k)
	}
}
