package stock

import (
	"slices"
	"strconv"

	"hearsay/eventgraph"
)

// requests calls serve for each message of a command, as long as it returns true.
func (c *channel) requests(command string, serve func(m any) bool) {
	for {
		m, err := c.nextOf(command, 0)
		if err != nil {
			return
		}
		if c.peer.Synced() && !serve(m) { // unsynced: consumed and ignored
			return
		}
	}
}

// serveEvents answers EventReq (5.4).
func (c *channel) serveEvents() {
	p := c.peer
	c.requests(cmdEventReq, func(m any) bool {
		ids, _ := m.([]id)
		if len(ids) > maxEventReq {
			return c.strike(RuleMany, "%d", len(ids))
		}
		var found []event
		for _, i := range ids {
			p.mu.Lock()
			e, static := p.graph.static[i]
			revealed, have := static || p.graph.reveal[i], static
			for _, ts := range sortedKeys(p.graph.slots) {
				if b, ok := p.graph.slots[ts].bodies[i]; ok && revealed && !have {
					e, have = b, true
				}
			}
			p.mu.Unlock()
			if !revealed && !c.strike(RuleReveal, "%v", i) {
				return false
			}
			if have {
				found = append(found, e)
			}
		}
		if len(found) == 0 {
			return true // there is no empty EventRep
		}
		p.mu.Lock()
		for i := range found {
			for _, parent := range parents(&found[i].Header) {
				p.graph.reveal[parent] = true
			}
		}
		p.mu.Unlock()
		return c.send(cmdEventRep, appendEventRep(nil, found)) == nil
	})
}

// serveHeaders answers HeaderReq (5.4).
func (c *channel) serveHeaders() {
	p := c.peer
	c.requests(cmdHeaderReq, func(m any) bool {
		req, _ := m.(headerReq)
		if n := req.tips.count(); n > maxTips {
			return c.strike(RuleTips, "%d", n)
		}
		p.mu.Lock()
		s := p.graph.find(req.dag)
		var hs []eventgraph.Header
		if s != nil {
			hs = s.beyond(req.tips)
			for i := range hs {
				p.graph.reveal[hs[i].ID()] = true
			}
		}
		p.mu.Unlock()
		return s == nil || c.send(cmdHeaderRep, appendHeaders(nil, hs)) == nil
	})
}

// serveTips answers TipReq (5.4).
func (c *channel) serveTips() {
	p := c.peer
	c.requests(cmdTipReq, func(m any) bool {
		name, _ := m.(string)
		p.mu.Lock()
		var tips tipMap
		if name == staticDAG {
			tips = p.graph.staticTips()
		} else if s := p.graph.find(name); s != nil {
			tips = s.tips
		}
		var payload []byte
		if tips != nil {
			tips = capTips(tips, maxTips)
			for _, ids := range tips {
				for i := range ids {
					p.graph.reveal[i] = true
				}
			}
			payload = tips.appendTo(nil)
		}
		p.mu.Unlock()
		return payload == nil || c.send(cmdTipRep, payload) == nil
	})
}

// serveRanges answers RangeReq (5.4); it never strikes.
func (c *channel) serveRanges() {
	p := c.peer
	c.requests(cmdRangeReq, func(m any) bool {
		req, _ := m.(rangeReq)
		limit := int(min(req.limit, maxPage))
		p.mu.Lock()
		s := p.graph.find(req.dag)
		var events []event
		next, exhausted := req.from, true
		if s != nil && limit > 0 {
			events, next, exhausted = s.page(req.from, req.backward, limit)
		}
		p.mu.Unlock()
		return c.send(cmdRangeRep, appendRangeRep(nil, events, next, exhausted)) == nil
	})
}

func (s *slot) page(from cursor, backward bool, limit int) (events []event, next cursor, exhausted bool) {
	at, found := slices.BinarySearchFunc(s.index, from, compareCursors)
	var scan []cursor
	if backward {
		scan = slices.Clone(s.index[:at])
		slices.Reverse(scan)
	} else {
		if found {
			at++
		}
		scan = s.index[at:]
	}
	short := len(scan) < 4*limit
	scan = scan[:min(len(scan), 4*limit)]
	next = from
	for _, c := range scan {
		if len(events) == limit {
			break
		}
		e, ok := s.bodies[c.id]
		if !ok {
			continue
		}
		next = c
		if !e.GenesisShaped() {
			events = append(events, e)
		}
	}
	return events, next, short && len(events) < limit
}

func slotName(ts uint64) string { return strconv.FormatUint(ts, 10) }
