package gossip

import (
	"context"
	"errors"
	"slices"
	"time"

	"hearsay/eventgraph"
)

var (
	// errForeign: the peer's slot grows from another genesis.
	errForeign = errors.New("gossip: peer is of another network")
	// errBadHeaders: a page with a header that cannot be of this slot. The page is
	// dropped, and this exchange with it, not the sync (facts page, trap 16).
	errBadHeaders = errors.New("gossip: invalid headers")
	// errUnserved: too many headers whose bodies nobody serves.
	errUnserved = errors.New("gossip: bodies are not served")
	// errRefused: too many events that the rules here refuse.
	errRefused = errors.New("gossip: too many refused events")
)

// A headed is a header with its id.
type headed struct {
	id eventgraph.ID
	*eventgraph.Header
}

func compareHeaded(a, b headed) int {
	if a.Layer != b.Layer {
		if a.Layer < b.Layer {
			return -1
		}
		return 1
	}
	return compareIDs(a.id, b.id)
}

// A puller fetches what one peer has of one slot and we do not: pages of headers,
// until one brings nothing new (trap 19), then the bodies behind the peer's tips.
// Headers without bodies are kept in memory, for this exchange only, so that
// inventions cost no disk; in headers-only mode they are the purpose.
type puller struct {
	*conn
	slot    eventgraph.Slot
	tips    []eventgraph.ID                      // of the peer, that are not here; nil: it has too many to list
	seen    map[eventgraph.ID]*eventgraph.Header // came in this exchange and are not stored; while fetch runs, its storing goroutine's
	pending []headed                             // of seen: not yet asked for
	shown   time.Time                            // when the peer showed the first of pending
	only    bool                                 // headers only
	doubt   bool                                 // the last page was full, and all of it known: there may be more
	refused int
}

