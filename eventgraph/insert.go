package eventgraph

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"hearsay/internal/kv"
)

// A Refusal is an event that was not stored, and why.
type Refusal struct {
	ID  ID
	Err error // as an EventError would wrap it: ErrInvalid, ErrNoParent, ErrTooLarge …
}

// Insert validates events against slot and commits them, headers included, in
// (layer, id) order. It returns the ids newly stored, once they are durable; an event
// that is there already is no error, and neither is a genesis-shaped one: both
// change nothing.
//
// With an error that wraps ErrInvalid, ErrNoParent or ErrTooLarge (an *EventError,
// where it is about one event) none of the batch is stored. ErrBusy means that the
// disk is too full; ErrNoSlot that the slot is not retained. After any other error
// the outcome is unknown and the graph is dead.
//
// A batch of more than some 900 KB is committed in several transactions, parents first:
// a failure of the store may leave a prefix of it. The events' contents must not be
// changed afterwards.
func (g *Graph) Insert(ctx context.Context, slot Slot, events []Event, src Source) ([]ID, error) {
	stored, _, err := g.insert(ctx, slot, events, src, false)
	return stored, err
}

// InsertValid is Insert for batches of mixed quality: what is invalid, and what rests
// on it, is refused one by one, and the rest is stored. An error means that the store
// failed.
func (g *Graph) InsertValid(ctx context.Context, slot Slot, events []Event, src Source) ([]ID, []Refusal, error) {
	return g.insert(ctx, slot, events, src, true)
}

// An item is an event on its way into the store.
type item struct {
	id ID
	e  *Event
}

// byLayer compares by (layer, id).
func byLayer(a, b item) int {
	if c := cmp.Compare(a.e.Layer, b.e.Layer); c != 0 {
		return c
	}
	return bytes.Compare(a.id[:], b.id[:])
}

