package ircd

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hearsay/internal/privmsg"
)

// cmdWho is WHO: a channel's people, or local clients whose nick is the mask or that
// match it.
func cmdWho(s *Server, rq *request) error {
	mask := rq.param(0)
	if mask == "" {
		mask = "*"
	}
	n := 0
	who := func(channel string, p present) {
		if n++; n > maxListed {
			return
		}
		user, host, flags, real := remoteUser, remoteHost, "H", "on the network"
		if p.client != nil {
			user, host, real = "~"+p.client.user, localHost, p.client.realname
			if p.client.away != "" {
				flags = "G"
			}
		}
		rq.reply(rplWhoReply, channel, user, host, s.cfg.ServerName, p.nick, flags, "0 "+real)
	}
	if cv := s.convs[privmsg.Fold(mask)]; cv != nil && cv.isChannel() {
		for _, p := range s.present(cv) {
			who(cv.name, p)
		}
	} else if !strings.HasPrefix(mask, "#") {
		for _, c := range s.localClients() {
			if matchMask(privmsg.Fold(mask), privmsg.Fold(c.nick)) {
				who("*", present{c.nick, c})
			}
		}
	}
	rq.reply(rplEndOfWho, token(mask), "End of WHO list")
	return nil
}

// localClients are the registered ones by nick.
func (s *Server) localClients() []*client {
	var all []*client
	for _, c := range s.nicks {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *client) int { return cmp.Compare(a.nick, b.nick) })
	return all
}

// matchMask tells whether s matches an IRC mask of '*' and '?', in time linear in the
// product of their lengths whatever the mask.
func matchMask(mask, s string) bool {
	star, back := -1, 0
	i, j := 0, 0
	for j < len(s) {
		switch {
		case i < len(mask) && mask[i] == '*':
			star, back = i, j
			i++
		case i < len(mask) && (mask[i] == '?' || mask[i] == s[j]):
			i++
			j++
		case star >= 0:
			back++
			i, j = star+1, back
		default:
			return false
		}
	}
	return strings.Trim(mask[i:], "*") == ""
}

// cmdWhois is WHOIS.
func cmdWhois(s *Server, rq *request) error {
	nick := rq.param(0)
	if len(rq.msg.Params) > 1 {
		nick = rq.param(1) // WHOIS server nick
	}
	if nick == "" {
		return numeric(errNoNicknameGiven, "No nickname given")
	}
	nick, _, _ = strings.Cut(nick, ",")
	folded := privmsg.Fold(nick)
	name := s.cfg.ServerName
	switch c, cv := s.nicks[folded], s.convs[folded]; {
	case c != nil:
		rq.reply(rplWhoisUser, c.nick, "~"+c.user, localHost, "*", c.realname)
		s.whoisChannels(rq, c)
		rq.reply(rplWhoisServer, c.nick, name, "connected to this node")
		if c.away != "" {
			rq.reply(rplAway, c.nick, c.away)
		}
		if c.secure {
			rq.reply(rplWhoisSecure, c.nick, "is using a secure connection")
		}
		idle := strconv.Itoa(int(time.Since(c.spoke) / time.Second))
		rq.reply(rplWhoisIdle, c.nick, idle, strconv.FormatInt(c.signon.Unix(), 10), "seconds idle, signon time")
		nick = c.nick
	case cv != nil && cv.kind == privmsg.Contact:
		rq.reply(rplWhoisUser, cv.name, remoteUser, remoteHost, "*", "a configured contact")
		rq.reply(rplWhoisSpecial, cv.name, "messages are encrypted for this contact")
		nick = cv.name
	default:
		last, ok := s.lastSpoke(folded)
		if !ok {
			rq.reply(errNoSuchNick, token(nick), "No such nick/channel")
			nick = token(nick)
			break
		}
		shown := s.remoteNick(last.nick)
		rq.reply(rplWhoisUser, shown, remoteUser, remoteHost, "*", "on the network; a nick proves nothing")
		nick = shown
	}
	rq.reply(rplEndOfWhois, nick, "End of /WHOIS list")
	return nil
}

