package eventgraph

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strconv"
	"time"
)

// Errors that callers branch on.
var (
	ErrNotFound = errors.New("eventgraph: no such event")
	ErrNoSlot   = errors.New("eventgraph: slot is not loaded")
	ErrInvalid  = errors.New("eventgraph: invalid event") // wrapped with the rule that was broken
	ErrNoParent = errors.New("eventgraph: a parent's body is not stored")
	ErrTooLarge = errors.New("eventgraph: content too large")
	ErrConfig   = errors.New("eventgraph: invalid configuration")
	ErrForeign  = errors.New("eventgraph: header of another network")
	ErrBusy     = errors.New("eventgraph: store refuses new events") // disk below its reserve
	ErrRotating = errors.New("eventgraph: slot changed; make the event again")
)

// A Slot is one rotating graph, named by its genesis timestamp in ms.
type Slot uint64

// String is the slot's name on the wire: decimal.
func (s Slot) String() string { return strconv.FormatUint(uint64(s), 10) }

// Params are the consensus parameters: every node of a network agrees on them.
type Params struct {
	Genesis  Slot          // timestamp of the very first slot
	Contents []byte        // content of each slot's genesis
	Rotation time.Duration // 0: one slot for ever; else whole seconds, at least twice Drift
	Drift    time.Duration // clock tolerance D
}

// DarkIRC is the parameters of the public network.
func DarkIRC() Params {
	return Params{Genesis: 1740787200000, Contents: []byte("darkirc-v1"), Rotation: time.Hour, Drift: time.Minute}
}

// Config configures a Graph. Zero values mean the default that is named.
type Config struct {
	Params                       // zero: DarkIRC()
	Window     int               // slots kept, the current one included; default 24
	Archive    bool              // keep every slot
	MaxContent int               // bytes of one event's content; default 64 KiB
	NoSync     bool              // commits are not durable: a lost power supply may lose the newest events
	Now        func() time.Time  // wall clock, data here: slots follow it; default time.Now
	Validate   func(Event) error // the application's own rule on content, pure and fast; refusals are ErrInvalid
	Logger     *slog.Logger      // default: discard
}

// A Graph is the store of events and the rules about them. It does no network
// I/O and knows of no peer.
type Graph struct{}

// Tips maps a layer to the ids of the bodies in it that no stored body refers to.
type Tips map[uint64][]ID

// A Cursor is a position in a slot's time order (timestamp, id), exclusive.
type Cursor struct {
	Timestamp uint64
	ID        ID
}

// A Page is the answer to a range query.
type Page struct {
	Events    []Event
	Next      Cursor
	Exhausted bool
}

// Seq is a position in the durable arrival order of this store, dense from 1.
type Seq uint64

// An Arrival is an event with the place and the manner of its coming here.
type Arrival struct {
	Seq    Seq
	Slot   Slot
	Source Source
	Time   time.Time // wall clock at commit
	Event  Event
}

// Open opens or creates the graph in dir, which only its owner may read.
func Open(dir string, cfg Config) (*Graph, error) { panic("to be built") }

// OpenMemory makes a graph that is lost with the process.
func OpenMemory(cfg Config) (*Graph, error) { panic("to be built") }

// Run rotates and prunes until ctx ends.
func (g *Graph) Run(ctx context.Context) error { panic("to be built") }

// Close closes the store. No other call may be under way.
func (g *Graph) Close() error { panic("to be built") }

// Current is the slot of the wall clock, at this very moment.
func (g *Graph) Current() Slot { panic("to be built") }

// Slots lists the retained slots, oldest first.
func (g *Graph) Slots() []Slot { panic("to be built") }

// NewEvent makes an event on the current slot's tips with the current time, and
// stores nothing (spec: creating events; DS-70).
func (g *Graph) NewEvent(content []byte) (Event, error) { panic("to be built") }

// Publish makes an event and inserts it as a local one.
func (g *Graph) Publish(ctx context.Context, content []byte) (Event, error) { panic("to be built") }

// Insert validates events against slot and commits them in (layer, id) order in
// one transaction, headers included. It returns the ids newly stored; an event
// that was there already is no error. With an error that wraps ErrInvalid or
// ErrNoParent none of the batch is stored.
func (g *Graph) Insert(ctx context.Context, slot Slot, events []Event, src Source) ([]ID, error) {
	panic("to be built")
}

// InsertHeaders stores headers without bodies: what a sync has yet to fetch. All
// or none; genesis-shaped and known ones are skipped.
func (g *Graph) InsertHeaders(slot Slot, headers []Header) error { panic("to be built") }

// CheckHeader and CheckEvent apply the rules without storing.
func (g *Graph) CheckEvent(slot Slot, e *Event) error { panic("to be built") }

// HasBody, HasHeader: is it stored in that slot?
func (g *Graph) HasBody(slot Slot, id ID) bool   { panic("to be built") }
func (g *Graph) HasHeader(slot Slot, id ID) bool { panic("to be built") }

// Find looks id up in all retained slots, bodies only.
func (g *Graph) Find(id ID) (Event, Slot, error) { panic("to be built") }

// Tips is a copy of a slot's tips.
func (g *Graph) Tips(slot Slot) (Tips, error) { panic("to be built") }

// HeadersBeyond lists, in (layer, id) order, at most limit headers of the slot that
// are neither in known nor an ancestor of one in known (HeaderReq).
func (g *Graph) HeadersBeyond(slot Slot, known Tips, limit int) ([]Header, error) {
	panic("to be built")
}

// Missing lists, in (layer, id) order, at most limit headers without a body.
func (g *Graph) Missing(slot Slot, limit int) ([]Header, error) { panic("to be built") }

// Page lists events of a slot in time order beyond a cursor (RangeReq).
func (g *Graph) Page(slot Slot, from Cursor, backward bool, limit int) (Page, error) {
	panic("to be built")
}

// Descends tells whether ancestor is an ancestor of id, by headers of one slot.
func (g *Graph) Descends(id, ancestor ID) (bool, error) { panic("to be built") }

// Subscribe yields arrivals after from, in order: first the stored ones, then each
// new one as it commits, until ctx ends. The cursor is durable: a subscriber that
// kept the last Seq it handled loses nothing over a restart, as long as the slot
// is retained. A slow subscriber blocks nobody and grows nothing.
func (g *Graph) Subscribe(ctx context.Context, from Seq) iter.Seq2[Arrival, error] {
	panic("to be built")
}

// OnCommit registers fn, called after each commit in order, before Insert returns.
// It must not block and must not call Insert. Register before use.
func (g *Graph) OnCommit(fn func(Arrival)) { panic("to be built") }
