package ircd

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// AddChannel adds an encrypted channel.
	AddChannel(ctx context.Context, name string, secret box.SecretKey) (Summary, error)
	RemoveChannel(ctx context.Context, name string) (Summary, error)
}

const (
	contactsUsage = "CONTACTS, CONTACTS ADD name [their key], CONTACTS REMOVE name, CONTACTS CARD name"
	channelsUsage = "CHANNELS, CHANNELS ADD #name [secret], CHANNELS REMOVE #name"
)

// editStatus is CONTACTS and CHANNELS of "*status" with something to do.
func (s *Server) editStatus(rq *request, name string, args []string) {
	usage, edit := contactsUsage, s.editContacts
	if name == "CHANNELS" {
		usage, edit = channelsUsage, s.editChannels
	}
	verb, args := strings.ToUpper(args[0]), args[1:]
	if verb == "CARD" && name == "CONTACTS" && len(args) == 1 {
		rq.sayAll(s.card(args[0]))
		return
	}
	if s.cfg.Editor == nil {
		rq.say("*status", "This server cannot write its configuration")
		return
	}
	run := edit(verb, args)
	if run == nil {
		rq.say("*status", "Usage: "+usage)
		return
	}
	rq.job = func(ctx context.Context) event {
		lines, sum, err := run(ctx)
		return evAnswer{rq, func() {
			if err != nil {
				for l := range strings.Lines(err.Error()) {
					rq.say("*status", name+" "+verb+" failed: "+clean(l))
				}
				return
			}
			rq.sayAll(append(lines, sum.lines(name+": ")...))
		}}
	}
}

// An editRun makes an edit, on the reader's goroutine.
type editRun func(ctx context.Context) (lines []string, sum Summary, err error)

// editContacts is nil for what is no use of CONTACTS.
func (s *Server) editContacts(verb string, args []string) editRun {
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
			lines = cardLines(args[0], ours)
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
				lines = []string{"For everybody who may read " + args[0] + ", and nobody else: /msg *status CHANNELS ADD " + args[0] + " " + secret.Base58()}
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
func (s *Server) card(label string) []string {
	i := slices.IndexFunc(s.settings.Contacts, func(c Contact) bool { return privmsg.Fold(c.Label) == privmsg.Fold(label) })
	if i < 0 {
		return []string{"There is no contact " + token(label) + " yet: CONTACTS ADD " + token(label) + " makes your card for them"}
	}
	c := s.settings.Contacts[i]
	return cardLines(c.Label, c.Secret.Public())
}

// cardLines are the card, for somebody with this program and for somebody with darkirc.
func cardLines(label string, ours box.PublicKey) []string {
	return []string{
		"Your card for " + label + ", to be given to them over a channel that you trust:",
		"/msg *status CONTACTS ADD your-name " + ours.Base58(),
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
	return m.to.Name, ok && kind == m.to.Kind && name == m.to.Name && print == m.to.Fingerprint, nil
}
