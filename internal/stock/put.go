package stock

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"hearsay/eventgraph"
)

// Constants of the page, section 2.
const (
	floodMax     = 200
	floodWindow  = time.Minute
	puts60       = 180 // the pace that keeps a sender clear of the flood rule
	fetchDepth   = 1000
	maxEventReq  = 128
	maxEventRep  = 128
	maxTips      = 1024
	maxHeaders   = 4096
	maxPage      = 100
	relayQueue   = 256
	relayFree    = 6
	relayExpiry  = 10 * time.Second
	relayStep    = 250 * time.Millisecond
	maxBroadcast = 64
)

// slide records now in a sliding window and returns how many it holds.
func slide(w *[]time.Time, now time.Time, expiry time.Duration) int {
	t := *w
	for len(t) > 0 && now.Sub(t[0]) > expiry {
		t = t[1:]
	}
	*w = append(t, now)
	return len(*w)
}

// handlePuts is the EventPut handler (4.6), one event after another.
func (c *channel) handlePuts() {
	var flood []time.Time
	for {
		m, err := c.nextOf(cmdEventPut, 0)
		if err != nil {
			return
		}
		put, _ := m.(putMessage)
		if !c.handlePut(&put.event, &flood) {
			return
		}
	}
}

// handlePut is false where the handler ends.
func (c *channel) handlePut(e *event, flood *[]time.Time) bool {
	p := c.peer
	own := e.ID()
	now := p.cfg.Now()
	c.mu.Lock()
	pace := slide(&c.puts, now, floodWindow)
	c.mu.Unlock()
	if pace == puts60+1 {
		c.violation(RulePuts, Silent, "")
	}

	p.mu.Lock()
	counts := &p.record.counts
	counts.Puts++
	if !p.synced {
		counts.PutsUnsynced++
		p.mu.Unlock()
		return true
	}
	g := &p.graph
	s := g.slots[g.current]
	if _, ok := s.bodies[own]; ok {
		counts.PutsKnown++
		p.mu.Unlock()
		if e.GenesisShaped() {
			c.violation(RuleGenesisPut, Silent, "")
		}
		return true
	}
	p.mu.Unlock()

	if n := slide(flood, now, floodWindow); n > floodMax {
		c.costs(RuleFlood, Ban, "%d", n)
		return false
	}
	if e.Timestamp < s.ts {
		p.count(func(n *Counts) { n.PutsOld++ })
		return true
	}
	if !g.fresh(e, p.nowMS()) {
		return c.strike(RuleFresh, "event %v, %v from the peer's clock", own, time.Duration(int64(e.Timestamp-p.nowMS()))*time.Millisecond) // for people
	}
	if ok, alive := c.fetchParents(s, e); !ok {
		return alive
	}
	p.mu.Lock()
	full := g.full(s, e)
	var stored []id
	var err error
	if full {
		err = g.insertHeaders(s.ts, []eventgraph.Header{e.Header})
		if err == nil {
			stored, err = g.insertBodies(s.ts, []event{*e})
		}
	}
	counts.PutsStored += len(stored)
	p.mu.Unlock()
	if !full || err != nil {
		return c.strike(RuleEvent, "event %v: %v", own, err)
	}
	if c.relay(*e) {
		p.count(func(n *Counts) { n.RelaysLost++ })
	}
	return true
}

