package p2p

import "errors"

// Causes with which connections end. [Peer.Context] carries one of them, or what a
// handler returned.
var (
	// ErrShutdown: this node stops.
	ErrShutdown = errors.New("p2p: node stops")
	// ErrNotRunning: [Node.Run] is not running.
	ErrNotRunning = errors.New("p2p: node is not running")
	// ErrDisconnected: the other end closed between two frames.
	ErrDisconnected = errors.New("p2p: peer closed the connection")
	// ErrConnection: the transport failed, or the connection was lost inside a frame.
	ErrConnection = errors.New("p2p: connection lost")
	// ErrMagic: a frame starts with other bytes than the network's magic.
	ErrMagic = errors.New("p2p: wrong magic")
	// ErrFrame: the frame's header breaks the grammar.
	ErrFrame = errors.New("p2p: malformed frame")
	// ErrUnknownCommand: a command that nobody registered.
	ErrUnknownCommand = errors.New("p2p: unknown command")
	// ErrTooLarge: a payload above its bound.
	ErrTooLarge = errors.New("p2p: payload too large")
	// ErrMalformed: a payload that does not decode.
	ErrMalformed = errors.New("p2p: malformed payload")
	// ErrTrailing: a payload with bytes behind its content.
	ErrTrailing = errors.New("p2p: bytes behind the payload's content")
	// ErrMetering: more messages than the network's rate limit allows.
	ErrMetering = errors.New("p2p: rate limit exceeded")
	// ErrIncompatible: the peer runs another application or version.
	ErrIncompatible = errors.New("p2p: incompatible version")
	// ErrHandshake: no handshake in time, or something else in its place.
	ErrHandshake = errors.New("p2p: handshake failed")
	// ErrNoPong: a ping was not answered in time.
	ErrNoPong = errors.New("p2p: no pong")
	// ErrStalled: the peer stopped inside a frame.
	ErrStalled = errors.New("p2p: peer stalled inside a frame")
	// ErrSlowPeer is the closing cause of a peer that did not read what was queued for it.
	ErrSlowPeer = errors.New("p2p: peer does not read")
	// ErrPaced: TrySend of a command with a meter that asks for a delay. The peer stays.
	ErrPaced = errors.New("p2p: rate limit asks for a delay")
	// ErrFull: no place for another connection.
	ErrFull = errors.New("p2p: no free place")
	// ErrBlacklisted: the address is on the black list.
	ErrBlacklisted = errors.New("p2p: address is black-listed")
	// ErrUnsupported: no active profile or route for the address's scheme.
	ErrUnsupported = errors.New("p2p: unsupported transport")
	// ErrRefused: the address is not one that may be dialed: a seed, our own, or one
	// that is being dialed or is connected.
	ErrRefused = errors.New("p2p: address may not be dialed now")
	// ErrDone: the connection has done what it was made for.
	ErrDone = errors.New("p2p: exchange finished")
)

// causeTexts are the words for the causes above in logs and events: transport errors
// embed addresses and are never printed (DS-51).
var causeTexts = []struct {
	err  error
	text string
}{
	{ErrShutdown, "shutdown"},
	{ErrSlowPeer, "does not read"},
	{ErrStalled, "stalled inside a frame"},
	{ErrNoPong, "no pong"},
	{ErrMagic, "wrong magic"},
	{ErrFrame, "malformed frame"},
	{ErrUnknownCommand, "unknown command"},
	{ErrTooLarge, "payload too large"},
	{ErrMalformed, "malformed payload"},
	{ErrTrailing, "trailing bytes"},
	{ErrMetering, "rate limit"},
	{ErrIncompatible, "incompatible version"},
	{ErrHandshake, "handshake failed"},
	{ErrFull, "no free place"},
	{ErrBlacklisted, "black-listed"},
	{ErrUnsupported, "unsupported transport"},
	{ErrRefused, "may not be dialed now"},
	{ErrDone, "finished"},
	{ErrDisconnected, "disconnected"},
	{ErrConnection, "connection lost"},
}

// causeText is a word for err that holds nothing of the peer.
func causeText(err error) string {
	for _, r := range causeTexts {
		if errors.Is(err, r.err) {
			return r.text
		}
	}
	return "closed by a protocol"
}

// A BanPolicy says whether misbehaviour costs only the connection or the address too.
type BanPolicy uint8

// Policies.
const (
	BanStrict  BanPolicy = iota // the default
	BanRelaxed                  // of seed nodes: never black-list for framing faults
)

// An offence is what a peer did wrong on the wire: the rows of spec/wire.md, section 5.
type offence uint8

const (
	offenceLost        offence = iota // connection lost, wherever in a frame
	offenceMagic                      // wrong magic, or bytes behind a payload's content
	offenceCommandForm                // command length not minimal, or command not UTF-8
	offenceCommandLong                // command above 255 bytes
	offenceUnknown                    // unknown command
	offenceLength                     // payload length not minimal
	offenceOversize                   // base payload above its maximum
	offenceAppOversize                // application payload above our own cap
	offencePayload                    // base payload that does not decode
	offenceMeter                      // rate limit
	offenceVersion                    // incompatible verack
	offenceStall                      // too slow inside a frame
	offenceEarly                      // application message before version and verack
	offences                          // count
)

// bans tells whether o costs a peer of session s its address under the strict policy.
// All of them cost the connection; the relaxed policy never bans.
func (o offence) bans(s Session) bool {
	switch o {
	case offenceCommandLong:
		return true
	case offenceUnknown, offenceLength, offenceOversize, offencePayload, offenceMeter:
		return s != SessionRefine
	case offenceMagic, offenceVersion:
		return s == SessionOutbound
	default:
		return false
	}
}

// A wireFault is an offence with its cause; the reader returns it.
type wireFault struct {
	offence offence
	err     error
}

func (f *wireFault) Error() string { return f.err.Error() }
func (f *wireFault) Unwrap() error { return f.err }
