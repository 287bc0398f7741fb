package ircd

import (
	"context"
	"strconv"
	"strings"
	"time"

	"hearsay/internal/privmsg"
)

// A send is one message to one conversation, on its way through the outbox.
type send struct {
	target   string // as the client wrote it
	cv       *conversation
	parts    []Message
	accepted []Accepted
	err      error
}

// cmdPrivmsg is PRIVMSG: to channels, contacts, and nicks that are connected here.
func cmdPrivmsg(s *Server, rq *request) error { return s.message(rq, "PRIVMSG") }

// cmdNotice is NOTICE. The network has none: it travels as a message. One that is CTCP is
// an automatic answer and stays here.
func cmdNotice(s *Server, rq *request) error { return s.message(rq, "NOTICE") }

// message refuses or accepts for each target by itself. What has to become durable does
// so in a job; the reader takes no next line before.
func (s *Server) message(rq *request, command string) error {
	text := rq.param(1)
	switch {
	case rq.param(0) == "":
		return s.syntax(command, errNoRecipient, "No recipient given ("+command+")")
	case text == "":
		return s.syntax(command, errNoTextToSend, "No text to send")
	}
	rq.c.spoke = time.Now()
	targets := splitList(rq.param(0))
	if len(targets) > maxTargets {
		return s.syntax(command, errTooManyTargets, token(rq.param(0)), "Too many targets")
	}
	var sends []send
	for _, target := range targets {
		if sd, ok := s.route(rq, command, target, text); ok {
			sends = append(sends, sd)
		}
	}
	if len(sends) == 0 {
		return nil
	}
	s.ticket++
	ticket := s.ticket
	s.accepts[ticket] = true
	rq.job = func(ctx context.Context) event {
		for i := range sends {
			sd := &sends[i]
			sd.accepted, sd.err = s.cfg.Outbox.Accept(ctx, sd.parts)
			if sd.err == nil && len(sd.accepted) != len(sd.parts) {
				sd.err = ErrStorageUnknown // the outbox broke its contract
			}
		}
		return evAccepted{rq, ticket, sends}
	}
	return nil
}

// syntax is a numeric for a PRIVMSG and nothing for a NOTICE, which must not be answered
// by one (RFC 2812).
func (s *Server) syntax(command, num string, params ...string) error {
	if command == "NOTICE" {
		return nil
	}
	return numeric(num, params...)
}

// route delivers what stays here, refuses what cannot go, and returns what is for the
// outbox. How it must be encrypted is fixed here (DS-79, T5).
func (s *Server) route(rq *request, command, target, text string) (send, bool) {
	c := rq.c
	refuse := func(num, code, text string) (send, bool) {
		s.refuseMessage(rq, command, target, num, code, text)
		return send{}, false
	}
	kind, name, print, ok := s.ring.Lookup(target)
	switch {
	case strings.HasPrefix(target, "#") && !privmsg.ValidChannel(target):
		return refuse(errNoSuchNick, "", "No such nick/channel")
	case ok:
	case services[privmsg.Fold(target)] != "":
		s.service(rq, privmsg.Fold(target))
		return send{}, false
	default:
		if peer := s.nicks[privmsg.Fold(target)]; peer != nil {
			s.local(rq, command, peer, text)
		} else {
			return refuse(errNoSuchNick, "", "No such nick/channel; to write to somebody in private, /msg *status CONTACTS")
		}
		return send{}, false
	}
	if command == "NOTICE" && privmsg.IsCTCP(text) {
		return send{}, false
	}
	if len(text) > maxText {
		code, why := refusal(ErrTooLong)
		return refuse(errCannotSendToChan, code, why)
	}
	if kind == privmsg.Public && s.revoked[privmsg.Fold(target)] {
		code, why := refusal(ErrNoKey)
		return refuse(errCannotSendToChan, code, why)
	}
	cv := s.convs[privmsg.Fold(name)]
	if kind == privmsg.Public {
		cv = s.conversation(target, true)
		name = cv.name
	}
	sd := send{target: target, cv: cv}
	for _, piece := range privmsg.Split(text, privmsg.MaxText) {
		sd.parts = append(sd.parts, Message{
			to: privmsg.Sealed{Kind: kind, Name: name, Fingerprint: print}, nick: c.nick, text: piece, notice: command == "NOTICE",
		})
	}
	return sd, true
}

// refuseMessage tells one refusal once: a numeric for a PRIVMSG, a NOTICE of the server
// for a NOTICE.
func (s *Server) refuseMessage(rq *request, command, target, num, code, text string) {
	if code != "" {
		text = "[" + code + "] " + text
	}
	if command == "NOTICE" {
		rq.notice(token(target) + ": " + text)
		return
	}
	rq.reply(num, token(target), text)
}

