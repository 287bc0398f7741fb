package gossip

import (
	"sync"
	"time"

	"hearsay/eventgraph"
)

// A put is one that waits for its turn.
type put struct {
	event   eventgraph.Event
	static  bool
	held    bool      // counted already, and waited for its slot (DS-23)
	arrived time.Time // wall clock: freshness is judged against it
}

func (p *put) size() int { return p.event.Size() + 64 }

// An inbox queues the puts of one connection between its reader and runPuts.
type inbox struct {
	mu       sync.Mutex
	queue    []put // arrival order; at most maxInboxPuts and maxInboxBytes
	bytes    int
	overflow []eventgraph.ID // dropped, to be answered Busy; at most maxOverflow
	more     chan struct{}   // a hint for runPuts
	room     chan struct{}   // a hint for the reader
}

func newInbox() *inbox {
	return &inbox{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// offer queues p, or says that there is no room.
func (in *inbox) offer(p put) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.queue) > 0 && (len(in.queue) >= maxInboxPuts || in.bytes+p.size() > maxInboxBytes) {
		return false
	}
	in.queue = append(in.queue, p)
	in.bytes += p.size()
	hint(in.more)
	return true
}

// drop notes a put that found no room.
func (in *inbox) drop(id eventgraph.ID) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.overflow) < maxOverflow {
		in.overflow = append(in.overflow, id)
	}
	hint(in.more)
}

// take returns the next put, if any, and all ids to be answered Busy.
func (in *inbox) take() (p put, ok bool, overflow []eventgraph.ID) {
	in.mu.Lock()
	defer in.mu.Unlock()
	overflow, in.overflow = in.overflow, nil
	if len(in.queue) == 0 {
		return put{}, false, overflow
	}
	p, in.queue[0] = in.queue[0], put{}
	if in.queue = in.queue[1:]; len(in.queue) == 0 {
		in.queue = nil
	}
	in.bytes -= p.size()
	hint(in.room)
	return p, true, overflow
}

func hint(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// offer queues a put. A full inbox holds the reader back for a while, as the peer's
// own queue then fills; but never while an answer is expected behind the put.
func (c *conn) offer(p put) {
	deadline := time.Now().Add(inboxWait)
	for !c.in.offer(p) {
		wait := time.Until(deadline)
		if wait <= 0 || !c.running.Load() || c.req.busy() {
			c.g.stats.droppedPuts.Add(1)
			if !p.static {
				c.in.drop(p.event.ID())
				c.g.kick(c.id, c.g.graph.Current()) // what was dropped is found there
			}
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-c.in.room:
		case <-timer.C:
		}
		timer.Stop()
	}
}
