package gossip

import (
	"context"
	"sync"
	"time"

	"hearsay/eventgraph"
)

// An article is an event on its way out, encoded once for all peers.
type article struct {
	id        eventgraph.ID
	timestamp uint64
	payload   []byte // of an EventPut or StaticPut; shared, never changed
	static    bool
}

func newArticle(e *eventgraph.Event, id eventgraph.ID) article {
	return article{id: id, timestamp: e.Timestamp, payload: EventPut{Event: *e}.AppendTo(make([]byte, 0, e.Size()+1))}
}

// A relayQueue holds what came from one connection and goes to all others. When it
// is full the oldest go: who gets a newer one fetches its ancestors.
type relayQueue struct {
	limit int
	more  chan struct{}
	mu    sync.Mutex
	items []article
	bytes share // of payloads; at most maxRelayBytes
}

func newRelayQueue(limit int) *relayQueue {
	return &relayQueue{limit: limit, bytes: share{allowance: relayAllowance}, more: make(chan struct{}, 1)}
}

func (q *relayQueue) open(b *budget) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes.open(b)
}

func (q *relayQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes.close()
}

// push returns how many were dropped for it.
func (q *relayQueue) push(a article) (dropped int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(a.payload)
	for len(q.items) > 0 && (len(q.items) >= q.limit || q.bytes.used+n > maxRelayBytes) {
		q.shift()
		dropped++
	}
	for !q.bytes.take(n) {
		if len(q.items) == 0 {
			return dropped + 1 // others hold all there is
		}
		q.shift()
		dropped++
	}
	q.items = append(q.items, a)
	hint(q.more)
	return dropped
}

// shift drops the first item. mu is held.
func (q *relayQueue) shift() (a article) {
	a, q.items[0] = q.items[0], article{}
	q.bytes.give(len(a.payload))
	if q.items = q.items[1:]; len(q.items) == 0 {
		q.items = nil
	}
	return a
}

func (q *relayQueue) pop() (article, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return article{}, false
	}
	return q.shift(), true
}

// relay sends a stored event to all peers but this one, at the pace of the network's
// relay limiter, which bounds what one source makes this node send. It is called in the
// order of commits and does not block: while the limiter asks for no delay, peers get
// parents before children, whichever connections they came on. Events of closed slots
// travel by comparison only: unmodified nodes would count them as floods.
func (c *conn) relay(e *eventgraph.Event, id eventgraph.ID, slot eventgraph.Slot) {
	if slot != c.g.graph.Current() {
		return
	}
	a := newArticle(e, id)
	c.relayMu.Lock()
	now := !c.relaying && c.limiter.ready(time.Now())
	c.relayMu.Unlock()
	if now {
		c.g.broadcast(a, c.id, false)
		return
	}
	c.g.stats.droppedRelays.Add(c.relays.push(a))
}

// runRelays takes the events that have to wait off the queue.
func (c *conn) runRelays(ctx context.Context) error {
	c.relays.open(c.g.relays)
	defer c.relays.close()
	for {
		c.relayMu.Lock()
		a, ok := c.relays.pop()
		var d time.Duration
		if c.relaying = ok; ok {
			d = c.limiter.tick(time.Now())
		}
		c.relayMu.Unlock()
		if !ok {
			select {
			case <-c.relays.more:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if d > 0 {
			timer := time.NewTimer(d)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			}
		}
		if c.g.slotOf(a.timestamp) != c.g.graph.Current() {
			c.g.stats.staleRelays.Add(1)
			continue
		}
		c.g.broadcast(a, c.id, false)
	}
}
