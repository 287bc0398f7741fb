package gossip

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"hearsay/eventgraph"
)

// runServe answers the requests of one peer, one after the other, from what is here,
// synced or not (decision 0032). Where there is nothing to say it is silent, as
// the facts page's section 5.4 wants.
func (c *conn) runServe(ctx context.Context) error {
	c.requests.open(c.g.questions)
	defer c.requests.close()
	for {
		r, ok := c.requests.take()
		if ok {
			if err := c.serve(ctx, r); err != nil {
				return err
			}
			continue
		}
		select {
		case <-c.requests.more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errNothing: there is nothing to answer with.
var errNothing = errors.New("gossip: nothing to answer")

// serve answers one request. The answer is made, and the request decoded, when there
// is room to send the answer: peers that ask for much and read nothing wait, or are
// dropped, without either in memory.
func (c *conn) serve(ctx context.Context, r request) error {
	size := len(r.payload)
	answer, worst := c.answerTo(r)
	err := c.p.SendLazy(ctx, answer, worst, func() ([]byte, error) {
		c.g.building <- struct{}{} // held for moments only
		payload, err := c.build(r)
		<-c.g.building
		r = request{}
		c.requests.done(size)
		size = 0
		return payload, err
	})
	c.requests.done(size) // 0 where it was built
	switch {
	case errors.Is(err, errNothing):
		return nil
	case err == nil:
		c.g.stats.served.Add(1)
	}
	return err
}

// answerTo is the command that answers r, and how large its payload may become.
func (c *conn) answerTo(r request) (command string, worst int) {
	event := eventgraph.HeaderSize + 9 + c.g.cfg.MaxContent + 1 // with its empty blob
	switch r.command {
	case CmdHeaderReq:
		return CmdHeaderRep, maxHeaderRep
	case CmdTipReq:
		return CmdTipRep, maxTipRep
	case CmdEventReq:
		return CmdEventRep, min(20+len(r.payload)/len(eventgraph.ID{})*event, 20+maxServe+event)
	default:
		return CmdRangeRep, 64 + maxServe + event
	}
}

// build decodes r, which was decoded before, and makes the answer's payload.
func (c *conn) build(r request) ([]byte, error) {
	message, err := decode(r.command, r.payload)
	if err != nil {
		return nil, err
	}
	switch q := message.(type) {
	case EventReq:
		return c.serveEvents(q)
	case HeaderReq:
		return c.serveHeaders(q)
	case TipReq:
		return c.serveTips(q)
	case RangeReq:
		return c.serveRange(q)
	}
	return nil, errNothing
}

func (c *conn) serveEvents(q EventReq) ([]byte, error) {
	g := c.g
	current := g.graph.Current()
	ids, statics := make([]eventgraph.ID, 0, len(q.IDs)), 0
	for _, id := range q.IDs {
		static := g.graph.HasStatic(id)
		if !static && !g.revealed.has(current, id) {
			g.stats.unrevealed.Add(1)
			if !c.strike() {
				return nil, ErrStrikes
			}
			continue
		}
		if static {
			statics++
		}
		ids = append(ids, id)
	}
	var events []eventgraph.Event
	if statics == 0 {
		events = g.graph.FindAll(ids, maxServe)
	} else {
		events = g.findMixed(ids)
	}
	var rep EventRep
	size := 0
	for i := range events {
		size += events[i].Size() + 1
		g.revealed.addParents(current, &events[i].Header)
	}
	rep.Events, rep.Blobs = events, make([][]byte, len(events))
	if len(rep.Events) == 0 {
		return nil, errNothing
	}
	return rep.AppendTo(make([]byte, 0, size+20)), nil
}

// findMixed is FindAll for ids of which some are static.
func (g *Gossip) findMixed(ids []eventgraph.ID) (list []eventgraph.Event) {
	size := 0
	for _, id := range ids {
		e, _, err := g.graph.Find(id)
		if err != nil {
			e, err = g.graph.StaticFind(id)
		}
		if err != nil {
			continue
		}
		if size += e.Size(); size > maxServe && len(list) > 0 {
			break
		}
		list = append(list, e)
	}
	return list
}

func (c *conn) serveHeaders(q HeaderReq) ([]byte, error) {
	slot, ok := parseSlot(q.Name)
	if !ok {
		return nil, errNothing
	}
	headers, err := c.g.graph.HeadersBeyond(slot, q.Tips, MaxHeaderRepHeaders)
	if err != nil {
		return nil, errNothing
	}
	ids := make([]eventgraph.ID, len(headers))
	for i := range headers {
		ids[i] = headers[i].ID()
	}
	c.g.revealed.add(c.g.graph.Current(), ids...)
	return HeaderRep{Headers: headers}.AppendTo(make([]byte, 0, 3+len(headers)*eventgraph.HeaderSize)), nil
}

func (c *conn) serveTips(q TipReq) ([]byte, error) {
	g := c.g
	var tips eventgraph.Tips
	if q.Name == StaticName {
		tips = g.graph.StaticTips()
	} else {
		slot, ok := parseSlot(q.Name)
		if !ok {
			return nil, errNothing
		}
		var err error
		if tips, err = g.graph.Tips(slot); err != nil {
			return nil, errNothing
		}
	}
	tips = tips.Cap(MaxTipRepTips)
	current := g.graph.Current()
	for _, ids := range tips {
		g.revealed.add(current, ids...)
	}
	return TipRep{Tips: tips}.AppendTo(nil), nil
}

// serveRange never strikes, and answers what it does not know with an exhausted
// empty page.
func (c *conn) serveRange(q RangeReq) ([]byte, error) {
	rep := RangeRep{Next: q.From, Exhausted: true}
	if slot, ok := parseSlot(q.Name); ok {
		page, err := c.g.graph.Page(slot, q.From, q.Backward, int(min(q.Limit, MaxRangePage)))
		if err != nil {
			return nil, errNothing
		}
		rep = RangeRep{Events: page.Events, Blobs: make([][]byte, len(page.Events)), Next: page.Next, Exhausted: page.Exhausted}
	}
	return rep.AppendTo(nil), nil
}

// parseSlot reads a slot's name: an unsigned decimal, with leading zeros or one plus
// sign if somebody likes them.
func parseSlot(name string) (eventgraph.Slot, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(name, "+"), 10, 64)
	return eventgraph.Slot(n), err == nil
}
