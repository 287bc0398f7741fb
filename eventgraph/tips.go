package eventgraph

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
)

// Tips maps a layer to the ids of the bodies in it that no stored body refers to.
type Tips map[uint64][]ID

// Count is the number of ids.
func (t Tips) Count() int {
	n := 0
	for _, ids := range t {
		n += len(ids)
	}
	return n
}

// Cap returns at most n of the tips, lower layers first and ids ascending inside a
// layer: what fits into a TipRep (facts page, section 5.4).
func (t Tips) Cap(n int) Tips {
	c := Tips{}
	for _, l := range slices.Sorted(maps.Keys(t)) {
		if n <= 0 {
			break
		}
		ids := slices.SortedFunc(slices.Values(t[l]), compareID)
		ids = ids[:min(n, len(ids))]
		c[l] = ids
		n -= len(ids)
	}
	return c
}

func (t Tips) sort() {
	for _, ids := range t {
		slices.SortFunc(ids, compareID)
	}
}

func (t Tips) clone() Tips {
	c := make(Tips, len(t))
	for l, ids := range t {
		c[l] = slices.Clone(ids)
	}
	return c
}

func compareID(a, b ID) int { return bytes.Compare(a[:], b[:]) }

// attach chooses parents and layer of a new event (facts page, section 7): tips
// from the highest layer downwards, five at most. The layer does not wrap: on top
// of the last layer there is nothing valid, and validation says so.
func attach(tips Tips) (parents [NumParents]ID, layer uint64) {
	layers := slices.Sorted(maps.Keys(tips))
	layer = ^uint64(0)
	n := 0
	for _, l := range slices.Backward(layers) {
		if n == 0 && len(tips[l]) > 0 && l != ^uint64(0) {
			layer = l + 1
		}
		for _, id := range tips[l] {
			if n == NumParents {
				return parents, layer
			}
			parents[n] = id
			n++
		}
	}
	return parents, layer
}

// Tips is a copy of a slot's tips, ids ascending inside a layer. A slot without
// events has its genesis as its tip.
func (g *Graph) Tips(slot Slot) (Tips, error) {
	st, err := g.state(slot)
	if err != nil {
		return nil, err
	}
	if t := st.keptTips(); t != nil {
		return t, nil
	}
	var t Tips
	err = g.withIndex(st, false, func(x *index) { t = x.tipMap() })
	return t, err
}

// NewEvent makes an event on the current slot's tips with the current time, and
// stores nothing (DS-70). Its timestamp lies strictly inside the slot (DS-19).
// It fails with ErrNoSlot while the clock is before the network's first slot, and
// with ErrInvalid or ErrTooLarge for content that could not be inserted.
func (g *Graph) NewEvent(content []byte) (Event, error) {
	now := g.cfg.Now()
	slot := g.cfg.SlotAt(now)
	st, err := g.state(slot)
	if err != nil {
		return Event{}, err
	}
	e := Event{
		Header:  Header{Timestamp: max(millis(now), uint64(slot)+1), ContentHash: HashContent(content)},
		Content: slices.Clone(content),
	}
	if millis(now)+g.cfg.drift() < uint64(slot) {
		return Event{}, ErrNoSlot
	}
	if err := g.withIndex(st, false, func(x *index) { e.Parents, e.Layer = attach(x.topTips(NumParents)) }); err != nil {
		return Event{}, err
	}
	if err := g.checkContent(&e); err != nil {
		return Event{}, err
	}
	return e, nil
}

// topTips is the n highest tips, or all; ids ascending inside a layer.
func (x *index) topTips(n int) Tips {
	best := make([]uint32, 0, n+1)
	for t := range x.tips {
		at := len(best)
		for at > 0 && x.higher(t, best[at-1]) {
			at--
		}
		if at < n {
			best = slices.Insert(best, at, t)
			best = best[:min(n, len(best))]
		}
	}
	t := Tips{}
	for _, i := range best {
		l := x.entries[i].layer
		t[l] = append(t[l], x.ids[i])
	}
	return t
}

// higher tells whether a is the better parent: on a higher layer, or the lower id.
func (x *index) higher(a, b uint32) bool {
	if x.entries[a].layer != x.entries[b].layer {
		return x.entries[a].layer > x.entries[b].layer
	}
	return compareID(x.ids[a], x.ids[b]) < 0
}

// publishTries is how often Publish follows the clock into a new slot.
const publishTries = 3

// Publish makes an event and inserts it as a local one.
func (g *Graph) Publish(ctx context.Context, content []byte) (Event, error) {
	for range publishTries {
		e, err := g.NewEvent(content)
		if err != nil {
			return Event{}, err
		}
		slot := g.cfg.SlotAt(Slot(e.Timestamp).Time())
		_, err = g.Insert(ctx, slot, []Event{e}, SourceLocal)
		switch {
		case err == nil:
			return e, nil
		case !errors.Is(err, ErrNoSlot): // a window of one slot, and it has just ended
			return Event{}, err
		}
	}
	return Event{}, ErrRotating
}
