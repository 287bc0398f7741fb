package gossip

import (
	"context"
	"errors"
	"sync"
	"time"

	"hearsay/p2p"
)

var (
	// errDropped: there was no room for the put among those that wait.
	errDropped = errors.New("gossip: too many puts wait for this peer")
	// errStale: the put became too old for this peer while it waited (DS-19).
	errStale = errors.New("gossip: put is too old for this peer")
	// errGone: the connection ended first.
	errGone = errors.New("gossip: connection ended")
)

// An outbox holds the puts towards one peer: our own ones and relayed ones. It paces
// them (DS-86).
type outbox struct {
	pace  window // owner: runOutbox
	more  chan struct{}
	mu    sync.Mutex
	own   []outPut
	relay []outPut
	seq   uint64 // of the last one pushed
	bytes int    // of both
	shut  bool   // the connection ended; nothing is taken any more
}

// An outPut is one put towards one peer.
type outPut struct {
	article
	own     bool        // of this node: may use the reserve of the pacing window
	first   bool        // goes before everything that waits; own ones only
	written func(error) // called once, where it is not nil
	seq     uint64      // order of pushing, which is that of commits: parents first
}

func (o *outPut) end(err error) {
	if o.written != nil {
		o.written(err)
	}
}

func newOutbox(pace window) *outbox { return &outbox{pace: pace, more: make(chan struct{}, 1)} }

// push queues o. What has to go for it is dropped from the front of the relayed ones,
// then of the own ones. It never blocks.
func (b *outbox) push(o outPut) (dropped int64) {
	var gone []outPut
	b.mu.Lock()
	b.seq++
	o.seq = b.seq
	switch {
	case b.shut:
		gone = append(gone, o)
	case o.own:
		b.own = append(b.own, o)
		b.bytes += len(o.payload)
	default:
		b.relay = append(b.relay, o)
		b.bytes += len(o.payload)
	}
	for n := len(b.own) + len(b.relay); n > 1 && (n > maxOutboxPuts || b.bytes > maxOutboxBytes); n-- {
		if len(b.relay) > 0 {
			gone = append(gone, b.shift(&b.relay))
		} else {
			gone = append(gone, b.shift(&b.own))
		}
	}
	b.mu.Unlock()
	hint(b.more)
	for i := range gone {
		gone[i].end(errDropped)
	}
	return int64(len(gone))
}

// shift takes the first of a queue that is not empty. mu is held.
func (b *outbox) shift(q *[]outPut) (o outPut) {
	o, (*q)[0] = (*q)[0], outPut{}
	b.bytes -= len(o.payload)
	if *q = (*q)[1:]; len(*q) == 0 {
		*q = nil
	}
	return o
}

// pop takes the next put that pacing lets go at now. Puts go in the order in which
// they were pushed, but for those that go first, and for own ones while the share of
// the relayed ones is used up. wait is how long nothing may go, where something waits.
func (b *outbox) pop(now time.Time) (o outPut, ok bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, limit := &b.relay, max(1, b.pace.limit-ownReserve)
	switch {
	case len(b.own) == 0 && len(b.relay) == 0:
		return outPut{}, false, 0
	case len(b.own) > 0 && (len(b.relay) == 0 || b.own[0].first || b.own[0].seq < b.relay[0].seq || b.pace.wait(now, limit) > 0):
		q, limit = &b.own, b.pace.limit
	}
	if wait = b.pace.wait(now, limit); wait > 0 {
		return outPut{}, false, wait
	}
	return b.shift(q), true, 0
}

// close ends all puts that wait, and every later one.
func (b *outbox) close() {
	b.mu.Lock()
	gone := append(b.own, b.relay...)
	b.own, b.relay, b.bytes, b.shut = nil, nil, 0, true
	b.mu.Unlock()
	for i := range gone {
		gone[i].end(errGone)
	}
}

// runOutbox sends the puts. Whether one may still go is judged when its turn comes.
func (c *conn) runOutbox(ctx context.Context) error {
	defer c.out.close()
	g := c.g
	for {
		o, ok, wait := c.out.pop(time.Now())
		if !ok {
			if wait == 0 {
				wait = time.Hour
			}
			timer := time.NewTimer(wait)
			select {
			case <-c.out.more:
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			}
			timer.Stop()
			continue
		}
		command := CmdEventPut
		switch {
		case o.static:
			command = CmdStaticPut
		case !mayPut(g.params, g.cfg.Now(), o.timestamp, c.capable.Load()):
			g.stats.staleRelays.Add(1)
			o.end(errStale)
			continue
		case !o.own && c.known.has(o.id):
			g.stats.savedRelays.Add(1)
			continue
		}
		c.out.pace.tick(time.Now())
		if o.own {
			g.stats.ownPuts.Add(1)
		} else {
			g.stats.relayed.Add(1)
		}
		if err := c.p.Send(ctx, p2p.Message{Command: command, Payload: o.payload, Written: o.written}); err != nil {
			o.end(err)
			return err
		}
	}
}
