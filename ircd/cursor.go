package ircd

import (
	"context"
	"encoding/hex"
	"slices"
	"time"

	"hearsay/internal/arrival"
	"hearsay/internal/privmsg"
	"hearsay/internal/readstate"
)

// A client that names its device has a cursor in each conversation, kept in
// Config.ReadState: what it proved to have read is not shown to it again when it comes
// back. The proof is a PONG to a token that was sent after the lines: when it comes,
// the client has taken them in (decision 0171).

// tracked tells whether c has cursors: a client that fetches its own history, or wants
// none, does not need them.
func (c *client) tracked() bool {
	return c.registered && c.who.device != "" && !c.caps.has(capNoHistory|capChathistory)
}

// device is c's name in the ReadState.
func (c *client) device() string {
	if c.who.device == "" {
		return ""
	}
	return c.who.name + "@" + c.who.device
}

// cursor is up to where c has read cv; ok is false where that is not known.
func (s *Server) cursor(c *client, cv *conversation) (at arrival.Seq, ok bool) {
	if c.who.device == "" {
		return 0, false
	}
	at, ok = s.cfg.ReadState.Cursors(c.device())[s.readKey(cv.name)]
	return at, ok
}

// readKey is what a conversation is called in the ReadState: by its key, so that neither a
// cursor nor a marker outlives it under a name that means somebody else then. What is no
// conversation is called by its name, which no tag can be.
func (s *Server) readKey(target string) string {
	if _, tag, ok := s.past(target); ok {
		return hex.EncodeToString(tag[:])
	}
	return "-" + privmsg.Fold(target)
}

// quiet tells whether c wants no history unasked.
func (s *Server) quiet(c *client) bool {
	if c.who.device == "" {
		return c.quiet
	}
	return s.cfg.ReadState.Quiet(c.device())
}

// A probe is a token on its way to a client, with what was sent before it.
type probe struct {
	token string
	sent  time.Time // monotonic
	upTo  map[*conversation]reach
}

// A reach is how far into a conversation's log a client was sent.
type reach struct {
	next int         // index
	seq  arrival.Seq // all arrivals up to here are before it
}

// probe asks c whether it has read what was sent since the last proof.
func (s *Server) probe(c *client, now time.Time) {
	p := &c.probe
	if c.gone || !c.tracked() || s.quiet(c) || now.Sub(p.sent) < probeInterval || p.token != "" && now.Sub(p.sent) < probeTimeout {
		return
	}
	upTo := map[*conversation]reach{}
	look := func(cv *conversation) {
		m := cv.members[c]
		if m == nil || m.waiting {
			return
		}
		seq := max(cv.reached(m.next), m.older.shown)
		if len(m.older.page) > 0 {
			seq = m.older.shown // what is in memory comes after the rest of it
		}
		if m.next > m.proven || m.older.shown > m.older.proven {
			upTo[cv] = reach{m.next, seq}
		}
	}
	for cv := range c.joined {
		look(cv)
	}
	for _, ct := range s.settings.Contacts {
		look(s.convs[privmsg.Fold(ct.Label)])
	}
	if len(upTo) == 0 {
		return
	}
	c.probes++
	*p = probe{"read-" + itoa(c.probes), now, upTo}
	s.send(c, line{command: "PING", params: []string{p.token}, colon: true})
}

// reached is the place up to which all arrivals are in the log before next; 0 where that
// is not known any more.
func (cv *conversation) reached(next int) arrival.Seq {
	if next <= cv.base || next > cv.end() {
		return 0
	}
	return cv.log[next-1-cv.base].all
}

