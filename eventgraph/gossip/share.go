package gossip

import "sync/atomic"

// A budget is a number of bytes that all connections share.
type budget struct{ left atomic.Int64 }

func newBudget(n int64) *budget {
	b := &budget{}
	b.left.Store(n)
	return b
}

func (b *budget) take(n int) bool {
	if b.left.Add(-int64(n)) >= 0 {
		return true
	}
	b.give(n)
	return false
}

func (b *budget) give(n int) { b.left.Add(int64(n)) }

// A share is what one connection holds: up to allowance for nothing, the rest out of
// the common budget, so that many connections together hold little, and a quiet one
// finds room whatever the others do. Its owner guards it.
type share struct {
	budget    *budget // nil: there is the allowance alone
	allowance int
	used      int
	pooled    int // of used: taken from budget
}

// take counts n bytes in, if there is room.
func (s *share) take(n int) bool {
	if more := max(s.used+n-s.allowance, 0) - s.pooled; more > 0 {
		if s.budget == nil || !s.budget.take(more) {
			return false
		}
		s.pooled += more
	}
	s.used += n
	return true
}

// give counts n bytes out.
func (s *share) give(n int) {
	s.used -= n
	if back := s.pooled - max(s.used-s.allowance, 0); back > 0 {
		s.pooled -= back
		s.budget.give(back)
	}
}

// open lets s take of b until close. A connection does so when it runs, since only
// then is it certain to end.
func (s *share) open(b *budget) { s.budget = b }

// close gives back what was taken; what is counted in has no meaning any more.
func (s *share) close() {
	if s.budget != nil {
		s.budget.give(s.pooled)
		s.budget, s.pooled = nil, 0
	}
}
