package ircd

import (
	"net"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"hearsay/internal/privmsg"
)

// Hosts of prefixes: whether somebody is connected here or was heard on the network.
// No address is ever shown.
const (
	localHost  = "hearsay"
	remoteHost = "darkirc"
	remoteUser = "~net"
)

// A client is one connection. Its upper fields are shared between the connection's
// goroutines and never change; the loop owns the rest.
type client struct {
	conn    net.Conn
	secure  bool // TLS
	queue   sendQueue
	resume  chan job      // the loop's answer to evLine and to the event of a job
	drained chan struct{} // has a value when the queue fell below lowWater
	read    chan struct{} // closed when the reader has ended

	serial uint64 // names the connection, in entries of the log
	open   bool   // in s.clients
	gone   bool   // dropped: nothing is written any more

	caps       capSet
	cap302     bool // CAP LS 302
	capHold    bool // registration waits for CAP END
	pass       string
	nick       string // "" until NICK
	user       string // "" until USER
	realname   string
	registered bool
	checking   bool // the password is being looked at
	trusted    bool // the password was right
	invisible  bool // user mode +i
	bot        bool // user mode +B
	away       string

	sasl          saslState
	saslTries     int               // failed ones
	authenticated bool              // by SASL
	who           identity          // zero: no device was named
	identified    identitySource    // where who is from
	monitored     map[string]string // MONITOR: nicks as they were written, by folded nick

	quiet  bool   // wants no history unasked; of a client with a device the ReadState knows it
	probe  probe  // the newest
	probes uint64 // how many there were

	joined map[*conversation]bool // channels
	behind []*conversation        // conversations with history still to send

	connected time.Time // monotonic: timeouts
	heard     time.Time // last line
	pinged    time.Time // zero: no PING is out
	spoke     time.Time // last PRIVMSG, for WHOIS
	signon    time.Time // wall clock
}

func newClient(conn net.Conn, secure bool, limit int) *client {
	now := time.Now()
	return &client{
		conn:      conn,
		secure:    secure,
		queue:     sendQueue{wake: make(chan struct{}, 1), limit: limit},
		resume:    make(chan job, 1),
		drained:   make(chan struct{}, 1),
		read:      make(chan struct{}),
		joined:    map[*conversation]bool{},
		connected: now,
		heard:     now,
	}
}

// name is what numerics call the client.
func (c *client) name() string {
	if c.nick == "" {
		return "*"
	}
	return c.nick
}

// prefix is the client as a source.
func (c *client) prefix() string { return c.nick + "!~" + c.user + "@" + localHost }

// cleanUser makes a user part of what USER said, so that nobody fails to register for
// it.
func cleanUser(s string) string {
	var b strings.Builder
	for _, r := range s {
		if b.Len() == maxUser {
			break
		}
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r) {
			b.WriteRune(r)
		}
	}
	if b.Len() == 0 {
		return "user"
	}
	return b.String()
}

// A line is one line to a client, before it is known what the client negotiated.
type line struct {
	source  string // "" for the few that have none
	command string
	params  []string
	colon   bool // the last parameter is free text: always with a colon

	time  time.Time         // for server-time; zero: now, and none on numerics
	msgid string            // for message-tags
	tags  map[string]string // client-only tags, for message-tags
	label string            // for labeled-response
	batch string            // for batch
}

// free is a line whose last parameter is free text.
func free(source, command string, params ...string) line {
	return line{source: source, command: command, params: params, colon: true}
}

// plain is a line of middle parameters.
func plain(source, command string, params ...string) line {
	return line{source: source, command: command, params: params}
}

const timeFormat = "2006-01-02T15:04:05.000Z"

// send puts l into c's queue, rendered for what c negotiated. A client whose queue is
// full is dropped.
func (s *Server) send(c *client, l line) {
	if c.gone {
		return
	}
	raw := s.render(c, l)
	if raw != nil && !c.queue.push(raw) {
		s.drop(c, "SendQ exceeded")
	}
}

func (s *Server) render(c *client, l line) []byte {
	var tags map[string]string
	tag := func(k, v string) {
		if tags == nil {
			tags = make(map[string]string, 4)
		}
		tags[k] = v
	}
	if c.caps.has(capServerTime) {
		switch {
		case !l.time.IsZero():
			tag("time", l.time.UTC().Format(timeFormat))
		case l.command[0] > '9':
			tag("time", s.cfg.Now().UTC().Format(timeFormat))
		}
	}
	if c.caps.has(capMessageTags) {
		if l.msgid != "" {
			tag("msgid", l.msgid)
		}
		for k, v := range l.tags {
			tag(k, v)
		}
	}
	if l.label != "" && c.caps.has(capLabeledResponse) {
		tag("label", l.label)
	}
	if l.batch != "" && c.caps.has(capBatch) {
		tag("batch", l.batch)
	}
	m := ircmsg.MakeMessage(tags, l.source, l.command, l.params...)
	if l.colon {
		m.ForceTrailing()
	}
	raw, err := m.LineBytesStrict(false, maxLine)
	if err != nil && raw == nil {
		// A broken invariant of ours: what is in l was not made fit for a line.
		s.log.Error("line not sent", "command", l.command, "error", err)
		return nil
	}
	return raw
}

// room is how many bytes of free text fit a line whose other parts are known.
func room(source, command, target string) int {
	return maxLine - len(": ") - len(source) - len(command) - len(" ") - len(target) - len(" :\r\n")
}

// drop marks c as gone; it is removed when the event in hand is done. It may be called
// any number of times.
func (s *Server) drop(c *client, reason string) {
	if !c.gone {
		c.gone = true
		s.doomed = append(s.doomed, doomed{c, reason})
	}
}

// bury removes the clients that were dropped, each with an ERROR as its last line and
// a QUIT to those who shared a channel. That may drop others.
func (s *Server) bury() {
	for len(s.doomed) > 0 {
		d := s.doomed[0]
		s.doomed = s.doomed[1:]
		c := d.c
		if raw := s.render(c, free("", "ERROR", "Closing link: "+d.reason)); raw != nil {
			c.queue.finish(raw)
		}
		if c.registered {
			delete(s.nicks, privmsg.Fold(c.nick))
			s.bygone(c.nick, c.user, c.realname)
			for peer := range s.peersOf(c) {
				s.send(peer, free(c.prefix(), "QUIT", d.reason))
			}
		}
		for _, cv := range s.convs {
			s.leave(c, cv)
		}
		delete(s.clients, c)
		if c.registered {
			s.tellMonitors(c.nick)
		}
	}
}

// peersOf are the other clients that share a channel with c.
func (s *Server) peersOf(c *client) map[*client]bool {
	peers := map[*client]bool{}
	for cv := range c.joined {
		for m := range cv.members {
			if m != c {
				peers[m] = true
			}
		}
	}
	return peers
}

// open takes a new connection into the state.
func (s *Server) open(c *client) {
	s.serial++
	c.serial, c.open = s.serial, true
	s.clients[c] = struct{}{}
	s.thinOut()
}

// checkAlive drops a client that does not register, or gives no sign of life.
func (s *Server) checkAlive(c *client, now time.Time) {
	switch {
	case !c.registered:
		if now.Sub(c.connected) >= registerTimeout {
			s.drop(c, "Registration timed out")
		}
	case !c.pinged.IsZero():
		if now.Sub(c.pinged) >= pingTimeout {
			s.drop(c, "Ping timeout")
		}
	case now.Sub(c.heard) >= pingAfter:
		c.pinged = now
		s.send(c, line{command: "PING", params: []string{s.cfg.ServerName}, colon: true})
	}
}
