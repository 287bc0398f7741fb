package outbound

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
	"hearsay/internal/serial"
)

// This file is the only one that spells a key or a stored value. The tables are
// drawn in spec/delivery.md, section 3.
//
//	om                   meta         counters, head pointer, high-water mark
//	oe position          entry        logical id, enqueue time, payload
//	ot position          tombstone    cancelled; the head has yet to pass
//	or position          retry        schedule and park state of the head
//	og position number   generation   id, slot, time, superseded by
//	oa position          active       event and blob
//	oi event id          owner        logical id, slot
//	ox slot event id     age          the owners by slot
//
// Integers in keys are big-endian, so that bytes sort as numbers.
const (
	space = 'o' // first byte of every key of this package in the custody store

	tableMeta       = 'm'
	tableEntry      = 'e'
	tableTombstone  = 't'
	tableRetry      = 'r'
	tableGeneration = 'g'
	tableActive     = 'a'
	tableOwner      = 'i'
	tableAge        = 'x'

	// valueVersion is the first byte of every value.
	valueVersion = 1
	// sealSize is what seal adds to a body: version and checksum.
	sealSize = 1 + crc32.Size
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errBool = errors.New("not 0 or 1")

func table(t byte) []byte { return []byte{space, t} }

func metaKey() []byte { return table(tableMeta) }

func positionKey(t byte, p Position) []byte {
	return binary.BigEndian.AppendUint64(table(t), uint64(p))
}

func generationKey(p Position, n uint32) []byte {
	return binary.BigEndian.AppendUint32(positionKey(tableGeneration, p), n)
}

func ownerKey(id eventgraph.ID) []byte { return append(table(tableOwner), id[:]...) }

func ageKey(s eventgraph.Slot, id eventgraph.ID) []byte {
	return append(binary.BigEndian.AppendUint64(table(tableAge), uint64(s)), id[:]...)
}

// keyPosition is the position in a key of a table by position.
func keyPosition(key []byte) (Position, error) {
	if len(key) < 10 {
		return 0, fmt.Errorf("outbound: %w: key of %d bytes", kv.ErrCorrupt, len(key))
	}
	return Position(binary.BigEndian.Uint64(key[2:])), nil
}

// parseAgeKey splits a key of the age table.
func parseAgeKey(key []byte) (s eventgraph.Slot, id eventgraph.ID, err error) {
	if len(key) != 2+8+32 {
		return 0, id, fmt.Errorf("outbound: %w: age key of %d bytes", kv.ErrCorrupt, len(key))
	}
	copy(id[:], key[10:])
	return eventgraph.Slot(binary.BigEndian.Uint64(key[2:])), id, nil
}

// seal wraps a body: a flipped byte, and a value under a key that is not its own,
// are noticed when it is read (ST-04).
func seal(key, body []byte) []byte {
	v := append(make([]byte, 0, len(body)+sealSize), valueVersion)
	v = append(v, body...)
	return binary.LittleEndian.AppendUint32(v, checksum(key, v))
}

func checksum(key, sealed []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, sealed)
}

// unseal opens a value and runs read over its body, which read must consume whole.
func unseal(key, value []byte, read func(*serial.Reader)) error {
	n := len(value) - crc32.Size
	if n < 1 || value[0] != valueVersion || binary.LittleEndian.Uint32(value[n:]) != checksum(key, value[:n]) {
		return fmt.Errorf("outbound: %w: table %q: bad checksum or version", kv.ErrCorrupt, key[:2])
	}
	r := serial.NewReader(value[1:n])
	read(r)
	if err := r.Done(); err != nil {
		return fmt.Errorf("outbound: %w: table %q: %w", kv.ErrCorrupt, key[:2], err)
	}
	return nil
}

// strictBool reads 0 or 1: a stored value has one form only.
func strictBool(r *serial.Reader) bool {
	v := r.Uint8()
	if v > 1 {
		r.Fail(errBool)
	}
	return v == 1
}

// meta is the one row that every commit of this package rewrites.
type meta struct {
	next       Position // the next to be given out: the high-water mark (ST-04)
	head       Position // the first that is neither removed nor a tombstone; next if there is none
	depth      uint32
	tombstones uint32
	bytes      uint64
	acked      uint64
	cancelled  uint64
	owners     uint32
	held       bool
}

func (m *meta) appendTo(b []byte) []byte {
	b = serial.AppendUint64(b, uint64(m.next))
	b = serial.AppendUint64(b, uint64(m.head))
	b = serial.AppendUint32(b, m.depth)
	b = serial.AppendUint32(b, m.tombstones)
	b = serial.AppendUint64(b, m.bytes)
	b = serial.AppendUint64(b, m.acked)
	b = serial.AppendUint64(b, m.cancelled)
	b = serial.AppendUint32(b, m.owners)
	return serial.AppendBool(b, m.held)
}

