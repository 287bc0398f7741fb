package gossip

import (
	"context"
	"sync"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// PutOptions are the choices of one [Gossip.Put].
type PutOptions struct {
	// Wait is how long Put waits for the frames to be written. Default 5 s.
	Wait time.Duration
	// First makes Put return with the first frame that is written: a peer that does not
	// read holds up nobody. The others go out all the same, and count as Pending.
	First bool
	// Sending, if set, is called for each connection before the put can reach it: a
	// status of this event that comes on one of these, and only such, may be an answer
	// to this put (DS-52). It must not block.
	Sending func(eventgraph.Conn)
}

// A PutReport says what became of one [Gossip.Put]. Connections that cannot take a
// put at all are in none of the counts.
type PutReport struct {
	Written  []eventgraph.Conn // whole frames handed to their transports
	Withheld int               // peers without the capability that would strike it now (DS-19)
	Failed   int               // connections that ended, or dropped it
	Pending  int               // not yet written when Put returned; they may still be
}

// PutTargets is the number of connections that can take a put (DS-57): inbound,
// outbound, manual and direct ones; an inbound one once it has sent an event-graph
// message, announced the status feature, or lived ten seconds.
func (g *Gossip) PutTargets() int {
	n := 0
	for _, c := range g.conns() {
		if c.takesPuts() {
			n++
		}
	}
	return n
}

// Put sends e, unchanged, to every connection that can take it, ahead of relays and
// under DS-19: a first send and a rebroadcast are the same call. It stores nothing.
// It returns once each frame was written or failed, after opt.Wait, or with ctx.
func (g *Gossip) Put(ctx context.Context, e eventgraph.Event, opt PutOptions) PutReport {
	if opt.Wait <= 0 {
		opt.Wait = 5 * time.Second
	}
	type result struct {
		id  p2p.ConnID
		err error
	}
	var report PutReport
	a, conns := newArticle(&e, e.ID()), g.conns()
	results := make(chan result, len(conns))
	for _, c := range conns {
		switch {
		case !c.takesPuts():
		case !mayPut(g.params, g.cfg.Now(), e.Timestamp, c.capable.Load()):
			report.Withheld++
		default:
			if opt.Sending != nil {
				opt.Sending(eventgraph.Conn(c.id))
			}
			report.Pending++
			var once sync.Once
			c.out.push(outPut{article: a, own: true, first: true, written: func(err error) {
				once.Do(func() { results <- result{c.id, err} }) // room for one each
			}})
		}
	}
	timer := time.NewTimer(opt.Wait)
	defer timer.Stop()
	for report.Pending > 0 {
		select {
		case r := <-results:
			report.Pending--
			if r.err != nil {
				report.Failed++
			} else {
				report.Written = append(report.Written, eventgraph.Conn(r.id))
				if opt.First {
					return report
				}
			}
		case <-timer.C:
			return report
		case <-ctx.Done():
			return report
		}
	}
	return report
}

// broadcast queues an event for all peers but the one it came from. Events that are
// our own are told everybody.
func (g *Gossip) broadcast(a article, source p2p.ConnID, own bool) {
	for _, c := range g.conns() {
		if (own || c.id != source) && c.takesPuts() {
			g.stats.droppedRelays.Add(c.out.push(outPut{article: a, own: own}))
		}
	}
}
