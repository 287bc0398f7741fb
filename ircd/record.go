package ircd

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"hearsay/internal/box"
	"hearsay/internal/privmsg"
	"hearsay/internal/serial"
)

// A Message is what an Outbox keeps: one event's worth of text, its nick, and how it
// must be encrypted, all fixed when it was accepted (DS-30, DS-79). To an Outbox it
// is bytes. It never prints its fields.
type Message struct {
	to   privmsg.Sealed
	nick string
	text string
	// notice: it was said with NOTICE. The network has none; here it stays one.
	notice bool
}

// The first byte of an encoded Message: of one that was said with PRIVMSG, or with NOTICE.
const (
	recordMessage = 1
	recordNotice  = 2
)

// ErrRecord: bytes that are no encoded Message.
var ErrRecord = errors.New("ircd: malformed message record")

// AppendTo appends the message's bytes: version, kind, fingerprint, conversation,
// nick, text (spec/chat.md, section 3).
func (m *Message) AppendTo(b []byte) []byte {
	version := byte(recordMessage)
	if m.notice {
		version = recordNotice
	}
	b = append(b, version, byte(m.to.Kind))
	b = append(b, m.to.Fingerprint[:]...)
	b = serial.AppendString(b, m.to.Name)
	b = serial.AppendString(b, m.nick)
	return serial.AppendString(b, m.text)
}

// DecodeMessage reads what AppendTo wrote, and nothing else. Errors are ErrRecord.
func DecodeMessage(b []byte) (Message, error) {
	var m Message
	r := serial.NewReader(b)
	switch v := r.Uint8(); {
	case v == recordNotice:
		m.notice = true
	case v != recordMessage && r.Err() == nil:
		return Message{}, fmt.Errorf("%w: version %d", ErrRecord, v)
	}
	m.to.Kind = privmsg.Kind(r.Uint8())
	m.to.Fingerprint = box.Fingerprint(append(make([]byte, 0, 16), r.Take(16)...)[:16:16])
	m.to.Name = r.String(privmsg.MaxChannel)
	m.nick = r.String(privmsg.MaxNick)
	m.text = r.String(privmsg.MaxText)
	if err := r.Done(); err != nil {
		return Message{}, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	public := m.to.Kind == privmsg.Public
	switch {
	case m.to.Kind < privmsg.Public || m.to.Kind > privmsg.Contact,
		public != (m.to.Fingerprint == box.Fingerprint{}),
		m.to.Kind == privmsg.Contact && !privmsg.ValidNick(m.to.Name),
		m.to.Kind != privmsg.Contact && !privmsg.ValidChannel(m.to.Name),
		!privmsg.ValidNick(m.nick), m.text == "":
		return Message{}, fmt.Errorf("%w: a field breaks its rule", ErrRecord)
	}
	return m, nil
}

// Conversation is the channel or contact that the message goes to, for a person who
// asks about their own queue. It must not be logged.
func (m *Message) Conversation() string { return m.to.Name }

// Public tells whether everybody may read the message.
func (m *Message) Public() bool { return m.to.Kind == privmsg.Public }

// Contact is the fingerprint of the pair's key where the message goes to a contact.
func (m *Message) Contact() (pair box.Fingerprint, ok bool) {
	return m.to.Fingerprint, m.to.Kind == privmsg.Contact
}

const messageWord = "[message]"

// Format writes a fixed word for every verb.
func (Message) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, messageWord) }

// MarshalText gives the same word to JSON and its kin.
func (Message) MarshalText() ([]byte, error) { return []byte(messageWord), nil }

// LogValue gives the same word to slog.
func (Message) LogValue() slog.Value { return slog.StringValue(messageWord) }
