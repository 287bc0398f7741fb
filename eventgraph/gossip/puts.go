package gossip

import (
	"context"
	"errors"
	"sync"
	"time"

	"hearsay/eventgraph"
)

// A putLine works off the puts of one connection. Decisions are made one after the
// other in order of arrival, by the goroutine of runPuts; storing overlaps, since
// the store groups commits, except that a put waits for its parents of the same line.
type putLine struct {
	*conn
	held  holdings      // owner: runPuts
	slots chan struct{} // one token per put in work
	errs  chan error    // of the work; the first is enough
	work  sync.WaitGroup
}

func (c *conn) runPuts(ctx context.Context) error {
	l := &putLine{conn: c, slots: make(chan struct{}, maxConcurrentPuts), errs: make(chan error, 1)}
	ctx, cancel := context.WithCancel(ctx)
	c.in.open(c.g.puts)
	defer func() {
		cancel()
		c.in.close()
		l.work.Wait()
	}()
	for {
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

// start works on p in a goroutine of its own, once there is a token.
func (l *putLine) start(ctx context.Context, p put, id eventgraph.ID, slot eventgraph.Slot, grace bool) (kept bool, err error) {
	select {
	case l.slots <- struct{}{}:
	case err := <-l.errs:
		return false, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
	l.flightMu.Lock()
	before := make([]chan struct{}, 0, 2) // earlier puts of this line that p rests on, or is a copy of
	for _, need := range append(p.event.Parents[:], id) {
		if done, ok := l.flight[need]; ok {
			before = append(before, done)
		}
	}
	done := make(chan struct{})
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
		if o.result.Has() {
			l.known.add(id)
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

// store gets the missing ancestors of a well-formed put, and stores it. It relays
// what it stored and nothing else (facts page, trap 18).
func (c *conn) store(ctx context.Context, e eventgraph.Event, id eventgraph.ID, slot eventgraph.Slot, grace bool) outcome {
	g := c.g
	missing := c.missing(slot, &e)
	if len(missing) > 0 && grace {
		if o, ok := c.storeLate(ctx, e, id, slot); ok {
			return o
		}
	}
	if len(missing) > 0 {
		// Perhaps they are being stored just now, from another peer.
		if err := g.inserting.wait(ctx, missing); err != nil {
			return outcome{}
		}
		missing = c.missing(slot, &e)
	}
	if len(missing) > 0 {
		if o := c.fetchParents(ctx, slot, e.Timestamp, missing); o != (outcome{}) {
			return o
		}
	}
	release, err := g.inserting.claim(ctx, id, c)
	if err != nil {
		return outcome{}
	}
	defer release()
	if g.graph.HasBody(slot, id) {
		return outcome{result: eventgraph.HasAlready} // lost the race (DS-11)
	}
	stored, err := g.graph.Insert(ctx, slot, []eventgraph.Event{e}, eventgraph.SourcePut)
	o := insertOutcome(err)
	switch {
	case err != nil:
		g.stats.insertErrors.Add(1)
		if errors.Is(err, eventgraph.ErrNoParent) {
			g.kick(c.id, slot)
		}
	case len(stored) == 0 && g.graph.HasBody(slot, id):
		o.result = eventgraph.HasAlready
	case len(stored) == 0:
		o.result = eventgraph.NackBusy
	default:
		g.stats.stored.Add(1) // and committed has relayed it
	}
	return o
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

// An inserting set knows which events are being stored at this moment, and from
// which connection: a copy or a child waits for that short while instead of storing or
// fetching the same again. Claims are held during one Insert only, never while waiting
// for a peer.
type inserting struct {
	mu  sync.Mutex
	ids map[eventgraph.ID]claim
}

type claim struct {
	done chan struct{}
	from *conn
}

// claim waits until nobody stores id, and takes it.
func (s *inserting) claim(ctx context.Context, id eventgraph.ID, from *conn) (release func(), err error) {
	for {
		s.mu.Lock()
		busy, ok := s.ids[id]
		if !ok {
			mine := claim{make(chan struct{}), from}
			if s.ids == nil {
				s.ids = make(map[eventgraph.ID]claim)
			}
			s.ids[id] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.ids, id)
				s.mu.Unlock()
				close(mine.done)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-busy.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// from is the connection from which id is being stored, or nil.
func (s *inserting) from(id eventgraph.ID) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id].from
}

// wait returns once none of ids is being stored any more.
func (s *inserting) wait(ctx context.Context, ids []eventgraph.ID) error {
	for _, id := range ids {
		s.mu.Lock()
		busy, ok := s.ids[id]
		s.mu.Unlock()
		if !ok {
			continue
		}
		select {
		case <-busy.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
