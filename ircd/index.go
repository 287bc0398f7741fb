package ircd

import (
	"cmp"
	"slices"
	"time"

	"hearsay/internal/arrival"
)

// A mark is what is known of a message without reading it: where it is in the Log, and
// the time that it is shown with, in ms.
//
// A conversation's index has the marks of all its messages that the feed has seen, in
// order of arrival. Its elements never change: whoever has the slice may read it.
type mark struct {
	seq  arrival.Seq
	time int64
}

// note adds m to cv's index. When there are too many marks, public channels that nobody
// here has asked for are forgotten first, then the longest index is halved.
func (s *Server) note(cv *conversation, m mark) {
	cv.index = append(cv.index, m)
	for s.marks++; s.marks > maxMarks; {
		if q := s.quietest(); q != nil && q != cv {
			s.forget(q)
			continue
		}
		longest := cv
		for _, o := range s.convs {
			if len(o.index) > len(longest.index) {
				longest = o
			}
		}
		n := (len(longest.index) + 1) / 2
		longest.index = slices.Clone(longest.index[n:]) // lets the old one go
		s.marks -= n
	}
}

// A waiter is a request that waits for the feed.
type waiter struct {
	at   arrival.Seq
	done chan struct{} // closed when the feed is there
}

// readTo notes how far the feed is.
func (s *Server) readTo(at arrival.Seq) {
	s.feedAt = at
	s.readers = slices.DeleteFunc(s.readers, func(w waiter) bool {
		if w.at > at {
			return false
		}
		close(w.done)
		return true
	})
}

// A side is which end of a span a page is taken from.
type side int

const (
	oldest side = iota
	newest
)

// A span is the messages between two references, neither of them included.
type span struct {
	after, before ref
	from          side
	limit         int
}

// A ref is a message reference: a place in the Log or a moment. The zero ref is no bound.
type ref struct {
	seq  arrival.Seq
	time int64 // ms; only where timed is set
	id   string
	// timed: by the time that messages are shown with, not by their place.
	timed bool
}

func (r ref) isZero() bool { return r == ref{} }

// compare tells whether m is before (-1), at (0) or after (1) r.
func (r ref) compare(m mark) int {
	if r.timed {
		return cmp.Compare(m.time, r.time)
	}
	return cmp.Compare(m.seq, r.seq)
}

// page selects at most limit marks of the index. Which ones is decided in the order that
// the references are in, so that paging by time comes to an end and leaves nothing out;
// they are given in order of arrival (decision 0170).
func (sp span) page(index []mark) []mark {
	if !sp.after.isZero() && !sp.after.timed { // the index is in this order
		n, _ := slices.BinarySearchFunc(index, sp.after.seq+1, bySeq)
		index = index[n:]
	}
	if !sp.before.isZero() && !sp.before.timed {
		n, _ := slices.BinarySearchFunc(index, sp.before.seq, bySeq)
		index = index[:n]
	}
	in := index
	if sp.after.timed || sp.before.timed {
		in = nil
		for _, m := range index {
			if (!sp.after.timed || sp.after.compare(m) > 0) && (!sp.before.timed || sp.before.compare(m) < 0) {
				in = append(in, m)
			}
		}
	}
	timed := sp.after.timed || sp.before.timed
	if timed && len(in) > sp.limit {
		slices.SortStableFunc(in, func(a, b mark) int { return cmp.Compare(a.time, b.time) })
	}
	if n := len(in) - sp.limit; n > 0 && sp.from == newest {
		in = in[n:]
	} else if n > 0 {
		in = in[:sp.limit]
	}
	if timed {
		return inOrder(in)
	}
	return slices.Clone(in) // the index is not the caller's
}

func bySeq(m mark, seq arrival.Seq) int { return cmp.Compare(m.seq, seq) }

// around selects at most limit marks with r in their middle.
func around(index []mark, r ref, limit int) []mark {
	at := mark{}
	found := false
	for _, m := range index {
		if r.compare(m) == 0 && !found {
			at, found = m, true
		}
	}
	if !found {
		older := span{before: r, from: newest, limit: limit / 2}.page(index)
		return inOrder(append(older, span{after: r, from: oldest, limit: limit - len(older)}.page(index)...))
	}
	mid := r
	if !r.timed {
		mid.seq = at.seq
	}
	rest := limit - 1
	older := span{before: mid, from: newest, limit: rest / 2}.page(index)
	newer := span{after: mid, from: oldest, limit: rest - len(older)}.page(index)
	return inOrder(append(append(older, at), newer...))
}

func inOrder(marks []mark) []mark {
	slices.SortFunc(marks, func(a, b mark) int { return cmp.Compare(a.seq, b.seq) })
	return marks
}

// newestTime is the time of the newest message, by its clock.
func (cv *conversation) newestTime() (at time.Time, ok bool) {
	var ms int64
	for _, m := range cv.index {
		ms = max(ms, m.time)
	}
	return time.UnixMilli(ms).UTC(), len(cv.index) > 0
}
