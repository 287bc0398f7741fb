package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"hearsay/eventgraph"
	"hearsay/internal/serial"
)

// The twelve commands (spec/wire-eventgraph.md, section 1). All but the last are
// the network's; the last one goes only to peers that announced [FeatureStatus].
const (
	CmdEventPut       = "EventGraph::EventPut"
	CmdStaticPut      = "EventGraph::StaticPut"
	CmdEventReq       = "EventGraph::EventReq"
	CmdEventRep       = "EventGraph::EventRep"
	CmdHeaderPut      = "EventGraph::HeaderPut"
	CmdHeaderReq      = "EventGraph::HeaderReq"
	CmdHeaderRep      = "EventGraph::HeaderRep"
	CmdTipReq         = "EventGraph::TipReq"
	CmdTipRep         = "EventGraph::TipRep"
	CmdRangeReq       = "EventGraph::RangeReq"
	CmdRangeRep       = "EventGraph::RangeRep"
	CmdEventPutStatus = "EventGraph::EventPutStatus"
)

// StaticName is the name of the static graph in a TipReq.
const StaticName = "static-dag"

// ErrTooMany is a well-formed list with more items than its message may carry. It
// costs a strike in requests and the answer in replies, never the connection.
var ErrTooMany = errors.New("gossip: too many items")

// errTag: an enumeration with a value that nobody defined.
var errTag = errors.New("gossip: unknown tag")

// An EventPut pushes one event; a StaticPut has the same layout.
type EventPut struct {
	Event eventgraph.Event
	Blob  []byte // a proof's bytes; always sent empty and ignored on receipt
}

// AppendTo appends the message's payload.
func (m EventPut) AppendTo(b []byte) []byte {
	return serial.AppendBytes(m.Event.AppendTo(b), m.Blob)
}

// DecodeEventPut reads a whole payload.
func DecodeEventPut(b []byte) (EventPut, error) {
	r := serial.NewReader(b)
	m := EventPut{Event: eventgraph.ReadEvent(r, len(b))}
	m.Blob = bytes.Clone(r.Bytes(len(b)))
	if err := r.Done(); err != nil {
		return EventPut{}, err
	}
	return m, nil
}

// An EventReq asks for events by id.
type EventReq struct{ IDs []eventgraph.ID }

// AppendTo appends the message's payload.
func (m EventReq) AppendTo(b []byte) []byte { return appendIDs(b, m.IDs) }

// DecodeEventReq reads a whole payload; above MaxEventReqIDs it is ErrTooMany.
func DecodeEventReq(b []byte) (EventReq, error) {
	r := serial.NewReader(b)
	n := r.Count(len(b), idSize)
	if r.Err() == nil && r.Len() != n*idSize {
		r.Fail(serial.ErrTrailing)
	}
	if r.Err() == nil && n > MaxEventReqIDs {
		r.Fail(fmt.Errorf("%w: %d ids", ErrTooMany, n))
	}
	m := EventReq{IDs: readIDs(r, n)}
	if err := r.Done(); err != nil {
		return EventReq{}, err
	}
	return m, nil
}

// An EventRep answers an EventReq: some of the events, in the order of the
// request, and as many blobs.
type EventRep struct {
	Events []eventgraph.Event
	Blobs  [][]byte
}

// AppendTo appends the message's payload.
func (m EventRep) AppendTo(b []byte) []byte { return appendBlobs(appendEvents(b, m.Events), m.Blobs) }

// DecodeEventRep reads a whole payload; above MaxEventRepEvents it is ErrTooMany.
// Whether there are as many blobs as events is the requester's to check.
func DecodeEventRep(b []byte) (EventRep, error) {
	r := serial.NewReader(b)
	m := EventRep{Events: readEvents(r, MaxEventRepEvents), Blobs: readBlobs(r, MaxEventRepEvents)}
	if err := r.Done(); err != nil {
		return EventRep{}, err
	}
	return m, nil
}

// A HeaderPut carries one header. It is reserved: nobody sends it.
type HeaderPut struct{ Header eventgraph.Header }

// AppendTo appends the message's payload.
func (m HeaderPut) AppendTo(b []byte) []byte { return m.Header.AppendTo(b) }

// DecodeHeaderPut reads a whole payload.
func DecodeHeaderPut(b []byte) (HeaderPut, error) {
	r := serial.NewReader(b)
	m := HeaderPut{Header: eventgraph.ReadHeader(r)}
	if err := r.Done(); err != nil {
		return HeaderPut{}, err
	}
	return m, nil
}

// A HeaderReq asks for the headers of a slot beyond the asker's tips.
type HeaderReq struct {
	Name string
	Tips eventgraph.Tips
}

