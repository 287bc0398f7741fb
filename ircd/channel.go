package ircd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hearsay/internal/privmsg"
)

// splitList is a comma list without its empty items.
func splitList(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" })
}

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// cmdJoin is JOIN. Keys are ignored: a channel's secret is in the configuration.
func cmdJoin(s *Server, rq *request) error {
	c := rq.c
	if rq.param(0) == "0" { // leave all (RFC 2812)
		for cv := range c.joined {
			s.part(rq, cv, "")
		}
		return nil
	}
	for _, name := range splitList(rq.param(0)) {
		s.join(rq, name)
	}
	return nil
}

// join lets c in: JOIN, topic, names; the history follows when the answer is out.
func (s *Server) join(rq *request, name string) {
	c := rq.c
	if !privmsg.ValidChannel(name) {
		rq.reply(errNoSuchChannel, token(name), "No such channel")
		return
	}
	if len(c.joined) >= maxJoined {
		rq.reply(errTooManyChannels, name, "You have joined too many channels")
		return
	}
	cv := s.conversation(name, true)
	if c.joined[cv] {
		return
	}
	cv.active = time.Now()
	l := plain(c.prefix(), "JOIN", cv.name)
	for m := range cv.members {
		s.send(m, l)
	}
	rq.send(l)
	if c.away != "" {
		for m := range cv.members {
			if m.caps.has(capAwayNotify) {
				s.send(m, awayLine(c))
			}
		}
	}
	s.enter(c, cv)
	if cv.topic != "" {
		s.topic(rq, cv)
	}
	if c.caps.has(capReadMarker) {
		rq.send(s.marker(cv.name))
	}
	s.names(rq, cv)
}

// cmdPart is PART.
func cmdPart(s *Server, rq *request) error {
	for _, name := range splitList(rq.param(0)) {
		cv := s.convs[privmsg.Fold(name)]
		switch {
		case cv == nil || !cv.isChannel():
			rq.reply(errNoSuchChannel, token(name), "No such channel")
		case !rq.c.joined[cv]:
			rq.reply(errNotOnChannel, cv.name, "You're not on that channel")
		default:
			s.part(rq, cv, cutUTF8(rq.param(1), maxReason))
		}
	}
	return nil
}

func (s *Server) part(rq *request, cv *conversation, reason string) {
	l := plain(rq.c.prefix(), "PART", cv.name)
	if reason != "" {
		l = free(rq.c.prefix(), "PART", cv.name, reason)
	}
	rq.send(l)
	s.leave(rq.c, cv)
	for m := range cv.members {
		s.send(m, l)
	}
}

// present is who is in a channel: local clients, and who spoke on the network in the last
// 24 hours. Who was connected here and is not any more is known to be gone (decision 0231).
type present struct {
	nick   string
	client *client // nil: on the network
}

func (s *Server) present(cv *conversation) []present {
	var all []present
	for c := range cv.members {
		all = append(all, present{c.nick, c})
	}
	horizon := s.cfg.Now().Add(-speakerAge)
	for key, sp := range cv.speakers {
		if sp.last.Before(horizon) {
			delete(cv.speakers, key)
			s.charge(cv, -speakerSize)
		} else {
			all = append(all, present{s.remoteNick(sp.nick), nil})
		}
	}
	slices.SortFunc(all, func(a, b present) int { return cmp.Compare(a.nick, b.nick) })
	// "joe", as he is shown beside ours, and who calls himself "joe|net" anyway.
	return slices.CompactFunc(all, func(a, b present) bool { return a.nick == b.nick })
}

// visible is who of a channel c may see: somebody with +i only where they are together.
func (s *Server) visible(c *client, cv *conversation) []present {
	all := s.present(cv)
	if c.joined[cv] {
		return all
	}
	return slices.DeleteFunc(all, func(p present) bool { return p.client != nil && p.client.invisible && p.client != c })
}

// names is 353 and 366.
func (s *Server) names(rq *request, cv *conversation) {
	s.nameLines(rq, cv)
	rq.reply(rplEndOfNames, cv.name, "End of /NAMES list")
}

// nameLines is 353, in as many lines as it takes, and how many names are in them.
func (s *Server) nameLines(rq *request, cv *conversation) (n int) {
	limit := room(s.cfg.ServerName, rplNamReply, rq.c.name()+" = "+cv.name)
	list := ""
	for _, p := range s.visible(rq.c, cv) {
		n++
		item := p.nick
		if rq.c.caps.has(capUserhostInNames) {
			item = p.prefix()
		}
		if list != "" && len(list)+1+len(item) > limit {
			rq.reply(rplNamReply, "=", cv.name, list)
			list = ""
		}
		if list != "" {
			list += " "
		}
		list += item
	}
	if list != "" {
		rq.reply(rplNamReply, "=", cv.name, list)
	}
	return n
}

func (p present) prefix() string {
	if p.client != nil {
		return p.client.prefix()
	}
	return p.nick + "!" + remoteUser + "@" + remoteHost
}

// cmdNames is NAMES. Without a channel it is all of them with one 366 (RFC 2812 3.2.5): its
// own first, the rest as long as there are not more than maxListed names. Several channels
// at once are more than ISUPPORT promises: what a 366 then says, the specifications leave
// open, and here each channel has one.
func cmdNames(s *Server, rq *request) error {
	if rq.param(0) == "" {
		n := 0
		for _, cv := range s.channelsOf(rq.c) {
			n += s.nameLines(rq, cv)
		}
		for _, cv := range s.listed() {
			if n >= maxListed {
				break
			}
			if !rq.c.joined[cv] {
				n += s.nameLines(rq, cv)
			}
		}
		rq.reply(rplEndOfNames, "*", "End of /NAMES list")
		return nil
	}
	for i, name := range splitList(rq.param(0)) {
		if i == maxTargets {
			break
		}
		if cv := s.convs[privmsg.Fold(name)]; cv != nil && cv.isChannel() {
			s.names(rq, cv)
		} else {
			rq.reply(rplEndOfNames, token(name), "End of /NAMES list")
		}
	}
	return nil
}

