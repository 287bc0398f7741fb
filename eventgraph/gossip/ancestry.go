package gossip

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

var (
	// errReply: an EventRep that breaks the rules of facts page section 4.7, step 4.
	errReply = errors.New("gossip: an answer that was not asked for")
	// errAncestor: an ancestor that cannot be of this slot.
	errAncestor = errors.New("gossip: impossible ancestor")
	// errTooDeep: more rounds than an honest gap takes.
	errTooDeep = errors.New("gossip: ancestry too deep")
	// errTooMuch: more bytes than are held for one fetch; the comparison of tips gets it.
	errTooMuch = errors.New("gossip: ancestry too large")
)

// An ancestry is the state of one fetch of ancestors: pure, fed with replies. It
// asks first for missing events, then for the missing parents of what came.
type ancestry struct {
	params  eventgraph.Params
	slot    eventgraph.Slot
	stored  func(eventgraph.ID) bool
	missing map[eventgraph.ID]struct{}
	known   map[eventgraph.ID]eventgraph.Event // came in this fetch
	bytes   int
	rounds  int
	anyTime bool // of the static graph, where stamps mean nothing
}

func newAncestry(params eventgraph.Params, slot eventgraph.Slot, ids []eventgraph.ID, stored func(eventgraph.ID) bool) *ancestry {
	a := &ancestry{
		params: params, slot: slot, stored: stored,
		missing: make(map[eventgraph.ID]struct{}), known: make(map[eventgraph.ID]eventgraph.Event),
	}
	for _, id := range ids {
		a.missing[id] = struct{}{}
	}
	return a
}

// next is the next request: ids in ascending order, at most MaxEventReqIDs. None:
// the fetch is complete.
func (a *ancestry) next() ([]eventgraph.ID, error) {
	if len(a.missing) == 0 {
		return nil, nil
	}
	if a.rounds++; a.rounds > maxFetchRounds {
		return nil, errTooDeep
	}
	ids := make([]eventgraph.ID, 0, len(a.missing))
	for id := range a.missing {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, compareIDs)
	return ids[:min(len(ids), MaxEventReqIDs)], nil
}

// take judges the answer to a request. On an error nothing has changed.
func (a *ancestry) take(asked []eventgraph.ID, rep EventRep) error {
	events, err := matchReply(asked, rep)
	if err != nil {
		return err
	}
	return a.add(events)
}

// add is take for events of which each was asked for.
func (a *ancestry) add(events map[eventgraph.ID]eventgraph.Event) error {
	if len(events) == 0 {
		return fmt.Errorf("%w: no progress", errReply)
	}
	bytes := a.bytes
	for id, e := range events {
		if _, ok := a.missing[id]; !ok {
			return fmt.Errorf("%w: not missing", errReply)
		}
		if !wellFormed(&e) || !a.anyTime && !inBounds(a.params, a.slot, e.Timestamp) {
			return errAncestor
		}
		bytes += e.Size()
	}
	if bytes > maxFetchBytes || len(a.known)+len(events) > maxFetchEvents {
		return errTooMuch
	}
	a.bytes = bytes
	for id, e := range events {
		delete(a.missing, id)
		a.known[id] = e
	}
	for _, e := range events {
		for _, parent := range e.Parents {
			if _, ok := a.known[parent]; !ok && !parent.IsNull() && !a.stored(parent) {
				a.missing[parent] = struct{}{}
			}
		}
	}
	return nil
}

// events are what came, parents before children.
func (a *ancestry) events() []eventgraph.Event {
	type item struct {
		id eventgraph.ID
		e  eventgraph.Event
	}
	items := make([]item, 0, len(a.known))
	for id, e := range a.known {
		items = append(items, item{id, e})
	}
	slices.SortFunc(items, func(x, y item) int {
		if x.e.Layer != y.e.Layer {
			if x.e.Layer < y.e.Layer {
				return -1
			}
			return 1
		}
		return compareIDs(x.id, y.id)
	})
	events := make([]eventgraph.Event, len(items))
	for i := range items {
		events[i] = items[i].e
	}
	return events
}

// matchReply checks an EventRep against its request (checklist 1 to 4): as many
// blobs as events, only what was asked for, nothing twice.
func matchReply(asked []eventgraph.ID, rep EventRep) (map[eventgraph.ID]eventgraph.Event, error) {
	if len(rep.Blobs) != len(rep.Events) {
		return nil, fmt.Errorf("%w: %d events with %d blobs", errReply, len(rep.Events), len(rep.Blobs))
	}
	want := make(map[eventgraph.ID]struct{}, len(asked))
	for _, id := range asked {
		want[id] = struct{}{}
	}
	events := make(map[eventgraph.ID]eventgraph.Event, len(rep.Events))
	for _, e := range rep.Events {
		id := e.ID()
		if _, ok := want[id]; !ok {
			return nil, fmt.Errorf("%w: an event too many", errReply)
		}
		if _, ok := events[id]; ok {
			return nil, fmt.Errorf("%w: an event twice", errReply)
		}
		events[id] = e
	}
	return events, nil
}

