package mailbox

import "errors"

// Errors that callers branch on.
var (
	// ErrMalformed: bytes that are not the canonical encoding of a message.
	ErrMalformed = errors.New("mailbox: not a canonical message")
	// ErrTooLarge: an encoding or an envelope above its bound.
	ErrTooLarge = errors.New("mailbox: too large")
	// ErrEnvelope: an envelope that a relay does not take: version, kind or size.
	ErrEnvelope = errors.New("mailbox: not an envelope")
)
