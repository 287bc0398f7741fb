package ircd

import (
	"context"
	"fmt"
	"strconv"
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
	delete(s.nicks, privmsg.Fold(c.nick))
	c.nick = nick
	s.nicks[privmsg.Fold(nick)] = c
	rq.send(l)
	for peer := range s.peersOf(c) {
		s.send(peer, l)
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
	if reserved[folded] {
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
	if rq.param(0) == "" {
		return numeric(errNeedMoreParams, "USER", "Not enough parameters")
	}
	if c.checking {
		return nil
	}
	c.user = cleanUser(rq.param(0))
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
	if s.cfg.PasswordHash == "" || c.trusted {
		s.admit(rq)
		return
	}
	c.checking = true
	pass := c.pass
	c.pass = ""
	rq.job = func(ctx context.Context) event {
		return evPassword{rq, s.checkPassword(ctx, c.conn, pass)}
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
	c.registered = true
	c.signon = s.cfg.Now()
	c.spoke = time.Now()
	s.nicks[privmsg.Fold(c.nick)] = c
	s.mostUsers = max(s.mostUsers, len(s.nicks))

	rq.reply(rplWelcome, fmt.Sprintf("Welcome to the %s network, %s", s.cfg.NetworkName, c.prefix()))
	rq.reply(rplYourHost, fmt.Sprintf("Your host is %s, running version %s", name, s.cfg.Version))
	rq.reply(rplCreated, "This server was started "+s.started.UTC().Format("2006-01-02 15:04:05 UTC"))
	rq.replyPlain(rplMyInfo, name, s.cfg.Version, "i", "b")
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
}

// isupport is 005, in lines of at most ten tokens. Everything in it is true.
func (s *Server) isupport() [][]string {
	n := strconv.Itoa
	tokens := []string{
		"AWAYLEN=" + n(maxAway),
		"CASEMAPPING=ascii",
		"CHANLIMIT=#:" + n(maxJoined),
		"CHANMODES=b,,,",
		"CHANNELLEN=" + n(privmsg.MaxChannel),
		"CHANTYPES=#",
		"LINELEN=" + n(maxLine),
		"MODES=1",
		"NETWORK=" + s.cfg.NetworkName,
		"NICKLEN=" + n(privmsg.MaxNick),
		"PREFIX=",
		"SAFELIST",
		"TARGMAX=JOIN:,LIST:,NAMES:,PART:,PRIVMSG:" + n(maxTargets) + ",NOTICE:" + n(maxTargets) + ",WHOIS:1",
		"TOPICLEN=" + n(maxTopic),
		"USERLEN=" + n(maxUser),
		"UTF8ONLY",
	}
	var lines [][]string
	for len(tokens) > 10 {
		lines, tokens = append(lines, tokens[:10:10]), tokens[10:]
	}
	return append(lines, tokens)
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

// greet says whether anybody is there.
func (s *Server) greet(rq *request) {
	if s.cfg.Network == nil {
		return
	}
	rq.notice(s.cfg.Network.State().String())
	for _, text := range s.currentTroubles() {
		rq.notice(text)
	}
	if b, ok := s.cfg.Network.(Blockable); ok {
		if n, ok := b.Blocked(); ok {
			rq.notice(noticeText(n))
		}
	}
}

// String is what clients are told.
func (n NetworkState) String() string {
	switch {
	case n.Peers == 0:
		return "Not connected to the network: what you say is kept and sent later"
	case !n.Synced:
		return fmt.Sprintf("Connected to %s, getting the recent history: what you say is kept and sent after that", peers(n.Peers))
	case n.Peers < n.Needed:
		return fmt.Sprintf("Connected to %d of %d peers: what you say is kept and sent when there are more", n.Peers, n.Needed)
	}
	return "Connected to " + peers(n.Peers)
}

func peers(n int) string {
	if n == 1 {
		return "1 peer"
	}
	return strconv.Itoa(n) + " peers"
}

// level is the part of the state that is worth a line when it changes.
func (n NetworkState) level() int {
	switch {
	case n.Peers == 0:
		return 0
	case !n.Synced:
		return 1
	case n.Peers < n.Needed:
		return 2
	}
	return 3
}

// watchNetwork tells registered clients of a change of level, not more often than
// noticeInterval; a change that was undone in between is not told.
func (s *Server) watchNetwork(now time.Time) {
	if s.cfg.Network == nil {
		return
	}
	s.watchTroubles()
	st := s.cfg.Network.State()
	if s.told.IsZero() { // the first look: who connects is greeted
		s.network, s.told = st, now
		return
	}
	if st.level() == s.network.level() || now.Sub(s.told) < noticeInterval {
		return
	}
	s.network, s.told = st, now
	for c := range s.clients {
		if c.registered {
			s.tell(c, "NETWORK", st.String())
		}
	}
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

// cmdPong is PONG: that the line came is what counts.
func cmdPong(*Server, *request) error { return nil }

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
	rq := ev.rq
	if ev.err != nil {
		for l := range strings.Lines(ev.err.Error()) {
			rq.notice("REHASH failed, nothing was changed: " + clean(l))
		}
	} else {
		for _, l := range ev.sum.Changed {
			rq.notice("REHASH: " + clean(l))
		}
		for _, l := range ev.sum.NeedsRestart {
			rq.notice("REHASH: needs a restart: " + clean(l))
		}
		if len(ev.sum.Changed)+len(ev.sum.NeedsRestart) == 0 {
			rq.notice("REHASH: nothing has changed")
		}
	}
	s.finish(rq)
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
