package gossip

import (
	"context"
	"errors"
	"slices"
	"time"

	"hearsay/eventgraph"
)

// staticPut handles a StaticPut as a node without proofs does (facts page, section
// 4.10), but for the bound of the static graph. It is never answered (DS-05). An
// error ends the connection.
func (l *putLine) staticPut(_ context.Context, p put) error {
	g := l.g
	id := p.event.ID()
	if !g.Synced() || g.graph.HasStatic(id) {
		return nil
	}
	if l.staticFlood.tick(time.Now()) {
		g.stats.floodBans.Add(1)
		l.p.Ban(true, ErrFlood)
		return ErrFlood
	}
	added, err := g.graph.StaticInsert(p.event)
	switch {
	case errors.Is(err, eventgraph.ErrInvalid), errors.Is(err, eventgraph.ErrNoParent):
		if !l.strike() {
			return ErrStrikes
		}
	case err == nil && added:
		g.stats.staticAdded.Add(1)
		a := newArticle(&p.event, id)
		a.static = true
		g.broadcast(a, l.id, false)
	}
	return nil
}

// compareStatic brings the static graph to what the peer has, within its bound. It
// stops nothing if it fails.
func (c *conn) compareStatic(ctx context.Context) {
	g := c.g
	tips, err := c.askTips(ctx, StaticName)
	if err != nil {
		return
	}
	ids := slices.DeleteFunc(tipIDs(tips), g.graph.HasStatic)
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeouts*g.cfg.RequestTimeout)
	defer cancel()
	shown := g.cfg.Now()
	a := newAncestry(g.params, 0, ids, g.graph.HasStatic)
	a.anyTime = true
	for {
		asked, err := a.next()
		if err != nil {
			return
		}
		if asked == nil {
			break
		}
		events, err := c.askEvents(ctx, asked, shown)
		if err != nil || a.add(events) != nil {
			return
		}
	}
	for _, e := range a.events() {
		added, err := g.graph.StaticInsert(e)
		if err != nil && !errors.Is(err, eventgraph.ErrInvalid) && !errors.Is(err, eventgraph.ErrNoParent) {
			return
		}
		if added {
			g.stats.staticAdded.Add(1)
		}
	}
}
