package gossip

import (
	"context"
	"errors"
	"sync"

	"hearsay/eventgraph"
)

// A stage gathers the puts of all connections that need nothing more than to be
// stored, and stores what has gathered in one commit while the next ones gather: most
// events rest on events that arrived a moment ago, so waiting for each parent's commit
// would make nearly every commit one of a single event.
//
// A put is taken as soon as each of its parents is stored or staged. One that loses
// its parent on the way is refused like one that never had it. Nobody is told or sent
// anything before the commit is durable (DS-16): relays come from the graph's commit
// callback, answers from finish.
//
// There is one storing goroutine at a time, counted among the work of some line
// that has a put here, so no line ends before its puts did.
type stage struct {
	g       *Gossip
	mu      sync.Mutex
	puts    map[eventgraph.ID]*staged // waiting or in the commit under way
	queue   []*staged                 // waiting, in order of arrival: parents first
	running bool                      // somebody stores
}

// A staged is a put in the stage.
type staged struct {
	line   *putLine
	event  eventgraph.Event
	id     eventgraph.ID
	slot   eventgraph.Slot
	finish func(outcome) // called once, with no lock held; must not block
	copies []*staged     // the same event from others, who came later
}

// add takes s if its parents are stored or staged, or in any case if force.
func (t *stage) add(ctx context.Context, s *staged, force bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if first := t.puts[s.id]; first != nil && first.slot == s.slot {
		s.line.work.Add(1)
		first.copies = append(first.copies, s)
		return true
	}
	if !force {
		for _, p := range s.event.Parents {
			if p.IsNull() {
				continue
			}
			// In this order: what leaves the stage is in the graph by then.
			if first := t.puts[p]; (first == nil || first.slot != s.slot) && !t.g.graph.HasBody(s.slot, p) {
				return false
			}
		}
	}
	s.line.work.Add(1)
	t.puts[s.id] = s
	t.queue = append(t.queue, s)
	if !t.running {
		t.running = true
		t.start(ctx, s.line)
	}
	return true
}

// start stores in a goroutine of line, which has a put here.
func (t *stage) start(ctx context.Context, line *putLine) {
	line.work.Go(func() { t.run(ctx, line) })
}

// run stores until nothing waits, or until line ends and another one has a put here.
func (t *stage) run(ctx context.Context, line *putLine) {
	for {
		batch := t.next()
		if batch == nil {
			return
		}
		t.store(context.WithoutCancel(ctx), batch)
		if ctx.Err() == nil {
			continue
		}
		t.mu.Lock()
		for _, s := range t.queue {
			if s.line != line {
				t.start(s.line.ctx, s.line)
				t.mu.Unlock()
				return
			}
		}
		t.mu.Unlock()
	}
}

// next takes what goes into one commit.
func (t *stage) next() (batch []*staged) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, size := 0, 0
	for n < len(t.queue) && n < insertBatch && size < insertBytes && t.queue[n].slot == t.queue[0].slot {
		size += t.queue[n].event.Size()
		n++
	}
	if n == 0 {
		t.queue, t.running = nil, false
		return nil
	}
	batch, t.queue = t.queue[:n:n], t.queue[n:]
	return batch
}

// store commits a batch and ends its puts.
func (t *stage) store(ctx context.Context, batch []*staged) {
	g := t.g
	events := make([]eventgraph.Event, len(batch))
	for i, s := range batch {
		events[i] = s.event
	}
	stored, refused, err := g.graph.InsertValid(ctx, batch[0].slot, events, eventgraph.SourcePut)
	results := make(map[eventgraph.ID]outcome, len(batch))
	for _, r := range refused {
		if errors.Is(r.Err, eventgraph.ErrNoParent) {
			if c := t.from(r.ID); c != nil {
				g.kick(c.id, batch[0].slot)
			}
		}
		results[r.ID] = insertOutcome(r.Err)
	}
	for _, id := range stored {
		results[id] = outcome{result: eventgraph.HasInserted}
	}
	for _, s := range batch {
		o, ok := results[s.id]
		switch {
		case ok:
		case g.graph.HasBody(s.slot, s.id):
			o.result = eventgraph.HasAlready // lost the race (DS-11)
		case err != nil:
			o = insertOutcome(err)
		default:
			o.result = eventgraph.NackBusy
		}
		t.end(s, o)
	}
}

// end takes s out of the stage and tells everybody who put it.
func (t *stage) end(s *staged, o outcome) {
	t.mu.Lock()
	delete(t.puts, s.id)
	copies := s.copies
	t.mu.Unlock()
	switch {
	case o.result == eventgraph.HasInserted:
		t.g.stats.stored.Add(1) // and committed has relayed it
	case !o.result.Has():
		t.g.stats.insertErrors.Add(1)
	}
	s.finish(o)
	s.line.work.Done()
	if o.result == eventgraph.HasInserted {
		o.result = eventgraph.HasAlready
	}
	for _, c := range copies {
		c.finish(o)
		c.line.work.Done()
	}
}

// from is the connection from which id is being stored, or nil.
func (t *stage) from(id eventgraph.ID) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.puts[id]; s != nil {
		return s.line.conn
	}
	return nil
}
