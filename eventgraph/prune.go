package eventgraph

import (
	"context"
	"slices"
	"time"

	"hearsay/internal/kv"
)

// pruner deletes slots that have been expired for pruneGrace without interruption.
// The grace counts the process's own time, which no setting of the clock moves.
type pruner struct {
	since map[Slot]time.Time
}

// step looks at the clock once. now is a monotonic reading.
func (p *pruner) step(ctx context.Context, g *Graph, now time.Time) error {
	seen := make(map[Slot]time.Time)
	for _, st := range g.expired() {
		first, ok := p.since[st.slot]
		switch {
		case st.dropped.Load(): // interrupted: it has had its grace
		case !ok:
			seen[st.slot] = now
			continue
		case now.Sub(first) < pruneGrace:
			seen[st.slot] = first
			continue
		}
		if err := g.prune(ctx, st); err != nil {
			return err
		}
		g.cfg.Logger.Info("slot pruned", "slot", st.slot.String())
	}
	p.since = seen
	return nil
}

// expired lists the slots before the window, oldest first, and those whose pruning
// was interrupted.
func (g *Graph) expired() []*slotState {
	oldest := g.oldest(g.cfg.Now())
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []*slotState
	for s, st := range g.slots {
		switch {
		case st.dropped.Load():
			list = append(list, st)
		case s >= oldest:
		case !st.stored():
			delete(g.slots, s) // nothing happened in it
		case !g.cfg.Archive:
			list = append(list, st)
		}
	}
	slices.SortFunc(list, func(a, b *slotState) int {
		if a.slot < b.slot {
			return -1
		}
		return 1
	})
	return list
}

// prune deletes a slot in transactions of pruneKeys events. The first one marks the
// slot, and from then on nothing of it is served, also after a restart: what is left
// of it breaks the rule that parents are stored. The last one deletes the mark.
func (g *Graph) prune(ctx context.Context, st *slotState) error {
	st.dropped.Store(true)
	g.unload(st)
	for done := false; !done; {
		if err := ctx.Err(); err != nil {
			return err
		}
		var count slotCount
		err := g.commit(OpPrune, func(tx kv.Txn, _ *meta) (err error) {
			count, done, err = g.pruneSome(tx, st)
			return err
		}, func(m meta) { g.apply(st, m, count, nil, true) })
		if err != nil {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.slots, st.slot)
	return nil
}

// pruneSome is one transaction of prune.
func (g *Graph) pruneSome(tx kv.Txn, st *slotState) (count slotCount, done bool, err error) {
	if count, err = readSlotCount(tx, st.slot); err != nil {
		return count, false, err
	}
	count.pruning = true
	type victim struct {
		key []byte
		rec record
	}
	var victims []victim
	err = tx.Scan(kv.Scan{Prefix: slotKey(keyEvent, st.slot)}, func(k, v []byte) error {
		if len(victims) == pruneKeys {
			return kv.ErrStop
		}
		rec, err := decodeRecord(v)
		if err != nil {
			rec = record{} // a broken record must still be deletable
		}
		victims = append(victims, victim{slices.Clone(k), rec})
		return nil
	})
	if err != nil {
		return count, false, err
	}
	for _, v := range victims {
		if err := tx.Delete(v.key); err != nil {
			return count, false, err
		}
		count.headers -= min(count.headers, 1)
		if !v.rec.hasBody() {
			count.bytes -= min(count.bytes, HeaderSize)
			continue
		}
		count.bodies -= min(count.bodies, 1)
		count.bytes -= min(count.bytes, eventSize(v.rec.size))
		if err := tx.Delete(arrivalKey(v.rec.arrival)); err != nil {
			return count, false, err
		}
		if v.rec.size > inlineContent {
			v.key[0] = keyContent
			if err := tx.Delete(v.key); err != nil {
				return count, false, err
			}
		}
	}
	if len(victims) < pruneKeys {
		return count, true, tx.Delete(slotKey(keySlot, st.slot))
	}
	return count, false, tx.Set(slotKey(keySlot, st.slot), count.encode())
}
