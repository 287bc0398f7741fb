package ircd

import (
	"context"
	"fmt"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/privmsg"
)

// incoming is an event of the graph that is a message for us.
type incoming struct {
	seq     eventgraph.Seq
	id      eventgraph.ID
	kind    privmsg.Kind
	name    string // channel as the sender spelt it, or the configured spelling
	nick    string // raw
	text    string // raw
	mine    bool   // a direct message that we wrote
	time    time.Time
	arrived time.Time
	own     bool   // made by this node
	logical string // what it is called: Accepted.ID, or the event's id
}

// startFeed follows the graph from its first stored arrival on, with the keys of this
// moment. An earlier feed ends. What its conversations already have is recognised by
// its sequence number.
func (s *Server) startFeed(ctx context.Context, fail context.CancelCauseFunc) {
	if s.feedStop != nil {
		s.feedStop()
	}
	s.feed++
	s.reading, s.idle = true, 0
	ctx, s.feedStop = context.WithCancel(ctx)
	s.failFeed = fail
	f := feed{s: s, gen: s.feed, ring: s.ring, until: s.cfg.Graph.Last()}
	s.wg.Go(func() {
		if err := f.run(ctx); err != nil {
			fail(fmt.Errorf("ircd: feed: %w", err))
		}
	})
}

// watchFeed takes a feed that has been silent for two ticks as one that has caught up:
// where the newest stored arrivals were pruned, it has nothing more to yield and no way
// to say so.
func (s *Server) watchFeed() {
	if !s.reading {
		return
	}
	if n := s.fed.Load(); n != s.fedThen {
		s.fedThen, s.idle = n, 0
		return
	}
	if s.idle++; s.idle >= 2 {
		s.catchUp()
	}
}

// A feed opens arrivals and hands them to the loop. It may block on the loop: the graph
// waits for no subscriber.
type feed struct {
	s       *Server
	gen     int
	ring    *privmsg.Keyring
	until   eventgraph.Seq // the newest arrival when it began
	replays privmsg.Replays
}

func (f *feed) run(ctx context.Context) error {
	caughtUp := false
	reach := func(seq eventgraph.Seq) bool {
		if caughtUp || seq < f.until {
			return true
		}
		caughtUp = true
		return f.s.post(evCaughtUp{f.gen})
	}
	if f.until == 0 && !reach(0) {
		return nil
	}
	horizon := f.s.cfg.Now().Add(-f.s.cfg.HistoryAge)
	for a, err := range f.s.cfg.Graph.Subscribe(ctx, 0) {
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		f.s.fed.Add(1)
		// Arrivals of slots that were pruned are not yielded: the one after them says
		// that the stored ones are through.
		if a.Seq > f.until && !reach(a.Seq) {
			return nil
		}
		if !a.Time.Before(horizon) {
			if in, ok := f.open(a); ok && !f.s.post(evArrival{f.gen, in}) {
				return nil
			}
		}
		if !reach(a.Seq) {
			return nil
		}
	}
	return nil
}

// open decides whether a is a message for us and what of it is true.
func (f *feed) open(a eventgraph.Arrival) (incoming, bool) {
	m, err := privmsg.Decode(a.Event.Content)
	if err != nil {
		return incoming{}, false
	}
	o, err := f.ring.Open(m)
	if err != nil { // no key, or forged (T4)
		return incoming{}, false
	}
	id := a.Event.ID()
	if o.Kind != privmsg.Public && !f.replays.First(o.Nonce, id) { // T24
		return incoming{}, false
	}
	in := incoming{
		seq: a.Seq, id: id, kind: o.Kind, name: o.Name, nick: o.Nick, text: o.Text, mine: o.Mine,
		time: msTime(a.Event.Timestamp), arrived: a.Time,
		own: a.Source == eventgraph.SourceLocal, logical: id.String(),
	}
	if in.time.After(a.Time) {
		in.time = a.Time // never later than its arrival
	}
	if g := f.s.cfg.Generations; g != nil {
		if acc, ok := g.Logical(id); ok {
			in.own, in.logical, in.time = true, acc.ID, acc.Time
		}
	}
	return in, true
}
