package ircd

import (
	"errors"
	"strings"

	"github.com/ergochat/irc-go/ircmsg"

	"hearsay/internal/privmsg"
)

// A reply is a numeric as an error: a handler that refuses returns one.
type reply struct {
	numeric string
	params  []string // after the client's name; the last one is free text
}

// Error is for tests and broken invariants; clients get the numeric.
func (r *reply) Error() string { return r.numeric + " " + strings.Join(r.params, " ") }

func numeric(num string, params ...string) error { return &reply{num, params} }

// A request is one command of a client and what is answered to it. With
// labeled-response the answer is held back until it is complete.
type request struct {
	s     *Server
	c     *client
	msg   ircmsg.Message
	label string
	lines []line // held back, if label is set
	job   job    // the handler's slow part: the answer is complete after it
	word  string // the command to "*status", in upper case
}

// param is the parameter i, or "".
func (rq *request) param(i int) string {
	if i < len(rq.msg.Params) {
		return rq.msg.Params[i]
	}
	return ""
}

// send adds a line to the answer.
func (rq *request) send(l line) {
	if rq.label == "" {
		rq.s.send(rq.c, l)
	} else {
		rq.lines = append(rq.lines, l)
	}
}

// reply adds a numeric to the answer; the last parameter is free text.
func (rq *request) reply(num string, params ...string) {
	rq.send(free(rq.s.cfg.ServerName, num, append([]string{rq.c.name()}, params...)...))
}

// replyPlain adds a numeric whose last parameter is not free text.
func (rq *request) replyPlain(num string, params ...string) {
	rq.send(plain(rq.s.cfg.ServerName, num, append([]string{rq.c.name()}, params...)...))
}

// notice adds a NOTICE of the server.
func (rq *request) notice(text string) {
	rq.send(free(rq.s.cfg.ServerName, "NOTICE", rq.c.name(), cutUTF8(text, 400)))
}

// fail answers with FAIL, or a NOTICE for a client without standard-replies.
func (rq *request) fail(code string, context []string, text string) {
	if rq.c.caps.has(capStandardReplies) {
		params := append([]string{rq.msg.Command, code}, context...)
		rq.send(free(rq.s.cfg.ServerName, "FAIL", append(params, text)...))
		return
	}
	rq.notice(text)
}

// tags are what local clients with message-tags get with a message: the client-only tags
// of its sender, and whether that is a bot (IRCv3 bot-mode).
func (rq *request) tags() map[string]string {
	tags := rq.msg.ClientOnlyTags()
	if rq.c.bot {
		if tags == nil {
			tags = map[string]string{}
		}
		tags["bot"] = ""
	}
	return tags
}

// flush sends an answer that was held back: bare, as a batch, or as ACK where there is
// nothing to say.
func (rq *request) flush() {
	s, c := rq.s, rq.c
	if rq.label == "" {
		return
	}
	switch lines := rq.lines; {
	case len(lines) == 0:
		l := plain(s.cfg.ServerName, "ACK")
		l.label = rq.label
		s.send(c, l)
	case len(lines) == 1:
		lines[0].label = rq.label
		s.send(c, lines[0])
	case !c.caps.has(capBatch): // labels depend on batches; the client has not asked for them
		for _, l := range lines {
			s.send(c, l)
		}
	default:
		ref := s.newBatch()
		start := plain(s.cfg.ServerName, "BATCH", "+"+ref, "labeled-response")
		start.label = rq.label
		s.send(c, start)
		for _, l := range lines {
			if l.batch == "" {
				l.batch = ref
			}
			s.send(c, l)
		}
		s.send(c, plain(s.cfg.ServerName, "BATCH", "-"+ref))
	}
	rq.lines = nil
}

// tell sends something about the server itself, unasked: a NOTE for clients with
// standard-replies, else a NOTICE.
func (s *Server) tell(c *client, code, text string) {
	if c.caps.has(capStandardReplies) {
		s.send(c, free(s.cfg.ServerName, "NOTE", "*", code, text))
		return
	}
	s.send(c, free(s.cfg.ServerName, "NOTICE", c.name(), text))
}

// refusal maps what an outbox says to a code and a text: the one place that does.
func refusal(err error) (code, text string) {
	switch {
	case errors.Is(err, ErrQueueFull):
		return "QUEUE_FULL", "Your message was not accepted: too many messages are waiting to be sent"
	case errors.Is(err, ErrTooLong):
		return "MESSAGE_TOO_LONG", "Your message was not accepted: it has more than 8192 bytes"
	case errors.Is(err, ErrNoKey):
		return "NO_KEY", "Your message was not accepted: the key of this conversation is gone or was changed"
	case errors.Is(err, ErrStorageUnknown):
		return "STORAGE_UNKNOWN", "The disk failed: whether your message was accepted is not known"
	}
	return "STORAGE_ERROR", "Your message was not accepted: it could not be stored"
}

// token makes one parameter of what a client sent, to be echoed in a numeric.
func token(s string) string {
	s = cutUTF8(strings.Map(func(r rune) rune {
		if r == ' ' {
			return '_'
		}
		return r
	}, s), 64)
	if s == "" || s[0] == ':' {
		return "*"
	}
	return s
}

// cutUTF8 cuts at a code point.
func cutUTF8(s string, limit int) string { return ircmsg.TruncateUTF8Safe(s, limit) }

// wrap cuts text into pieces of at most limit bytes.
func wrap(text string, limit int) []string { return privmsg.Split(text, limit) }
