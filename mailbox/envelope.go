package mailbox

import (
	"fmt"

	"lukechampine.com/blake3"
)

// Version is the first byte of every envelope.
const Version = 1

// EnvelopeHeader is the number of bytes before an envelope's body: version, kind
// and delivery token.
const EnvelopeHeader = 1 + 1 + 32

// Kinds of envelope that a relay takes. The relay interprets none of them; hearsay
// sends KindSealed for messages and receipts alike, so that they look the same.
const (
	KindSealed = 1
	maxKind    = 6
)

// An Envelope is a decoded view of its bytes.
type Envelope struct {
	Kind  uint8
	Token Token
	Body  []byte // a view
}

// AppendTo appends version, kind, token and body.
func (e *Envelope) AppendTo(b []byte) []byte {
	b = append(b, Version, e.Kind)
	b = append(b, e.Token[:]...)
	return append(b, e.Body...)
}

// ParseEnvelope checks what a relay checks: size, version and kind (MB-01). The
// error wraps ErrEnvelope, or ErrTooLarge past MaxEnvelope bytes.
func ParseEnvelope(b []byte) (Envelope, error) {
	switch {
	case len(b) > MaxEnvelope:
		return Envelope{}, fmt.Errorf("%w: envelope of %d bytes, at most %d", ErrTooLarge, len(b), MaxEnvelope)
	case len(b) < EnvelopeHeader:
		return Envelope{}, fmt.Errorf("%w: %d bytes", ErrEnvelope, len(b))
	case b[0] != Version:
		return Envelope{}, fmt.Errorf("%w: version %d", ErrEnvelope, b[0])
	case b[1] < 1 || b[1] > maxKind:
		return Envelope{}, fmt.Errorf("%w: kind %d", ErrEnvelope, b[1])
	}
	return Envelope{Kind: b[1], Token: Token(b[2:EnvelopeHeader]), Body: b[EnvelopeHeader:]}, nil
}

// ContentIDOf names an envelope by its bytes.
func ContentIDOf(envelope []byte) ContentID {
	sum := blake3.Sum256(envelope)
	return ContentID(sum[:16])
}
