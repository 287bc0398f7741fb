package ircd

import (
	"strings"

	"hearsay/internal/privmsg"
)

// What clients of this daemon tell each other about themselves. The network has no
// presence: nothing here leaves the daemon.

// cmdAway is AWAY. Who shares a channel and negotiated away-notify is told.
func cmdAway(s *Server, rq *request) error {
	c := rq.c
	c.away = cutUTF8(rq.param(0), maxAway)
	if c.away == "" {
		rq.reply(rplUnAway, "You are no longer marked as being away")
	} else {
		rq.reply(rplNowAway, "You have been marked as being away")
	}
	l := awayLine(c)
	for peer := range s.peersOf(c) {
		if peer.caps.has(capAwayNotify) {
			s.send(peer, l)
		}
	}
	return nil
}

func awayLine(c *client) line {
	if c.away == "" {
		return plain(c.prefix(), "AWAY")
	}
	return free(c.prefix(), "AWAY", c.away)
}

// cmdSetname is SETNAME (IRCv3 setname).
func cmdSetname(s *Server, rq *request) error {
	c, name := rq.c, rq.param(0)
	if strings.TrimSpace(name) == "" || len(name) > maxReason {
		if c.caps.has(capSetname) { // the specification of setname asks for no other capability
			rq.send(free(s.cfg.ServerName, "FAIL", "SETNAME", "INVALID_REALNAME", "Realname is not valid"))
			return nil
		}
		rq.fail("INVALID_REALNAME", nil, "Realname is not valid")
		return nil
	}
	c.realname = name
	l := free(c.prefix(), "SETNAME", name)
	if c.caps.has(capSetname) {
		rq.send(l)
	}
	for peer := range s.peersOf(c) {
		if peer.caps.has(capSetname) {
			s.send(peer, l)
		}
	}
	return nil
}

// cmdUserhost is USERHOST.
func cmdUserhost(s *Server, rq *request) error {
	var all []string
	for i, nick := range rq.msg.Params {
		if i == 5 { // RFC 2812
			break
		}
		if c := s.nicks[privmsg.Fold(nick)]; c != nil {
			here := "+"
			if c.away != "" {
				here = "-"
			}
			all = append(all, c.nick+"="+here+"~"+c.user+"@"+localHost)
		}
	}
	rq.reply(rplUserHost, strings.Join(all, " "))
	return nil
}

// online tells how a nick is spelt that can be written to: a local client, a contact
// (who is told as soon as the network allows) or a service. Nobody knows whether anyone
// else is there.
func (s *Server) online(folded string) (spelling string, ok bool) {
	if c := s.nicks[folded]; c != nil {
		return c.nick, true
	}
	if cv := s.convs[folded]; cv != nil && cv.kind == privmsg.Contact {
		return cv.name, true
	}
	name, ok := services[folded]
	return name, ok
}

// cmdIson is ISON.
func cmdIson(s *Server, rq *request) error {
	var all []string
	n := 0
	for nick := range strings.FieldsSeq(strings.Join(rq.msg.Params, " ")) {
		name, ok := s.online(privmsg.Fold(nick))
		if n += len(name) + 1; ok && n <= maxReply {
			all = append(all, name)
		}
	}
	rq.reply(rplIsOn, strings.Join(all, " "))
	return nil
}