// fetchParents is the recursive fetch (4.7). ok: every parent's header is here.
// alive: the handler goes on.
func (c *channel) fetchParents(s *slot, e *event) (ok, alive bool) {
	p := c.peer
	unknown := func(h *eventgraph.Header) (ids []id) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, parent := range parents(h) {
			if _, ok := s.headers[parent]; !ok {
				ids = append(ids, parent)
			}
		}
		return ids
	}
	missing, known := map[id]bool{}, map[id]bool{}
	for _, i := range unknown(&e.Header) {
		missing[i] = true
	}
	if len(missing) == 0 {
		return true, true
	}
	p.count(func(n *Counts) { n.Fetches++ })
	var received []event
	for round := 1; len(missing) > 0; round++ {
		if round > fetchDepth {
			return false, c.strike(RuleDepth, "")
		}
		asked := sortedIDs(missing)
		reply, err := c.request(cmdEventReq, appendIDs(nil, asked), cmdEventRep, p.cfg.ConnectTimeout)
		switch {
		case errors.Is(err, errTimedOut):
			c.costs(RuleUnserved, Close, "%d parents of %v", len(asked), e.ID())
			return false, false
		case err != nil:
			return false, false
		}
		rep, _ := reply.(*eventRep)
		found, problem := match(rep, missing)
		if problem == "" && len(found) == 0 {
			problem = "nothing that was asked for"
		}
		if problem != "" {
			return false, c.strike(RuleReply, "%s", problem)
		}
		for _, f := range found {
			fid := f.ID()
			delete(missing, fid)
			known[fid] = true
			received = append(received, f)
		}
		for i := range found {
			for _, parent := range unknown(&found[i].Header) {
				if !known[parent] {
					missing[parent] = true
				}
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	headers := make([]eventgraph.Header, len(received))
	for i := range received {
		headers[i] = received[i].Header
	}
	err := p.graph.insertHeaders(s.ts, headers)
	if err == nil {
		_, err = p.graph.insertBodies(s.ts, received)
	}
	for i := range received {
		if _, ok := s.bodies[received[i].ID()]; !ok {
			err = errBody
		}
	}
	if err != nil {
		p.record.counts.FetchesLost++
		return false, true // no strike
	}
	return true, true
}

// match checks an EventRep against what was asked for (10.1).
func match(rep *eventRep, asked map[id]bool) ([]event, string) {
	if rep.blobs != len(rep.events) {
		return nil, fmt.Sprintf("%d events, %d blobs", len(rep.events), rep.blobs)
	}
	seen := map[id]bool{}
	for i := range rep.events {
		eid := rep.events[i].ID()
		if !asked[eid] {
			return nil, "an event that was not asked for"
		}
		if seen[eid] {
			return nil, "an event twice"
		}
		seen[eid] = true
	}
	return rep.events, ""
}

// relay queues an event for the other peers (4.8). It is true where the queue is
// full.
func (c *channel) relay(e event) (lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.relays.items) >= relayQueue {
		return true
	}
	c.relays.put(message{value: e})
	return false
}

// relayLoop is the relay worker with its limiter.
func (c *channel) relayLoop() {
	var window []time.Time
	for {
		m, err := c.next(c.relays, 0)
		if err != nil {
			return
		}
		e, _ := m.(event)
		if n := slide(&window, c.peer.cfg.Now(), relayExpiry); n > relayFree {
			if !c.sleep(time.Duration(n-relayFree) * relayStep) {
				return
			}
		}
		c.peer.broadcast(cmdEventPut, encodePut(&e), c)
	}
}

// A job is one broadcast under way.
type job struct {
	command string
	payload []byte
	left    int // guarded by the peer's mutex
}

// broadcast sends to every peer but one. It is false where too many broadcasts are
// under way (p2p 2.4).
func (p *Peer) broadcast(command string, payload []byte, except *channel) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jobs >= maxBroadcast {
		p.record.counts.RelaysLost++
		return false
	}
	p.record.counts.Relayed++
	j := &job{command: command, payload: payload}
	for c := range p.channels {
		if c == except {
			continue
		}
		c.mu.Lock()
		if !c.deaf {
			j.left++
			c.outbox.put(message{value: j})
		}
		c.mu.Unlock()
	}
	if j.left > 0 {
		p.jobs++
	}
	return true
}

func (p *Peer) jobDone(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if j.left--; j.left == 0 {
		p.jobs--
	}
}

// broadcastLoop sends this channel's share of the broadcasts.
func (c *channel) broadcastLoop() {
	for {
		m, err := c.next(c.outbox, 0)
		if err != nil {
			break
		}
		j, _ := m.(*job)
		_ = c.send(j.command, j.payload)
		c.peer.jobDone(j)
	}
	c.mu.Lock()
	rest := c.outbox.items
	c.outbox.items, c.deaf = nil, true
	c.mu.Unlock()
	for _, m := range rest {
		if j, ok := m.value.(*job); ok {
			c.peer.jobDone(j)
		}
	}
}

// handleStaticPuts is 4.10 with RLN off.
func (c *channel) handleStaticPuts() {
	var flood []time.Time
	p := c.peer
	for {
		m, err := c.nextOf(cmdStaticPut, 0)
		if err != nil {
			return
		}
		put, _ := m.(putMessage)
		e := put.event
		own := e.ID()
		p.mu.Lock()
		_, known := p.graph.static[own]
		synced := p.synced
		orphan := slices.ContainsFunc(parents(&e.Header), func(i id) bool { _, ok := p.graph.static[i]; return !ok })
		p.mu.Unlock()
		if !synced || known {
			continue
		}
		if n := slide(&flood, p.cfg.Now(), floodWindow); n > floodMax {
			c.costs(RuleFlood, Ban, "%d static", n)
			return
		}
		if !sound(&e) || orphan {
			if !c.strike(RuleStatic, "%v", own) {
				return
			}
			continue
		}
		p.mu.Lock()
		p.graph.static[own] = e
		p.mu.Unlock()
		if !p.broadcast(cmdStaticPut, encodePut(&e), nil) {
			return
		}
	}
}
