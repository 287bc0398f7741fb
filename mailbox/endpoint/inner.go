package endpoint

import (
	"errors"
	"fmt"
	"time"

	"hearsay/internal/box"
	"hearsay/internal/serial"
	"hearsay/mailbox"
)

// A MessageID names one logical message at the endpoints: random, the same over all
// generations of its event, seen by no relay.
type MessageID [16]byte

// Kinds of inner record.
const (
	innerMessage = 1
	innerAlias   = 2
	innerReceipt = 3
)

// Bounds of an inner record.
const (
	innerVersion = 1
	// innerHead is version, inner kind, envelope kind, token, creation time.
	innerHead = 1 + 1 + 1 + 32 + 8
	// boxOverhead is nonce and tag of the contact box.
	boxOverhead = 24 + 16
	// minEnvelope and mailbox.MaxEnvelope are the smallest and the largest size
	// class: an envelope has 1, 2, 4 … 128 KiB, whatever is in it.
	minEnvelope = 1 << 10
	// MaxReceiptIDs bounds the message ids of one receipt.
	MaxReceiptIDs = 256
	// MaxContent bounds the content of a message, in bytes: what fits the largest class.
	MaxContent = mailbox.MaxEnvelope - mailbox.EnvelopeHeader - boxOverhead - innerHead - 16 - 8 - 5
	// MaxAge is how old a record may be: older ones are acknowledged and dropped, and
	// seen ids are kept that long.
	MaxAge = 45 * 24 * time.Hour
)

// ErrRecord: an envelope whose body is no record for us: it does not open, does not
// decode, or was moved here from another envelope.
var ErrRecord = errors.New("endpoint: not a record")

// A Record is what is inside an envelope. Exactly one of Message, Alias and Receipt
// is set.
type Record struct {
	Created time.Time // ms
	Message *Message
	Alias   *Alias
	Receipt []MessageID // what the recipient holds durably
}

// A Message is what was said: the payload of its first event.
type Message struct {
	ID        MessageID
	Timestamp uint64 // of the event, ms
	Content   []byte
}

// An Alias says that another event is a later generation of the same message.
type Alias struct {
	ID          MessageID
	ContentHash [32]byte
}

// Seal makes the encoded envelope of a record for the holder of token: the record,
// padded to a size class, in the pair's box. Content above MaxContent is
// mailbox.ErrTooLarge; a receipt has 1 to MaxReceiptIDs ids.
func Seal(b *box.Box, token mailbox.Token, r Record) ([]byte, error) {
	inner := []byte{innerVersion, 0, mailbox.KindSealed}
	inner = append(inner, token[:]...)
	inner = serial.AppendUint64(inner, uint64(r.Created.UnixMilli()))
	n := 0
	if m := r.Message; m != nil {
		n++
		inner[1] = innerMessage
		if len(m.Content) > MaxContent {
			return nil, fmt.Errorf("endpoint: content of %d bytes, at most %d: %w", len(m.Content), MaxContent, mailbox.ErrTooLarge)
		}
		inner = append(inner, m.ID[:]...)
		inner = serial.AppendUint64(inner, m.Timestamp)
		inner = serial.AppendBytes(inner, m.Content)
	}
	if a := r.Alias; a != nil {
		n++
		inner[1] = innerAlias
		inner = append(inner, a.ID[:]...)
		inner = append(inner, a.ContentHash[:]...)
	}
	if ids := r.Receipt; ids != nil {
		n++
		inner[1] = innerReceipt
		if len(ids) == 0 || len(ids) > MaxReceiptIDs {
			return nil, fmt.Errorf("endpoint: receipt of %d messages, 1 to %d", len(ids), MaxReceiptIDs)
		}
		inner = serial.AppendVarInt(inner, uint64(len(ids)))
		for _, id := range ids {
			inner = append(inner, id[:]...)
		}
	}
	if n != 1 {
		return nil, errors.New("endpoint: a record is one of message, alias and receipt")
	}
	size := minEnvelope
	for size < mailbox.EnvelopeHeader+boxOverhead+len(inner) {
		size *= 2
	}
	inner = append(inner, make([]byte, size-mailbox.EnvelopeHeader-boxOverhead-len(inner))...)
	env := mailbox.Envelope{Kind: mailbox.KindSealed, Token: token, Body: b.Seal(inner)}
	return env.AppendTo(nil), nil
}

// Open reads the record of an envelope. Kind and token inside must be those outside:
// the box is the same in both directions, so that a relay could otherwise move a
// body under another token. Every failure is ErrRecord.
func Open(b *box.Box, env mailbox.Envelope) (Record, error) {
	inner, _, err := b.Open(env.Body)
	if err != nil {
		return Record{}, ErrRecord
	}
	r := serial.NewReader(inner)
	version, kind, envKind := r.Uint8(), r.Uint8(), r.Uint8()
	token := r.Take(32)
	created := r.Uint64()
	if r.Err() != nil || version != innerVersion || envKind != env.Kind || mailbox.Token(token) != env.Token || created > maxMillis {
		return Record{}, ErrRecord
	}
	out := Record{Created: time.UnixMilli(int64(created))}
	switch kind {
	case innerMessage:
		m := &Message{}
		copy(m.ID[:], r.Take(16))
		m.Timestamp = r.Uint64()
		m.Content = append([]byte{}, r.Bytes(MaxContent)...)
		out.Message = m
	case innerAlias:
		a := &Alias{}
		copy(a.ID[:], r.Take(16))
		copy(a.ContentHash[:], r.Take(32))
		out.Alias = a
	case innerReceipt:
		n := r.Count(MaxReceiptIDs, 16)
		if n == 0 {
			return Record{}, ErrRecord
		}
		out.Receipt = make([]MessageID, n)
		for i := range out.Receipt {
			copy(out.Receipt[i][:], r.Take(16))
		}
	default:
		return Record{}, ErrRecord
	}
	for _, c := range r.Take(r.Len()) {
		if c != 0 {
			return Record{}, ErrRecord
		}
	}
	if r.Done() != nil {
		return Record{}, ErrRecord
	}
	return out, nil
}

// maxMillis keeps a time within what the clock can say.
const maxMillis = 1 << 52
