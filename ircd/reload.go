package ircd

import (
	"context"
	"fmt"
	"slices"

	"hearsay/internal/privmsg"
)

// Apply replaces the settings while the server runs, and loads the TLS certificates
// again. All or nothing: with an error everything stays as it was. What it returns says
// what has changed, in lines for a person.
//
// A key that is gone is out of use when Apply returns. A channel that lost its secret is
// left by everybody, and refuses messages until the process ends or the channel is
// configured again: silence is better than clear text (T22).
func (s *Server) Apply(ctx context.Context, st Settings) ([]string, error) {
	if err := st.Validate(); err != nil {
		return nil, err
	}
	renewed, err := s.certs.load(s.cfg.Listen)
	if err != nil {
		return nil, err
	}
	// Set derives the keys that validation has just proven usable. Acceptance still
	// follows the old ones for a moment: what it fixed, Materialise then refuses.
	if err := s.cfg.Keys.Set(st); err != nil {
		return nil, err
	}
	done := make(chan []string, 1)
	if !s.post(evApply{st, done}) {
		return nil, context.Canceled
	}
	select {
	case changed := <-done:
		return append(changed, renewed...), nil
	case <-s.done:
		return nil, context.Canceled
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Server) apply(ctx context.Context, ev evApply) {
	changed, keys := s.adopt(ev.st)
	if keys {
		s.startFeed(ctx, s.failFeed)
	}
	ev.done <- changed
}

// adopt makes st the settings in force. Lines says what changed; keys tells that a key
// did, so that stored messages may open now that did not before.
func (s *Server) adopt(st Settings) (lines []string, keys bool) {
	old := s.settings
	s.settings = st
	ring, err := st.keyring()
	if err != nil {
		panic("ircd: settings were validated, but make no keyring")
	}
	s.ring = ring
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }

	for _, was := range old.Channels {
		i := slices.IndexFunc(st.Channels, func(c Channel) bool { return privmsg.Fold(c.Name) == privmsg.Fold(was.Name) })
		lost := !was.Secret.IsZero() && (i < 0 || st.Channels[i].Secret.IsZero())
		switch cv := s.convs[privmsg.Fold(was.Name)]; {
		case lost:
			keys = true
			say("channel %s lost its secret: it was left, and nothing is sent to it", was.Name)
			s.revoke(cv, i < 0)
		case i < 0:
			say("channel %s is no longer configured", was.Name)
			cv.configured = false
		}
	}
	for _, c := range st.Channels {
		i := slices.IndexFunc(old.Channels, func(o Channel) bool { return privmsg.Fold(o.Name) == privmsg.Fold(c.Name) })
		cv := s.conversation(c.Name, true)
		cv.name, cv.spelt, cv.configured = c.Name, true, true
		kind := privmsg.Public
		if !c.Secret.IsZero() {
			kind = privmsg.Channel
		}
		delete(s.revoked, cv.folded)
		if cv.kind != kind || i >= 0 && old.Channels[i].Secret != c.Secret {
			cv.kind, keys = kind, true
			s.reset(cv)
		}
		switch {
		case i < 0:
			say("channel %s is new", c.Name)
		case old.Channels[i].Secret != c.Secret && kind == privmsg.Channel:
			say("channel %s has another secret", c.Name)
		}
		if i < 0 || old.Channels[i].Topic != c.Topic {
			s.configureTopic(cv, c.Topic)
		}
	}
	keys = s.adoptContacts(old, st, say) || keys

	for _, name := range st.Autojoin {
		cv := s.conversation(name, true)
		cv.configured = true
	}
	if !slices.Equal(old.Autojoin, st.Autojoin) {
		say("the autojoin list has %d channels, for clients that connect from now on", len(st.Autojoin))
	}
	if !slices.Equal(old.MOTD, st.MOTD) {
		say("there is another message of the day")
	}
	return lines, keys
}

// adoptContacts does contacts. Every registered client is a member of each.
func (s *Server) adoptContacts(old, st Settings, say func(string, ...any)) (keys bool) {
	find := func(list []Contact, label string) int {
		return slices.IndexFunc(list, func(c Contact) bool { return privmsg.Fold(c.Label) == privmsg.Fold(label) })
	}
	for _, was := range old.Contacts {
		if find(st.Contacts, was.Label) < 0 {
			say("contact %s is gone", was.Label)
			s.forget(s.convs[privmsg.Fold(was.Label)])
			s.tellMonitors(was.Label)
			keys = true
		}
	}
	for _, ct := range st.Contacts {
		cv, i := s.convs[privmsg.Fold(ct.Label)], find(old.Contacts, ct.Label)
		switch {
		case i < 0:
			say("contact %s is new", ct.Label)
			cv = s.newConversation(ct.Label, privmsg.Contact)
			cv.rescan = true
			for _, c := range s.nicks {
				s.enter(c, cv)
			}
			if c := s.nicks[cv.folded]; c != nil {
				s.tell(c, "NICK_RESERVED", "Your nick is now the name of a contact, who gets what is written to it: please take another")
			}
			s.tellMonitors(ct.Label)
			keys = true
		case old.Contacts[i].Public != ct.Public || old.Contacts[i].Secret != ct.Secret:
			say("contact %s has another key", ct.Label)
			s.reset(cv)
			keys = true
		}
		cv.name, cv.spelt, cv.configured = ct.Label, true, true
	}
	return keys
}

// revoke makes everybody leave a channel that was private. With refuse nothing is sent
// to its name either.
func (s *Server) revoke(cv *conversation, refuse bool) {
	const why = "The channel's secret was removed from the configuration"
	for c := range cv.members {
		s.send(c, free(c.prefix(), "PART", cv.name, why))
	}
	for c := range cv.members {
		s.leave(c, cv)
	}
	s.forget(cv)
	if refuse {
		s.revoked[cv.folded] = true
	}
}

func (s *Server) configureTopic(cv *conversation, topic string) {
	if cv.topic == topic {
		return
	}
	cv.topic, cv.topicBy, cv.topicAt = topic, s.cfg.ServerName, s.cfg.Now()
	for c := range cv.members {
		s.send(c, free(s.cfg.ServerName, "TOPIC", cv.name, topic))
	}
}
