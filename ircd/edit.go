package ircd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"hearsay/internal/box"
	"hearsay/internal/privmsg"
)

// An Editor writes contacts and channels into the configuration and puts it in force,
// so that nobody needs a text editor. Its methods are called from several goroutines and
// may block for a disk. Their errors are told to the client.
type Editor interface {
	// AddContact adds a contact with a fresh key of ours, or completes one. A zero public
	// key notes that theirs is not known yet; the contact cannot be written to before it
	// is. ours is what they need, the same each time until the contact is removed.
	AddContact(ctx context.Context, label string, theirs box.PublicKey) (ours box.PublicKey, sum Summary, err error)
	RemoveContact(ctx context.Context, label string) (Summary, error)
	// Pending are the contacts whose keys are not known yet.
	Pending(ctx context.Context) ([]PendingContact, error)
	// AddChannel adds an encrypted channel.
	AddChannel(ctx context.Context, name string, secret box.SecretKey) (Summary, error)
	RemoveChannel(ctx context.Context, name string) (Summary, error)
}

// A PendingContact has got a card of ours, and we have not got theirs.
type PendingContact struct {
	Label string
	Ours  box.PublicKey // for them
}

// contacts is CONTACTS.
func (s *Server) contacts(rq *request, args []string) {
	card := len(args) == 2 && strings.EqualFold(args[0], "CARD")
	me := rq.c.nick // what they will call us, if they do not change it
	if len(args) > 0 && !card {
		s.edit(rq, args, func(verb string, args []string) editRun { return s.editContacts(me, verb, args) })
		return
	}
	answer := func(pending []PendingContact) []string { return s.contactLines(pending) }
	if card {
		answer = func(pending []PendingContact) []string { return s.card(me, args[1], pending) }
	}
	if s.cfg.Editor == nil {
		rq.sayAll(answer(nil))
		return
	}
	rq.job = func(ctx context.Context) event {
		pending, err := s.cfg.Editor.Pending(ctx)
		return evAnswer{rq, func() {
			rq.sayAll(answer(pending))
			if err != nil { // what is in force is known all the same
				rq.sayAll(failed("CONTACTS", err))
			}
		}}
	}
}

func (s *Server) contactLines(pending []PendingContact) (lines []string) {
	for _, c := range s.settings.Contacts {
		lines = append(lines, fmt.Sprintf("%s: their key %s, yours for them %s", c.Label, c.Public.Base58(), c.Secret.Public().Base58()))
	}
	for _, p := range pending {
		lines = append(lines, fmt.Sprintf("%s: waits for their key, yours for them %s", p.Label, p.Ours.Base58()))
	}
	if len(lines) == 0 {
		lines = append(lines, "You have no contacts")
	}
	return append(lines, "To add one: CONTACTS ADD name makes your card for them; CONTACTS ADD name their-key takes theirs. HELP CONTACTS says more")
}

// channels is CHANNELS.
func (s *Server) channels(rq *request, args []string) {
	switch {
	case len(args) == 0:
		rq.sayAll(s.channelLines())
	case len(args) == 2 && strings.EqualFold(args[0], "CARD"):
		rq.sayAll(s.channelCard(args[1]))
	default:
		s.edit(rq, args, s.editChannels)
	}
}

// edit is CONTACTS or CHANNELS with something to do.
func (s *Server) edit(rq *request, args []string, use func(verb string, args []string) editRun) {
	name, verb := rq.word, strings.ToUpper(args[0])
	run := use(verb, args[1:])
	switch {
	case run == nil:
		rq.say("*status", usageText(builtinOf(name)))
		return
	case s.cfg.Editor == nil:
		rq.say("*status", "This server cannot write its configuration")
		return
	}
	rq.job = func(ctx context.Context) event {
		lines, sum, err := run(ctx)
		return evAnswer{rq, func() {
			if err != nil {
				rq.sayAll(failed(name+" "+verb, err))
				return
			}
			rq.sayAll(append(lines, sum.lines(name+": ")...))
		}}
	}
}

// An editRun makes an edit, on the reader's goroutine.
type editRun func(ctx context.Context) (lines []string, sum Summary, err error)