// AppendTo appends the message's payload.
func (m HeaderReq) AppendTo(b []byte) []byte {
	return appendTips(serial.AppendString(b, m.Name), m.Tips)
}

// DecodeHeaderReq reads a whole payload; above MaxHeaderReqTips it is ErrTooMany.
func DecodeHeaderReq(b []byte) (HeaderReq, error) {
	r := serial.NewReader(b)
	m := HeaderReq{Name: r.String(len(b)), Tips: readTips(r)}
	if err := r.Done(); err != nil {
		return HeaderReq{}, err
	}
	if n := m.Tips.Count(); n > MaxHeaderReqTips {
		return HeaderReq{}, fmt.Errorf("%w: %d tips", ErrTooMany, n)
	}
	return m, nil
}

// A HeaderRep answers a HeaderReq, in (layer, id) order.
type HeaderRep struct{ Headers []eventgraph.Header }

// AppendTo appends the message's payload.
func (m HeaderRep) AppendTo(b []byte) []byte {
	b = serial.AppendVarInt(b, uint64(len(m.Headers)))
	for i := range m.Headers {
		b = m.Headers[i].AppendTo(b)
	}
	return b
}

// DecodeHeaderRep reads a whole payload; above MaxHeaderRepHeaders it is ErrTooMany.
func DecodeHeaderRep(b []byte) (HeaderRep, error) {
	r := serial.NewReader(b)
	n := r.Count(len(b), eventgraph.HeaderSize)
	if r.Err() == nil && r.Len() != n*eventgraph.HeaderSize {
		r.Fail(serial.ErrTrailing)
	}
	if r.Err() == nil && n > MaxHeaderRepHeaders {
		r.Fail(fmt.Errorf("%w: %d headers", ErrTooMany, n))
	}
	if err := r.Err(); err != nil {
		return HeaderRep{}, err
	}
	m := HeaderRep{Headers: make([]eventgraph.Header, n)}
	for i := range m.Headers {
		m.Headers[i] = eventgraph.ReadHeader(r)
	}
	return m, r.Done()
}

// A TipReq asks for the tips of a slot, or of the static graph.
type TipReq struct{ Name string }

// AppendTo appends the message's payload.
func (m TipReq) AppendTo(b []byte) []byte { return serial.AppendString(b, m.Name) }

// DecodeTipReq reads a whole payload.
func DecodeTipReq(b []byte) (TipReq, error) {
	r := serial.NewReader(b)
	m := TipReq{Name: r.String(len(b))}
	if err := r.Done(); err != nil {
		return TipReq{}, err
	}
	return m, nil
}

// A TipRep answers a TipReq.
type TipRep struct{ Tips eventgraph.Tips }

// AppendTo appends the message's payload.
func (m TipRep) AppendTo(b []byte) []byte { return appendTips(b, m.Tips) }

// DecodeTipRep reads a whole payload; above MaxTipRepTips it is ErrTooMany.
func DecodeTipRep(b []byte) (TipRep, error) {
	r := serial.NewReader(b)
	m := TipRep{Tips: readTips(r)}
	if err := r.Done(); err != nil {
		return TipRep{}, err
	}
	if n := m.Tips.Count(); n > MaxTipRepTips {
		return TipRep{}, fmt.Errorf("%w: %d tips", ErrTooMany, n)
	}
	return m, nil
}

// A RangeReq asks for a page of a slot in time order.
type RangeReq struct {
	Name     string
	From     eventgraph.Cursor
	Backward bool
	Limit    uint32
}

// AppendTo appends the message's payload.
func (m RangeReq) AppendTo(b []byte) []byte {
	b = appendCursor(serial.AppendString(b, m.Name), m.From)
	return serial.AppendUint32(serial.AppendBool(b, m.Backward), m.Limit)
}

// DecodeRangeReq reads a whole payload. The direction is an enumeration of two.
func DecodeRangeReq(b []byte) (RangeReq, error) {
	r := serial.NewReader(b)
	m := RangeReq{Name: r.String(len(b)), From: readCursor(r)}
	direction := r.Uint8()
	if direction > 1 {
		r.Fail(fmt.Errorf("%w: direction %d", errTag, direction))
	}
	m.Backward = direction == 1
	m.Limit = r.Uint32()
	if err := r.Done(); err != nil {
		return RangeReq{}, err
	}
	return m, nil
}

// A RangeRep answers a RangeReq.
type RangeRep struct {
	Events    []eventgraph.Event
	Blobs     [][]byte
	Next      eventgraph.Cursor
	Exhausted bool
}

// AppendTo appends the message's payload.
func (m RangeRep) AppendTo(b []byte) []byte {
	b = appendBlobs(appendEvents(b, m.Events), m.Blobs)
	return serial.AppendBool(appendCursor(b, m.Next), m.Exhausted)
}

