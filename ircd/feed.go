package ircd

import (
	"context"
	"fmt"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/arrival"
	"hearsay/internal/privmsg"
)

// incoming is an arrival that is a message for us.
type incoming struct {
	seq     arrival.Seq
	kind    privmsg.Kind
	name    string   // channel as the sender spelt it, or the configured spelling
	nick    string   // raw
	lines   []string // of the text, fit to be sent; none: there is nothing to show
	mine    bool     // a direct message that we wrote
	time    time.Time
	arrived time.Time
	own     bool   // made by this node
	notice  bool   // said here with NOTICE
	logical string // what it is called: Accepted.ID, or the event's id
}

// lastWords is how long a Log's failure waits for the answers to messages under way.
const lastWords = 500 * time.Millisecond

// feedPage is how many rows of the log are read at once.
const feedPage = 256

// startFeed follows the log from its first row on, with the keys of this moment. An
// earlier feed ends. What its conversations already have is recognised by its sequence
// number.
func (s *Server) startFeed(ctx context.Context, fail context.CancelCauseFunc) {
	if s.feedStop != nil {
		s.feedStop()
	}
	s.feed++
	s.feedAt = 0
	ctx, s.feedStop = context.WithCancel(ctx)
	s.failFeed = fail
	f := feed{s: s, gen: s.feed, ring: s.ring}
	s.wg.Go(func() {
		if err := f.run(ctx); err != nil {
			// A store that fails to read has failed to write: whoever waits for a commit is
			// told before everything ends (ST-03).
			select {
			case <-time.After(lastWords):
			case <-ctx.Done():
			}
			fail(fmt.Errorf("ircd: feed: %w", err))
		}
	})
}

// A feed opens arrivals and hands them to the loop. It may block on the loop: nobody
// waits for it.
type feed struct {
	s       *Server
	gen     int
	ring    *privmsg.Keyring
	replays privmsg.Replays
}

func (f *feed) run(ctx context.Context) error {
	log := f.s.cfg.Log
	horizon := f.s.cfg.Now().Add(-f.s.cfg.HistoryAge)
	caughtUp := false
	for from := arrival.Seq(0); ctx.Err() == nil; {
		changed, complete := log.Changed(), log.Complete()
		page, next, err := log.Read(from, feedPage)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for i := range page {
			if page[i].Came.Before(horizon) {
				continue
			}
			if in, ok := f.open(&page[i]); ok && !f.s.post(evArrival{f.gen, in}) {
				return nil
			}
		}
		if next != from {
			from = next
			if !f.s.post(evRead{f.gen, from}) {
				return nil
			}
			continue
		}
		if complete && !caughtUp {
			caughtUp = true
			if !f.s.post(evCaughtUp{f.gen}) {
				return nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

// open decides whether a is a message for us and what of it is true.
func (f *feed) open(a *Arrival) (incoming, bool) {
	in := incoming{seq: a.Seq, own: a.Own, notice: a.Notice, logical: a.ID, time: a.Time, arrived: a.Came}
	if m := a.Message; m != nil {
		in.kind, in.name, in.nick, in.lines = m.to.Kind, m.to.Name, m.nick, textLines(m.text)
		in.mine = in.kind == privmsg.Contact
		return in, true
	}
	m, err := privmsg.Decode(a.Content)
	if err != nil {
		return in, false
	}
	o, err := f.ring.Open(m)
	if err != nil { // no key, or forged (T4)
		return in, false
	}
	if o.Kind != privmsg.Public && !f.replays.First(o.Nonce, a.source()) { // T24
		return in, false
	}
	in.kind, in.name, in.nick, in.lines, in.mine = o.Kind, o.Name, o.Nick, textLines(o.Text), o.Mine
	return in, true
}

// source is what stands for the message where replays are recognised: its event, or what
// it is called where a mailbox brought it.
func (a *Arrival) source() (id eventgraph.ID) {
	if !a.Event.IsNull() {
		return a.Event
	}
	copy(id[:], a.ID)
	return id
}

// textLines are the lines of a message as they are shown.
func textLines(text string) []string {
	lines, cut := privmsg.Lines(text)
	if cut {
		lines = append(lines, "[…]")
	}
	return lines
}