func (p *puller) pull(ctx context.Context) error {
	if p.only {
		// Headers that are here without a body lead on, too (trap 17).
		known, err := p.g.graph.Missing(p.slot, MaxHeaderRepHeaders)
		if err != nil {
			return err
		}
		for i := range known.Len() {
			p.seen[known.ID(i)] = new(known.Header(i))
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var next <-chan headerPage // asked for while bodies came
	defer func() {
		if cancel(); next != nil {
			<-next
		}
	}()
	gather := maxPending
	for range maxPages {
		if next == nil {
			var err error
			if next, err = p.nextPage(ctx); err != nil {
				return err
			}
		}
		got := <-next
		next = nil
		if got.err != nil {
			return got.err
		}
		page := got.headers
		if len(p.pending) == 0 {
			p.shown = got.shown
		}
		fresh, err := p.sift(page)
		if err != nil {
			return err
		}
		p.g.plans.progress(p.id, p.slot)
		last := len(page) < MaxHeaderRepHeaders || len(fresh) == 0
		p.doubt = last && len(page) >= MaxHeaderRepHeaders
		if p.only {
			if err := p.storeHeaders(fresh); err != nil || last {
				return err
			}
			continue
		}
		p.pending = append(p.pending, fresh...)
		if !last && len(p.pending) < gather {
			continue
		}
		// From now on there is one page in hand, and one on its way.
		gather = MaxHeaderRepHeaders
		slices.SortFunc(p.pending, compareHeaded)
		wanted := p.pending
		if last && p.tips != nil {
			wanted = leading(p.pending, p.tips)
		}
		p.pending = nil
		if !last && len(wanted) <= gather {
			if next, err = p.nextPage(ctx); err != nil {
				return err
			}
		}
		if err := p.fetch(ctx, wanted); err != nil {
			return err
		}
		if last {
			return nil
		}
	}
	return errUnserved
}

// A headerPage is an answer to a HeaderReq.
type headerPage struct {
	headers []eventgraph.Header
	shown   time.Time // when it was asked for
	err     error
}

// nextPage asks for what lies beyond everything that came so far. The channel gets one
// page.
func (p *puller) nextPage(ctx context.Context) (<-chan headerPage, error) {
	own, err := p.own()
	if err != nil {
		return nil, err
	}
	page := make(chan headerPage, 1)
	go func() {
		got := headerPage{shown: p.g.cfg.Now()}
		got.headers, got.err = p.askHeaders(ctx, p.slot, own)
		page <- got
	}()
	return page, nil
}

// own is what the peer need not send: our tips, and the frontier of the headers that
// came in this exchange. Where these are too many the highest ones are named: most of
// the slot lies below them.
func (p *puller) own() (eventgraph.Tips, error) {
	own, err := p.g.graph.Tips(p.slot)
	if err != nil {
		return nil, err
	}
	inner := make(map[eventgraph.ID]struct{}, len(p.seen))
	for _, h := range p.seen {
		for _, parent := range h.Parents {
			inner[parent] = struct{}{}
		}
	}
	for id, h := range p.seen {
		if _, ok := inner[id]; !ok {
			own[h.Layer] = append(own[h.Layer], id)
		}
	}
	return highest(own, MaxHeaderReqTips), nil
}

// highest returns at most n of the tips, upper layers first.
func highest(tips eventgraph.Tips, n int) eventgraph.Tips {
	top := eventgraph.Tips{}
	for _, l := range slices.Backward(sortedLayers(tips)) {
		ids := tips[l][:min(n, len(tips[l]))]
		if n -= len(ids); len(ids) > 0 {
			top[l] = ids
		}
	}
	return top
}

// sift returns the headers of a page that are new, in (layer, id) order, after
// checking what can be checked without their bodies. They are in seen on return.
func (p *puller) sift(page []eventgraph.Header) ([]headed, error) {
	g := p.g
	fresh := make([]headed, 0, len(page))
	for i := range page {
		h := &page[i]
		id := h.ID()
		if h.GenesisShaped() || p.seen[id] != nil || !p.only && g.graph.HasBody(p.slot, id) {
			continue
		}
		fresh = append(fresh, headed{id, h})
	}
	slices.SortFunc(fresh, compareHeaded)
	genesis := g.genesisID(p.slot)
	for _, h := range fresh {
		if !inBounds(g.params, p.slot, h.Timestamp) {
			return nil, errBadHeaders
		}
		for _, parent := range h.Parents {
			switch {
			case parent.IsNull():
			case h.Layer == 1 && parent != genesis:
				return nil, errForeign
			case p.seen[parent] != nil:
				if p.seen[parent].Layer >= h.Layer {
					return nil, errBadHeaders
				}
			case !g.graph.HasBody(p.slot, parent) && (!p.only || !g.graph.HasHeader(p.slot, parent)):
				return nil, errBadHeaders // sorted by layer, so a parent would have been seen
			}
		}
		p.seen[h.id] = h.Header
	}
	if len(p.seen) > maxUnserved {
		return nil, errUnserved
	}
	return fresh, nil
}

// leading are those of the sorted headers that are ancestors of tips, or tips. A
// peer has the bodies of these; of others it may have heard only.
func leading(headers []headed, tips []eventgraph.ID) []headed {
	at := make(map[eventgraph.ID]int, len(headers))
	for i, h := range headers {
		at[h.id] = i
	}
	keep := make([]bool, len(headers))
	for _, id := range tips {
		if i, ok := at[id]; ok {
			keep[i] = true
		}
	}
	// Children come after parents, so one pass from the end sees every child first.
	for i, h := range slices.Backward(headers) {
		if !keep[i] {
			continue
		}
		for _, parent := range h.Parents {
			if j, ok := at[parent]; ok {
				keep[j] = true
			}
		}
	}
	lead := make([]headed, 0, len(headers))
	for i, h := range headers {
		if keep[i] {
			lead = append(lead, h)
		}
	}
	return lead
}

func (p *puller) storeHeaders(fresh []headed) error {
	headers := make([]eventgraph.Header, len(fresh))
	for i := range fresh {
		headers[i] = *fresh[i].Header
	}
	err := p.g.graph.InsertHeaders(p.slot, headers)
	if errors.Is(err, eventgraph.ErrInvalid) || errors.Is(err, eventgraph.ErrNoParent) {
		return errBadHeaders
	}
	return err
}
