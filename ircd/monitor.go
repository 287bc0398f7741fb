package ircd

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"hearsay/internal/privmsg"
)

// cmdMonitor is MONITOR (IRCv3): + and - change the list, C clears it, L lists it, S
// lists who of it is online, as far as online means anything here (see online).
func cmdMonitor(s *Server, rq *request) error {
	c := rq.c
	switch sub := strings.ToUpper(rq.param(0)); sub {
	case "+":
		s.monitorAdd(rq, splitList(rq.param(1)))
	case "-":
		for _, nick := range splitList(rq.param(1)) {
			delete(c.monitored, privmsg.Fold(nick))
		}
	case "C":
		c.monitored = nil
	case "L":
		var all []string
		for _, folded := range slices.Sorted(maps.Keys(c.monitored)) {
			all = append(all, c.monitored[folded])
		}
		rq.list(rplMonList, all)
		rq.reply(rplEndOfMonList, "End of MONITOR list")
	case "S":
		var on, off []string
		for _, folded := range slices.Sorted(maps.Keys(c.monitored)) {
			if name, ok := s.onlinePrefix(folded); ok {
				on = append(on, name)
			} else {
				off = append(off, c.monitored[folded])
			}
		}
		rq.list(rplMonOnline, on)
		rq.list(rplMonOffline, off)
	default:
		return numeric(errUnknownError, "MONITOR", "Unknown MONITOR subcommand")
	}
	return nil
}

func (s *Server) monitorAdd(rq *request, targets []string) {
	c := rq.c
	var on, off, full []string
	for i, nick := range targets {
		folded := privmsg.Fold(nick)
		_, service := services[folded]
		_, known := c.monitored[folded]
		switch {
		case !service && !privmsg.ValidNick(nick): // nobody can have it
			off = append(off, token(nick))
			continue
		case !known && len(c.monitored) >= maxMonitored:
			full = targets[i:]
		}
		if full != nil {
			break
		}
		if c.monitored == nil {
			c.monitored = map[string]string{}
		}
		if !known {
			c.monitored[folded] = nick
		}
		if name, ok := s.onlinePrefix(folded); ok {
			on = append(on, name)
		} else {
			off = append(off, nick)
		}
	}
	rq.list(rplMonOnline, on)
	rq.list(rplMonOffline, off)
	if full != nil {
		rest := cutUTF8(token(strings.Join(full, ",")), maxReply)
		rq.reply(errMonListFull, strconv.Itoa(maxMonitored), rest, "Monitor list is full")
	}
}

// onlinePrefix is online as a prefix.
func (s *Server) onlinePrefix(folded string) (string, bool) {
	if c := s.nicks[folded]; c != nil {
		return c.prefix(), true
	}
	if name, ok := services[folded]; ok {
		return servicePrefix(name), true
	}
	name, ok := s.online(folded)
	return name + "!" + remoteUser + "@" + remoteHost, ok
}

// list adds numerics with comma lists, in as many lines as it takes; none for none.
func (rq *request) list(num string, items []string) {
	limit := room(rq.s.cfg.ServerName, num, rq.c.name())
	text := ""
	for _, item := range items {
		if text != "" && len(text)+1+len(item) > limit {
			rq.reply(num, text)
			text = ""
		}
		if text != "" {
			text += ","
		}
		text += item
	}
	if text != "" {
		rq.reply(num, text)
	}
}

// tellMonitors tells who watches a nick that it came or went, as it was spelt last.
func (s *Server) tellMonitors(nick string) {
	folded := privmsg.Fold(nick)
	for c := range s.clients {
		if _, watched := c.monitored[folded]; !watched || !c.registered {
			continue
		}
		if name, ok := s.onlinePrefix(folded); ok {
			s.send(c, free(s.cfg.ServerName, rplMonOnline, c.name(), name))
		} else {
			s.send(c, free(s.cfg.ServerName, rplMonOffline, c.name(), nick))
		}
	}
}