// channelsOf are c's channels by name.
func (s *Server) channelsOf(c *client) []*conversation {
	var all []*conversation
	for cv := range c.joined {
		all = append(all, cv)
	}
	slices.SortFunc(all, func(a, b *conversation) int { return cmp.Compare(a.folded, b.folded) })
	return all
}

// cmdTopic is TOPIC. A topic is known on this daemon only; the network has none.
func cmdTopic(s *Server, rq *request) error {
	c := rq.c
	cv := s.convs[privmsg.Fold(rq.param(0))]
	switch {
	case cv == nil || !cv.isChannel():
		return numeric(errNoSuchChannel, token(rq.param(0)), "No such channel")
	case len(rq.msg.Params) == 1 && cv.topic == "":
		return numeric(rplNoTopic, cv.name, "No topic is set")
	case len(rq.msg.Params) == 1:
		s.topic(rq, cv)
		return nil
	case !c.joined[cv]:
		return numeric(errNotOnChannel, cv.name, "You're not on that channel")
	}
	cv.topic = cutUTF8(rq.param(1), maxTopic)
	cv.topicBy, cv.topicAt = c.nick, s.cfg.Now()
	l := free(c.prefix(), "TOPIC", cv.name, cv.topic)
	rq.send(l)
	for m := range cv.members {
		if m != c {
			s.send(m, l)
		}
	}
	return nil
}

// topic is 332 and 333.
func (s *Server) topic(rq *request, cv *conversation) {
	rq.reply(rplTopic, cv.name, cv.topic)
	rq.replyPlain(rplTopicWhoTime, cv.name, cv.topicBy, strconv.FormatInt(cv.topicAt.Unix(), 10))
}

// cmdMode answers queries. There are no modes on the network, and none here but a
// client's own +i and +B.
func cmdMode(s *Server, rq *request) error {
	c, target, change := rq.c, rq.param(0), rq.param(1)
	if !strings.HasPrefix(target, "#") {
		switch peer := s.nicks[privmsg.Fold(target)]; {
		case peer == nil:
			return numeric(errNoSuchNick, token(target), "No such nick/channel")
		case peer != c:
			return numeric(errUsersDontMatch, "Can't change mode for other users")
		case change == "":
			rq.replyPlain(rplUModeIs, c.modes())
			return nil
		}
		s.userMode(rq, change)
		return nil
	}
	cv := s.convs[privmsg.Fold(target)]
	if cv == nil || !cv.isChannel() {
		return numeric(errNoSuchChannel, token(target), "No such channel")
	}
	switch change {
	case "":
		rq.replyPlain(rplChannelModeIs, cv.name, "+")
		rq.replyPlain(rplCreationTime, cv.name, strconv.FormatInt(s.started.Unix(), 10))
	case "b", "+b":
		if rq.param(2) != "" {
			return numeric(errChanOPrivsNeeded, cv.name, "There are no channel operators here")
		}
		rq.reply(rplEndOfBanList, cv.name, "End of channel ban list")
	default:
		if slices.Contains([]string{"+o", "-o", "+v", "-v"}, change) && rq.param(2) != "" && c.joined[cv] {
			if err := s.absent(cv, rq.param(2)); err != nil {
				return err
			}
		}
		return numeric(errChanOPrivsNeeded, cv.name, "There are no channel operators and no channel modes here")
	}
	return nil
}

// absent refuses a nick that is not in a channel: a mistyped one is told before what cannot be
// done to anybody.
func (s *Server) absent(cv *conversation, nick string) error {
	folded := privmsg.Fold(nick)
	if slices.ContainsFunc(s.present(cv), func(p present) bool { return privmsg.Fold(p.nick) == folded }) {
		return nil
	}
	name, known := s.online(folded)
	if !known {
		if _, known = s.lastSpoke(folded); !known {
			return numeric(errNoSuchNick, token(nick), "No such nick/channel")
		}
		name = token(nick)
	}
	return numeric(errUserNotInChannel, name, cv.name, "They aren't on that channel")
}

// modes are a client's own, as 221 has them.
func (c *client) modes() string {
	modes := "+"
	if c.bot {
		modes += "B"
	}
	if c.invisible {
		modes += "i"
	}
	return modes
}

func (s *Server) userMode(rq *request, change string) {
	c, on, unknown := rq.c, true, false
	wasBot, wasInvisible := c.bot, c.invisible
	for _, r := range change {
		switch r {
		case '+', '-':
			on = r == '+'
		case 'B':
			c.bot = on
		case 'i':
			c.invisible = on
		default:
			unknown = true
		}
	}
	var plus, minus string
	note := func(mode string, was, is bool) {
		switch {
		case is && !was:
			plus += mode
		case was && !is:
			minus += mode
		}
	}
	note("B", wasBot, c.bot)
	note("i", wasInvisible, c.invisible)
	if plus != "" {
		plus = "+" + plus
	}
	if minus != "" {
		minus = "-" + minus
	}
	if plus+minus != "" {
		rq.send(plain(c.prefix(), "MODE", c.nick, plus+minus))
	}
	if unknown {
		rq.reply(errUModeUnknownFlag, "Unknown user mode flag")
	}
}