func (g *Graph) insert(ctx context.Context, slot Slot, events []Event, src Source, lenient bool) (stored []ID, refused []Refusal, err error) {
	if src < SourceLocal || src > SourceSync {
		return nil, nil, fmt.Errorf("eventgraph: insert: no source %d", src)
	}
	if len(events) > MaxBatch {
		return nil, nil, fmt.Errorf("%w: %d events, at most %d", ErrTooLarge, len(events), MaxBatch)
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	st, err := g.state(slot)
	if err != nil {
		return nil, nil, err
	}
	items, refused, err := g.prepare(st, events, lenient)
	if err != nil || len(items) == 0 {
		return nil, refused, err
	}
	if err := g.load(st); err != nil {
		return nil, nil, err
	}
	op := OpInsert
	if src == SourceLocal {
		op = OpInsertLocal
	}
	for first := true; len(items) > 0; first = false {
		n := chunk(items)
		b := batch{g: g, st: st, src: src, lenient: lenient, items: items[:n]}
		if first && !lenient {
			b.ahead = items[n:]
		}
		if err := b.commit(op); err != nil {
			return stored, refused, err
		}
		stored, refused = append(stored, b.stored...), append(refused, b.refused...)
		items = items[n:]
	}
	return stored, refused, nil
}

// prepare checks what needs no store and puts the events in order, each once.
func (g *Graph) prepare(st *slotState, events []Event, lenient bool) (items []item, refused []Refusal, err error) {
	now := g.cfg.Now()
	items = make([]item, 0, len(events))
	for i := range events {
		e := &events[i]
		if e.GenesisShaped() {
			continue
		}
		it := item{e.ID(), e}
		if err := g.checkAlone(st, &e.Header, &it.id, now); err == nil {
			err = g.checkContent(e)
			if err == nil {
				items = append(items, it)
				continue
			}
			if !lenient {
				return nil, nil, &EventError{it.id, err}
			}
			refused = append(refused, Refusal{it.id, err})
		} else if !lenient {
			return nil, nil, &EventError{it.id, err}
		} else {
			refused = append(refused, Refusal{it.id, err})
		}
	}
	slices.SortFunc(items, byLayer)
	items = slices.CompactFunc(items, func(a, b item) bool { return a.id == b.id })
	return items, refused, nil
}

// chunk is how many of the items fit into one transaction.
func chunk(items []item) int {
	size := 0
	for i, it := range items {
		size += it.e.Size() + commitOverhead
		if i == maxCommitEvents || i > 0 && size > maxCommitBytes {
			return i
		}
	}
	return len(items)
}

// A batch is one transaction of an insert.
type batch struct {
	g       *Graph
	st      *slotState
	src     Source
	lenient bool
	items   []item
	ahead   []item // later transactions' items, to be checked before the first commit

	// Results, made anew by each run of the transaction.
	stored   []ID
	refused  []Refusal
	accepted []item
	first    Seq // arrival of accepted[0]
	count    slotCount
	now      uint64
}

func (b *batch) commit(op kv.Op) error {
	err := b.g.commit(op, b.write, b.effect)
	if err == nil && len(b.accepted) > 0 {
		b.g.feed.notify()
	}
	return err
}

// write is the transaction.
func (b *batch) write(tx kv.Txn, m *meta) error {
	b.stored, b.refused, b.accepted = b.stored[:0], b.refused[:0], b.accepted[:0]
	if b.st.dropped.Load() {
		return ErrNoSlot
	}
	var err error
	if b.count, err = readSlotCount(tx, b.st.slot); err != nil {
		return err
	}
	if b.count.pruning {
		return ErrNoSlot
	}
	if err := b.check(tx, *m); err != nil {
		return err
	}
	if len(b.accepted) == 0 {
		return errNothing
	}
	return b.put(tx, m)
}

// check fills accepted: what is new and rests on stored bodies.
func (b *batch) check(tx kv.Txn, m meta) error {
	b.st.mu.RLock()
	defer b.st.mu.RUnlock()
	find := b.g.lookupBoth(b.st, tx, m)
	var fresh map[ID]uint64 // layers of accepted items
	if len(b.items)+len(b.ahead) > 1 {
		fresh = make(map[ID]uint64, len(b.items)+len(b.ahead))
	}
	overlay := func(id *ID) (known, error) {
		if layer, ok := fresh[*id]; ok {
			return known{layer, true, true}, nil
		}
		return find(id)
	}
	one := func(it item, keep bool) error {
		self, err := find(&it.id)
		if err != nil || self.body {
			return err
		}
		switch err := checkParents(&it.e.Header, overlay, true); {
		case err == nil:
			if fresh != nil {
				fresh[it.id] = it.e.Layer
			}
			if keep {
				if self.header {
					b.count.headers-- // put counts it again
					b.count.bytes -= HeaderSize
				}
				b.accepted = append(b.accepted, it)
			}
		case b.lenient && (errors.Is(err, ErrInvalid) || errors.Is(err, ErrNoParent)):
			b.refused = append(b.refused, Refusal{it.id, err})
		case errors.Is(err, ErrInvalid) || errors.Is(err, ErrNoParent):
			return &EventError{it.id, err}
		default:
			return err
		}
		return nil
	}
	for _, it := range b.items {
		if err := one(it, true); err != nil {
			return err
		}
	}
	for _, it := range b.ahead {
		if err := one(it, false); err != nil {
			return err
		}
	}
	return nil
}

// put writes accepted.
func (b *batch) put(tx kv.Txn, m *meta) error {
	b.first = Seq(m.arrival + 1)
	b.now = millis(b.g.cfg.Now())
	var key [1 + 8 + 32]byte
	var row [49]byte
	rec := make([]byte, 0, HeaderSize+8+3+256) // most events
	for _, it := range b.accepted {
		m.arrival++
		rec = appendRecord(rec[:0], it.e, Seq(m.arrival))
		if err := tx.Set(appendEventKey(key[:0], keyEvent, b.st.slot, &it.id), rec); err != nil {
			return err
		}
		if len(it.e.Content) > inlineContent {
			if err := tx.Set(appendEventKey(key[:0], keyContent, b.st.slot, &it.id), it.e.Content); err != nil {
				return err
			}
		}
		a := arrivalRow{b.st.slot, it.id, b.src, b.now}
		if err := tx.Set(arrivalKey(Seq(m.arrival)), a.append(row[:0])); err != nil {
			return err
		}
		b.count.headers++
		b.count.bodies++
		b.count.bytes += uint64(it.e.Size())
		b.stored = append(b.stored, it.id)
	}
	return tx.Set(slotKey(keySlot, b.st.slot), b.count.encode())
}

// effect makes the committed batch visible in memory.
func (b *batch) effect(m meta) {
	deltas := make([]delta, len(b.accepted))
	for i, it := range b.accepted {
		deltas[i] = delta{it.id, &it.e.Header, true}
	}
	b.g.apply(b.st, m, b.count, deltas, false)
	for _, fn := range b.g.onCommit {
		for i, it := range b.accepted {
			fn(Arrival{
				Seq: b.first + Seq(i), Slot: b.st.slot, Source: b.src,
				Time: Slot(b.now).Time(), Event: *it.e,
			})
		}
	}
}
