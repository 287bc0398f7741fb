package ircd

import (
	"slices"
	"strconv"
)

// enter makes c a member of cv, from the past that c may see on.
func (s *Server) enter(c *client, cv *conversation) {
	m := &member{joined: s.cfg.Now()}
	cv.members[c] = m
	if cv.isChannel() {
		c.joined[cv] = true
	}
	if !s.complete(cv) {
		m.waiting = true
		return
	}
	s.place(c, cv, m, cv.end())
}

// leave takes c out of cv.
func (s *Server) leave(c *client, cv *conversation) {
	delete(cv.members, c)
	delete(c.joined, cv)
	if i := slices.Index(c.behind, cv); i >= 0 {
		c.behind = slices.Delete(c.behind, i, i+1)
	}
}

// placeLate is place for a member that joined before the log was complete.
func (s *Server) placeLate(c *client, cv *conversation, m *member) {
	live := cv.base
	for live < cv.end() && cv.log[live-cv.base].arrived.Before(m.joined) {
		live++
	}
	s.place(c, cv, m, live)
}

// place puts m where its history begins: after what the client's device has read, bounded by number
// and, where that is not known, by age (T28); and where it ends: at live.
func (s *Server) place(c *client, cv *conversation, m *member, live int) {
	m.waiting, m.live = false, live
	m.next, m.older = m.live, older{asked: m.older.asked}
	read, known := s.cursor(c, cv)
	proven := cv.proven[c.device()]
	m.known = known || proven > 0
	wanted := !c.caps.has(capNoHistory|capChathistory) && !s.quiet(c)
	if wanted {
		horizon := s.cfg.Now().Add(-s.cfg.HistoryAge)
		there := proven > cv.base // what comes before was read
		for m.next > max(cv.base, proven) && m.live-m.next < s.cfg.HistoryLines {
			e := &cv.log[m.next-1-cv.base]
			if known && e.seq != 0 && e.seq <= read {
				there = true
				break
			}
			if !m.known && e.arrived.Before(horizon) {
				break
			}
			m.next--
		}
		if known && !there {
			s.beginOlder(c, cv, m, read, s.cfg.HistoryLines-(m.live-m.next))
		}
	}
	m.proven = m.next
	s.follow(c, cv, m)
}

// follow has c sent what it is behind with.
func (s *Server) follow(c *client, cv *conversation, m *member) {
	if (m.next < cv.end() || len(m.older.page) > 0) && !slices.Contains(c.behind, cv) {
		c.behind = append(c.behind, cv)
	}
}

// pump sends c what it is behind with, page by page, while its queue is short. It is
// called again when the queue has drained. A conversation that c has caught up with
// goes live: from then on add shows it.
func (s *Server) pump(c *client) {
	for len(c.behind) > 0 && !c.gone && c.queue.size() < lowWater {
		cv := c.behind[0]
		m := cv.members[c]
		if m == nil || m.waiting || m.next >= cv.end() && len(m.older.page) == 0 {
			c.behind = c.behind[1:]
			continue
		}
		s.page(c, cv, m)
	}
	if len(c.behind) == 0 {
		c.behind = nil
	}
}

// page sends the next page: history in a batch of type chathistory where the client
// knows batches, then what is new.
func (s *Server) page(c *client, cv *conversation, m *member) {
	ref, target := "", cv.name
	for range historyPage {
		old := len(m.older.page) > 0
		if !old && m.next >= cv.end() || m.waiting || c.gone {
			break
		}
		history := old || m.next < m.live
		if c.caps.has(capBatch) && ref == "" && history {
			ref = s.newBatch()
			s.send(c, plain(s.cfg.ServerName, "BATCH", "+"+ref, "chathistory", target))
		}
		if ref != "" && !history {
			break
		}
		if old {
			s.pageOlder(c, cv, m, ref)
			continue
		}
		e := &cv.log[m.next-cv.base]
		m.next++
		if m.known && m.next <= m.live && e.by != "" && e.by == c.device() {
			continue // it showed its own words when they were typed
		}
		s.show(c, cv, e, ref)
	}
	if ref != "" {
		s.send(c, plain(s.cfg.ServerName, "BATCH", "-"+ref))
	}
}

// pageOlder sends the next older message, and has more of them read when there are.
func (s *Server) pageOlder(c *client, cv *conversation, m *member, ref string) {
	o := &m.older
	s.show(c, cv, &o.page[0], ref)
	o.shown = o.page[0].seq
	if o.page = o.page[1:]; len(o.page) == 0 && o.left > 0 {
		s.readOlder(c, cv, m, o.left)
	}
}

// catchUp: the logs hold everything that was stored. Who waited for them gets history.
func (s *Server) catchUp() {
	s.caughtUp = true
	for _, cv := range s.convs {
		cv.rescan = false
		held := cv.held
		cv.held = nil
		for _, e := range held {
			s.add(cv, e)
		}
		for c, m := range cv.members {
			if m.waiting {
				s.placeLate(c, cv, m)
			}
		}
	}
	for c := range s.clients {
		s.pump(c)
	}
}

// newBatch names a batch.
func (s *Server) newBatch() string {
	s.batch++
	return strconv.Itoa(s.batch)
}
