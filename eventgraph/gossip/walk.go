package gossip

import (
	"context"
	"errors"
	"slices"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// errStuck: a page that leads nowhere, though the peer says that there is more.
var errStuck = errors.New("gossip: a range leads nowhere")

// A walk fetches what headers cannot lead to. An event without children can be named
// only by listing it, a request lists 1,024 of them, and an answer 4,096 headers from
// below: where a slot has more ends than that, everything answered is known, and what
// lies above stays out of sight. So the slot is read in time order, page by page,
// which costs no strike and is not bound to what was revealed (facts page, 5.4).
//
// A child may carry an earlier stamp than its parent, so what cannot be stored yet
// waits for the pages after it.
type walk struct {
	*puller
	from    eventgraph.Cursor
	limit   uint32 // events in a page: shrinks where answers are too long
	pending map[eventgraph.ID]*eventgraph.Event
	bytes   int // of pending
}

// A walked is where the next walk over a slot of a peer may begin.
type walked struct {
	stamp uint64 // what is older was read to the end
	times int
}

// walk reads the slot of the peer from the first event, or from a little before where
// it ended the last time: late events of the far past are found by each tenth walk.
func (p *puller) walk(ctx context.Context) error {
	w := walk{puller: p, limit: MaxRangePage, pending: make(map[eventgraph.ID]*eventgraph.Event)}
	mark := p.walked[p.slot]
	if mark.times%historyEvery != 0 {
		w.from.Timestamp = mark.stamp
	}
	began := millis(p.g.cfg.Now())
	if err := w.run(ctx); err != nil {
		delete(p.walked, p.slot)
		return err
	}
	if len(p.walked) > maxWalked {
		clear(p.walked) // slots that are long gone among them
	}
	back := uint64((walkBack * p.g.params.Drift).Milliseconds())
	p.walked[p.slot] = walked{stamp: began - min(began, back), times: mark.times + 1}
	return nil
}

func (w *walk) run(ctx context.Context) error {
	for range maxRangePages {
		page, err := w.ask(ctx)
		if errors.Is(err, errTooLong) && w.limit > 1 {
			w.limit = max(1, w.limit/8)
			continue
		}
		if err != nil {
			return err
		}
		w.g.plans.progress(w.id, w.slot)
		if err := w.take(page); err != nil {
			return err
		}
		if err := w.settle(ctx); err != nil {
			return err
		}
		switch {
		case page.Exhausted && len(w.pending) > 0:
			return errUnserved // children without their parents
		case page.Exhausted:
			return nil
		}
	}
	return errUnserved
}

func (w *walk) ask(ctx context.Context) (RangeRep, error) {
	m := p2p.Message{Command: CmdRangeReq, Payload: RangeReq{Name: w.slot.String(), From: w.from, Limit: w.limit}.AppendTo(nil)}
	limit := min(maxEventRep, 64+int(w.limit)*(208+9+w.g.cfg.MaxContent+9+maxBlob))
	v, err := w.req.ask(ctx, w.p, replyRange, m, limit, nil)
	if err != nil {
		return RangeRep{}, err
	}
	return v.(RangeRep), nil
}

// take judges a page and adds what is new to pending. Positions strictly ascend, so a
// peer cannot show the same event twice.
func (w *walk) take(page RangeRep) error {
	if len(page.Events) > int(w.limit) {
		return errReply
	}
	at := w.from
	for i := range page.Events {
		e := &page.Events[i]
		id := e.ID()
		next := eventgraph.Cursor{Timestamp: e.Timestamp, ID: id}
		if !before(at, next) {
			return errReply
		}
		at = next
		switch {
		case e.GenesisShaped(), w.has(id):
			continue
		case !inBounds(w.g.params, w.slot, e.Timestamp), !wellFormed(e):
			return errBadHeaders
		}
		w.pending[id] = e
		w.bytes += e.Size()
	}
	if before(page.Next, at) || !page.Exhausted && page.Next == w.from {
		return errStuck
	}
	w.from = page.Next
	return nil
}

func before(a, b eventgraph.Cursor) bool {
	if a.Timestamp != b.Timestamp {
		return a.Timestamp < b.Timestamp
	}
	return compareIDs(a.ID, b.ID) < 0
}

func (w *walk) has(id eventgraph.ID) bool {
	if w.only {
		return w.g.graph.HasHeader(w.slot, id)
	}
	return w.g.graph.HasBody(w.slot, id)
}

// settle stores those of pending whose parents are here.
func (w *walk) settle(ctx context.Context) error {
	if len(w.pending) == 0 {
		return nil
	}
	all := make([]headed, 0, len(w.pending))
	for id, e := range w.pending {
		all = append(all, headed{id, &e.Header})
	}
	slices.SortFunc(all, compareHeaded)
	chosen := make(map[eventgraph.ID]bool, len(all))
	var ready []headed
	genesis := w.g.genesisID(w.slot)
	for _, h := range all {
		missing := func(id eventgraph.ID) bool {
			return !id.IsNull() && !chosen[id] && !w.has(id)
		}
		for _, parent := range h.Parents {
			if h.Layer == 1 && !parent.IsNull() && parent != genesis {
				return errForeign
			}
		}
		if !slices.ContainsFunc(h.Parents[:], missing) {
			chosen[h.id] = true
			ready = append(ready, h)
		}
	}
	batch := make([]eventgraph.Event, len(ready))
	for i, h := range ready {
		batch[i] = *w.pending[h.id]
		w.bytes -= batch[i].Size()
		delete(w.pending, h.id)
	}
	if len(w.pending) > maxFetchEvents || w.bytes > maxFetchBytes {
		return errUnserved
	}
	switch {
	case len(batch) == 0:
		return nil
	case w.only:
		return w.storeHeaders(ready)
	default:
		return w.store(ctx, batch)
	}
}

// walkBack, in drifts, is how far before its last beginning a walk begins anew: late
// events have stamps that old.
const walkBack = time.Duration(5)
