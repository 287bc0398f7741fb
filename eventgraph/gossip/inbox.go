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

// putOverhead is what a put takes beside its bytes: the decoded header above all.
const putOverhead = 320

func (p *put) size() int { return p.event.Size() + putOverhead }

// An inbox queues the puts of one connection between its reader and runPuts, and
// counts those in work and those that wait for their slot as well.
type inbox struct {
	mu       sync.Mutex
	queue    []put           // arrival order; at most maxInboxPuts
	bytes    share           // of the queue and of what was taken and is not done; at most maxInboxBytes
	shut     bool            // the connection ends; nothing is taken any more
	overflow []eventgraph.ID // dropped, to be answered Busy; at most maxOverflow
	more     chan struct{}   // a hint for runPuts
	room     chan struct{}   // a hint for the reader
}

func newInbox() *inbox {
	return &inbox{bytes: share{allowance: putAllowance}, more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func (in *inbox) open(b *budget) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.bytes.open(b)
}

func (in *inbox) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.shut, in.queue, in.overflow = true, nil, nil
	in.bytes.close()
}

// offer queues p, or says that there is no room, and whether waiting for some is
// of use.
func (in *inbox) offer(p put) (ok, wait bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.shut {
		return false, false
	}
	if len(in.queue) >= maxInboxPuts || in.bytes.used+p.size() > maxInboxBytes || !in.bytes.take(p.size()) {
		return false, true
	}
	in.queue = append(in.queue, p)
	hint(in.more)
	return true, true
}

// done counts a put out that was taken.
func (in *inbox) done(p put) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.bytes.give(p.size())
	hint(in.room)
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

// take returns the next put, if any, and all ids to be answered Busy. The put counts
// until done.
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
	for {
		ok, worth := c.in.offer(p)
		if ok {
			return
		}
		wait := time.Until(deadline)
		if wait <= 0 || !worth || !c.running.Load() || c.req.busy() {
			c.g.stats.droppedPuts.Add(1)
			if !p.static {
				c.in.drop(p.event.ID())
				c.g.kick(c.id, c.g.graph.Current()) // what was dropped is found there
			}
			return
		}
		// What others hold comes free without a hint.
		timer := time.NewTimer(min(wait, inboxPoll))
		select {
		case <-c.in.room:
		case <-timer.C:
		}
		timer.Stop()
	}
}
