package outbound

import (
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"hearsay/eventgraph"
)

// A Position is a record's place in the queue: dense from 1, never reused.
type Position uint64

// String is the decimal number.
func (p Position) String() string { return strconv.FormatUint(uint64(p), 10) }

// A LogicalID names one message over all of its generations, for ever. It is random
// and says nothing of the text.
type LogicalID [16]byte

// String is the id in lower-case hex.
func (id LogicalID) String() string { return hex.EncodeToString(id[:]) }

// A Payload is what the application needs to make an event: text, target, nick,
// encryption intent (DS-30, DS-79). No fmt verb, logger or encoder prints it (DS-44).
type Payload []byte

const hidden = "[payload]"

// Format implements [fmt.Formatter]: every verb prints a placeholder.
func (Payload) Format(f fmt.State, _ rune) { hide(f, hidden) }

// LogValue implements [slog.LogValuer].
func (Payload) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText implements [encoding.TextMarshaler], which JSON uses.
func (Payload) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// hide writes s; a formatter has nobody to report an error to.
func hide(f fmt.State, s string) { _, _ = io.WriteString(f, s) }

// A Draft is a message to enqueue.
type Draft struct {
	ID      LogicalID // zero: a random one is made
	Payload Payload   // at most MaxPayload bytes
}

// Format implements [fmt.Formatter] without the text.
func (d Draft) Format(f fmt.State, _ rune) { hide(f, "draft "+d.ID.String()) }

// An Entry is an accepted message.
type Entry struct {
	Position Position
	ID       LogicalID
	Enqueued time.Time // wall clock, in ms
	Payload  Payload
}

// String names the entry without its text.
func (e Entry) String() string { return "entry " + e.Position.String() + " " + e.ID.String() }

// Format implements [fmt.Formatter] without the text.
func (e Entry) Format(f fmt.State, _ rune) { hide(f, e.String()) }

// LogValue implements [slog.LogValuer].
func (e Entry) LogValue() slog.Value { return slog.StringValue(e.String()) }

// MarshalText implements [encoding.TextMarshaler].
func (e Entry) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// A Generation is one event made of an entry: exactly what goes out, every time
// (DS-37, DS-73). Its content can be text in clear, so it prints as its id.
type Generation struct {
	Event eventgraph.Event
	Blob  []byte // proof; empty without rate limiting
	Slot  eventgraph.Slot
}

// ID is the event's id.
func (g *Generation) ID() eventgraph.ID { return g.Event.ID() }

// Format implements [fmt.Formatter] without the content.
func (g Generation) Format(f fmt.State, _ rune) { hide(f, "generation "+g.ID().String()) }

// LogValue implements [slog.LogValuer].
func (g Generation) LogValue() slog.Value { return slog.StringValue("generation " + g.ID().String()) }

// MarshalText implements [encoding.TextMarshaler].
func (g Generation) MarshalText() ([]byte, error) {
	return []byte("generation " + g.ID().String()), nil
}

// An Item is what a list of retained records shows (DS-83): never text.
type Item struct {
	Position    Position
	Enqueued    time.Time
	Size        int // bytes of its rows
	Generations int
	State       string // "head", "queued", "cancelled"
}

// A Summary counts what the store holds.
type Summary struct {
	Depth      int    // records that wait for evidence
	Tombstones int    // cancelled ones that the head has yet to pass
	Bytes      int64  // of max_bytes
	Acked      uint64 // since the store was made
	Cancelled  uint64 // since the store was made
	Owners     int    // generations whose owner is known (DS-85)
	Held       bool   // a restored queue that nobody has confirmed (ST-06)
}
