package gossip

import (
	"context"
	"errors"
	"slices"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// runCompare compares slots with one peer, in the order that the plan says, for as
// long as the connection lives. It is the only goroutine that asks this peer for
// tips and headers.
func (c *conn) runCompare(ctx context.Context) error {
	g := c.g
	if err := c.ready(ctx); err != nil {
		return err
	}
	g.plans.up(c.id)
	defer g.plans.down(c.id)
	staticDue := time.Now()
	for {
		slot, wait, changed := g.plans.next(c.id)
		if slot == nil {
			if now := time.Now(); g.Synced() && !staticDue.After(now) {
				c.compareStatic(ctx)
				staticDue = now.Add(historyEvery * g.cfg.TipInterval)
				continue
			}
			if wait <= 0 {
				wait = time.Hour
			}
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-changed:
			case <-ctx.Done():
			}
			timer.Stop()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		v, err := c.compare(ctx, *slot)
		if err != nil {
			return err
		}
		if v != verdictDeferred { // the plan knows
			g.plans.done(c.id, *slot, v)
		}
		if v == verdictForeign {
			g.cfg.Logger.Info("a peer is of another network; it is not compared with any more")
		}
	}
}

// compare brings slot to what the peer has. An error ends the connection; whatever
// the peer does wrong is a verdict.
func (c *conn) compare(ctx context.Context, slot eventgraph.Slot) (verdict, error) {
	g := c.g
	g.stats.comparisons.Add(1)
	shown := g.cfg.Now()
	tips, err := c.askTips(ctx, slot.String())
	switch {
	case ctx.Err() != nil:
		return verdictNone, ctx.Err()
	case err != nil:
		return verdictSilent, nil
	}
	ids := tipIDs(tips)
	g.observeTips(c, slot, ids)
	have := g.graph.HasBody
	if g.headersOnly(slot) {
		have = func(s eventgraph.Slot, id eventgraph.ID) bool { return g.graph.HasHeader(s, id) }
	}
	lacking := func() []eventgraph.ID {
		return slices.DeleteFunc(slices.Clone(ids), func(id eventgraph.ID) bool { return have(slot, id) })
	}
	lack := lacking()
	capped := tips.Count() >= MaxTipRepTips
	if capped {
		lack = nil // there may be more than it could list
	} else if len(lack) == 0 {
		return verdictMatched, nil
	}
	if !g.plans.pull(c.id, slot) {
		return verdictDeferred, nil
	}
	select {
	case g.exchanges <- struct{}{}:
		defer func() { <-g.exchanges }()
	case <-ctx.Done():
		return verdictNone, ctx.Err()
	}
	g.stats.pulls.Add(1)
	p := &puller{conn: c, slot: slot, tips: lack, only: g.headersOnly(slot), seen: make(map[eventgraph.ID]*eventgraph.Header)}
	err = p.pull(ctx)
	rest := lacking()
	if ctx.Err() == nil && err == nil && p.doubt && (capped || len(rest) > 0) {
		// Headers did not lead there: a slot with more tips than a request can name.
		g.stats.walks.Add(1)
		err = p.walk(ctx)
		rest = lacking()
	}
	if ctx.Err() == nil && err == nil && len(rest) > 0 && !p.only {
		err = c.fetchAncestry(ctx, slot, shown, rest, eventgraph.SourceSync)
		rest = lacking()
	}
	switch {
	case ctx.Err() != nil:
		return verdictNone, ctx.Err()
	case errors.Is(err, errForeign):
		return verdictForeign, nil
	case len(rest) == 0 && (err == nil || !capped): // what is listed is all there is, unless capped
		return verdictMatched, nil
	case errors.Is(err, errTurn):
		return verdictLater, nil
	default:
		g.stats.failedPulls.Add(1)
		return verdictFailed, nil
	}
}

func (c *conn) askTips(ctx context.Context, name string) (eventgraph.Tips, error) {
	m := p2p.Message{Command: CmdTipReq, Payload: TipReq{Name: name}.AppendTo(nil)}
	v, err := c.req.ask(ctx, c.p, replyTips, m, maxTipRep, nil)
	if err != nil {
		return nil, err
	}
	return v.(TipRep).Tips, nil
}

func (c *conn) askHeaders(ctx context.Context, slot eventgraph.Slot, tips eventgraph.Tips) ([]eventgraph.Header, error) {
	m := p2p.Message{Command: CmdHeaderReq, Payload: HeaderReq{Name: slot.String(), Tips: tips}.AppendTo(nil)}
	v, err := c.req.ask(ctx, c.p, replyHeaders, m, maxHeaderRep, nil)
	if err != nil {
		return nil, err
	}
	return v.(HeaderRep).Headers, nil
}

// tipIDs lists the ids of tips, each once, without the filler.
func tipIDs(tips eventgraph.Tips) []eventgraph.ID {
	var ids []eventgraph.ID
	for _, layer := range sortedLayers(tips) {
		ids = append(ids, tips[layer]...)
	}
	slices.SortFunc(ids, compareIDs)
	return slices.DeleteFunc(slices.Compact(ids), eventgraph.ID.IsNull)
}
