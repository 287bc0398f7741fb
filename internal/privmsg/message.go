package privmsg

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"hearsay/internal/serial"
)

// ErrMalformed: content is not a chat message. It wraps the reason.
var ErrMalformed = errors.New("privmsg: malformed message")

// A Message is the content of a chat event. Channel, Nick and Text are plain, or
// base58 of a sealed text; see [Keyring]. It never prints its fields.
type Message struct {
	Version uint8 // 0 on send; not looked at on receipt, like Type
	Type    uint8
	Channel string
	Nick    string
	Text    string
}

// AppendTo appends the message's bytes: two bytes, three strings, nothing after
// them (facts 1.1, T11).
func (m *Message) AppendTo(b []byte) []byte {
	b = append(b, m.Version, m.Type)
	b = serial.AppendString(b, m.Channel)
	b = serial.AppendString(b, m.Nick)
	return serial.AppendString(b, m.Text)
}

// Decode reads a message at the front of content. Bytes after it are ignored, as
// upstream's daemon does (facts 1.2); everything else is strict: minimal lengths,
// valid UTF-8, and the limits of this package. Errors are [ErrMalformed].
func Decode(content []byte) (Message, error) {
	r := serial.NewReader(content)
	m := Message{Version: r.Uint8(), Type: r.Uint8()}
	m.Channel = r.String(MaxChannelField)
	m.Nick = r.String(MaxNickField)
	m.Text = r.String(MaxTextField)
	if err := r.Err(); err != nil {
		return Message{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return m, nil
}

const messageWord = "[message]"

// Format writes a fixed word for every verb: no nick or text reaches a log.
func (Message) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, messageWord) }

// MarshalText gives the same word to JSON and its kin.
func (Message) MarshalText() ([]byte, error) { return []byte(messageWord), nil }

// LogValue gives the same word to slog.
func (Message) LogValue() slog.Value { return slog.StringValue(messageWord) }
