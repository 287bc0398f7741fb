package ircd

import (
	"context"
	"time"

	"hearsay/internal/arrival"
	"hearsay/internal/privmsg"
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
	at, ok = s.cfg.ReadState.Cursors(c.device())[cv.folded]
	return at, ok
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
	if c.gone || !c.tracked() || now.Sub(p.sent) < probeInterval || p.token != "" && now.Sub(p.sent) < probeTimeout {
		return
	}
	upTo := map[*conversation]reach{}
	look := func(cv *conversation) {
		if m := cv.members[c]; m != nil && !m.waiting && m.next > m.proven {
			upTo[cv] = reach{m.next, cv.reached(m.next)}
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
	for cv, r := range c.probe.upTo {
		if m := cv.members[c]; m != nil {
			m.proven = max(m.proven, r.next)
		}
		// An own message may have got its place since.
		if seq := max(r.seq, cv.reached(r.next)); seq > 0 {
			to[cv.folded] = seq
		}
	}
	c.probe.upTo = nil
	if len(to) == 0 {
		return nil
	}
	device := c.device()
	rq.job = func(context.Context) event {
		err := s.cfg.ReadState.Advance(device, to)
		return evAnswer{rq, func() {
			if err != nil { // it will see some lines twice
				s.log.Warn("a read position was not stored", "error", err)
			}
		}}
	}
	return nil
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

// locate gives an own message, which was shown when it was accepted, its place.
func (s *Server) locate(cv *conversation, in *incoming) {
	for i := len(cv.log) - 1; i >= 0; i-- {
		if cv.log[i].id == in.logical {
			cv.log[i].seq = in.seq
			break
		}
	}
	if n := len(cv.log); n > 0 {
		cv.log[n-1].all = max(cv.log[n-1].all, s.settled(cv))
	}
}
