package gossip

import (
	"context"
	"errors"
	"sync"
	"time"

	"hearsay/eventgraph"
)

// A putLine works off the puts of one connection. Decisions are made one after the
// other in order of arrival, by the goroutine of runPuts. What can be stored goes to
// the stage; what needs ancestors first gets a goroutine of its own, and waits there
// for earlier puts of this line that it rests on.
type putLine struct {
	*conn
	ctx   context.Context // of runPuts
	held  holdings        // owner: runPuts
	slots chan struct{}   // one token per put in a goroutine
	errs  chan error      // of these; the first is enough
	work  sync.WaitGroup  // these, and the puts of this line in the stage

	doneMu sync.Mutex
	staged int      // puts in the stage that were not fetched for
	done   []answer // to be given
}

// An answer is what became of a put.
type answer struct {
	id eventgraph.ID
	o  outcome
}

func (c *conn) runPuts(ctx context.Context) error {
	l := &putLine{conn: c, slots: make(chan struct{}, maxConcurrentPuts), errs: make(chan error, 1)}
	ctx, cancel := context.WithCancel(ctx)
	l.ctx = ctx
	c.in.open(c.g.puts)
	defer func() {
		cancel()
		c.in.close()
		l.work.Wait()
	}()
	for {
		done, full := l.answers()
		for _, a := range done {
			if err := l.answer(ctx, a.id, a.o); err != nil {
				return err
			}
		}
		if full {
			select {
			case <-c.in.more:
				continue
			case err := <-l.errs:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		p, ok, overflow := c.in.take()
		for _, id := range overflow {
			if err := c.answer(ctx, id, outcome{result: eventgraph.NackBusy}); err != nil {
				return err
			}
		}
		if !ok {
			p, ok = l.held.take(c.g.graph.Current())
		}
		if ok {
			kept, err := l.dispatch(ctx, p)
			if !kept {
				c.in.done(p)
			}
			if err != nil {
				return err
			}
			continue
		}
		timer := time.NewTimer(l.held.wait(c.g.cfg.Now()))
		var err error
		select {
		case <-c.in.more:
		case <-timer.C:
		case err = <-l.errs:
		case <-ctx.Done():
			err = ctx.Err()
		}
		timer.Stop()
		if err != nil {
			return err
		}
	}
}

// dispatch gathers the facts about one put, has them judged, and acts. kept: it is in
// work or waits for its slot. An error ends the connection.
func (l *putLine) dispatch(ctx context.Context, p put) (kept bool, err error) {
	g := l.g
	if p.static {
		return false, l.staticPut(ctx, p)
	}
	id, current := p.event.ID(), g.graph.Current()
	if !p.held {
		a := admit(g.Synced(), g.graph.HasBody(current, id))
		if !a.counted {
			if a.result.Has() {
				l.known.add(id)
			}
			return false, l.answer(ctx, id, a.outcome)
		}
		if l.flood.tick(time.Now()) {
			g.stats.floodBans.Add(1)
			g.cfg.Logger.Info("a peer is banned: too many new events")
			l.p.Ban(true, ErrFlood)
			return false, ErrFlood
		}
	}
	switch where := place(g.params, current, p.arrived, &p.event); where {
	case placePast:
		_, _, err := g.graph.Find(id)
		if err != nil && !errors.Is(err, eventgraph.ErrNotFound) {
			g.stats.insertErrors.Add(1)
			return false, l.answer(ctx, id, outcome{result: eventgraph.NackBusy}) // a fault of ours: it may be here
		}
		return false, l.answer(ctx, id, pastOutcome(err == nil, g.slotSynced(g.slotOf(p.event.Timestamp))))
	case placeFuture, placeForm:
		return false, l.answer(ctx, id, outcome{result: eventgraph.NackInvalid, strike: true})
	case placeHold:
		p.held = true
		if l.held.add(g.params.End(current), p) {
			g.stats.heldPuts.Add(1)
			return true, nil
		}
		return false, l.answer(ctx, id, outcome{result: eventgraph.NackBusy})
	default:
		return l.start(ctx, p, id, current, where == placeGrace)
	}
}

// answers takes what is to be answered. full: the stage has as many puts of this
// line as it may.
func (l *putLine) answers() (done []answer, full bool) {
	l.doneMu.Lock()
	defer l.doneMu.Unlock()
	done, l.done = l.done, nil
	return done, l.staged >= maxStagedPuts
}

// start stages p, or works on it in a goroutine of its own.
func (l *putLine) start(ctx context.Context, p put, id eventgraph.ID, slot eventgraph.Slot, grace bool) (kept bool, err error) {
	l.known.add(id) // whatever becomes of it here, it need not be told them
	l.flightMu.Lock()
	before := make([]chan struct{}, 0, 2) // earlier puts of this line that p rests on, or is a copy of
	for _, need := range append(p.event.Parents[:], id) {
		if done, ok := l.flight[need]; ok {
			before = append(before, done)
		}
	}
	l.flightMu.Unlock()
	if len(before) == 0 && l.stagePut(ctx, p, id, slot) {
		return true, nil
	}
	select {
	case l.slots <- struct{}{}:
	case err := <-l.errs:
		return false, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
	done := make(chan struct{})
	l.flightMu.Lock()
	l.flight[id] = done
	l.flightMu.Unlock()
	l.work.Go(func() {
		defer func() {
			l.flightMu.Lock()
			if l.flight[id] == done {
				delete(l.flight, id)
			}
			l.flightMu.Unlock()
			close(done)
			l.in.done(p)
			<-l.slots
		}()
		for _, ch := range before {
			select {
			case <-ch:
			case <-ctx.Done():
				return
			}
		}
		o := l.store(ctx, p.event, id, slot, grace)
		if ctx.Err() != nil {
			return
		}
		if err := l.answer(ctx, id, o); err != nil {
			select {
			case l.errs <- err:
			default:
			}
		}
	})
	return true, nil
}

// stagePut stages p if nothing has to be fetched for it.
func (l *putLine) stagePut(ctx context.Context, p put, id eventgraph.ID, slot eventgraph.Slot) bool {
	s := &staged{line: l, event: p.event, id: id, slot: slot, finish: func(o outcome) {
		l.doneMu.Lock()
		l.staged--
		l.done = append(l.done, answer{id, o})
		l.doneMu.Unlock()
		l.in.done(p)
		hint(l.in.more)
	}}
	l.doneMu.Lock()
	l.staged++
	l.doneMu.Unlock()
	if l.g.stage.add(ctx, s, false) {
		return true
	}
	l.doneMu.Lock()
	l.staged--
	l.doneMu.Unlock()
	return false
}

// store gets the missing ancestors of a well-formed put, and stores it. It relays
// what it stored and nothing else (facts page, trap 18).
func (l *putLine) store(ctx context.Context, e eventgraph.Event, id eventgraph.ID, slot eventgraph.Slot, grace bool) outcome {
	ended := make(chan outcome, 1)
	s := &staged{line: l, event: e, id: id, slot: slot, finish: func(o outcome) { ended <- o }}
	if !l.g.stage.add(ctx, s, false) {
		missing := l.missing(slot, &e)
		if len(missing) > 0 && grace {
			if o, ok := l.storeLate(ctx, e, id, slot); ok {
				return o
			}
		}
		if len(missing) > 0 {
			if o := l.fetchParents(ctx, slot, e.Timestamp, missing); o != (outcome{}) || ctx.Err() != nil {
				return o
			}
		}
		l.g.stage.add(ctx, s, true)
	}
	return <-ended // the stage ends all it took
}

// storeLate handles a put stamped in the first moments of slot that rests on events
// of the slot before, to which it may belong (facts page, section 4.1 and trap 27). It
// is stored there if all its parents are, and never relayed; nothing is fetched for it.
func (c *conn) storeLate(ctx context.Context, e eventgraph.Event, id eventgraph.ID, slot eventgraph.Slot) (outcome, bool) {
	g := c.g
	before := g.slotOf(uint64(slot) - 1)
	if before >= slot {
		return outcome{}, false
	}
	n, here := 0, 0
	for _, parent := range e.Parents {
		if parent.IsNull() {
			continue
		}
		n++
		if g.graph.HasBody(before, parent) {
			here++
		}
	}
	switch {
	case here == 0:
		return outcome{}, false
	case here < n:
		g.kick(c.id, before)
		return outcome{result: eventgraph.NackBusy}, true
	case g.graph.HasBody(before, id):
		return outcome{result: eventgraph.HasAlready}, true
	}
	stored, err := g.graph.Insert(ctx, before, []eventgraph.Event{e}, eventgraph.SourcePut)
	o := insertOutcome(err)
	o.strike = false // valid or not, the fault was made near a boundary
	if err == nil && len(stored) == 0 {
		o.result = eventgraph.HasAlready
	}
	return o, true
}

// missing lists the parents of e whose body is not in slot. Knowing a header is not
// enough: nothing could be stored above it.
func (c *conn) missing(slot eventgraph.Slot, e *eventgraph.Event) (ids []eventgraph.ID) {
	for _, p := range e.Parents {
		if !p.IsNull() && !c.g.graph.HasBody(slot, p) {
			ids = append(ids, p)
		}
	}
	return ids
}

// holdings are the puts of one connection that wait for their slot (DS-23).
type holdings struct {
	puts  []put
	slot  eventgraph.Slot // of all of them
	bytes int
}

// add holds p until slot opens, if there is room.
func (h *holdings) add(slot eventgraph.Slot, p put) bool {
	if len(h.puts) >= maxHeldPuts || h.bytes+p.size() > maxHeldBytes {
		return false
	}
	h.slot = slot
	h.puts = append(h.puts, p)
	h.bytes += p.size()
	return true
}

// take returns a put whose slot has opened.
func (h *holdings) take(current eventgraph.Slot) (put, bool) {
	if len(h.puts) == 0 || current < h.slot {
		return put{}, false
	}
	p := h.puts[0]
	h.bytes -= p.size()
	if h.puts = h.puts[1:]; len(h.puts) == 0 {
		*h = holdings{}
	}
	return p, true
}

// wait is how long it is until the slot opens; it is never long, since clocks step.
func (h *holdings) wait(now time.Time) time.Duration {
	if len(h.puts) == 0 {
		return time.Hour
	}
	return min(max(h.slot.Time().Sub(now), time.Millisecond), 10*time.Second)
}
