package ircd

import (
	"fmt"
	"strconv"
	"time"

	"hearsay/internal/privmsg"
)

// Questions about the server itself. There is one server: a query for another one is
// answered 402.

// elsewhere refuses a target that is neither this server nor a client of it.
func (s *Server) elsewhere(target string) error {
	folded := privmsg.Fold(target)
	if target == "" || matchMask(folded, privmsg.Fold(s.cfg.ServerName)) {
		return nil
	}
	if _, ok := s.online(folded); ok {
		return nil
	}
	return numeric(errNoSuchServer, token(target), "No such server")
}

// here makes a handler of one that does not look at its parameters, but for a target
// server as parameter i.
func here(i int, answer func(s *Server, rq *request)) func(*Server, *request) error {
	return func(s *Server, rq *request) error {
		if err := s.elsewhere(rq.param(i)); err != nil {
			return err
		}
		answer(s, rq)
		return nil
	}
}

func (s *Server) motd(rq *request) {
	if len(s.settings.MOTD) == 0 {
		rq.reply(errNoMOTD, "There is no message of the day")
		return
	}
	rq.reply(rplMOTDStart, "- "+s.cfg.ServerName+" Message of the day -")
	for _, l := range s.settings.MOTD {
		for _, piece := range wrap(l, 400) {
			rq.reply(rplMOTD, "- "+piece)
		}
	}
	rq.reply(rplEndOfMOTD, "End of MOTD command")
}

func (s *Server) version(rq *request) {
	rq.reply(rplVersion, s.cfg.Version, s.cfg.ServerName, "IRC in front of an event graph")
	for _, l := range s.isupport() {
		rq.reply(rplISupport, append(l, "are supported by this server")...)
	}
}

func (s *Server) info(rq *request) {
	for _, l := range []string{
		s.cfg.Version + ": a node of an event-graph network, with IRC as its face.",
		"Channels and direct messages are events that every node keeps for a while.",
		"A nick proves nothing. What is in a channel without a secret, everybody can read.",
	} {
		rq.reply(rplInfo, l)
	}
	rq.reply(rplEndOfInfo, "End of INFO list")
}

func (s *Server) admin(rq *request) {
	rq.reply(rplAdminMe, s.cfg.ServerName, "Administrative info")
	rq.reply(rplAdminLoc1, "This is your own node")
	rq.reply(rplAdminLoc2, "Its operator is whoever runs it")
	rq.reply(rplAdminEmail, "There is no address to write to")
}

func (s *Server) time(rq *request) {
	rq.reply(rplTime, s.cfg.ServerName, s.cfg.Now().UTC().Format(time.RFC1123))
}

// cmdStats is STATS: the uptime. There is nothing else to count that is anybody's
// business on the wire; "*status" says more.
func cmdStats(s *Server, rq *request) error {
	if err := s.elsewhere(rq.param(1)); err != nil {
		return err
	}
	query := token(rq.param(0))
	if query == "u" {
		up := s.cfg.Now().Sub(s.started)
		day := 24 * time.Hour
		rq.reply(rplStatsUptime, fmt.Sprintf("Server Up %d days %d:%02d:%02d",
			up/day, up%day/time.Hour, up%time.Hour/time.Minute, up%time.Minute/time.Second))
	}
	rq.reply(rplEndOfStats, query, "End of STATS report")
	return nil
}

// cmdLinks is LINKS [[server] mask].
func cmdLinks(s *Server, rq *request) error {
	mask := rq.param(0)
	if len(rq.msg.Params) > 1 {
		if err := s.elsewhere(rq.param(0)); err != nil {
			return err
		}
		mask = rq.param(1)
	}
	if mask == "" {
		mask = "*"
	}
	if matchMask(privmsg.Fold(mask), privmsg.Fold(s.cfg.ServerName)) {
		rq.reply(rplLinks, s.cfg.ServerName, s.cfg.ServerName, "0 peers are not servers, and not listed")
	}
	rq.reply(rplEndOfLinks, token(mask), "End of LINKS list")
	return nil
}

func cmdMap(s *Server, rq *request) error {
	rq.reply(rplMap, s.cfg.ServerName+": peers are not servers, and not listed")
	rq.reply(rplMapEnd, "End of MAP")
	return nil
}

// lusers counts what is on this daemon: nobody knows how many are on the network.
func (s *Server) lusers(rq *request) {
	users, unknown, channels, invisible := len(s.nicks), len(s.clients)-len(s.nicks), 0, 0
	for _, cv := range s.convs {
		if cv.isChannel() && len(cv.members) > 0 {
			channels++
		}
	}
	for _, c := range s.nicks {
		if c.invisible {
			invisible++
		}
	}
	n := strconv.Itoa
	rq.reply(rplLUserClient, fmt.Sprintf("There are %d users and %d invisible on 1 servers", users-invisible, invisible))
	rq.reply(rplLUserOp, "0", "operator(s) online")
	if unknown > 0 {
		rq.reply(rplLUserUnknown, n(unknown), "unknown connection(s)")
	}
	rq.reply(rplLUserChannels, n(channels), "channels formed")
	rq.reply(rplLUserMe, fmt.Sprintf("I have %d clients and 0 servers", users))
	rq.reply(rplLocalUsers, n(users), n(s.mostUsers), fmt.Sprintf("Current local users %d, max %d", users, s.mostUsers))
	rq.reply(rplGlobalUsers, n(users), n(s.mostUsers), fmt.Sprintf("Current users of this node %d, max %d", users, s.mostUsers))
}
