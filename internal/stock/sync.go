package stock

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"hearsay/eventgraph"
	"hearsay/internal/serial"
)

const (
	bodyChunk   = 20
	staticMax   = 100_000
	staticBatch = 128
)

// An answer is one peer's reply.
type answer struct {
	from  *channel
	value any
	err   error
}

// peers is a snapshot in a fixed order.
func (p *Peer) peers() []*channel {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Keys(p.channels), func(a, b *channel) int { return strings.Compare(a.url.String(), b.url.String()) })
}

// askAll asks every peer of the snapshot side by side and waits for all.
func (p *Peer) askAll(peers []*channel, command string, payload []byte, reply string) []answer {
	answers := make(chan answer, len(peers))
	for _, c := range peers {
		go func() {
			v, err := c.request(command, payload, reply, p.cfg.ConnectTimeout)
			answers <- answer{c, v, err}
		}()
	}
	var all []answer
	for range peers {
		all = append(all, <-answers)
	}
	return all
}

// vote merges tip answers (6.1, steps 2 to 4). ok is false where nobody named any.
func (p *Peer) vote(peers []*channel, dag string) (accepted []id, responders int, ok bool) {
	votes := map[id]int{}
	for _, a := range p.askAll(peers, cmdTipReq, serial.AppendString(nil, dag), cmdTipRep) {
		if a.err != nil {
			continue
		}
		tips, _ := a.value.(tipMap)
		if n := tips.count(); n > maxTips {
			a.from.violation(RuleSyncReply, Silent, "%d tips", n)
			continue
		}
		responders++
		for _, ids := range tips {
			for i := range ids {
				votes[i]++
			}
		}
	}
	quorum := (2*responders + 2) / 3
	for i, n := range votes {
		if n >= quorum && !i.IsNull() {
			accepted = append(accepted, i)
		}
	}
	return accepted, responders, len(votes) > 0
}

