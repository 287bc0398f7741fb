package ircd

import (
	"slices"
	"strconv"

	"hearsay/internal/privmsg"
)

// arrive takes what the feed opened.
func (s *Server) arrive(in incoming) {
	cv := s.convs[privmsg.Fold(in.name)]
	if in.kind == privmsg.Public {
		cv = s.conversation(in.name, false)
	}
	if cv == nil || cv.kind != in.kind || in.seq <= cv.lastSeq {
		return // a key that is gone since, or a log that has it
	}
	cv.lastSeq = in.seq
	if in.own {
		if s.own[in.logical] { // shown when it was accepted
			if !s.settle(cv, &in) {
				s.locate(cv, &in)
			}
			return
		}
		if len(s.accepts) > 0 {
			// It may be that the outbox has not answered yet: then the answer shows it.
			s.held = append(s.held, heldArrival{in, s.ticket})
			return
		}
	}
	s.record(cv, in)
}

// settle gives what was said here before the log was complete its place in it; false if
// it was not.
func (s *Server) settle(cv *conversation, in *incoming) bool {
	i := slices.IndexFunc(cv.held, func(e entry) bool { return e.id == in.logical })
	if i < 0 {
		return false
	}
	e := cv.held[i]
	e.seq = in.seq
	cv.held = slices.Delete(cv.held, i, i+1)
	s.add(cv, e)
	return true
}

// release looks again at arrivals that no accept under way can belong to any more.
func (s *Server) release() {
	kept := s.held[:0]
	for _, h := range s.held {
		if s.underWay(h.ticket) {
			kept = append(kept, h)
			continue
		}
		if cv := s.convs[privmsg.Fold(h.in.name)]; cv != nil && cv.kind == h.in.kind && !s.own[h.in.logical] {
			s.record(cv, h.in)
		}
	}
	clear(s.held[len(kept):])
	s.held = kept
}

// underWay tells whether an accept up to ticket is.
func (s *Server) underWay(ticket int) bool {
	for t := range s.accepts {
		if t <= ticket {
			return true
		}
	}
	return false
}

// record appends an arrival to its conversation.
func (s *Server) record(cv *conversation, in incoming) {
	e := in.entry()
	if in.own {
		s.remember(in.logical)
	}
	s.add(cv, e)
}

// entry is an arrival as it is shown.
func (in *incoming) entry() entry {
	e := entry{
		id: in.logical, seq: in.seq, command: "PRIVMSG", lines: in.lines, time: in.time, arrived: in.arrived, mine: in.own || in.mine,
	}
	if in.notice {
		e.command = "NOTICE"
	}
	if in.kind != privmsg.Contact {
		e.nick = privmsg.CleanNick(in.nick)
	}
	return e
}

// remember notes that an own message was shown.
func (s *Server) remember(id string) {
	if s.own[id] {
		return
	}
	if len(s.ownOrder) >= maxOwn {
		delete(s.own, s.ownOrder[0])
		s.ownOrder = s.ownOrder[1:]
	}
	s.own[id] = true
	s.ownOrder = append(s.ownOrder, id)
}

// show sends an entry to one client, as history in batch or live ("").
func (s *Server) show(c *client, cv *conversation, e *entry, batch string) {
	if e.from == c.serial {
		return // its own words; with echo-message they were the answer to its command
	}
	for _, l := range s.lines(c, cv, e) {
		l.batch = batch
		s.send(c, l)
	}
}

// lines renders an entry for c: nothing, if it is not for c to see.
func (s *Server) lines(c *client, cv *conversation, e *entry) []line {
	source, target := "", cv.name
	switch {
	case cv.isChannel():
		source = s.source(e.nick, e.mine)
	case !e.mine:
		source, target = cv.name+"!"+remoteUser+"@"+remoteHost, c.nick
	case e.from == c.serial || e.asked || c.caps.has(capSelfMessage) || c.caps.has(capEchoMessage):
		source = c.prefix() // what we wrote to a contact, from another client or device
	default:
		return nil // a client that does not expect it would take it for a message to itself
	}
	return split(source, e.command, target, e.id, e)
}

// split cuts an entry's lines so that each fits, and gives each an id.
func split(source, command, target, id string, e *entry) []line {
	var out []line
	for _, text := range e.lines {
		for _, piece := range wrap(text, room(source, command, target)) {
			l := free(source, command, target, piece)
			l.time, l.msgid, l.tags = e.time, id, e.tags
			if n := len(out); n > 0 && id != "" {
				l.msgid = id + "-" + strconv.Itoa(n+1) // ids are unique
			}
			out = append(out, l)
		}
	}
	return out
}

// source is the prefix of somebody who speaks in a channel. Nobody on the network can
// look like somebody here.
func (s *Server) source(nick string, mine bool) string {
	if !mine {
		return s.remoteNick(nick) + "!" + remoteUser + "@" + remoteHost
	}
	if c := s.nicks[privmsg.Fold(nick)]; c != nil && c.nick == nick {
		return c.prefix()
	}
	return nick + "!~user@" + localHost // was connected when it was said
}

// remoteSuffix marks a nick of the network that is one of ours too.
const remoteSuffix = "|net"

// remoteNick is a clean nick of the network as it is shown: with a suffix if it is that
// of a local client, a contact or a service.
func (s *Server) remoteNick(nick string) string {
	shown := nick
	for n := 1; s.localNick(privmsg.Fold(shown)); n++ {
		suffix := remoteSuffix
		if n > 1 {
			suffix += strconv.Itoa(n)
		}
		shown = nick[:min(len(nick), privmsg.MaxNick-len(suffix))] + suffix
	}
	return shown
}

func (s *Server) localNick(folded string) bool {
	return s.nicks[folded] != nil || s.isReserved(folded)
}