// editContacts is nil for what is no use of CONTACTS.
func (s *Server) editContacts(me, verb string, args []string) editRun {
	switch {
	case verb == "ADD" && (len(args) == 1 || len(args) == 2):
		return func(ctx context.Context) (lines []string, sum Summary, err error) {
			var theirs box.PublicKey
			if len(args) == 2 {
				if theirs, err = box.ParsePublic(args[1]); err != nil {
					return nil, sum, errors.New("their key is 32 bytes in base58, as their card has it")
				}
			}
			ours, sum, err := s.cfg.Editor.AddContact(ctx, args[0], theirs)
			if err != nil {
				return nil, sum, err
			}
			lines = cardLines(me, args[0], ours)
			if theirs.IsZero() {
				lines = append(lines, "When you have theirs: /msg *status CONTACTS ADD "+args[0]+" their-key")
			} else {
				lines = append(lines, "You can write to "+args[0]+"; they can read it, and you them, when they have added this key")
			}
			return lines, sum, nil
		}
	case verb == "REMOVE" && len(args) == 1:
		return func(ctx context.Context) ([]string, Summary, error) {
			sum, err := s.cfg.Editor.RemoveContact(ctx, args[0])
			return []string{args[0] + " is removed, with your key for them, which cannot be made again"}, sum, err
		}
	}
	return nil
}

// editChannels is nil for what is no use of CHANNELS.
func (s *Server) editChannels(verb string, args []string) editRun {
	switch {
	case verb == "ADD" && (len(args) == 1 || len(args) == 2):
		return func(ctx context.Context) (lines []string, sum Summary, err error) {
			secret := box.GenerateSecret()
			if len(args) == 2 {
				if secret, err = box.ParseSecret(args[1]); err != nil {
					return nil, sum, errors.New("a secret is 32 bytes in base58")
				}
			}
			sum, err = s.cfg.Editor.AddChannel(ctx, args[0], secret)
			if len(args) == 1 {
				lines = channelCardLines(args[0], secret)
			}
			return append(lines, "/join "+args[0]), sum, err
		}
	case verb == "REMOVE" && len(args) == 1:
		return func(ctx context.Context) ([]string, Summary, error) {
			sum, err := s.cfg.Editor.RemoveChannel(ctx, args[0])
			return []string{args[0] + " is removed from the configuration"}, sum, err
		}
	}
	return nil
}

// card is what a contact needs to know of us.
func (s *Server) card(me, label string, pending []PendingContact) []string {
	for _, c := range s.settings.Contacts {
		if privmsg.Fold(c.Label) == privmsg.Fold(label) {
			return cardLines(me, c.Label, c.Secret.Public())
		}
	}
	for _, p := range pending {
		if privmsg.Fold(p.Label) == privmsg.Fold(label) {
			return cardLines(me, p.Label, p.Ours)
		}
	}
	return []string{"There is no contact " + token(label) + ": CONTACTS ADD " + token(label) + " makes one, and your card for them"}
}

// channelCard is what others need to read an encrypted channel.
func (s *Server) channelCard(name string) []string {
	for _, c := range s.settings.Channels {
		if privmsg.Fold(c.Name) != privmsg.Fold(name) {
			continue
		}
		if c.Secret.IsZero() {
			return []string{c.Name + " is public: everybody can join and read it"}
		}
		return channelCardLines(c.Name, c.Secret)
	}
	return []string{"There is no encrypted channel " + token(name) + ": CHANNELS ADD " + token(name) + " makes one"}
}

func channelCardLines(name string, secret box.SecretKey) []string {
	return []string{
		"For everybody who may read " + name + ", and nobody else:",
		"/msg *status CHANNELS ADD " + name + " " + secret.Base58(),
		fmt.Sprintf("or, in a configuration file below [channel.%q]: secret = %q", name, secret.Base58()),
	}
}

// cardLines are the card, for somebody with this program and for somebody with darkirc.
func cardLines(me, label string, ours box.PublicKey) []string {
	return []string{
		"Your card for " + label + ", to be given to them over a channel that you trust; they may call you something else than " + me + ":",
		"/msg *status CONTACTS ADD " + me + " " + ours.Base58(),
		fmt.Sprintf("or, in a configuration file: dm_chacha_public = %q", ours.Base58()),
	}
}

// lines tell a summary.
func (sum Summary) lines(prefix string) (lines []string) {
	for _, l := range sum.Changed {
		lines = append(lines, prefix+clean(l))
	}
	for _, l := range sum.NeedsRestart {
		lines = append(lines, prefix+"needs a restart: "+clean(l))
	}
	return lines
}

// Usable tells whether the keys in force are those that an encoded [Message] was
// accepted under: without them it waits (DS-79). conversation is where it goes.
func (k *Keys) Usable(record []byte) (conversation string, ok bool, err error) {
	m, err := DecodeMessage(record)
	if err != nil {
		return "", false, err
	}
	kind, name, print, ok := k.get().Lookup(m.to.Name)
	return m.to.Name, ok && kind == m.to.Kind && privmsg.Fold(name) == privmsg.Fold(m.to.Name) && print == m.to.Fingerprint, nil
}
