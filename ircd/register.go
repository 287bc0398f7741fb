package ircd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"hearsay/internal/privmsg"
)

// cmdPass is PASS. The password is looked at when registration is complete.
func cmdPass(_ *Server, rq *request) error {
	if rq.c.registered {
		return numeric(errAlreadyRegistred, "You may not reregister")
	}
	rq.c.pass = rq.param(0)
	if id, _, ok := passIdentity(rq.c.pass); ok {
		rq.c.identify(id, fromPass)
	}
	return nil
}

// cmdNick is NICK. Nicks are unique among registered clients; one that waits to
// register holds none, so it cannot keep anybody from theirs.
func cmdNick(s *Server, rq *request) error {
	c, nick := rq.c, rq.param(0)
	switch {
	case nick == "":
		return numeric(errNoNicknameGiven, "No nickname given")
	case !privmsg.ValidNick(nick):
		return numeric(errErroneusNickname, token(nick), "Erroneous nickname")
	}
	// Who has not given the password yet learns nothing of who is here.
	if c.registered || c.trusted || s.cfg.PasswordHash == "" {
		if err := s.nickTaken(c, nick); err != nil {
			return err
		}
	}
	if !c.registered {
		if !c.checking {
			c.nick = nick
		}
		s.register(rq)
		return nil
	}
	if nick == c.nick {
		return nil
	}
	l := free(c.prefix(), "NICK", nick)
	before := c.nick
	delete(s.nicks, privmsg.Fold(before))
	c.nick = nick
	s.nicks[privmsg.Fold(nick)] = c
	rq.send(l)
	for peer := range s.peersOf(c) {
		s.send(peer, l)
	}
	if privmsg.Fold(before) != privmsg.Fold(nick) {
		s.bygone(before, c.user, c.realname)
		s.tellMonitors(before)
		s.tellMonitors(nick)
	}
	return nil
}

// nickTaken refuses nicks that another client, a contact or a service has.
func (s *Server) nickTaken(c *client, nick string) error {
	folded := privmsg.Fold(nick)
	if o := s.nicks[folded]; o != nil && o != c {
		return numeric(errNicknameInUse, nick, "Nickname is already in use")
	}
	if s.isReserved(folded) {
		return numeric(errNicknameInUse, nick, "Nickname is reserved for a contact or a service")
	}
	return nil
}

// isReserved tells whether a folded nick is a service's or a contact's.
func (s *Server) isReserved(folded string) bool {
	if services[folded] != "" || disguises[folded] {
		return true
	}
	cv := s.convs[folded]
	return cv != nil && cv.kind == privmsg.Contact
}

// cmdUser is USER.
func cmdUser(s *Server, rq *request) error {
	c := rq.c
	if c.registered {
		return numeric(errAlreadyRegistred, "You may not reregister")
	}
	if rq.param(0) == "" || rq.param(3) == "" {
		return numeric(errNeedMoreParams, "USER", "Not enough parameters")
	}
	if c.checking {
		return nil
	}
	id := parseIdentity(rq.param(0))
	c.user = cleanUser(id.name)
	c.identify(id, fromUser)
	c.realname = cutUTF8(rq.param(3), maxReason)
	s.register(rq)
	return nil
}

// register completes registration if everything is there: NICK and USER in any order,
// CAP END where negotiation began, and the password.
func (s *Server) register(rq *request) {
	c := rq.c
	if c.registered || c.checking || c.capHold || c.nick == "" || c.user == "" {
		return
	}
	s.abortSASL(rq)
	if s.cfg.PasswordHash == "" || c.trusted {
		s.admit(rq)
		return
	}
	c.checking = true
	tries := []string{c.pass}
	if _, password, ok := passIdentity(c.pass); ok {
		tries = append(tries, password)
	}
	c.pass = ""
	rq.job = func(ctx context.Context) event {
		return evPassword{rq, s.checkPassword(ctx, c.conn, tries...)}
	}
}

func (s *Server) passwordChecked(ev evPassword) {
	rq, c := ev.rq, ev.rq.c
	c.checking = false
	switch {
	case c.gone:
	case !ev.ok:
		rq.reply(errPasswdMismatch, "Password incorrect")
		s.drop(c, "Password incorrect")
	default:
		c.trusted = true
		s.admit(rq)
	}
	s.finish(rq)
}

// admit welcomes c unless its nick is taken, perhaps since it asked for it; then it may
// try another.
func (s *Server) admit(rq *request) {
	if err := s.nickTaken(rq.c, rq.c.nick); err != nil {
		rq.refuse(err)
		rq.c.nick = ""
		return
	}
	s.welcome(rq)
}

// welcome makes c a user.
func (s *Server) welcome(rq *request) {
	c, name := rq.c, s.cfg.ServerName
	s.watchTroubles() // those that the greeting tells are not told again
	c.registered = true
	c.signon = s.cfg.Now()
	c.spoke = time.Now()
	s.nicks[privmsg.Fold(c.nick)] = c
	s.mostUsers = max(s.mostUsers, len(s.nicks))

	rq.reply(rplWelcome, fmt.Sprintf("Welcome to the %s network, %s", s.cfg.NetworkName, c.prefix()))
	rq.reply(rplYourHost, fmt.Sprintf("Your host is %s, running version %s", name, s.cfg.Version))
	rq.reply(rplCreated, "This server was started "+s.started.UTC().Format("2006-01-02 15:04:05 UTC"))
	rq.replyPlain(rplMyInfo, name, s.cfg.Version, "Bi", "b")
	for _, l := range s.isupport() {
		rq.reply(rplISupport, append(l, "are supported by this server")...)
	}
	s.lusers(rq)
	s.motd(rq)
	s.greet(rq)

	if !c.caps.has(capNoAutojoin) {
		for _, ch := range s.settings.Autojoin {
			s.join(rq, ch)
		}
	}
	for _, ct := range s.settings.Contacts {
		s.enter(c, s.convs[privmsg.Fold(ct.Label)])
	}
	s.tellMonitors(c.nick)
}

// cmdQuit is QUIT. The ERROR line that answers it is bury's.
func cmdQuit(s *Server, rq *request) error {
	reason := cutUTF8(rq.param(0), maxReason)
	if reason == "" {
		reason = "Client quit"
	}
	s.drop(rq.c, "Quit: "+reason)
	return nil
}

// cmdPing is PING.
func cmdPing(s *Server, rq *request) error {
	if rq.param(0) == "" {
		return numeric(errNoOrigin, "No origin specified")
	}
	name := s.cfg.ServerName
	rq.send(free(name, "PONG", name, cutUTF8(rq.param(0), room(name, "PONG", name))))
	return nil
}

// cmdRehash is REHASH: what SIGHUP does.
func cmdRehash(s *Server, rq *request) error {
	if s.cfg.Reload == nil {
		return numeric(errNoPrivileges, "This server cannot re-read its configuration")
	}
	rq.reply(rplRehashing, "configuration", "Rehashing")
	rq.job = func(ctx context.Context) event {
		sum, err := s.cfg.Reload(ctx)
		return evReloaded{rq, sum, err}
	}
	return nil
}

func (s *Server) reloaded(ev evReloaded) {
	for _, l := range rehashLines(ev.sum, ev.err) {
		ev.rq.notice(l)
	}
	s.finish(ev.rq)
}

// clean makes one line of a text of our own.
func clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")))
}
