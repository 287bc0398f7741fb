package eventgraph

import (
	"errors"

	"hearsay/internal/kv"
)

// A Cursor is a position in a slot's time order (timestamp, id), exclusive. The zero
// Cursor is before everything, [Newest] after everything.
type Cursor struct {
	Timestamp uint64
	ID        ID
}

// Newest is the cursor from which a backward walk meets everything.
var Newest = Cursor{Timestamp: ^uint64(0)}

// A Page is the answer to a range query.
type Page struct {
	Events []Event
	// Next is the position of the last entry that was passed: the cursor for the next
	// page. It is the query's own where nothing was.
	Next Cursor
	// Exhausted: nothing lies beyond Next. False although the cursor did not move
	// means a long stretch of headers without bodies; stop there.
	Exhausted bool
}

// Page lists events of a slot in time order beyond a cursor (facts page, section 5.4,
// RangeReq): at most limit, MaxPage and about MaxPageBytes. The genesis is passed but
// not listed; events known by header only are neither. A slot that is not retained is
// an exhausted empty page.
func (g *Graph) Page(slot Slot, from Cursor, backward bool, limit int) (Page, error) {
	page := Page{Next: from, Exhausted: true}
	limit = min(limit, MaxPage)
	st, err := g.state(slot)
	if limit <= 0 || errors.Is(err, ErrNoSlot) {
		return page, nil
	}
	if err != nil {
		return page, err
	}
	type place struct {
		id        ID
		timestamp uint64
		body      bool
	}
	var places []place
	err = g.withIndex(st, true, func(x *index) {
		for _, n := range x.beyondCursor(from, backward, pageScanFactor*limit) {
			places = append(places, place{x.ids[n], x.entries[n].timestamp, x.entries[n].body})
		}
	})
	if err != nil {
		return page, err
	}
	page.Exhausted = len(places) < pageScanFactor*limit
	size := 0
	err = g.store.View(func(r kv.Reader) error {
		for _, p := range places {
			if len(page.Events) == limit || size > MaxPageBytes {
				page.Exhausted = false
				return nil
			}
			if !p.body {
				continue
			}
			page.Next = Cursor{p.timestamp, p.id}
			if p.id == st.genesisID {
				continue
			}
			e, _, ok, err := readEvent(r, st.slot, &p.id)
			if err != nil {
				return err
			}
			if ok {
				page.Events = append(page.Events, e)
				size += e.Size()
			}
		}
		page.Exhausted = page.Exhausted && len(page.Events) < limit
		return nil
	})
	if err != nil {
		return Page{Next: from}, err
	}
	return page, nil
}
