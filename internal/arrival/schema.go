package arrival

import (
	"encoding/binary"
	"fmt"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
	"hearsay/internal/serial"
)

// Keys, all under 'a' in the custody store (spec/storage.md, custody):
//
//	am                 meta: next sequence number, graph cursor, rows
//	as seq             row
//	ae event id        seq, of a foreign event or of a generation of an own message
//	ao logical id      seq, of an own message
//	ai message id      seq, of a mailbox message
//	ah content hash    seq, of whatever has an event with this content
//	ap slot seq        rows that go when the slot is no longer retained
//	ac tag seq         ms: the messages of a conversation in order of arrival
//	at tag ms seq      the same by the times that they are shown with
//	ax what            when a direct message came: a content hash of the graph, or
//	                   author and message id
//	ay when what       these, by age
const (
	space      = 'a'
	tableMeta  = 'm'
	tableRow   = 's'
	tableEvent = 'e'
	tableOwn   = 'o'
	tableInbox = 'i'
	tableHash  = 'h'
	tableSlot  = 'p'
	tableTag   = 'c'
	tableTime  = 't'

	tableDirect    = 'x'
	tableDirectAge = 'y'
)

func key(table byte, parts ...[]byte) []byte {
	k := []byte{space, table}
	for _, p := range parts {
		k = append(k, p...)
	}
	return k
}

func be(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// meta is the log's counters.
type meta struct {
	last  Seq            // the highest number given
	graph eventgraph.Seq // arrivals of the graph up to here are in the log
	rows  uint64

	direct uint64 // notes of direct messages

	messages, bytes uint64   // that history can list
	keys            [16]byte // with which everything stored was looked at
}

func (m *meta) encode() []byte {
	b := serial.AppendUint64(nil, uint64(m.last))
	b = serial.AppendUint64(b, uint64(m.graph))
	b = serial.AppendUint64(b, m.rows)
	b = serial.AppendUint64(b, m.direct)
	b = serial.AppendUint64(b, m.messages)
	b = serial.AppendUint64(b, m.bytes)
	return seal(append(b, m.keys[:]...))
}

func (m *meta) decode(v []byte) error {
	return unseal(v, "meta", func(r *serial.Reader) {
		m.last, m.graph, m.rows = Seq(r.Uint64()), eventgraph.Seq(r.Uint64()), r.Uint64()
		if r.Len() > 0 { // none before there was mail
			m.direct = r.Uint64()
		}
		if r.Len() > 0 { // none before there were places
			m.messages, m.bytes = r.Uint64(), r.Uint64()
			copy(m.keys[:], r.Take(16))
		}
	})
}

func (r *Row) encode() []byte {
	b := serial.AppendUint8(nil, uint8(r.Kind))
	b = serial.AppendUint64(b, uint64(r.At))
	b = serial.AppendUint64(b, uint64(r.Slot))
	b = append(b, r.Event[:]...)
	b = append(b, r.ID[:]...)
	b = append(b, r.Hash[:]...)
	b = serial.AppendUint64(b, r.Position)
	b = serial.AppendVarInt(b, uint64(len(r.generations)))
	for _, g := range r.generations {
		b = append(b, g.event[:]...)
		b = append(b, g.hash[:]...)
	}
	return seal(r.Place.appendTo(b))
}

func (r *Row) decode(v []byte) error {
	return unseal(v, "row", func(rd *serial.Reader) {
		r.Kind = Kind(rd.Uint8())
		r.At = int64(rd.Uint64())
		r.Slot = eventgraph.Slot(rd.Uint64())
		copy(r.Event[:], rd.Take(32))
		copy(r.ID[:], rd.Take(16))
		copy(r.Hash[:], rd.Take(32))
		r.Position = rd.Uint64()
		n := rd.Count(maxGenerations, 64)
		for range n {
			var g generation
			copy(g.event[:], rd.Take(32))
			copy(g.hash[:], rd.Take(32))
			r.generations = append(r.generations, g)
		}
		if rd.Len() > 0 {
			r.Place.read(rd)
		}
		if r.Kind < Foreign || r.Kind > Mail {
			rd.Fail(errKind)
		}
	})
}

// appendTo appends nothing for the zero Place: rows from before there were places have none.
func (p *Place) appendTo(b []byte) []byte {
	if *p == (Place{}) {
		return b
	}
	b = append(b, p.Tag[:]...)
	b = serial.AppendUint64(b, uint64(p.Time))
	b = serial.AppendUint32(b, p.Size)
	flags := uint8(0)
	if p.Notice {
		flags |= flagNotice
	}
	return serial.AppendUint8(b, flags)
}

func (p *Place) read(rd *serial.Reader) {
	copy(p.Tag[:], rd.Take(16))
	p.Time = int64(rd.Uint64())
	p.Size = rd.Uint32()
	flags := rd.Uint8()
	if p.Notice = flags&flagNotice != 0; flags&^flagNotice != 0 || *p == (Place{}) {
		rd.Fail(errFlags)
	}
}

// flagNotice is Place.Notice in a row.
const flagNotice = 1

func seal(body []byte) []byte { return kv.SealRecord(body) }

func unseal(v []byte, what string, read func(*serial.Reader)) error {
	body, err := kv.OpenRecord(v)
	if err == nil {
		r := serial.NewReader(body)
		read(r)
		err = r.Done()
	}
	if err != nil {
		return fmt.Errorf("arrival: %w: %s: %w", kv.ErrCorrupt, what, err)
	}
	return nil
}
