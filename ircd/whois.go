package ircd

import (
	"strconv"
	"strings"
	"time"

	"hearsay/internal/privmsg"
)

// cmdWhois is WHOIS.
func cmdWhois(s *Server, rq *request) error {
	nick := rq.param(0)
	if len(rq.msg.Params) > 1 { // WHOIS server nick
		if err := s.elsewhere(rq.param(0)); err != nil {
			return err
		}
		nick = rq.param(1)
	}
	nick, _, _ = strings.Cut(nick, ",")
	if nick == "" {
		return numeric(errNoNicknameGiven, "No nickname given")
	}
	folded := privmsg.Fold(nick)
	name := s.cfg.ServerName
	switch c, cv := s.nicks[folded], s.convs[folded]; {
	case c != nil:
		nick = c.nick
		s.whoisClient(rq, c)
	case cv != nil && cv.kind == privmsg.Contact:
		nick = cv.name
		rq.reply(rplWhoisUser, nick, remoteUser, remoteHost, "*", "a configured contact")
		rq.reply(rplWhoisSpecial, nick, "messages are encrypted for this contact")
	case services[folded] != "":
		nick = services[folded]
		rq.reply(rplWhoisUser, nick, serviceUser(nick), localHost, "*", "a service of this node")
		rq.reply(rplWhoisServer, nick, name, "part of this node")
	default:
		last, ok := s.lastSpoke(folded)
		if !ok {
			rq.reply(errNoSuchNick, token(nick), "No such nick/channel")
			nick = token(nick)
			break
		}
		nick = s.remoteNick(last.nick)
		rq.reply(rplWhoisUser, nick, remoteUser, remoteHost, "*", "on the network; a nick proves nothing")
	}
	rq.reply(rplEndOfWhois, nick, "End of /WHOIS list")
	return nil
}

func (s *Server) whoisClient(rq *request, c *client) {
	rq.reply(rplWhoisUser, c.nick, "~"+c.user, localHost, "*", c.realname)
	s.whoisChannels(rq, c)
	rq.reply(rplWhoisServer, c.nick, s.cfg.ServerName, "connected to this node")
	if c.away != "" {
		rq.reply(rplAway, c.nick, c.away)
	}
	if c.bot {
		rq.reply(rplWhoisBot, c.nick, "is a bot")
	}
	if c.secure {
		rq.reply(rplWhoisSecure, c.nick, "is using a secure connection")
	}
	idle := strconv.Itoa(int(time.Since(c.spoke) / time.Second))
	rq.reply(rplWhoisIdle, c.nick, idle, strconv.FormatInt(c.signon.Unix(), 10), "seconds idle, signon time")
}

// whoisChannels is 319: of somebody with +i only the channels that are shared.
func (s *Server) whoisChannels(rq *request, c *client) {
	list, limit := "", maxReply
	for _, cv := range s.channelsOf(c) {
		if c.invisible && c != rq.c && !rq.c.joined[cv] {
			continue
		}
		if len(list)+1+len(cv.name) > limit {
			rq.reply(rplWhoisChannels, c.nick, list)
			list = ""
		}
		list = strings.TrimPrefix(list+" "+cv.name, " ")
	}
	if list != "" {
		rq.reply(rplWhoisChannels, c.nick, list)
	}
}

// lastSpoke finds a nick of the network in any channel, as it is called there or, failing
// that, as it is shown here: with a suffix, for which a long one is cut.
func (s *Server) lastSpoke(folded string) (last speaker, ok bool) {
	take := func(sp speaker) {
		if !ok || sp.last.After(last.last) {
			last, ok = sp, true
		}
	}
	for _, cv := range s.convs {
		if sp, found := cv.speakers[folded]; found {
			take(sp)
		}
	}
	front, _, suffixed := strings.Cut(folded, remoteSuffix)
	if ok || !suffixed {
		return last, ok
	}
	for _, cv := range s.convs {
		for name, sp := range cv.speakers {
			if strings.HasPrefix(name, front) && privmsg.Fold(s.remoteNick(sp.nick)) == folded {
				take(sp)
			}
		}
	}
	return last, ok
}

// A past is a nick that a local client had.
type past struct {
	nick, user, realname string
	until                time.Time
}

// bygone remembers a nick that is given up, the newest maxWhowas of them.
func (s *Server) bygone(nick, user, realname string) {
	s.pasts = append(s.pasts, past{nick, user, realname, s.cfg.Now()})
	if len(s.pasts) > maxWhowas {
		s.pasts = s.pasts[1:]
	}
}

// cmdWhowas is WHOWAS: local clients, the latest first.
func cmdWhowas(s *Server, rq *request) error {
	mask := rq.param(0)
	if mask == "" {
		return numeric(errNoNicknameGiven, "No nickname given")
	}
	limit, err := strconv.Atoi(rq.param(1))
	if err != nil || limit <= 0 {
		limit = maxWhowas
	}
	found := 0
	for i := len(s.pasts) - 1; i >= 0 && found < limit; i-- {
		p := s.pasts[i]
		if !matchMask(privmsg.Fold(mask), privmsg.Fold(p.nick)) {
			continue
		}
		found++
		rq.reply(rplWhowasUser, p.nick, "~"+p.user, localHost, "*", p.realname)
		rq.reply(rplWhoisServer, p.nick, s.cfg.ServerName, p.until.UTC().Format(time.RFC1123))
	}
	if found == 0 {
		rq.reply(errWasNoSuchNick, token(mask), "There was no such nickname")
	}
	rq.reply(rplWhowasEnd, token(mask), "End of WHOWAS")
	return nil
}