func (s *Server) whoisChannels(rq *request, c *client) {
	list, limit := "", 350
	for _, cv := range s.channelsOf(c) {
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

// lastSpoke finds a nick of the network in any channel.
func (s *Server) lastSpoke(folded string) (last speaker, ok bool) {
	for _, cv := range s.convs {
		if sp, found := cv.speakers[folded]; found && (!ok || sp.last.After(last.last)) {
			last, ok = sp, true
		}
	}
	return last, ok
}

// cmdWhowas is WHOWAS: nothing is remembered of who was here.
func cmdWhowas(_ *Server, rq *request) error {
	nick := rq.param(0)
	if nick == "" {
		return numeric(errNoNicknameGiven, "No nickname given")
	}
	rq.reply(errWasNoSuchNick, token(nick), "There was no such nickname")
	rq.reply(rplWhowasEnd, token(nick), "End of WHOWAS")
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

// cmdIson is ISON: local clients, and contacts, who can always be written to.
func cmdIson(s *Server, rq *request) error {
	var all []string
	for _, nick := range strings.Fields(strings.Join(rq.msg.Params, " ")) {
		if c := s.nicks[privmsg.Fold(nick)]; c != nil {
			all = append(all, c.nick)
		}
	}
	rq.reply(rplIsOn, strings.Join(all, " "))
	return nil
}

// cmdAway is AWAY, for the clients of this daemon.
func cmdAway(_ *Server, rq *request) error {
	rq.c.away = cutUTF8(rq.param(0), maxAway)
	if rq.c.away == "" {
		rq.reply(rplUnAway, "You are no longer marked as being away")
	} else {
		rq.reply(rplNowAway, "You have been marked as being away")
	}
	return nil
}

func cmdMotd(s *Server, rq *request) error {
	s.motd(rq)
	return nil
}

func cmdVersion(s *Server, rq *request) error {
	rq.reply(rplVersion, s.cfg.Version, s.cfg.ServerName, "IRC in front of an event graph")
	for _, l := range s.isupport() {
		rq.reply(rplISupport, append(l, "are supported by this server")...)
	}
	return nil
}

func cmdInfo(s *Server, rq *request) error {
	for _, l := range []string{
		s.cfg.Version + ": a node of an event-graph network, with IRC as its face.",
		"Channels and direct messages are events that every node keeps for a while.",
		"A nick proves nothing. What is in a channel without a secret, everybody can read.",
	} {
		rq.reply(rplInfo, l)
	}
	rq.reply(rplEndOfInfo, "End of INFO list")
	return nil
}

func cmdAdmin(s *Server, rq *request) error {
	rq.reply(rplAdminMe, s.cfg.ServerName, "Administrative info")
	rq.reply(rplAdminLoc1, "This is your own node")
	rq.reply(rplAdminLoc2, "Its operator is whoever runs it")
	rq.reply(rplAdminEmail, "There is no address to write to")
	return nil
}

func cmdTime(s *Server, rq *request) error {
	rq.reply(rplTime, s.cfg.ServerName, s.cfg.Now().UTC().Format(time.RFC1123))
	return nil
}

func cmdLinks(s *Server, rq *request) error {
	rq.reply(rplLinks, s.cfg.ServerName, s.cfg.ServerName, "0 peers are not servers, and not listed")
	rq.reply(rplEndOfLinks, "*", "End of LINKS list")
	return nil
}

func cmdOper(*Server, *request) error {
	return numeric(errNoOperHost, "There are no operators here")
}

func cmdLusers(s *Server, rq *request) error {
	s.lusers(rq)
	return nil
}

// lusers counts what is on this daemon: nobody knows how many are on the network.
func (s *Server) lusers(rq *request) {
	users, unknown, channels := len(s.nicks), len(s.clients)-len(s.nicks), 0
	for _, cv := range s.convs {
		if cv.isChannel() && len(cv.members) > 0 {
			channels++
		}
	}
	n := strconv.Itoa
	rq.reply(rplLUserClient, fmt.Sprintf("There are %d users and 0 services on this node", users))
	rq.reply("252", "0", "operator(s) online")
	if unknown > 0 {
		rq.reply(rplLUserUnknown, n(unknown), "unknown connection(s)")
	}
	rq.reply(rplLUserChannels, n(channels), "channels joined here")
	rq.reply(rplLUserMe, fmt.Sprintf("I have %d clients and 0 servers", users))
	rq.reply(rplLocalUsers, n(users), n(s.mostUsers), fmt.Sprintf("Current local users %d, max %d", users, s.mostUsers))
	rq.reply(rplGlobalUsers, n(users), n(s.mostUsers), fmt.Sprintf("Current users of this node %d, max %d", users, s.mostUsers))
}
