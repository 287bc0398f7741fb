package eventgraph

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"hearsay/internal/kv"
)

// InsertHeaders stores headers without bodies: what a sync has yet to fetch. All or
// none: one bad header (an *EventError) refuses the batch, in whatever order it is.
// Genesis-shaped and known headers are skipped. Beyond MaxHeaderOnly headers without
// a body the slot takes no more (ErrHeadersFull); DropHeaders makes room.
func (g *Graph) InsertHeaders(slot Slot, headers []Header) error {
	if len(headers) > MaxBatch {
		return fmt.Errorf("%w: %d headers, at most %d", ErrTooLarge, len(headers), MaxBatch)
	}
	st, err := g.state(slot)
	if err != nil {
		return err
	}
	now := g.cfg.Now()
	batch := make([]delta, 0, len(headers))
	for i := range headers {
		h := &headers[i]
		if h.GenesisShaped() {
			continue
		}
		d := delta{id: h.ID(), header: h}
		if err := g.checkAlone(st, h, &d.id, now); err != nil {
			return &EventError{d.id, err}
		}
		batch = append(batch, d)
	}
	if len(batch) == 0 {
		return nil
	}
	slices.SortFunc(batch, func(a, b delta) int {
		if c := cmp.Compare(a.header.Layer, b.header.Layer); c != 0 {
			return c
		}
		return compareID(a.id, b.id)
	})
	if err := g.load(st); err != nil {
		return err
	}
	for first := true; len(batch) > 0; first = false {
		n := min(len(batch), maxCommitEvents)
		var ahead []delta
		if first {
			ahead = batch[n:]
		}
		if err := g.commitHeaders(st, batch[:n], ahead); err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// commitHeaders commits the new ones of a sorted batch, if it and what comes after
// it are valid.
func (g *Graph) commitHeaders(st *slotState, batch, ahead []delta) error {
	var added []delta
	var count slotCount
	return g.commit(OpHeaders, func(tx kv.Txn, m *meta) (err error) {
		if added, count, err = g.checkHeaders(st, tx, *m, batch, ahead, added[:0]); err != nil {
			return err
		}
		if len(added) == 0 {
			return errNothing
		}
		var key [1 + 8 + 32]byte
		var rec [HeaderSize]byte
		for _, d := range added {
			if err := tx.Set(appendEventKey(key[:0], keyEvent, st.slot, &d.id), d.header.AppendTo(rec[:0])); err != nil {
				return err
			}
		}
		return tx.Set(slotKey(keySlot, st.slot), count.encode())
	}, func(m meta) { g.apply(st, m, count, added, false) })
}

// checkHeaders returns the headers of batch that are new, and the slot's counters
// with them, after checking that ahead would fit on top.
func (g *Graph) checkHeaders(st *slotState, tx kv.Txn, m meta, batch, ahead, added []delta) ([]delta, slotCount, error) {
	if st.dropped.Load() {
		return nil, slotCount{}, ErrNoSlot
	}
	count, err := readSlotCount(tx, st.slot)
	if err == nil && count.pruning {
		err = ErrNoSlot
	}
	if err != nil {
		return nil, slotCount{}, err
	}
	st.mu.RLock()
	defer st.mu.RUnlock()
	find := g.lookupBoth(st, tx, m)
	fresh := make(map[ID]uint64, len(batch))
	overlay := func(id *ID) (known, error) {
		if layer, ok := fresh[*id]; ok {
			return known{layer: layer, header: true}, nil
		}
		return find(id)
	}
	later := uint64(0)
	for i, d := range slices.Concat(batch, ahead) {
		self, err := overlay(&d.id)
		if err != nil {
			return nil, slotCount{}, err
		}
		if self.header {
			continue
		}
		if err := checkParents(d.header, overlay, false); err != nil {
			if errors.Is(err, ErrInvalid) || errors.Is(err, ErrNoParent) {
				err = &EventError{d.id, err}
			}
			return nil, slotCount{}, err
		}
		fresh[d.id] = d.header.Layer
		if i >= len(batch) {
			later++
			continue
		}
		added = append(added, d)
		count.headers++
		count.bytes += HeaderSize
	}
	if count.headers-count.bodies+later > MaxHeaderOnly {
		return nil, slotCount{}, ErrHeadersFull
	}
	return added, count, nil
}

// DropHeaders forgets the slot's headers without a body: nobody would serve their
// bodies, or somebody invented them.
func (g *Graph) DropHeaders(slot Slot) error {
	st, err := g.state(slot)
	if err != nil {
		return err
	}
	for {
		dropped := 0
		var count slotCount
		err := g.commit(OpDropHeaders, func(tx kv.Txn, _ *meta) (err error) {
			count, dropped, err = g.dropSome(tx, st)
			return err
		}, func(m meta) { g.apply(st, m, count, nil, true) })
		if err != nil || dropped == 0 {
			return err
		}
	}
}

// dropSome is one transaction of DropHeaders: children go before their parents, so
// that what is left is sound after each of them.
func (g *Graph) dropSome(tx kv.Txn, st *slotState) (count slotCount, dropped int, err error) {
	if count, err = readSlotCount(tx, st.slot); err != nil {
		return count, 0, err
	}
	if count.headers == count.bodies || count.pruning {
		return count, 0, errNothing
	}
	type victim struct {
		key   []byte
		layer uint64
	}
	var victims []victim
	err = tx.Scan(kv.Scan{Prefix: slotKey(keyEvent, st.slot)}, func(k, v []byte) error {
		rec, err := decodeRecord(v)
		if err == nil && !rec.hasBody() {
			victims = append(victims, victim{slices.Clone(k), rec.header.Layer})
		}
		return err
	})
	if err != nil {
		return count, 0, err
	}
	slices.SortFunc(victims, func(a, b victim) int { return cmp.Compare(b.layer, a.layer) })
	victims = victims[:min(len(victims), pruneKeys)]
	for _, v := range victims {
		if err := tx.Delete(v.key); err != nil {
			return count, 0, err
		}
	}
	count.headers -= uint64(len(victims))
	count.bytes -= uint64(len(victims)) * HeaderSize
	return count, len(victims), tx.Set(slotKey(keySlot, st.slot), count.encode())
}

// HeadersBeyond lists, in (layer, id) order, at most limit headers of the slot that
// are neither in known nor an ancestor of one in known: the answer to a HeaderReq
// (facts page, section 5.4). The genesis is one of them unless it is excluded. Ids in
// known that are not here exclude nothing.
func (g *Graph) HeadersBeyond(slot Slot, known Tips, limit int) (HeaderList, error) {
	st, err := g.state(slot)
	if err != nil {
		return HeaderList{}, err
	}
	if tips := st.keptTips(); tips != nil && st.counts().headers == st.counts().bodies && tips.within(known) {
		return HeaderList{}, nil // the common case between two nodes in step
	}
	var list HeaderList
	err = g.withIndex(st, false, func(x *index) { list = x.list(x.beyond(known), min(limit, MaxHeaders)) })
	return list, err
}

// within tells whether each tip is in known.
func (t Tips) within(known Tips) bool {
	all := map[ID]bool{}
	for _, ids := range known {
		for _, id := range ids {
			all[id] = true
		}
	}
	for _, ids := range t {
		for _, id := range ids {
			if !all[id] {
				return false
			}
		}
	}
	return true
}

// Missing lists, in (layer, id) order, at most limit headers without a body.
func (g *Graph) Missing(slot Slot, limit int) (HeaderList, error) {
	st, err := g.state(slot)
	if err != nil {
		return HeaderList{}, err
	}
	if c := st.counts(); c.headers == c.bodies {
		return HeaderList{}, nil
	}
	var list HeaderList
	err = g.withIndex(st, false, func(x *index) {
		all := make([]uint32, 0, x.missing())
		for n := range x.entries {
			if !x.entries[n].body {
				all = append(all, uint32(n))
			}
		}
		list = x.list(all, min(limit, MaxHeaders))
	})
	return list, err
}
