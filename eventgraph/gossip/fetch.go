package gossip

import (
	"context"
	"errors"

	"hearsay/eventgraph"
)

// fetch asks for the bodies of wanted, which are in (layer, id) order, and stores
// what comes while the next ones are on their way. What does not come stays out; it
// stops nothing but its own descendants.
func (p *puller) fetch(ctx context.Context, wanted []headed) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := make(chan []eventgraph.Event, 1)
	result := make(chan error, 1)
	go func() {
		var err error
		for batch := range batches {
			if err == nil {
				if err = p.store(ctx, batch); err != nil {
					cancel()
				}
			}
		}
		result <- err
	}()
	err := p.request(ctx, wanted, batches)
	close(batches)
	if failed := <-result; failed != nil {
		return failed
	}
	return err
}

// An eventsAsked is an EventReq on its way.
type eventsAsked struct {
	ids []eventgraph.ID
	got chan eventsAnswer // one, at the latest when the context ends
}

type eventsAnswer struct {
	events map[eventgraph.ID]eventgraph.Event
	err    error
}

func (p *puller) askFor(ctx context.Context, ids []eventgraph.ID) eventsAsked {
	a := eventsAsked{ids, make(chan eventsAnswer, 1)}
	go func() {
		events, err := p.askEvents(ctx, ids, p.shown)
		a.got <- eventsAnswer{events, err}
	}()
	return a
}

// A gathering is what came for a fetch and is not stored yet.
type gathering struct {
	*puller
	batches chan<- []eventgraph.Event
	batch   []eventgraph.Event
	size    int
	silent  int // requests in a row without an answer
}

// request asks for wanted in chunks and passes what comes on to batches, in order. The
// next chunk is asked for before the one before has come.
func (p *puller) request(ctx context.Context, wanted []headed, batches chan<- []eventgraph.Event) error {
	ctx, cancel := context.WithCancel(ctx)
	var out []eventsAsked
	defer func() {
		cancel()
		for _, a := range out {
			<-a.got
		}
	}()
	g := gathering{puller: p, batches: batches}
	for len(wanted) > 0 || len(out) > 0 {
		for len(wanted) > 0 && len(out) < maxAsked(replyEvents) {
			ids := make([]eventgraph.ID, min(int(p.chunk.Load()), len(wanted)))
			for i := range ids {
				ids[i] = wanted[i].id
			}
			wanted = wanted[len(ids):]
			out = append(out, p.askFor(ctx, ids))
		}
		a := out[0]
		out = out[1:]
		// What is left of it goes before all that was asked for after it: parents first.
		for left := a.ids; ; a = p.askFor(ctx, left[:min(int(p.chunk.Load()), len(left))]) {
			n, err := g.take(ctx, a.ids, <-a.got)
			if err != nil {
				return errors.Join(err, g.flush(ctx))
			}
			if left = left[n:]; len(left) == 0 {
				break
			}
		}
	}
	return g.flush(ctx)
}

// take judges the answer to a request, and returns how many of its ids are dealt with.
func (g *gathering) take(ctx context.Context, ids []eventgraph.ID, a eventsAnswer) (int, error) {
	n := len(ids)
	switch {
	case errors.Is(a.err, errTooLong) && n > 1:
		g.chunk.Store(int32(max(1, n/8)))
		return 0, nil
	case errors.Is(a.err, errTooLong):
		return 1, nil
	case errors.Is(a.err, errTimeout):
		// Silence is how the answer "none of these" looks.
		if g.silent++; g.silent >= maxSilentChunks {
			return 0, a.err
		}
		return n, nil
	case a.err != nil:
		return 0, a.err
	}
	g.silent = 0
	g.chunk.Store(min(MaxEventReqIDs, 2*g.chunk.Load()))
	g.g.plans.progress(g.id, g.slot)
	// What is missing at the end was cut off and is asked for again; what is missing
	// before something that came is not there.
	last := n - 1
	if len(a.events) > 0 {
		for i, id := range ids {
			e, ok := a.events[id]
			if !ok {
				continue
			}
			last = i
			g.batch = append(g.batch, e)
			g.size += e.Size()
		}
	}
	if len(g.batch) >= insertBatch || g.size >= insertBytes {
		return last + 1, g.flush(ctx)
	}
	return last + 1, nil
}

// flush passes the batch on.
func (g *gathering) flush(ctx context.Context) error {
	if len(g.batch) == 0 {
		return nil
	}
	select {
	case g.batches <- g.batch:
	case <-ctx.Done():
		return ctx.Err()
	}
	g.batch, g.size = nil, 0
	return nil
}

// store commits one batch. Refused events stop only what rests on them.
func (p *puller) store(ctx context.Context, batch []eventgraph.Event) error {
	stored, refused, err := p.g.graph.InsertValid(ctx, p.slot, batch, eventgraph.SourceSync)
	if err != nil {
		return err
	}
	p.g.stats.synced.Add(int64(len(stored)))
	if len(stored) > 0 {
		p.g.plans.progress(p.id, p.slot)
	}
	for _, id := range stored {
		delete(p.seen, id)
	}
	for _, r := range refused {
		if errors.Is(r.Err, eventgraph.ErrInvalid) {
			p.refused++
		}
	}
	if p.refused > maxRefused {
		return errRefused
	}
	return nil
}
