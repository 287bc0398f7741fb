package outbound

import (
	"encoding/binary"
	"fmt"
	"time"

	"hearsay/eventgraph"
)

// modelStore is what the store promises, without rows: the head's record and a
// pointer. Records are immutable and shared between copies.
type modelStore struct {
	next, head Position
	cancelled  [8]bool // tombstones
	rec        *Record // stored state of the head, nil for none
}

func newModelStore(n Position) modelStore {
	m := modelStore{next: 1, head: 1}
	for range n {
		m.enqueue()
	}
	return m
}

func (m *modelStore) enqueue() {
	m.next++
	if m.rec == nil {
		m.rec = &Record{Entry: Entry{Position: m.head}}
	}
}

func (m *modelStore) load() Loaded { return Loaded{Record: m.rec} }

// pass moves the head on.
func (m *modelStore) pass() {
	for m.head++; m.head < m.next && m.cancelled[m.head]; m.head++ {
	}
	m.rec = nil
	if m.head < m.next {
		m.rec = &Record{Entry: Entry{Position: m.head}}
	}
}

func (m *modelStore) cancel(p Position) bool {
	if p < m.head || p >= m.next || m.cancelled[p] {
		return false
	}
	m.cancelled[p] = true
	if p == m.head {
		m.pass()
	}
	return true
}

// commit applies a commit action, or fails where the store would say errStale: a head
// that has the turn can never be stale.
func (m *modelStore) commit(a Action) error {
	var p Position
	switch a := a.(type) {
	case PutGeneration:
		p = a.Entry.Position
	case SaveRound:
		p = a.Position
	case SavePark:
		p = a.Position
	case Dequeue:
		p = a.Position
	}
	if m.rec == nil || m.head != p {
		return fmt.Errorf("stale commit %T at %v, head is %v", a, p, m.head)
	}
	switch a := a.(type) {
	case PutGeneration:
		if int(a.Number) != len(m.rec.Generations) {
			return fmt.Errorf("generation %d after %d", a.Number, len(m.rec.Generations))
		}
		rec := *m.rec
		rec.Generations = append([]generationRow(nil), m.rec.Generations...)
		if a.Number > 0 {
			rec.active().superseded = a.row.id
		}
		rec.Generations = append(rec.Generations, a.row)
		g := a.Generation
		rec.Active = &g
		rec.retry = retryRow{generations: a.Number + 1, due: a.due}
		m.rec = &rec
	case SaveRound:
		m.save(a.retry)
	case SavePark:
		m.save(a.retry)
	case Dequeue:
		m.pass()
	}
	return nil
}

func (m *modelStore) save(r retryRow) {
	rec := *m.rec
	r.generations = rec.retry.generations
	rec.retry = r
	m.rec = &rec
}

// testEvent is an event of position p, number n, stamped at.
func testEvent(p Position, n int, at instant) eventgraph.Event {
	content := binary.BigEndian.AppendUint64(nil, uint64(p))
	content = binary.BigEndian.AppendUint64(content, uint64(n))
	return eventgraph.Event{
		Header: eventgraph.Header{
			Timestamp: uint64(at), Layer: 1, Parents: [eventgraph.NumParents]eventgraph.ID{{1}},
			ContentHash: eventgraph.HashContent(content),
		},
		Content: content,
	}
}

// testWindow is the slot of length p that holds now; p 0: one slot for ever.
func testWindow(now time.Time, p time.Duration) Window {
	if p == 0 {
		return Window{Slot: 1000}
	}
	start := now.Truncate(p)
	return Window{Slot: eventgraph.Slot(start.UnixMilli()), End: uint64(start.Add(p).UnixMilli())}
}