// cmdPong is PONG. That the line came is a sign of life; the token of a probe moves
// cursors.
func cmdPong(s *Server, rq *request) error {
	c := rq.c
	if n := len(rq.msg.Params); n == 0 || c.probe.token == "" || rq.msg.Params[n-1] != c.probe.token {
		return nil
	}
	c.probe.token = ""
	to := map[string]arrival.Seq{}
	device := c.device()
	for cv, r := range c.probe.upTo {
		if m := cv.members[c]; m != nil {
			m.proven, m.older.proven = max(m.proven, r.next), max(m.older.proven, r.seq)
		}
		if s.convs[cv.folded] != cv {
			continue // its key is gone, and what was read with it
		}
		cv.prove(device, r.next)
		// An own message may have got its place since.
		seq := max(r.seq, cv.reached(r.next))
		if seq > 0 {
			to[s.readKey(cv.name)] = seq
		}
		s.proveLater(unproven{device, cv, r.next, seq})
	}
	c.probe.upTo = nil
	if len(to) == 0 {
		return nil
	}
	rq.job = func(context.Context) event {
		s.advance(device, to)
		return evAnswer{rq, func() {}}
	}
	return nil
}

// advance stores cursors. It waits for a disk.
func (s *Server) advance(device string, to map[string]arrival.Seq) {
	if err := s.cfg.ReadState.Advance(device, to); err != nil { // it will see some lines twice
		s.log.Warn("a read position was not stored", "error", err)
	}
}

// prove notes that a device has read everything before an index. That is kept while the log
// is: a cursor stops before a message whose place is not known yet.
func (cv *conversation) prove(device string, next int) {
	if _, known := cv.proven[device]; cv.proven == nil || !known && len(cv.proven) >= readstate.MaxDevices {
		cv.proven = map[string]int{}
	}
	cv.proven[device] = max(cv.proven[device], next)
}

// An unproven is a proof that is ahead of its cursor: own messages were shown before their places were
// known. It is stored when they are, whether the client is still there or not.
type unproven struct {
	device string
	cv     *conversation
	next   int
	at     arrival.Seq // what was stored
}

// proveLater remembers a proof that is ahead.
func (s *Server) proveLater(u unproven) {
	if u.cv.placed(u.next) {
		return
	}
	if len(s.unproven) >= maxUnproven {
		s.unproven = slices.Delete(s.unproven, 0, 1)
	}
	s.unproven = append(s.unproven, u)
}

// placed tells whether the places of all entries before an index are known.
func (cv *conversation) placed(next int) bool {
	for i := min(next, cv.end()) - 1; i >= cv.base; i-- {
		if cv.log[i-cv.base].seq == 0 {
			return false
		}
	}
	return true
}

// proveNow stores the proofs that the places of cv's messages were missing for.
func (s *Server) proveNow(cv *conversation) {
	s.unproven = slices.DeleteFunc(s.unproven, func(u unproven) bool {
		if s.convs[u.cv.folded] != u.cv {
			return true
		}
		if u.cv != cv || !cv.placed(u.next) {
			return false
		}
		if at := cv.reached(u.next); at > u.at {
			key := s.readKey(cv.name)
			// The loop waits for no disk.
			s.wg.Go(func() { s.advance(u.device, map[string]arrival.Seq{key: at}) })
		}
		return true
	})
}

// settled is the place up to which all of cv's arrivals are in its log.
func (s *Server) settled(cv *conversation) arrival.Seq {
	at := cv.lastSeq
	for i := range s.held {
		if h := &s.held[i]; s.convs[privmsg.Fold(h.in.name)] == cv && h.in.seq <= at {
			at = h.in.seq - 1
		}
	}
	return at
}

// locate gives an own message, which was shown when it was accepted, its place, and tells how far
// each entry reaches now.
func (s *Server) locate(cv *conversation, in *incoming) {
	for i := len(cv.log) - 1; i >= 0; i-- {
		if cv.log[i].id == in.logical {
			cv.log[i].seq = in.seq
			break
		}
	}
	at := s.settled(cv)
	for i := len(cv.log) - 1; i >= 0 && at > cv.log[i].all; i-- {
		e := &cv.log[i]
		if e.all = at; e.seq != 0 {
			at = min(at, e.seq-1)
		}
	}
	s.proveNow(cv)
}
