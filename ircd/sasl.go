package ircd

import (
	"context"
	"encoding/base64"
	"strings"
)

// saslChunk is the size of a chunk of AUTHENTICATE: a shorter one is the last (IRCv3
// SASL 3.1).
const saslChunk = 400

// saslState is an exchange under way.
type saslState struct {
	active bool
	data   string // base64, so far
}

// cmdAuthenticate is AUTHENTICATE with the mechanism PLAIN, against the daemon's
// password. The authentication identity may be anything: name@device tells clients of
// one person apart. Where the daemon has no password, any is right (decision 0140).
func cmdAuthenticate(s *Server, rq *request) error {
	c, arg := rq.c, rq.param(0)
	switch {
	case !c.caps.has(capSASL):
		return numeric(errSASLFail, "SASL authentication failed: the capability sasl was not requested")
	case c.authenticated:
		return numeric(errSASLAlready, "You have already authenticated using SASL")
	case c.checking:
		return numeric(errSASLFail, "SASL authentication failed: another check is under way")
	case arg == "*":
		c.sasl = saslState{}
		return numeric(errSASLAborted, "SASL authentication aborted")
	case !c.sasl.active:
		if !strings.EqualFold(arg, "PLAIN") {
			rq.reply(rplSASLMechs, "PLAIN", "are available SASL mechanisms")
			return numeric(errSASLFail, "SASL authentication failed")
		}
		c.sasl.active = true
		rq.send(line{command: "AUTHENTICATE", params: []string{"+"}})
		return nil
	case len(arg) > saslChunk, len(c.sasl.data)+len(arg) > maxSASL:
		c.sasl = saslState{}
		return numeric(errSASLTooLong, "SASL message too long")
	}
	if arg != "+" {
		c.sasl.data += arg
	}
	if len(arg) == saslChunk {
		return nil
	}
	data := c.sasl.data
	c.sasl = saslState{}
	id, password, ok := parsePlain(data)
	if !ok {
		s.saslFailed(rq)
		return nil
	}
	if s.cfg.PasswordHash == "" {
		s.saslSucceeded(rq, id)
		return nil
	}
	c.checking = true
	rq.job = func(ctx context.Context) event {
		right := s.checkPassword(ctx, c.conn, password)
		return evAnswer{rq, func() {
			c.checking = false
			switch {
			case c.gone:
			case right:
				s.saslSucceeded(rq, id)
			default:
				s.saslFailed(rq)
			}
		}}
	}
	return nil
}

// parsePlain reads authzid NUL authcid NUL password (RFC 4616). Nobody can act as
// somebody else.
func parsePlain(data string) (id identity, password string, ok bool) {
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return identity{}, "", false
	}
	parts := strings.Split(string(raw), "\x00")
	if len(parts) != 3 || parts[1] == "" || parts[0] != "" && parts[0] != parts[1] {
		return identity{}, "", false
	}
	return parseIdentity(parts[1]), parts[2], true
}

// saslFailed refuses a try; the client may try again, ever more slowly (the throttle),
// until maxSASLTries.
func (s *Server) saslFailed(rq *request) {
	rq.reply(errSASLFail, "SASL authentication failed")
	if rq.c.saslTries++; rq.c.saslTries >= maxSASLTries {
		s.drop(rq.c, "Too many failed SASL authentications")
	}
}

func (s *Server) saslSucceeded(rq *request, id identity) {
	c := rq.c
	c.trusted, c.authenticated = true, true
	c.identify(id, fromSASL)
	account := token(id.name)
	user := c.user
	if user == "" {
		user = "*"
	}
	rq.reply(rplLoggedIn, c.name()+"!"+user+"@"+localHost, account, "You are now logged in as "+account)
	rq.reply(rplSASLSuccess, "SASL authentication successful")
}

// abortSASL ends an exchange that registration overtakes.
func (s *Server) abortSASL(rq *request) {
	if rq.c.sasl.active {
		rq.c.sasl = saslState{}
		rq.reply(errSASLAborted, "SASL authentication aborted")
	}
}
