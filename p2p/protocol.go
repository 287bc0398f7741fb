package p2p

import "context"

// A Session says how a connection came about. The values are the network's bits.
type Session uint8

// String is the network's word for s.
func (s Session) String() string {
	switch s {
	case SessionInbound:
		return "inbound"
	case SessionOutbound:
		return "outbound"
	case SessionManual:
		return "manual"
	case SessionSeed:
		return "seed"
	case SessionRefine:
		return "refine"
	case SessionDirect:
		return "direct"
	case SessionDefault:
		return "default"
	}
	return "mixed"
}

// Sessions.
const (
	SessionInbound  Session = 0x01
	SessionOutbound Session = 0x02
	SessionManual   Session = 0x04
	SessionSeed     Session = 0x08
	SessionRefine   Session = 0x10
	SessionDirect   Session = 0x20
	// SessionDefault is the mask of connections that carry application protocols.
	SessionDefault = SessionInbound | SessionOutbound | SessionManual | SessionDirect
)

// A Protocol is what an application speaks. It is attached to every connection
// whose session is in Mask before the first byte is read, so no command of it is
// ever unknown.
type Protocol struct {
	Name     string
	Mask     Session
	Commands []Command
	// Attach makes the handler of one connection. It must not block and must not send.
	Attach func(*Peer) Handler
}

// A Command is one message name and the largest payload that is read for it, in
// bytes, unless the handler is a [Limiter].
type Command struct {
	Name       string
	MaxPayload int
	// Skip: a payload above MaxPayload and up to this size is read and dropped
	// instead of costing the connection (DS-03).
	Skip int
	// Meter: optional metering as for base messages.
	Meter Meter
}

// A Meter is the network's rate limit for the messages of one command on one
// connection (spec/wire.md, section 4). A sender waits before each message beyond the
// threshold, for as many steps as it is beyond; a receiver bans a peer whose messages
// pass the sum of the thresholds of all metered commands.
type Meter struct {
	Threshold int // messages in the window that cost nothing; 0: no metering
	StepMS    int // ms
	ExpiryMS  int // length of the window, ms
}

// A Handler is one protocol on one connection.
type Handler interface {
	// Handle takes one message. It is called from the connection's reader, one
	// message after another, from before the handshake's end, and must not block
	// for long: the reader waits. payload is the handler's to keep. A returned error
	// closes the connection; see Fault for what else it can cost.
	Handle(command string, payload []byte) error
	// Run is started once the handshake is done, and its ctx ends with the
	// connection. A returned error closes the connection.
	Run(ctx context.Context) error
}

// A Limiter is a Handler that decides a payload's bound by what it asked for.
type Limiter interface {
	MaxPayload(command string) int
}

// A Fault is an error that says what it costs the peer.
type Fault struct {
	Ban   bool // black-list the address as well as closing (under every ban policy if Force)
	Force bool
	Err   error
}

func (f *Fault) Error() string { return f.Err.Error() }
func (f *Fault) Unwrap() error { return f.Err }
