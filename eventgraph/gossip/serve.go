package gossip

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// runServe answers the requests of one peer, one after the other, from what is here,
// synced or not (decision 0032). Where there is nothing to say it is silent, as
// the facts page's section 5.4 wants.
func (c *conn) runServe(ctx context.Context) error {
	for {
		var r request
		select {
		case r = <-c.requests:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := c.serve(ctx, r); err != nil {
			return err
		}
	}
}

// worstReply is what a reply may take until it is built.
func worstReply(command string, maxContent int) int64 {
	switch command {
	case CmdHeaderReq:
		return maxHeaderRep
	case CmdTipReq:
		return maxTipRep
	default:
		return maxServe + int64(maxContent)
	}
}

// serve answers one request. Large replies of all connections share a budget, and
// one connection has at most one of them waiting to be read.
func (c *conn) serve(ctx context.Context, r request) error {
	g := c.g
	worst := worstReply(r.command, g.cfg.MaxContent)
	if err := g.replies.Acquire(ctx, worst); err != nil {
		return err
	}
	var m p2p.Message
	var ok bool
	var err error
	switch q := r.message.(type) {
	case EventReq:
		m, ok, err = c.serveEvents(q)
	case HeaderReq:
		m, ok = c.serveHeaders(q)
	case TipReq:
		m, ok = c.serveTips(q)
	case RangeReq:
		m, ok = c.serveRange(q)
	}
	if err != nil || !ok {
		g.replies.Release(worst)
		return err
	}
	g.stats.served.Add(1)
	size := int64(len(m.Payload))
	if size <= smallReply {
		g.replies.Release(worst)
		return c.p.Send(ctx, m)
	}
	size = min(size, worst)
	g.replies.Release(worst - size)
	var once sync.Once
	written := make(chan struct{})
	m.Written = func(error) {
		once.Do(func() {
			g.replies.Release(size)
			close(written)
		})
	}
	if err := c.p.Send(ctx, m); err != nil {
		m.Written(err)
		return err
	}
	timer := time.NewTimer(slowTimeouts * g.cfg.RequestTimeout)
	defer timer.Stop()
	select {
	case <-written:
		return nil
	case <-timer.C:
		c.p.Close(p2p.ErrSlowPeer)
		return p2p.ErrSlowPeer
	case <-ctx.Done():
		return ctx.Err()
	}
}

// slowTimeouts is how many request timeouts a peer may take to read a large reply.
const slowTimeouts = 4

func (c *conn) serveEvents(q EventReq) (p2p.Message, bool, error) {
	g := c.g
	current := g.graph.Current()
	var rep EventRep
	size := 0
	for _, id := range q.IDs {
		static := g.graph.HasStatic(id)
		if !static && !g.revealed.has(current, id) {
			g.stats.unrevealed.Add(1)
			if !c.strike() {
				return p2p.Message{}, false, ErrStrikes
			}
			continue
		}
		e, _, err := g.graph.Find(id)
		if err != nil && static {
			e, err = g.graph.StaticFind(id)
		}
		if err != nil {
			continue
		}
		if size += e.Size() + 1; size > maxServe && len(rep.Events) > 0 {
			break // the rest is asked for again
		}
		rep.Events = append(rep.Events, e)
		rep.Blobs = append(rep.Blobs, nil)
		g.revealed.addParents(current, &e.Header)
	}
	if len(rep.Events) == 0 {
		return p2p.Message{}, false, nil
	}
	return p2p.Message{Command: CmdEventRep, Payload: rep.AppendTo(make([]byte, 0, size+20))}, true, nil
}

func (c *conn) serveHeaders(q HeaderReq) (p2p.Message, bool) {
	slot, ok := parseSlot(q.Name)
	if !ok {
		return p2p.Message{}, false
	}
	headers, err := c.g.graph.HeadersBeyond(slot, q.Tips, MaxHeaderRepHeaders)
	if err != nil {
		return p2p.Message{}, false
	}
	ids := make([]eventgraph.ID, len(headers))
	for i := range headers {
		ids[i] = headers[i].ID()
	}
	c.g.revealed.add(c.g.graph.Current(), ids...)
	payload := HeaderRep{Headers: headers}.AppendTo(make([]byte, 0, 3+len(headers)*eventgraph.HeaderSize))
	return p2p.Message{Command: CmdHeaderRep, Payload: payload}, true
}

func (c *conn) serveTips(q TipReq) (p2p.Message, bool) {
	g := c.g
	var tips eventgraph.Tips
	if q.Name == StaticName {
		tips = g.graph.StaticTips()
	} else {
		slot, ok := parseSlot(q.Name)
		if !ok {
			return p2p.Message{}, false
		}
		var err error
		if tips, err = g.graph.Tips(slot); err != nil {
			return p2p.Message{}, false
		}
	}
	tips = tips.Cap(MaxTipRepTips)
	current := g.graph.Current()
	for _, ids := range tips {
		g.revealed.add(current, ids...)
	}
	return p2p.Message{Command: CmdTipRep, Payload: TipRep{Tips: tips}.AppendTo(nil)}, true
}

// serveRange never strikes, and answers what it does not know with an exhausted
// empty page.
func (c *conn) serveRange(q RangeReq) (p2p.Message, bool) {
	rep := RangeRep{Next: q.From, Exhausted: true}
	if slot, ok := parseSlot(q.Name); ok {
		page, err := c.g.graph.Page(slot, q.From, q.Backward, int(min(q.Limit, MaxRangePage)))
		if err != nil {
			return p2p.Message{}, false
		}
		rep = RangeRep{Events: page.Events, Blobs: make([][]byte, len(page.Events)), Next: page.Next, Exhausted: page.Exhausted}
	}
	return p2p.Message{Command: CmdRangeRep, Payload: rep.AppendTo(nil)}, true
}

// parseSlot reads a slot's name: an unsigned decimal, with leading zeros or one plus
// sign if somebody likes them.
func parseSlot(name string) (eventgraph.Slot, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(name, "+"), 10, 64)
	return eventgraph.Slot(n), err == nil
}
