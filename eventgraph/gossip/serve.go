package gossip

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"hearsay/eventgraph"
	"hearsay/internal/serial"
	"hearsay/p2p"
)

// runServe answers the requests of one peer, one after the other, from what is here,
// synced or not (decision 0032). Where there is nothing to say it is silent, as
// the facts page's section 5.4 wants.
func (c *conn) runServe(ctx context.Context) error {
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

// serve answers one request. The answer is made when there is room to send it, so that
// peers that ask for much and read nothing have little of it in memory: a part of the
// answer where a part will do, or the list of what it consists of.
func (c *conn) serve(ctx context.Context, r request) error {
	defer c.requests.done(len(r.payload))
	var err error
	switch r.command {
	case CmdHeaderReq:
		err = c.p.SendPieces(ctx, CmdHeaderRep, func() (p2p.Pieces, error) {
			c.g.building <- struct{}{} // held for moments only
			defer func() { <-c.g.building }()
			return c.serveHeaders(r.payload)
		})
	case CmdTipReq:
		err = c.reply(ctx, CmdTipRep, maxTipRep, func(int) ([]byte, error) { return c.serveTips(r.payload) })
	case CmdEventReq:
		err = c.serveEvents(ctx, r.payload)
	case CmdRangeReq:
		worst := rangeRepFixed + maxServe + c.g.maxEvent()
		err = c.reply(ctx, CmdRangeRep, worst, func(room int) ([]byte, error) { return c.serveRange(r.payload, room) })
	}
	switch {
	case errors.Is(err, errNothing):
		return nil
	case err == nil:
		c.g.stats.served.Add(1)
	}
	return err
}

// reply sends what build makes in the room that there is.
func (c *conn) reply(ctx context.Context, command string, worst int, build func(room int) ([]byte, error)) error {
	return c.p.SendLazy(ctx, command, worst, func(room int) ([]byte, error) {
		c.g.building <- struct{}{} // held for moments only
		defer func() { <-c.g.building }()
		return build(room)
	})
}

// maxEvent is the largest that an event takes in an answer, with its empty blob.
func (g *Gossip) maxEvent() int { return eventgraph.HeaderSize + 9 + g.cfg.MaxContent + 1 }

const (
	// eventRepFixed and rangeRepFixed are what an answer takes beside its events and blobs.
	eventRepFixed = 9 + 9
	rangeRepFixed = eventRepFixed + 8 + idSize + 1
)

// serveEvents answers an EventReq with as many of the events as there is room for. The
// peer asks for the rest again.
func (c *conn) serveEvents(ctx context.Context, payload []byte) error {
	q, err := DecodeEventReq(payload)
	if err != nil {
		return err
	}
	g := c.g
	current := g.graph.Current()
	ids, statics := make([]eventgraph.ID, 0, len(q.IDs)), 0
	for _, id := range q.IDs {
		static := g.graph.HasStatic(id)
		if !static && !g.revealed.has(current, id) {
			g.stats.unrevealed.Add(1)
			if !c.strike() {
				return ErrStrikes
			}
			continue
		}
		if static {
			statics++
		}
		ids = append(ids, id)
	}
	worst := eventRepFixed + min(len(ids)*g.maxEvent(), maxServe+g.maxEvent())
	return c.reply(ctx, CmdEventRep, worst, func(room int) ([]byte, error) {
		most := max(0, min(maxServe, room-eventRepFixed-len(ids)))
		var rep EventRep
		if statics == 0 {
			rep.Events = g.graph.FindAll(ids, most)
		} else {
			rep.Events = g.findMixed(ids, most)
		}
		size := eventRepFixed
		for i := range rep.Events {
			size += rep.Events[i].Size() + 1
			g.revealed.addParents(current, &rep.Events[i].Header)
		}
		if len(rep.Events) == 0 {
			return nil, errNothing
		}
		rep.Blobs = make([][]byte, len(rep.Events))
		return rep.AppendTo(make([]byte, 0, size)), nil
	})
}

// findMixed is FindAll for ids of which some are static.
func (g *Gossip) findMixed(ids []eventgraph.ID, most int) (list []eventgraph.Event) {
	size := 0
	for _, id := range ids {
		e, _, err := g.graph.Find(id)
		if err != nil {
			e, err = g.graph.StaticFind(id)
		}
		if err != nil {
			continue
		}
		if size += e.Size(); size > most && len(list) > 0 {
			break
		}
		list = append(list, e)
	}
	return list
}

// serveHeaders answers with a list, out of which the headers are made as the peer reads.
func (c *conn) serveHeaders(payload []byte) (p2p.Pieces, error) {
	q, err := DecodeHeaderReq(payload)
	if err != nil {
		return p2p.Pieces{}, err
	}
	slot, ok := parseSlot(q.Name)
	if !ok {
		return p2p.Pieces{}, errNothing
	}
	list, err := c.g.graph.HeadersBeyond(slot, q.Tips, MaxHeaderRepHeaders)
	if err != nil {
		return p2p.Pieces{}, errNothing
	}
	ids := make([]eventgraph.ID, list.Len())
	for i := range ids {
		ids[i] = list.ID(i)
	}
	c.g.revealed.add(c.g.graph.Current(), ids...)
	return headerPieces(list), nil
}

func (c *conn) serveTips(payload []byte) ([]byte, error) {
	q, err := DecodeTipReq(payload)
	if err != nil {
		return nil, err
	}
	g := c.g
	var tips eventgraph.Tips
	if q.Name == StaticName {
		tips = g.graph.StaticTips()
	} else {
		slot, ok := parseSlot(q.Name)
		if !ok {
			return nil, errNothing
		}
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
// empty page. A page that there is no room for ends early.
func (c *conn) serveRange(payload []byte, room int) ([]byte, error) {
	q, err := DecodeRangeReq(payload)
	if err != nil {
		return nil, err
	}
	rep := RangeRep{Next: q.From, Exhausted: true}
	size := rangeRepFixed
	if slot, ok := parseSlot(q.Name); ok {
		page, err := c.g.graph.Page(slot, q.From, q.Backward, int(min(q.Limit, MaxRangePage)))
		if err != nil {
			return nil, errNothing
		}
		rep = RangeRep{Events: page.Events, Next: page.Next, Exhausted: page.Exhausted}
		for i := range rep.Events {
			more := rep.Events[i].Size() + 1
			if i > 0 && size+more > room {
				last := &rep.Events[i-1]
				rep.Events, rep.Next, rep.Exhausted = rep.Events[:i], eventgraph.Cursor{Timestamp: last.Timestamp, ID: last.ID()}, false
				break
			}
			size += more
		}
		rep.Blobs = make([][]byte, len(rep.Events))
	}
	return rep.AppendTo(make([]byte, 0, size)), nil
}

// headerPieces is the payload of a HeaderRep.
func headerPieces(list eventgraph.HeaderList) p2p.Pieces {
	count := serial.AppendVarInt(nil, uint64(list.Len()))
	return p2p.Pieces{
		Size: len(count) + list.Len()*eventgraph.HeaderSize,
		Fill: func(b []byte, at int) {
			if at < len(count) {
				n := copy(b, count[at:])
				b, at = b[n:], at+n
			}
			var buf [eventgraph.HeaderSize]byte
			for at -= len(count); len(b) > 0; {
				h := list.Header(at / eventgraph.HeaderSize)
				n := copy(b, h.AppendTo(buf[:0])[at%eventgraph.HeaderSize:])
				b, at = b[n:], at+n
			}
		},
	}
}

// parseSlot reads a slot's name: an unsigned decimal, with leading zeros or one plus
// sign if somebody likes them.
func parseSlot(name string) (eventgraph.Slot, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(name, "+"), 10, 64)
	return eventgraph.Slot(n), err == nil
}