// accepted shows what the outbox took, and refuses the rest.
func (s *Server) accepted(ev evAccepted) {
	rq, c, command := ev.rq, ev.rq.c, ev.rq.msg.Command
	for _, sd := range ev.sends {
		if sd.err != nil {
			s.log.Warn("message not accepted", "error", sd.err)
			code, text := refusal(sd.err)
			s.refuseMessage(rq, command, sd.target, errCannotSendToChan, code, text)
			continue
		}
		for i, acc := range sd.accepted {
			lines, _ := privmsg.Lines(sd.parts[i].text)
			e := entry{
				id: acc.ID, command: command, nick: sd.parts[i].nick, lines: lines,
				time: acc.Time, arrived: s.cfg.Now(), mine: true, from: c.serial, by: c.device(),
				tags: rq.tags(),
			}
			ctcp := len(lines) == 0 // goes out, and is shown here as it was typed
			if ctcp {
				e.lines = []string{sd.parts[i].text}
			}
			s.remember(acc.ID)
			if c.caps.has(capEchoMessage) {
				for _, l := range s.lines(c, sd.cv, &e) {
					rq.send(l)
				}
			}
			s.keep(sd.cv, e)
		}
	}
	delete(s.accepts, ev.ticket)
	s.finish(rq)
	s.release()
}

// keep logs an accepted entry and shows it to the other local clients. Client-only tags
// are not kept: they are for those who are there.
func (s *Server) keep(cv *conversation, e entry) {
	switch {
	case s.convs[cv.folded] != cv: // forgotten or replaced since; it still goes out
	case s.complete(cv):
		s.add(cv, e)
		if n := len(cv.log); n > 0 {
			cv.log[n-1].tags = nil
		}
	case len(cv.held) < maxEntries:
		e.tags = nil
		cv.held = append(cv.held, e)
	}
}

// local delivers to a nick that is connected to this daemon: nothing of it leaves it.
func (s *Server) local(rq *request, command string, peer *client, text string) {
	c := rq.c
	if command == "PRIVMSG" && len(text) > maxText {
		code, why := refusal(ErrTooLong)
		s.refuseMessage(rq, command, peer.nick, errCannotSendToChan, code, why)
		return
	}
	e := entry{lines: wrap(text, privmsg.MaxText), time: s.cfg.Now()}
	for _, l := range split(c.prefix(), command, peer.nick, s.localID(), &e) {
		l.tags = rq.tags()
		if c.caps.has(capEchoMessage) {
			rq.send(l)
		}
		s.send(peer, l)
	}
	if command == "PRIVMSG" && peer.away != "" && peer != c {
		rq.reply(rplAway, peer.nick, peer.away)
	}
}

// localID names what stays here. Ids are unique, over restarts too: clients drop what has one
// that they know.
func (s *Server) localID() string {
	s.serial++
	return "local-" + strconv.FormatInt(s.started.UnixMilli(), 36) + "-" + itoa(s.serial)
}

// cmdTagmsg is TAGMSG: client-only tags between local clients. The network has no place
// for them.
func cmdTagmsg(s *Server, rq *request) error {
	c := rq.c
	if !c.caps.has(capMessageTags) {
		return numeric(errUnknownCommand, "TAGMSG", "Unknown command")
	}
	if rq.param(0) == "" {
		return numeric(errNeedMoreParams, "TAGMSG", "Not enough parameters")
	}
	for i, target := range splitList(rq.param(0)) {
		if i == maxTargets {
			break
		}
		l := plain(c.prefix(), "TAGMSG", token(target))
		l.tags, l.msgid, l.time = rq.msg.ClientOnlyTags(), s.localID(), s.cfg.Now()
		if len(l.tags) == 0 || services[privmsg.Fold(target)] != "" {
			continue
		}
		l.tags = rq.tags()
		cv := s.convs[privmsg.Fold(target)]
		peer := s.nicks[privmsg.Fold(target)]
		switch {
		case cv != nil && cv.isChannel():
			l.params[0] = cv.name
			for m := range cv.members {
				if m != c && m.caps.has(capMessageTags) {
					s.send(m, l)
				}
			}
		case cv != nil: // a contact: the network has no tags
		case peer != nil:
			l.params[0] = peer.nick
			if peer.caps.has(capMessageTags) {
				s.send(peer, l)
			}
		default:
			rq.reply(errNoSuchNick, token(target), "No such nick/channel")
			continue
		}
		if c.caps.has(capEchoMessage) {
			rq.send(l)
		}
	}
	return nil
}
