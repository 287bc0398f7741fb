package privmsg

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hearsay/internal/box"
)

// Errors that callers branch on.
var (
	// ErrForged: a plain message names a private channel or a contact. Whoever sent
	// it does not hold the key (T4).
	ErrForged = errors.New("privmsg: plain message for a private conversation")
	// ErrNotOurs: a message of a conversation whose key is not here.
	ErrNotOurs = errors.New("privmsg: no key opens this message")
	// ErrNoKey: the key with which a message must be sealed is gone or was replaced
	// (DS-79, T22).
	ErrNoKey = errors.New("privmsg: the conversation's key is gone or was changed")
	// ErrKeys: a keyring cannot be made of these keys.
	ErrKeys = errors.New("privmsg: bad keys")
)

// A Kind says how a conversation is protected.
type Kind uint8

// Kinds.
const (
	Public  Kind = iota + 1 // a channel in clear
	Channel                 // a channel with a shared secret
	Contact                 // a direct conversation
)

// A ChannelKey is a channel with a secret.
type ChannelKey struct {
	Name   string
	Secret box.SecretKey
}

// A ContactKey is a person: their public key, and the secret of ours that is used
// with them.
type ContactKey struct {
	Label  string
	Public box.PublicKey
	Secret box.SecretKey
}

// A Keyring holds the boxes of all private conversations. It is immutable.
type Keyring struct {
	channels []channelBox // sorted by name, so that the order of trials is fixed (T10)
	contacts []contactBox // sorted by label
	private  map[string]Kind
}

type channelBox struct {
	name string
	box  *box.Box
}

type contactBox struct {
	label string
	box   *box.Box // ours and theirs: channel and text fields
	self  *box.Box // ours and ours: the nick field of what we wrote (T8)
}

// NewKeyring derives the boxes. Names must be valid and distinct after [Fold];
// errors are [ErrKeys] with the name of the entry.
func NewKeyring(channels []ChannelKey, contacts []ContactKey) (*Keyring, error) {
	k := &Keyring{private: make(map[string]Kind, len(channels)+len(contacts))}
	for _, c := range channels {
		if err := k.claim(c.Name, Channel, ValidChannel(c.Name)); err != nil {
			return nil, err
		}
		b, err := box.NewShared(c.Secret)
		if err != nil {
			return nil, fmt.Errorf("%w: channel %q: %w", ErrKeys, c.Name, err)
		}
		k.channels = append(k.channels, channelBox{c.Name, b})
	}
	for _, c := range contacts {
		if err := k.claim(c.Label, Contact, ValidNick(c.Label)); err != nil {
			return nil, err
		}
		b, err := box.New(c.Secret, c.Public)
		if err != nil {
			return nil, fmt.Errorf("%w: contact %q: %w", ErrKeys, c.Label, err)
		}
		self, err := box.NewShared(c.Secret)
		if err != nil {
			return nil, fmt.Errorf("%w: contact %q: %w", ErrKeys, c.Label, err)
		}
		k.contacts = append(k.contacts, contactBox{c.Label, b, self})
	}
	slices.SortFunc(k.channels, func(a, b channelBox) int { return cmp.Compare(a.name, b.name) })
	slices.SortFunc(k.contacts, func(a, b contactBox) int { return cmp.Compare(a.label, b.label) })
	return k, nil
}

func (k *Keyring) claim(name string, kind Kind, valid bool) error {
	if !valid {
		return fmt.Errorf("%w: invalid name %q", ErrKeys, name)
	}
	if _, taken := k.private[Fold(name)]; taken {
		return fmt.Errorf("%w: %q is there twice", ErrKeys, name)
	}
	k.private[Fold(name)] = kind
	return nil
}

// Lookup finds the conversation that a name means: the kind, the configured spelling
// and the key's fingerprint of a private one; [Public] and name itself for any
// other channel; ok is false for a nick that is no contact.
func (k *Keyring) Lookup(name string) (kind Kind, spelling string, print box.Fingerprint, ok bool) {
	folded := Fold(name)
	switch k.private[folded] {
	case Channel:
		for _, c := range k.channels {
			if Fold(c.name) == folded {
				return Channel, c.name, c.box.Fingerprint(), true
			}
		}
	case Contact:
		for _, c := range k.contacts {
			if Fold(c.label) == folded {
				return Contact, c.label, c.box.Fingerprint(), true
			}
		}
	case Public: // is in no keyring
	}
	return Public, name, box.Fingerprint{}, strings.HasPrefix(name, "#")
}

// A Sealed says what to make: kind, name and fingerprint as Lookup gave them when
// the message was accepted.
type Sealed struct {
	Kind        Kind
	Name        string
	Fingerprint box.Fingerprint
}

