package ircd

import (
	"hearsay/internal/arrival"
	"hearsay/internal/privmsg"
)

// A device that was away for longer than memory reaches back goes on where it has read to all the
// same: what is between comes from the Log, before the rest, a page at a time.

// An older is what a member gets from the Log before what is in memory.
type older struct {
	page   []entry     // the next ones
	shown  arrival.Seq // up to here it was sent
	proven arrival.Seq // up to here it was read
	last   arrival.Seq // where memory begins
	left   int         // how many come after page
	asked  int         // counts readings: an answer to an earlier one is of no use
}

// beginOlder reads, for a member that has read up to read, at most limit of the messages before
// those in memory.
func (s *Server) beginOlder(c *client, cv *conversation, m *member, read arrival.Seq, limit int) {
	last := s.feedAt
	for i := range s.held {
		if h := &s.held[i].in; s.convs[privmsg.Fold(h.name)] == cv {
			last = min(last, h.seq-1)
		}
	}
	first := arrival.Seq(0)
	for i := range cv.log {
		if seq := cv.log[i].seq; seq != 0 && (first == 0 || seq < first) {
			first = seq
		}
	}
	if first != 0 {
		last = first - 1
	}
	if limit <= 0 || last <= read {
		return
	}
	m.older.shown, m.older.proven, m.older.last = read, read, last
	s.readOlder(c, cv, m, limit)
}

// readOlder reads the next page. The member waits meanwhile: what comes new is shown after it.
func (s *Server) readOlder(c *client, cv *conversation, m *member, left int) {
	_, tag, ok := s.past(cv.name)
	if !ok {
		return
	}
	m.waiting = true
	m.older.asked++
	asked, ring := m.older.asked, s.ring
	span := arrival.Span{After: arrival.Ref{Seq: m.older.shown}, Newest: true, Limit: left}
	p := pager{s.cfg.Log, tag, m.older.last}
	s.wg.Go(func() {
		select {
		case s.reading <- struct{}{}:
		case <-s.done:
			return
		}
		defer func() { <-s.reading }()
		ev := evOlder{c: c, cv: cv, m: m, asked: asked}
		marks, err := p.page(span)
		f := feed{s: s, ring: ring}
		for i := 0; i < min(len(marks), historyPage) && err == nil; i++ {
			var e entry
			var ok bool
			if e, ok, err = f.read(marks[i].Seq); ok {
				ev.page = append(ev.page, e)
			}
			ev.left = len(marks) - i - 1
		}
		if err != nil {
			s.log.Error("history cannot be read", "error", err)
		}
		s.post(ev)
	})
}

// olderRead takes what readOlder read, unless the member was placed anew or is gone.
func (s *Server) olderRead(ev evOlder) {
	m := ev.m
	if s.convs[ev.cv.folded] != ev.cv || ev.cv.members[ev.c] != m || m.older.asked != ev.asked || !s.complete(ev.cv) {
		return
	}
	m.waiting, m.older.page, m.older.left = false, ev.page, ev.left
	if len(ev.page) == 0 {
		m.older.left = 0 // pruned since, or unreadable
	}
	s.follow(ev.c, ev.cv, m)
	s.pump(ev.c)
}
