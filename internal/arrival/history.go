package arrival

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"hearsay/internal/kv"
)

// A Tag names a conversation without giving it away. Who can read texts makes it; the log
// compares it and nothing else. The zero Tag is none.
type Tag [16]byte

// A Place is what history knows of a message without reading it.
type Place struct {
	Tag    Tag    // zero: nothing of it is shown
	Time   int64  // ms: the time that it is shown with
	Size   uint32 // of its content or text, in bytes
	Notice bool   // said here with NOTICE, which the network does not know
}

// A Mark is a message of a conversation: where it is in the order of arrival, and the time
// that it is shown with, in ms.
type Mark struct {
	Seq  Seq
	Time int64
}

// A Ref is a message reference: a place in the order of arrival, or a moment. The zero
// Ref is no bound.
type Ref struct {
	Seq  Seq
	Time int64 // ms; only where Timed is set
	// Timed: by the time that messages are shown with, not by their place.
	Timed bool
}

// IsZero tells whether r is no bound.
func (r Ref) IsZero() bool { return r == Ref{} }

// A Span is the messages of a conversation between two references, neither of them
// included.
type Span struct {
	After, Before Ref
	// Newest: where there are more than Limit, the newest ones, else the oldest.
	Newest bool
	// Limit bounds the marks. It is not positive: there are none.
	Limit int
	// Last is the place of the newest message that counts; 0: all do.
	Last Seq
}

func (sp *Span) timed() bool { return sp.After.Timed || sp.Before.Timed }

// has tells whether a place is within the references that are places.
func (sp *Span) has(s Seq) bool {
	return (sp.After.Timed || s > sp.After.Seq) && (sp.Before.Timed || sp.Before.IsZero() || s < sp.Before.Seq) &&
		(sp.Last == 0 || s <= sp.Last)
}

// Page lists the marks of a conversation in a span, in order of arrival. Which ones, where
// there are more than Limit, is decided in the order that the references are in, so that
// paging by time comes to an end and leaves nothing out (decision 0170): for that reason a
// page by time ends between two moments, not within one, unless it has only one.
//
// It reads as many rows as it lists, and where one reference is a place and the other a
// moment, those in between.
func (l *Log) Page(of Tag, sp Span) (marks []Mark, err error) {
	if sp.Limit <= 0 || of == (Tag{}) {
		return nil, nil
	}
	err = l.store.View(func(r kv.Reader) error {
		if marks = nil; sp.timed() {
			marks, err = pageByTime(r, of, &sp)
		} else {
			marks, err = pageByPlace(r, of, &sp)
		}
		return err
	})
	slices.SortFunc(marks, func(a, b Mark) int { return cmp.Compare(a.Seq, b.Seq) })
	return marks, err
}

func pageByPlace(r kv.Reader, of Tag, sp *Span) (marks []Mark, err error) {
	s := kv.Scan{Prefix: key(tableTag, of[:]), Reverse: sp.Newest}
	if sp.Newest {
		end := Seq(math.MaxUint64)
		if !sp.Before.IsZero() {
			end = max(sp.Before.Seq, 1) - 1
		}
		if sp.Last != 0 {
			end = min(end, sp.Last)
		}
		s.Start = key(tableTag, of[:], be(uint64(end)))
	} else {
		if sp.After.Seq == math.MaxUint64 {
			return nil, nil
		}
		s.Start = key(tableTag, of[:], be(uint64(sp.After.Seq)+1))
	}
	return marks, r.Scan(s, func(k, v []byte) error {
		m, err := decodeMark(k, v)
		if err != nil {
			return err
		}
		if len(marks) == sp.Limit || !sp.has(m.Seq) {
			return kv.ErrStop
		}
		marks = append(marks, m)
		return nil
	})
}

func pageByTime(r kv.Reader, of Tag, sp *Span) (marks []Mark, err error) {
	s := kv.Scan{Prefix: key(tableTime, of[:]), Reverse: sp.Newest, KeysOnly: true}
	switch {
	case sp.Newest && sp.Before.Timed:
		if sp.Before.Time <= 0 {
			return nil, nil
		}
		s.Start = key(tableTime, of[:], be(uint64(sp.Before.Time)-1), be(math.MaxUint64))
	case !sp.Newest && sp.After.Timed:
		s.Start = key(tableTime, of[:], be(uint64(max(sp.After.Time, -1)+1)))
	}
	whole := true
	err = r.Scan(s, func(k, _ []byte) error {
		m, err := decodeTimeKey(k)
		switch {
		case err != nil:
			return err
		case sp.Newest && sp.After.Timed && m.Time <= sp.After.Time,
			!sp.Newest && sp.Before.Timed && m.Time >= sp.Before.Time:
			return kv.ErrStop
		case !sp.has(m.Seq):
			return nil
		case len(marks) == sp.Limit:
			whole = m.Time != marks[len(marks)-1].Time
			return kv.ErrStop
		}
		marks = append(marks, m)
		return nil
	})
	if n := len(marks); !whole && marks[0].Time != marks[n-1].Time {
		last := marks[n-1].Time
		marks = slices.DeleteFunc(marks, func(m Mark) bool { return m.Time == last })
	}
	return marks, err
}