// syncSlots is 6.3, full.
func (p *Peer) syncSlots() bool {
	p.mu.Lock()
	todo := p.graph.newest(p.cfg.Slots)
	p.mu.Unlock()
	for _, ts := range todo {
		if !p.syncSlot(ts) {
			return false
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.synced = true
	p.notify()
	return true
}

// syncSlot is 6.1 with all of its quirks.
func (p *Peer) syncSlot(ts uint64) bool {
	peers := p.peers()
	if len(peers) == 0 {
		return false
	}
	accepted, _, ok := p.vote(peers, slotName(ts))
	if !ok {
		return false
	}
	p.mu.Lock()
	s := p.graph.slots[ts]
	if s == nil {
		p.mu.Unlock()
		return false
	}
	missing := slices.ContainsFunc(accepted, func(i id) bool { _, ok := s.bodies[i]; return !ok })
	payload := capTips(s.tips, maxTips).appendTo(serial.AppendString(nil, slotName(ts)))
	p.mu.Unlock()
	if !missing {
		return true
	}
	for _, a := range p.askAll(peers, cmdHeaderReq, payload, cmdHeaderRep) {
		if a.err != nil {
			continue
		}
		hs, _ := a.value.([]eventgraph.Header)
		if len(hs) > maxHeaders {
			a.from.violation(RuleSyncReply, Silent, "%d headers", len(hs))
			continue
		}
		p.mu.Lock()
		err := p.graph.insertHeaders(ts, hs)
		p.mu.Unlock()
		if err != nil {
			a.from.violation(RuleBadHeaders, Silent, "%v", err)
			return false
		}
	}
	return p.syncBodies(s)
}

// syncBodies is 6.2.
func (p *Peer) syncBodies(s *slot) bool {
	p.mu.Lock()
	need := s.missing()
	p.mu.Unlock()
	if len(need) == 0 {
		return true
	}
	var chunks [][]id // to assign, lowest first
	for part := range slices.Chunk(need, bodyChunk) {
		var ids []id
		for i := range part {
			ids = append(ids, part[i].ID())
		}
		chunks = append(chunks, ids)
	}
	type result struct {
		answer
		chunk []id
	}
	results := make(chan result)
	busy, failed := map[*channel]bool{}, map[*channel]bool{}
	var got []event
	var inFlight sync.WaitGroup
	defer inFlight.Wait()
	for left := len(need); left > 0; {
		for _, c := range p.peers() {
			if busy[c] || failed[c] || len(chunks) == 0 {
				continue
			}
			chunk := chunks[0]
			chunks = chunks[1:]
			busy[c] = true
			inFlight.Go(func() {
				v, err := c.request(cmdEventReq, appendIDs(nil, chunk), cmdEventRep, p.cfg.ConnectTimeout)
				results <- result{answer{c, v, err}, chunk}
			})
		}
		if len(busy) == 0 {
			return false
		}
		r := <-results
		delete(busy, r.from)
		asked := map[id]bool{}
		for _, i := range r.chunk {
			asked[i] = true
		}
		var found []event
		if r.err == nil {
			rep, _ := r.value.(*eventRep)
			var problem string
			if found, problem = match(rep, asked); problem == "" && len(rep.events) > maxEventRep {
				problem = "too many events"
			}
			if problem != "" {
				r.from.violation(RuleSyncReply, Silent, "%s", problem)
				found = nil
			}
		}
		if len(found) == 0 {
			failed[r.from] = true
		}
		left -= len(found)
		got = append(got, found...)
		for i := range found {
			delete(asked, found[i].ID())
		}
		if len(asked) > 0 {
			chunks = append(chunks, slices.DeleteFunc(r.chunk, func(i id) bool { return !asked[i] }))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.graph.insertBodies(s.ts, got); err != nil {
		return false
	}
	return !slices.ContainsFunc(need, func(h eventgraph.Header) bool { _, ok := s.bodies[h.ID()]; return !ok })
}

// syncStatic is 6.4 with RLN off.
func (p *Peer) syncStatic() bool {
	peers := p.peers()
	if len(peers) == 0 {
		return false
	}
	accepted, responders, _ := p.vote(peers, staticDAG)
	if responders == 0 {
		return true
	}
	p.mu.Lock()
	known := maps.Clone(p.graph.static)
	p.mu.Unlock()
	want, fetched := map[id]bool{}, map[id]event{}
	add := func(i id) {
		_, have := known[i]
		if _, got := fetched[i]; !have && !got && !i.IsNull() {
			want[i] = true
		}
	}
	for _, i := range accepted {
		add(i)
	}
	for len(want) > 0 {
		if len(fetched) >= staticMax {
			return false
		}
		batch := sortedIDs(want)
		batch = batch[:min(len(batch), staticBatch)]
		asked := map[id]bool{}
		for _, i := range batch {
			asked[i] = true
		}
		progress := false
		for _, a := range p.askAll(peers, cmdEventReq, appendIDs(nil, batch), cmdEventRep) {
			if a.err != nil {
				continue
			}
			rep, _ := a.value.(*eventRep)
			found, problem := match(rep, asked)
			if problem != "" {
				a.from.violation(RuleSyncReply, Silent, "static: %s", problem)
				continue
			}
			for i := range found {
				if fid := found[i].ID(); want[fid] {
					progress = true
					delete(want, fid)
					fetched[fid] = found[i]
				}
			}
		}
		if !progress {
			return false
		}
		for _, e := range fetched {
			for _, parent := range parents(&e.Header) {
				add(parent)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	complete := true
	for _, e := range slices.SortedFunc(maps.Values(fetched), byLayer) {
		switch {
		case !sound(&e):
		case slices.ContainsFunc(parents(&e.Header), func(i id) bool { _, ok := p.graph.static[i]; return !ok }):
			complete = false
		default:
			p.graph.static[e.ID()] = e
		}
	}
	return complete
}
