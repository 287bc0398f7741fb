package ircd

import "hearsay/internal/privmsg"

// Commands of networks with operators. Each is refused with the numeric that clients
// know and a text that says why.

// cmdInvite is INVITE: between clients of this daemon. Nobody else can be invited:
// whoever knows a channel's name or secret is in it.
func cmdInvite(s *Server, rq *request) error {
	c := rq.c
	folded := privmsg.Fold(rq.param(0))
	name, known := s.online(folded)
	cv, peer := s.convs[privmsg.Fold(rq.param(1))], s.nicks[folded]
	switch {
	case !known:
		return numeric(errNoSuchNick, token(rq.param(0)), "No such nick/channel")
	case cv == nil || !cv.isChannel():
		return numeric(errNoSuchChannel, token(rq.param(1)), "No such channel")
	case !c.joined[cv]:
		return numeric(errNotOnChannel, cv.name, "You're not on that channel")
	case peer == nil:
		return numeric(errChanOPrivsNeeded, cv.name, "Only who is connected to this node can be invited: elsewhere, whoever knows a channel's name or secret is in it")
	case peer.joined[cv]:
		return numeric(errUserOnChannel, name, cv.name, "is already on channel")
	}
	rq.replyPlain(rplInviting, name, cv.name)
	s.send(peer, plain(c.prefix(), "INVITE", name, cv.name))
	if peer.away != "" {
		rq.reply(rplAway, name, peer.away)
	}
	return nil
}

func cmdKick(s *Server, rq *request) error {
	cv := s.convs[privmsg.Fold(rq.param(0))]
	switch {
	case cv == nil || !cv.isChannel():
		return numeric(errNoSuchChannel, token(rq.param(0)), "No such channel")
	case !rq.c.joined[cv]:
		return numeric(errNotOnChannel, cv.name, "You're not on that channel")
	}
	for _, nick := range splitList(rq.param(1)) {
		if err := s.absent(cv, nick); err != nil {
			return err
		}
	}
	return numeric(errChanOPrivsNeeded, cv.name, "Nobody can be kicked: there are no channel operators")
}

func cmdOper(*Server, *request) error {
	return numeric(errNoOperHost, "There are no operators here")
}

// cmdOperOnly is what only operators may do elsewhere.
func cmdOperOnly(*Server, *request) error {
	return numeric(errNoPrivileges, "Permission Denied- there are no operators here")
}

func cmdUsers(*Server, *request) error { return numeric(errUsersDisabled, "USERS has been disabled") }

func cmdSummon(*Server, *request) error {
	return numeric(errSummonDisabled, "SUMMON has been disabled")
}
