package eventgraph

import (
	"errors"
	"fmt"
	"time"

	"hearsay/internal/kv"
)

// checkContent is the part of the rules that concerns content (facts page, section
// 4.3) and its bound here.
func (g *Graph) checkContent(e *Event) error {
	switch {
	case len(e.Content) == 0:
		return errEmpty
	case len(e.Content) > g.cfg.MaxContent:
		return fmt.Errorf("%w: content of %d bytes, at most %d", ErrTooLarge, len(e.Content), g.cfg.MaxContent)
	case HashContent(e.Content) != e.ContentHash:
		return errContentHash
	}
	if g.cfg.Validate != nil {
		if err := g.cfg.Validate(*e); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return nil
}

// checkShape is what can be said of parents without looking them up. genesis is the
// slot's own; a null genesis leaves out the rule about foreign networks.
func checkShape(h *Header, id, genesis *ID) error {
	parents := 0
	for i := range h.Parents {
		p := &h.Parents[i]
		if p.IsNull() {
			continue
		}
		if *p == *id {
			return errSelf
		}
		for j := range i {
			if h.Parents[j] == *p {
				return errDuplicate
			}
		}
		if h.Layer == 1 && !genesis.IsNull() && *p != *genesis {
			return ErrForeign // layer 0 has one member
		}
		parents++
	}
	if parents == 0 {
		return errGenesis
	}
	return nil
}

// A lookup says what is known of an event in a slot.
type lookup func(id *ID) (known, error)

// known is a header's layer and whether its body is stored. The zero value is an
// unknown event.
type known struct {
	layer  uint64
	header bool
	body   bool
}

// checkParents is the layer rule (facts page, sections 1.4 and 4.2). A missing parent
// (a parent without a body, if bodies are wanted) is ErrNoParent, unless the other
// parents prove the header invalid already.
func checkParents(h *Header, find lookup, bodies bool) error {
	missing := false
	var top uint64
	for i := range h.Parents {
		if h.Parents[i].IsNull() {
			continue
		}
		p, err := find(&h.Parents[i])
		if err != nil {
			return err
		}
		if !p.header {
			missing = true
			continue
		}
		missing = missing || bodies && !p.body
		if p.layer == ^uint64(0) {
			return errOverflow
		}
		top = max(top, p.layer+1)
		if top > h.Layer {
			return errLayer
		}
	}
	if missing {
		return ErrNoParent
	}
	if top != h.Layer {
		return errLayer
	}
	return nil
}

// checkAlone is everything that can be checked without the store, except content.
func (g *Graph) checkAlone(st *slotState, h *Header, id *ID, now time.Time) error {
	if !g.cfg.fits(st.slot, h.Timestamp, now) {
		return errBounds
	}
	return checkShape(h, id, &st.genesisID)
}

// CheckHeader applies the rules on headers (facts page, section 4.2) without storing.
// A parent whose header is not known in the slot is ErrNoParent.
func (g *Graph) CheckHeader(slot Slot, h *Header) error {
	st, err := g.state(slot)
	if err != nil {
		return err
	}
	id := h.ID()
	if err := g.checkAlone(st, h, &id, g.cfg.Now()); err != nil {
		return err
	}
	return g.checkStored(st, h, false)
}

// CheckEvent applies the full check (facts page, section 4.3) without storing: what
// Insert would say of the event alone. A genesis-shaped event is ErrInvalid.
func (g *Graph) CheckEvent(slot Slot, e *Event) error {
	st, err := g.state(slot)
	if err != nil {
		return err
	}
	id := e.ID()
	if err := g.checkAlone(st, &e.Header, &id, g.cfg.Now()); err != nil {
		return err
	}
	if err := g.checkContent(e); err != nil {
		return err
	}
	return g.checkStored(st, &e.Header, true)
}

func (g *Graph) checkStored(st *slotState, h *Header, bodies bool) error {
	err := ErrNoParent
	if st.useIndex(false, func(x *index) { err = checkParents(h, x.lookup, bodies) }); !errors.Is(err, ErrNoParent) {
		return err
	}
	return g.store.View(func(r kv.Reader) error { return checkParents(h, st.lookupIn(r), bodies) })
}

// lookup is a lookup in the index.
func (x *index) lookup(id *ID) (known, error) {
	n, ok := x.find(id)
	if !ok {
		return known{}, nil
	}
	return known{x.entries[n].layer, true, x.entries[n].body}, nil
}

// lookupIn is a lookup in a transaction.
func (st *slotState) lookupIn(r kv.Reader) lookup {
	return func(id *ID) (known, error) {
		if *id == st.genesisID {
			return known{0, true, true}, nil
		}
		rec, ok, err := readRecord(r, st.slot, id)
		return known{rec.header.Layer, ok, rec.hasBody()}, err
	}
}

// lookupBoth asks the index first. The index holds commits that took effect, the
// transaction everything up to now: an answer of the index that could have changed
// since is asked again, unless m says that nothing was committed in between.
func (g *Graph) lookupBoth(st *slotState, r kv.Reader, m meta) lookup {
	stored := st.lookupIn(r)
	x := st.idx
	if x == nil {
		return stored
	}
	current := g.turns.commit.Load()+1 == m.commit
	return func(id *ID) (known, error) {
		k, err := x.lookup(id)
		if current || k.body {
			return k, err
		}
		return stored(id)
	}
}