// fetchParents fetches missing parents of a put, and theirs, from the peer that
// sent it and so has revealed them, at the put's stamp or later, and stores them. The
// zero outcome is success.
func (c *conn) fetchParents(ctx context.Context, slot eventgraph.Slot, stamp uint64, ids []eventgraph.ID) outcome {
	shown := eventgraph.Slot(stamp).Time()
	if now := c.g.cfg.Now(); shown.After(now) {
		shown = now
	}
	err := c.fetchAncestry(ctx, slot, shown, ids, eventgraph.SourceParent)
	if err != nil && ctx.Err() == nil {
		c.g.stats.fetchFailures.Add(1)
		c.g.kick(c.id, slot)
	}
	switch {
	case err == nil:
		return outcome{}
	case errors.Is(err, context.Canceled):
		return outcome{}
	case errors.Is(err, errReply), errors.Is(err, errTooDeep):
		// The peer broke a rule; of the put nothing is established.
		return outcome{result: eventgraph.NackBusy, strike: true}
	case errors.Is(err, errAncestor), errors.Is(err, eventgraph.ErrInvalid):
		return outcome{result: eventgraph.NackInvalid} // a parent is invalid: no strike (facts page, 4.7)
	default:
		return outcome{result: eventgraph.NackBusy}
	}
}

// fetchAncestry fetches and stores ids, which the peer has revealed at shown, and
// their missing ancestors.
func (c *conn) fetchAncestry(ctx context.Context, slot eventgraph.Slot, shown time.Time, ids []eventgraph.ID, src eventgraph.Source) error {
	g := c.g
	ctx, cancel := context.WithTimeout(ctx, fetchTimeouts*g.cfg.RequestTimeout)
	defer cancel()
	for _, turn := range []chan struct{}{c.fetchTurn, g.fetches} {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	stored := func(id eventgraph.ID) bool { return g.graph.HasBody(slot, id) }
	ids = slices.DeleteFunc(slices.Clone(ids), stored) // the fetch before this one may have brought them
	a := newAncestry(g.params, slot, ids, stored)
	for {
		asked, err := a.next()
		if err != nil {
			return err
		}
		if asked == nil {
			break
		}
		events, err := c.askEvents(ctx, asked, shown)
		if err != nil {
			return err
		}
		if err := a.add(events); err != nil {
			return err
		}
	}
	for batch := range slices.Chunk(a.events(), insertBatch) {
		if _, err := g.graph.Insert(ctx, slot, batch, src); err != nil {
			return err
		}
	}
	return nil
}

// errTurn: the peer may have forgotten by now what it has shown.
var errTurn = errors.New("gossip: the slot turns")

// askEvents asks the peer for events that it revealed at shown, by our wall clock. What
// it returns was asked for.
func (c *conn) askEvents(ctx context.Context, ids []eventgraph.ID, shown time.Time) (map[eventgraph.ID]eventgraph.Event, error) {
	if !mayAsk(c.g.params, shown, c.g.cfg.Now(), c.capable.Load()) {
		return nil, errTurn
	}
	limit := min(maxEventRep, 9+9+len(ids)*(208+9+c.g.cfg.MaxContent+9+maxBlob))
	fit := func(v any) (any, bool) {
		events, err := matchReply(ids, v.(EventRep))
		return events, err == nil
	}
	m := p2p.Message{Command: CmdEventReq, Payload: EventReq{IDs: ids}.AppendTo(nil)}
	v, err := c.req.ask(ctx, c.p, replyEvents, m, limit, fit)
	switch {
	case errors.Is(err, errTimeout):
		// An unmodified node would close here. Silence is what honest nodes answer with
		// for what they do not have, so only a habit of it closes.
		if c.silent.Add(1) >= maxSilentFetches {
			c.p.Close(ErrSilent)
		}
		return nil, err
	case err != nil:
		return nil, err
	}
	c.silent.Store(0)
	if rep, ok := v.(EventRep); ok { // it did not fit
		_, err := matchReply(ids, rep)
		return nil, err
	}
	return v.(map[eventgraph.ID]eventgraph.Event), nil
}
