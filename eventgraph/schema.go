package eventgraph

import (
	"encoding/binary"
	"fmt"
	"time"

	"hearsay/internal/kv"
	"hearsay/internal/serial"
)

// The only file that spells a key. All integers in keys and values are big-endian,
// except inside headers and events, which are stored as they are sent.
//
//	key                     value                                       written by
//	'v'                     schema u32 ‖ fingerprint of Params 32       first open
//	'm'                     last arrival u64 ‖ last commit u64          every commit
//	's' ‖ slot u64          state u8 ‖ headers u64 ‖ bodies u64 ‖       every commit on the
//	                        bytes u64 (the genesis counts for nothing)  slot; deleted last
//	'e' ‖ slot u64 ‖ id     header (no body yet), or                    insert, headers
//	                        header ‖ arrival u64 ‖ VarInt length ‖
//	                        content (left out above inlineContent)
//	'b' ‖ slot u64 ‖ id     content above inlineContent                 insert
//	'a' ‖ arrival u64       slot u64 ‖ id ‖ source u8 ‖ time ms u64     insert
//	'd' ‖ id                static event                                static insert
//
// A genesis is never stored. Tips, time order, children and the list of missing
// bodies are derived from 'e' records (index.go).
const (
	keyVersion = 'v'
	keyMeta    = 'm'
	keySlot    = 's'
	keyEvent   = 'e'
	keyContent = 'b'
	keyArrival = 'a'
	keyStatic  = 'd'
)

// Schema is the version of this table, and Kind the store's kind for kv.Options.
const (
	Schema = 1
	Kind   = "graph"
)

// Commits by name.
var (
	OpInit        = kv.Op{Name: "graph-init", Class: kv.ClassGossip}
	OpInsert      = kv.Op{Name: "graph-insert", Class: kv.ClassGossip}
	OpInsertLocal = kv.Op{Name: "graph-insert-local", Class: kv.ClassGeneration}
	OpHeaders     = kv.Op{Name: "graph-headers", Class: kv.ClassGossip}
	OpDropHeaders = kv.Op{Name: "graph-drop-headers", Class: kv.ClassRelease}
	OpStatic      = kv.Op{Name: "graph-static", Class: kv.ClassGossip}
	OpPrune       = kv.Op{Name: "graph-prune", Class: kv.ClassRelease}
)

// Ops lists every commit of this package, for crash tests.
func Ops() []kv.Op {
	return []kv.Op{OpInit, OpInsert, OpInsertLocal, OpHeaders, OpDropHeaders, OpStatic, OpPrune}
}

var (
	versionKey = []byte{keyVersion}
	metaKey    = []byte{keyMeta}
)

func slotKey(prefix byte, s Slot) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefix}, uint64(s))
}

// appendEventKey appends the key of an 'e' or 'b' record.
func appendEventKey(b []byte, prefix byte, s Slot, id *ID) []byte {
	b = binary.BigEndian.AppendUint64(append(b, prefix), uint64(s))
	return append(b, id[:]...)
}

func arrivalKey(q Seq) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyArrival}, uint64(q))
}

func staticKey(id *ID) []byte { return append([]byte{keyStatic}, id[:]...) }

func corrupt(format string, a ...any) error {
	return fmt.Errorf("%w: %w: %s", ErrCorrupt, kv.ErrCorrupt, fmt.Sprintf(format, a...))
}

// A meta is the counters of the whole store.
type meta struct {
	arrival uint64 // the last Seq given out
	commit  uint64 // number of commits so far that changed a slot
}

func (m meta) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, m.arrival)
	return binary.BigEndian.AppendUint64(b, m.commit)
}

func decodeMeta(b []byte) (meta, error) {
	if len(b) != 16 {
		return meta{}, corrupt("counters of %d bytes", len(b))
	}
	return meta{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, nil
}

// A slotCount is the counters of one slot, without its genesis.
type slotCount struct {
	pruning bool   // being deleted; nothing of it may be served
	headers uint64 // events known, with or without a body
	bodies  uint64
	bytes   uint64 // encoded size of the bodies' events, plus the bodiless headers
}

func (c slotCount) encode() []byte {
	b := serial.AppendBool(make([]byte, 0, 25), c.pruning)
	b = binary.BigEndian.AppendUint64(b, c.headers)
	b = binary.BigEndian.AppendUint64(b, c.bodies)
	return binary.BigEndian.AppendUint64(b, c.bytes)
}

func decodeSlotCount(b []byte) (slotCount, error) {
	if len(b) != 25 || b[0] > 1 {
		return slotCount{}, corrupt("slot counters of %d bytes", len(b))
	}
	c := slotCount{b[0] == 1, binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:]), binary.BigEndian.Uint64(b[17:])}
	if c.bodies > c.headers {
		return slotCount{}, corrupt("slot with more bodies than headers")
	}
	return c, nil
}

// A record is an 'e' value.
type record struct {
	header  Header
	arrival Seq    // 0: header only
	size    int    // content length
	content []byte // nil where it has a record of its own; a view
}

func (r *record) hasBody() bool { return r.arrival != 0 }

// appendRecord appends the value of an event with a body.
func appendRecord(b []byte, e *Event, q Seq) []byte {
	b = binary.BigEndian.AppendUint64(e.Header.AppendTo(b), uint64(q))
	if len(e.Content) > inlineContent {
		return serial.AppendVarInt(b, uint64(len(e.Content)))
	}
	return serial.AppendBytes(b, e.Content)
}

func decodeRecord(b []byte) (record, error) {
	r := serial.NewReader(b)
	rec := record{header: ReadHeader(r)}
	if r.Err() == nil && r.Len() == 0 {
		return rec, nil
	}
	if q := r.Take(8); q != nil {
		rec.arrival = Seq(binary.BigEndian.Uint64(q))
	}
	size := r.VarInt()
	if size > maxMaxContent {
		r.Fail(serial.ErrLimit)
	}
	if rec.size = int(size); rec.size <= inlineContent {
		rec.content = r.Take(rec.size)
	}
	if err := r.Done(); err != nil {
		return record{}, corrupt("event record: %v", err)
	}
	if rec.arrival == 0 || rec.size == 0 {
		return record{}, corrupt("event record without arrival or content")
	}
	return rec, nil
}

// An arrivalRow is an 'a' value.
type arrivalRow struct {
	slot   Slot
	id     ID
	source Source
	time   uint64 // ms
}

func (a *arrivalRow) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(a.slot))
	b = append(b, a.id[:]...)
	b = append(b, byte(a.source))
	return binary.BigEndian.AppendUint64(b, a.time)
}

func decodeArrival(b []byte) (a arrivalRow, err error) {
	if len(b) != 49 || b[40] < byte(SourceLocal) || b[40] > byte(SourceSync) {
		return a, corrupt("arrival record of %d bytes", len(b))
	}
	a.slot = Slot(binary.BigEndian.Uint64(b))
	copy(a.id[:], b[8:])
	a.source = Source(b[40])
	a.time = binary.BigEndian.Uint64(b[41:])
	return a, nil
}

func (a *arrivalRow) wall() time.Time { return Slot(a.time).Time() }