func readMeta(r *serial.Reader) (m meta) {
	m.next = Position(r.Uint64())
	m.head = Position(r.Uint64())
	m.depth = r.Uint32()
	m.tombstones = r.Uint32()
	m.bytes = r.Uint64()
	m.acked = r.Uint64()
	m.cancelled = r.Uint64()
	m.owners = r.Uint32()
	m.held = strictBool(r)
	return m
}

// entryRow is an Entry without its position, which is the key.
type entryRow struct {
	id       LogicalID
	enqueued instant
	payload  Payload
}

func (e *entryRow) appendTo(b []byte) []byte {
	b = append(b, e.id[:]...)
	b = serial.AppendUint64(b, uint64(e.enqueued))
	return serial.AppendBytes(b, e.payload)
}

func readEntry(r *serial.Reader) (e entryRow) {
	copy(e.id[:], r.Take(len(e.id)))
	e.enqueued = instant(r.Uint64())
	e.payload = append(Payload(nil), r.Bytes(MaxPayload)...)
	return e
}

// retryRow is the head's schedule: what a restart must not forget.
type retryRow struct {
	generations uint32  // rows in the generation table
	rounds      uint32  // of the active generation
	due         instant // of the next round; the round before it ends then
	expired     bool    // the last round began when the slot was known to be closed
	park        Reason
	parkUntil   instant
	genBytes    uint64 // keys and values of the generation rows
}

func (s *retryRow) appendTo(b []byte) []byte {
	b = serial.AppendUint32(b, s.generations)
	b = serial.AppendUint32(b, s.rounds)
	b = serial.AppendUint64(b, uint64(s.due))
	b = serial.AppendBool(b, s.expired)
	b = serial.AppendUint8(b, uint8(s.park))
	b = serial.AppendUint64(b, uint64(s.parkUntil))
	return serial.AppendUint64(b, s.genBytes)
}

func readRetry(r *serial.Reader) (s retryRow) {
	s.generations = r.Uint32()
	s.rounds = r.Uint32()
	s.due = instant(r.Uint64())
	s.expired = strictBool(r)
	s.park = Reason(r.Uint8())
	if !s.park.stored() {
		r.Fail(errReason)
	}
	s.parkUntil = instant(r.Uint64())
	s.genBytes = r.Uint64()
	return s
}

// generationRow is what stays known of a generation until the record is removed (DS-38).
type generationRow struct {
	id         eventgraph.ID
	slot       eventgraph.Slot
	end        uint64 // of the slot, ms; 0: it never ends
	made       instant
	superseded eventgraph.ID // the replacement; null: this is the active one
}

// generationRowSize is the sealed size of every generation row.
const generationRowSize = 32 + 8 + 8 + 8 + 32 + sealSize

func (g *generationRow) appendTo(b []byte) []byte {
	b = append(b, g.id[:]...)
	b = serial.AppendUint64(b, uint64(g.slot))
	b = serial.AppendUint64(b, g.end)
	b = serial.AppendUint64(b, uint64(g.made))
	return append(b, g.superseded[:]...)
}

func readGeneration(r *serial.Reader) (g generationRow) {
	copy(g.id[:], r.Take(32))
	g.slot = eventgraph.Slot(r.Uint64())
	g.end = r.Uint64()
	g.made = instant(r.Uint64())
	copy(g.superseded[:], r.Take(32))
	return g
}

// activeRow is the exact event and blob, independent of the graph's retention (DS-37).
type activeRow struct {
	event eventgraph.Event
	blob  []byte
}

func (a *activeRow) appendTo(b []byte) []byte {
	return serial.AppendBytes(a.event.AppendTo(b), a.blob)
}

func readActive(r *serial.Reader) (a activeRow) {
	a.event = eventgraph.ReadEvent(r, MaxEvent)
	a.blob = append([]byte(nil), r.Bytes(MaxBlob)...)
	return a
}

// ownerRow says whose a generation is (DS-85).
type ownerRow struct {
	id   LogicalID
	slot eventgraph.Slot
}

func (o *ownerRow) appendTo(b []byte) []byte {
	return serial.AppendUint64(append(b, o.id[:]...), uint64(o.slot))
}

func readOwner(r *serial.Reader) (o ownerRow) {
	copy(o.id[:], r.Take(len(o.id)))
	o.slot = eventgraph.Slot(r.Uint64())
	return o
}

// readEmpty reads the body of a row whose key says everything.
func readEmpty(*serial.Reader) struct{} { return struct{}{} }

// get reads the row at key, or fails with kv.ErrNotFound.
func get[T any](r kv.Reader, key []byte, read func(*serial.Reader) T) (v T, err error) {
	value, err := r.Get(key)
	if err != nil {
		return v, err
	}
	err = unseal(key, value, into(&v, read))
	return v, err
}

// rowSize is the number of bytes of a row that count toward max_bytes.
func rowSize(key, value []byte) uint64 { return uint64(len(key) + len(value)) }

// into adapts a reading function to unseal.
func into[T any](v *T, read func(*serial.Reader) T) func(*serial.Reader) {
	return func(r *serial.Reader) { *v = read(r) }
}