// DecodeRangeRep reads a whole payload; above MaxRangePage it is ErrTooMany.
func DecodeRangeRep(b []byte) (RangeRep, error) {
	r := serial.NewReader(b)
	m := RangeRep{Events: readEvents(r, MaxRangePage), Blobs: readBlobs(r, MaxRangePage)}
	m.Next = readCursor(r)
	m.Exhausted = r.Bool()
	if err := r.Done(); err != nil {
		return RangeRep{}, err
	}
	return m, nil
}

const idSize = 32

func appendIDs(b []byte, ids []eventgraph.ID) []byte {
	b = serial.AppendVarInt(b, uint64(len(ids)))
	for i := range ids {
		b = append(b, ids[i][:]...)
	}
	return b
}

// readIDs reads n ids without a count. The caller checked n against the bytes left.
func readIDs(r *serial.Reader, n int) []eventgraph.ID {
	if r.Err() != nil || n == 0 {
		return nil
	}
	ids := make([]eventgraph.ID, n)
	for i := range ids {
		copy(ids[i][:], r.Take(idSize))
	}
	return ids
}

func appendEvents(b []byte, events []eventgraph.Event) []byte {
	b = serial.AppendVarInt(b, uint64(len(events)))
	for i := range events {
		b = events[i].AppendTo(b)
	}
	return b
}

func readEvents(r *serial.Reader, limit int) []eventgraph.Event {
	n := readCount(r, limit, eventgraph.HeaderSize+1)
	if n == 0 {
		return nil
	}
	events := make([]eventgraph.Event, n)
	for i := range events {
		events[i] = eventgraph.ReadEvent(r, r.Len())
	}
	return events
}

func appendBlobs(b []byte, blobs [][]byte) []byte {
	b = serial.AppendVarInt(b, uint64(len(blobs)))
	for _, blob := range blobs {
		b = serial.AppendBytes(b, blob)
	}
	return b
}

func readBlobs(r *serial.Reader, limit int) [][]byte {
	n := readCount(r, limit, 1)
	if n == 0 {
		return nil
	}
	blobs := make([][]byte, n)
	for i := range blobs {
		blobs[i] = bytes.Clone(r.Bytes(r.Len()))
	}
	return blobs
}

// readCount is serial's Count with ErrTooMany in place of ErrLimit: a list that is
// too long costs less than one that is malformed.
func readCount(r *serial.Reader, limit, size int) int {
	n := r.Count(r.Len(), size)
	if r.Err() == nil && n > limit {
		r.Fail(fmt.Errorf("%w: %d items, at most %d", ErrTooMany, n, limit))
	}
	if r.Err() != nil {
		return 0
	}
	return n
}

func appendCursor(b []byte, c eventgraph.Cursor) []byte {
	return append(serial.AppendUint64(b, c.Timestamp), c.ID[:]...)
}

func readCursor(r *serial.Reader) (c eventgraph.Cursor) {
	c.Timestamp = r.Uint64()
	copy(c.ID[:], r.Take(idSize))
	return c
}

// appendTips writes layers in ascending order and the ids of a layer in ascending
// order too: the network takes any, tests like one.
func appendTips(b []byte, tips eventgraph.Tips) []byte {
	b = serial.AppendVarInt(b, uint64(len(tips)))
	for _, layer := range sortedLayers(tips) {
		b = appendIDs(serial.AppendUint64(b, layer), sortedIDs(tips[layer]))
	}
	return b
}

// readTips collapses repeated ids of a layer, lets a later entry of the same layer
// replace an earlier one, and drops layers without ids. What it allocates is
// bounded by the payload, which the dispatcher bounded.
func readTips(r *serial.Reader) eventgraph.Tips {
	const minLayer = 8 + 1
	n := r.Count(r.Len(), minLayer)
	if n == 0 {
		return nil
	}
	tips := make(eventgraph.Tips)
	for range n {
		layer := r.Uint64()
		ids := readIDs(r, r.Count(r.Len(), idSize))
		if r.Err() != nil {
			return nil
		}
		delete(tips, layer)
		if len(ids) > 0 {
			tips[layer] = slices.Compact(sortedIDs(ids))
		}
	}
	return tips
}

func sortedLayers(tips eventgraph.Tips) []uint64 {
	layers := make([]uint64, 0, len(tips))
	for layer := range tips {
		layers = append(layers, layer)
	}
	slices.Sort(layers)
	return layers
}

func sortedIDs(ids []eventgraph.ID) []eventgraph.ID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, compareIDs)
	return ids
}

func compareIDs(a, b eventgraph.ID) int { return bytes.Compare(a[:], b[:]) }