// Seal makes the message, with fresh nonces where it is private (facts 2.4). It
// returns [ErrNoKey] if to's key is not the one that it was, and also if a public
// channel has become a private one since: never in clear, never under another key
// (DS-79).
func (k *Keyring) Seal(to Sealed, nick, text string) (Message, error) {
	return k.SealAs([16]byte{}, to, nick, text)
}

// SealAs is Seal of a message with an id, the same for all its generations: who can open
// a direct message finds it in [Opened], nobody else sees that it is there (decision
// 0195). A zero id is none; an id must not be used for two texts.
func (k *Keyring) SealAs(id [16]byte, to Sealed, nick, text string) (Message, error) {
	kind, _, print, _ := k.Lookup(to.Name)
	if kind != to.Kind || print != to.Fingerprint {
		return Message{}, ErrNoKey
	}
	dummy := make([]byte, MaxNick)
	switch to.Kind {
	case Public:
		return Message{Channel: to.Name, Nick: nick, Text: text}, nil
	case Channel:
		for _, c := range k.channels {
			if Fold(c.name) == Fold(to.Name) {
				padded := make([]byte, MaxNick)
				copy(padded, nick)
				return Message{
					Channel: c.box.SealText(dummy),
					Nick:    c.box.SealText(padded),
					Text:    c.box.SealText([]byte(text)),
				}, nil
			}
		}
	case Contact:
		for _, c := range k.contacts {
			if Fold(c.label) == Fold(to.Name) {
				m := Message{Channel: c.box.SealText(dummy), Nick: c.self.SealText(dummy)}
				if id == ([16]byte{}) {
					m.Text = c.box.SealText([]byte(text))
				} else {
					m.Text = c.box.SealTextTagged([]byte(text), id)
				}
				return m, nil
			}
		}
	}
	return Message{}, ErrNoKey // what Lookup finds is in one of the two
}

// An Opened is a message as far as it can be believed.
type Opened struct {
	Kind Kind
	Name string // the channel as the sender spelt it (Public) or as it is configured; the contact's label
	// Nick is what the sender claims to be called, raw: see [CleanNick]. It is empty
	// for a contact, who is known by Name.
	Nick  string
	Mine  bool      // a direct message written by us, on this or on another device
	Text  string    // raw: see [Lines]
	Nonce box.Nonce // of the text, for [Replays]; zero for Public
	// ID is that of SealAs, of a direct message; where its author gave none it is a number
	// that no other message has.
	ID [16]byte
}

// Open finds the conversation of a received message: private channels first, then
// contacts, each in the order of their names (facts 2.5, made deterministic: T10).
// Errors are [ErrForged] and [ErrNotOurs].
func (k *Keyring) Open(m Message) (Opened, error) {
	if strings.HasPrefix(m.Channel, "#") { // '#' is not in base58's alphabet
		if k.private[Fold(m.Channel)] != 0 {
			return Opened{}, ErrForged
		}
		if !ValidChannel(m.Channel) {
			return Opened{}, ErrNotOurs
		}
		return Opened{Kind: Public, Name: m.Channel, Nick: m.Nick, Text: m.Text}, nil
	}
	if k.private[Fold(m.Channel)] != 0 {
		return Opened{}, ErrForged
	}
	mark, err := box.DecodeText(m.Channel) // once for all trials
	if err != nil {
		return Opened{}, ErrNotOurs
	}
	for _, c := range k.channels {
		if _, _, err := c.box.Open(mark); err != nil {
			continue
		}
		nick, _, err1 := c.box.OpenText(m.Nick)
		text, nonce, err2 := c.box.OpenText(m.Text)
		if err1 != nil || err2 != nil {
			continue
		}
		return Opened{Kind: Channel, Name: c.name, Nick: unpad(nick), Text: toText(text), Nonce: nonce}, nil
	}
	for _, c := range k.contacts {
		if _, _, err := c.box.Open(mark); err != nil {
			continue
		}
		text, nonce, err := c.box.OpenText(m.Text)
		if err != nil {
			continue
		}
		_, _, err = c.self.OpenText(m.Nick)
		return Opened{Kind: Contact, Name: c.label, Mine: err == nil, Text: toText(text), Nonce: nonce, ID: c.box.TagOf(nonce)}, nil
	}
	return Opened{}, ErrNotOurs
}

// unpad strips the padding of a channel's nick. An all-zero block, which upstream
// leaves as 24 NULs, is an empty nick here (T9).
func unpad(nick []byte) string { return toText(bytes.TrimRight(nick, "\x00")) }

// toText replaces what is not UTF-8 by U+FFFD, as upstream does.
func toText(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
