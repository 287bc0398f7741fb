package ircd

import (
	"time"

	"lukechampine.com/blake3"

	"hearsay/internal/arrival"
	"hearsay/internal/box"
	"hearsay/internal/privmsg"
)

// publicTagContext makes tags of public channels.
const publicTagContext = "hearsay 2026-11-30 public channel tag v1"

// tagOf names a conversation in the order of arrival: a private one by its key, so that
// another key is another conversation, whatever it is called.
func tagOf(kind privmsg.Kind, name string, print box.Fingerprint) (tag arrival.Tag) {
	if kind != privmsg.Public {
		return arrival.Tag(print)
	}
	blake3.DeriveKey(tag[:], publicTagContext, []byte(privmsg.Fold(name)))
	return tag
}

// placeOf is where a text belongs; nowhere, if nothing of it is shown.
func placeOf(kind privmsg.Kind, name string, print box.Fingerprint, text string) (p arrival.Place) {
	if len(textLines(text)) > 0 {
		p.Tag, p.Size = tagOf(kind, name, print), uint32(len(text))
	}
	return p
}

// place is where an opened message belongs.
func place(ring *privmsg.Keyring, o privmsg.Opened) arrival.Place {
	_, _, print, _ := ring.Lookup(o.Name)
	return placeOf(o.Kind, o.Name, print, o.Text)
}

// PlaceOf is where an encoded [Message] belongs in the order of arrival. The zero Place is for
// bytes that are none, and for a message of which nothing is shown later.
func PlaceOf(record []byte) arrival.Place {
	m, err := DecodeMessage(record)
	if err != nil {
		return arrival.Place{}
	}
	p := placeOf(m.to.Kind, m.to.Name, m.to.Fingerprint, m.text)
	p.Notice = m.notice
	return p
}

// PlaceOfMail is where the content of a message belongs that a mailbox brought and that ring
// opens, and its author's clock said written.
func PlaceOfMail(ring *privmsg.Keyring, content []byte, written time.Time) (p arrival.Place) {
	m, err := privmsg.Decode(content)
	if err != nil {
		return p
	}
	o, err := ring.Open(m)
	if err != nil {
		return p
	}
	p = place(ring, o)
	p.Time = written.UnixMilli()
	return p
}