// Newest is the newest message of a conversation up to a place, by the order of arrival, and when
// it came; ok is false where there is none.
func (l *Log) Newest(of Tag, last Seq) (came time.Time, ok bool, err error) {
	marks, err := l.Page(of, Span{Newest: true, Limit: 1, Last: last})
	if err != nil || len(marks) == 0 {
		return came, false, err
	}
	row, ok, err := l.Row(marks[0].Seq)
	return row.Time(), ok, err
}

// Row reads the row at a place; ok is false where it is gone.
func (l *Log) Row(at Seq) (row Row, ok bool, err error) {
	err = l.store.View(func(r kv.Reader) error {
		row, err = readRow(r, at)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return Row{}, false, nil
	}
	return row, err == nil, err
}

// An Extent is how much history there is.
type Extent struct {
	Messages uint64
	Bytes    uint64    // of contents and texts
	Since    time.Time // when the oldest row came; zero where there is none
}

// Extent counts what Page can list, of all conversations.
func (l *Log) Extent() (x Extent, err error) {
	err = l.store.View(func(r kv.Reader) error {
		m, err := readMeta(r)
		x = Extent{Messages: m.messages, Bytes: m.bytes}
		return err
	})
	if err != nil {
		return x, err
	}
	rows, err := l.Read(0, false, 1)
	if err == nil && len(rows) > 0 {
		x.Since = rows[0].Time()
	}
	return x, err
}

// Keys is what SetKeys kept; zero: nothing.
func (l *Log) Keys() (keys [16]byte, err error) {
	err = l.store.View(func(r kv.Reader) error {
		m, err := readMeta(r)
		keys = m.keys
		return err
	})
	return keys, err
}

// SetKeys notes with which keys, by a name for them, all that the graph has stored was
// looked at.
func (l *Log) SetKeys(keys [16]byte) error {
	return l.store.Update(opIngest, func(tx kv.Txn) error {
		m, err := readMeta(tx)
		if err != nil {
			return err
		}
		m.keys = keys
		return tx.Set(key(tableMeta), m.encode())
	})
}

// place makes a row findable in its conversation.
func (w *writes) place(m *meta, row *Row) {
	p := &row.Place
	if p.Tag == (Tag{}) {
		return
	}
	p.Time = max(p.Time, 0)
	when, s := be(uint64(p.Time)), be(uint64(row.Seq))
	w.set(key(tableTag, p.Tag[:], s), when)
	w.set(key(tableTime, p.Tag[:], when, s), nil)
	m.messages++
	m.bytes += uint64(p.Size)
}

// displace undoes place.
func (w *writes) displace(m *meta, row *Row) {
	p := &row.Place
	if p.Tag == (Tag{}) {
		return
	}
	when, s := be(uint64(p.Time)), be(uint64(row.Seq))
	w.del(key(tableTag, p.Tag[:], s))
	w.del(key(tableTime, p.Tag[:], when, s))
	m.messages--
	m.bytes -= uint64(p.Size)
}

// placeOld gives a row of a store from before there were places its own.
func (w *writes) placeOld(m *meta, s Seq, p Place) error {
	row, err := readRow(w.tx, s)
	if errors.Is(err, ErrNotFound) || err == nil && (row.Place.Tag != Tag{} || p.Tag == Tag{}) {
		return nil
	}
	if err != nil {
		return err
	}
	if row.Kind == Own {
		p.Time = row.At
	}
	row.Place = p
	w.place(m, &row)
	w.set(key(tableRow, be(uint64(s))), row.encode())
	return w.err
}

func decodeMark(k, v []byte) (m Mark, err error) {
	if len(k) != 2+16+8 || len(v) != 8 {
		return m, fmt.Errorf("arrival: %w: place of %d and %d bytes", kv.ErrCorrupt, len(k), len(v))
	}
	return Mark{Seq(binary.BigEndian.Uint64(k[18:])), int64(binary.BigEndian.Uint64(v))}, nil
}

func decodeTimeKey(k []byte) (m Mark, err error) {
	if len(k) != 2+16+8+8 {
		return m, fmt.Errorf("arrival: %w: time key of %d bytes", kv.ErrCorrupt, len(k))
	}
	return Mark{Seq(binary.BigEndian.Uint64(k[26:])), int64(binary.BigEndian.Uint64(k[18:]))}, nil
}
