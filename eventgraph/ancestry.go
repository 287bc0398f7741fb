package eventgraph

import "hearsay/internal/kv"

// HasBody tells whether the event is stored in that slot; a slot's genesis always is.
func (g *Graph) HasBody(slot Slot, id ID) bool { return g.known(slot, &id).body }

// HasHeader tells whether the event's header is known in that slot.
func (g *Graph) HasHeader(slot Slot, id ID) bool { return g.known(slot, &id).header }

func (g *Graph) known(slot Slot, id *ID) known {
	st, err := g.state(slot)
	if err != nil {
		return known{}
	}
	return g.knownIn(st, id)
}

func (g *Graph) knownIn(st *slotState, id *ID) (k known) {
	if st.useIndex(false, func(x *index) { k, _ = x.lookup(id) }) {
		return k
	}
	if *id != st.genesisID && !st.stored() {
		return known{}
	}
	_ = g.store.View(func(r kv.Reader) (err error) {
		k, err = st.lookupIn(r)(id)
		return err
	})
	return k
}

// MissingParents lists the parents of h, in position order, whose bodies are not
// stored in slot: what must be fetched before h's body can be stored.
func (g *Graph) MissingParents(slot Slot, h *Header) ([]ID, error) {
	st, err := g.state(slot)
	if err != nil {
		return nil, err
	}
	var list []ID
	for i := range h.Parents {
		if p := &h.Parents[i]; !p.IsNull() && !g.knownIn(st, p).body {
			list = append(list, *p)
		}
	}
	return list, nil
}

// Find looks id up in all retained slots, bodies only; geneses are found as well.
func (g *Graph) Find(id ID) (Event, Slot, error) {
	for _, st := range g.retained() {
		if id == st.genesisID {
			return g.cfg.GenesisOf(st.slot), st.slot, nil
		}
		if !g.knownIn(st, &id).body {
			continue
		}
		var e Event
		ok := false
		err := g.store.View(func(r kv.Reader) (err error) {
			e, _, ok, err = readEvent(r, st.slot, &id)
			return err
		})
		if err != nil {
			return Event{}, 0, err
		}
		if ok {
			return e, st.slot, nil
		}
	}
	return Event{}, 0, ErrNotFound
}

// FindAll is Find for many ids at once: those that are found, in the order of ids, as
// many as have maxBytes together, and one at least. What cannot be read is left out.
func (g *Graph) FindAll(ids []ID, maxBytes int) []Event {
	if len(ids) < findTogether {
		list, _ := g.findAll(ids, maxBytes)
		return list
	}
	// Two read, since whoever asked waits for all of it.
	half := len(ids) / 2
	second := make(chan []Event, 1)
	go func() {
		list, _ := g.findAll(ids[half:], maxBytes)
		second <- list
	}()
	list, size := g.findAll(ids[:half], maxBytes)
	for _, e := range <-second {
		if size += e.Size(); size > maxBytes && len(list) > 0 {
			break // also where the first half was cut
		}
		list = append(list, e)
	}
	return list
}

// findAll is one part of FindAll. size is that of the list, and of the event for which
// there was no room, if it was cut: more than maxBytes then.
func (g *Graph) findAll(ids []ID, maxBytes int) (list []Event, size int) {
	states := g.retained()
	_ = g.store.View(func(r kv.Reader) error {
		for i := range ids {
			e, ok := g.findIn(r, states, &ids[i])
			if !ok {
				continue
			}
			if size += e.Size(); size > maxBytes && len(list) > 0 {
				return nil // the rest is asked for again
			}
			list = append(list, e)
		}
		return nil
	})
	return list, size
}

func (g *Graph) findIn(r kv.Reader, states []*slotState, id *ID) (Event, bool) {
	for _, st := range states {
		if *id == st.genesisID {
			return g.cfg.GenesisOf(st.slot), true
		}
		if !g.knownIn(st, id).body {
			continue
		}
		if e, _, ok, err := readEvent(r, st.slot, id); err == nil && ok {
			return e, true
		}
	}
	return Event{}, false
}

// Arrival tells how a stored event came here.
func (g *Graph) Arrival(id ID) (Arrival, error) {
	for _, st := range g.retained() {
		if id == st.genesisID || !g.knownIn(st, &id).body {
			continue
		}
		var a Arrival
		ok := false
		err := g.store.View(func(r kv.Reader) error {
			e, rec, found, err := readEvent(r, st.slot, &id)
			if err != nil || !found {
				return err
			}
			row, err := readArrival(r, rec.arrival)
			if err != nil {
				return err
			}
			a = Arrival{rec.arrival, st.slot, row.source, row.wall(), e}
			ok = true
			return nil
		})
		if err != nil || ok {
			return a, err
		}
	}
	return Arrival{}, ErrNotFound
}

// Descends tells whether ancestor is an ancestor of id, by headers of one slot: an
// event does not descend from itself, nor from anything in another slot. An id that
// is not known in any retained slot is ErrNotFound. Work is bounded by the number of
// the slot's events between the two; layers prune the walk.
func (g *Graph) Descends(id, ancestor ID) (bool, error) {
	for _, st := range g.retained() {
		if !g.knownIn(st, &id).header {
			continue
		}
		if !g.knownIn(st, &ancestor).header {
			return false, nil
		}
		yes := false
		err := g.withIndex(st, false, func(x *index) {
			d, ok1 := x.find(&id)
			a, ok2 := x.find(&ancestor)
			yes = ok1 && ok2 && x.descends(d, a)
		})
		return yes, err
	}
	return false, ErrNotFound
}

// Descendants lists the stored events, bodies only, that descend from id, parents
// before children. An id that is not known in any retained slot is ErrNotFound.
func (g *Graph) Descendants(id ID) ([]ID, error) {
	for _, st := range g.retained() {
		if !g.knownIn(st, &id).header {
			continue
		}
		var list []ID
		err := g.withIndex(st, false, func(x *index) {
			if a, ok := x.find(&id); ok {
				for _, n := range x.descendants(a) {
					list = append(list, x.ids[n])
				}
			}
		})
		return list, err
	}
	return nil, ErrNotFound
}
