package stock

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"

	"hearsay/eventgraph"
)

type (
	id    = eventgraph.ID
	event = eventgraph.Event
)

// Errors of the graph, which only this package sees.
var (
	errNoSlot  = errors.New("stock: slot not loaded")
	errForeign = errors.New("stock: header on another genesis")
	errHeader  = errors.New("stock: invalid header")
	errBody    = errors.New("stock: invalid body")
)

// A slot is one rotating DAG (eventgraph 3.1).
type slot struct {
	ts      uint64
	genesis id
	headers map[id]eventgraph.Header
	bodies  map[id]event
	tips    tipMap
	index   []cursor // of the headers, ascending
}

// A graph is everything that a peer stores. The peer's mutex guards it.
type graph struct {
	params  eventgraph.Params
	window  int
	slots   map[uint64]*slot
	current uint64
	static  map[id]event
	reveal  map[id]bool
}

func genesisEvent(params eventgraph.Params, ts uint64) event {
	return event{
		Header:  eventgraph.Header{Timestamp: ts, ContentHash: eventgraph.HashContent(params.Contents)},
		Content: params.Contents,
	}
}

func (g *graph) period() uint64 { return uint64(g.params.Rotation.Milliseconds()) } // configured
func (g *graph) drift() uint64  { return uint64(g.params.Drift.Milliseconds()) }    // configured

// slotAt is the current slot at a time (1.5).
func (g *graph) slotAt(now uint64) uint64 {
	start, p := uint64(g.params.Genesis), g.period()
	if p == 0 || now < start {
		return start
	}
	return start + (now-start)/p*p
}

// open makes the window at startup (3.3), for a genesis that lies on the hour.
func (g *graph) open(params eventgraph.Params, window int, now uint64) {
	*g = graph{params: params, window: window, slots: map[uint64]*slot{}, static: map[id]event{}, reveal: map[id]bool{}}
	first := genesisEvent(params, uint64(params.Genesis))
	g.static[first.ID()] = first
	g.current = g.slotAt(now)
	g.load(g.current)
	for i := 1; i < window && g.period() > 0; i++ {
		g.load(g.current - uint64(i)*g.period()) // small
	}
}

func (g *graph) load(ts uint64) {
	if g.slots[ts] != nil {
		return
	}
	e := genesisEvent(g.params, ts)
	i := e.ID()
	g.slots[ts] = &slot{
		ts: ts, genesis: i,
		headers: map[id]eventgraph.Header{i: e.Header},
		bodies:  map[id]event{i: e},
		tips:    tipMap{0: {i: true}},
		index:   []cursor{{ts, i}},
	}
}

// rotate opens a slot and empties the reveal set (3.4).
func (g *graph) rotate(ts uint64) {
	if len(g.slots) >= g.window {
		delete(g.slots, slices.Min(slices.Collect(maps.Keys(g.slots))))
	}
	g.load(ts)
	g.current = ts
	clear(g.reveal)
}

// find is the slot of a DAG name, or nil.
func (g *graph) find(name string) *slot {
	ts, err := strconv.ParseUint(name, 10, 64)
	if err != nil {
		return nil
	}
	return g.slots[ts]
}

// newest lists the n newest slots, oldest first.
func (g *graph) newest(n int) []uint64 {
	all := slices.Sorted(maps.Keys(g.slots))
	return all[max(0, len(all)-n):]
}

func parents(h *eventgraph.Header) []id {
	return slices.DeleteFunc(slices.Clone(h.Parents[:]), id.IsNull)
}

// inBounds is 4.1.
func (g *graph) inBounds(s *slot, ts, now uint64) bool {
	if ts < s.ts-min(s.ts, g.drift()) {
		return false
	}
	if g.period() == 0 {
		return ts <= now+g.drift()
	}
	return ts < s.ts+g.period()+g.drift()
}

// validHeader is 4.2, against the store and an overlay.
func (g *graph) validHeader(s *slot, h *eventgraph.Header, overlay map[id]eventgraph.Header) bool {
	// Without rotation the upper bound needs a clock; Publish and the live path check it.
	if !g.inBounds(s, h.Timestamp, math.MaxUint64-g.drift()) {
		return false
	}
	own, seen := h.ID(), map[id]bool{}
	top := uint64(0)
	for _, p := range parents(h) {
		ph, ok := s.headers[p]
		if !ok {
			ph, ok = overlay[p]
		}
		if p == own || seen[p] || !ok {
			return false
		}
		seen[p] = true
		top = max(top, ph.Layer)
	}
	return len(seen) > 0 && top < math.MaxUint64 && h.Layer == top+1
}

// sound is the common check of 4.3.
func sound(e *event) bool {
	own, seen := e.ID(), map[id]bool{}
	for _, p := range parents(&e.Header) {
		if p == own || seen[p] {
			return false
		}
		seen[p] = true
	}
	return len(e.Content) > 0 && eventgraph.HashContent(e.Content) == e.ContentHash && len(seen) > 0
}

// fresh is the live check of 4.3.
func (g *graph) fresh(e *event, now uint64) bool {
	return sound(e) && now <= e.Timestamp+g.drift() && e.Timestamp <= now+g.drift()
}

// full is the check before a body is stored (4.3).
func (g *graph) full(s *slot, e *event) bool {
	return len(e.Content) > 0 && eventgraph.HashContent(e.Content) == e.ContentHash && g.validHeader(s, &e.Header, nil)
}

// insertHeaders is 4.4: all or nothing.
func (g *graph) insertHeaders(ts uint64, hs []eventgraph.Header) error {
	s := g.slots[ts]
	if s == nil {
		return errNoSlot
	}
	hs = slices.Clone(hs)
	slices.SortStableFunc(hs, func(a, b eventgraph.Header) int { return cmp.Compare(a.Layer, b.Layer) })
	overlay := map[id]eventgraph.Header{}
	for i := range hs {
		h := &hs[i]
		if h.GenesisShaped() {
			continue
		}
		if h.Layer == 1 && slices.ContainsFunc(parents(h), func(p id) bool { return p != s.genesis }) {
			return errForeign
		}
		hid := h.ID()
		if _, ok := s.headers[hid]; ok {
			continue
		}
		if _, ok := overlay[hid]; ok {
			continue
		}
		if !g.validHeader(s, h, overlay) {
			return errHeader
		}
		overlay[hid] = *h
	}
	for hid, h := range overlay {
		s.headers[hid] = h
		c := cursor{h.Timestamp, hid}
		at, _ := slices.BinarySearchFunc(s.index, c, compareCursors)
		s.index = slices.Insert(s.index, at, c)
	}
	return nil
}

func compareCursors(a, b cursor) int {
	if c := cmp.Compare(a.ts, b.ts); c != 0 {
		return c
	}
	return bytes.Compare(a.id[:], b.id[:])
}

func byLayer(a, b event) int {
	if c := cmp.Compare(a.Layer, b.Layer); c != 0 {
		return c
	}
	x, y := a.ID(), b.ID()
	return bytes.Compare(x[:], y[:])
}

// insertBodies is 4.5 with RLN off. It returns what is new.
func (g *graph) insertBodies(ts uint64, es []event) ([]id, error) {
	s := g.slots[ts]
	if s == nil {
		return nil, errNoSlot
	}
	es = slices.Clone(es)
	slices.SortStableFunc(es, byLayer)
	var stored []id
	for i := range es {
		e := &es[i]
		eid := e.ID()
		_, have := s.bodies[eid]
		_, known := s.headers[eid]
		if have || e.GenesisShaped() || !known || !g.full(s, e) {
			continue
		}
		if slices.ContainsFunc(parents(&e.Header), func(p id) bool { _, ok := s.bodies[p]; return !ok }) {
			continue
		}
		s.bodies[eid] = *e
		stored = append(stored, eid)
		for _, p := range parents(&e.Header) {
			for layer, ids := range s.tips {
				if layer < e.Layer {
					if delete(ids, p); len(ids) == 0 {
						delete(s.tips, layer)
					}
				}
			}
			g.reveal[p] = true
		}
		if s.tips[e.Layer] == nil {
			s.tips[e.Layer] = map[id]bool{}
		}
		s.tips[e.Layer][eid] = true
	}
	return stored, nil
}

// create is 7.
func (g *graph) create(content []byte, now uint64) event {
	s := g.slots[g.current]
	h := eventgraph.Header{Timestamp: now, ContentHash: eventgraph.HashContent(content)}
	layers := sortedKeys(s.tips)
	slices.Reverse(layers)
	h.Layer = layers[0] + 1
	n := 0
	for _, layer := range layers {
		for _, tip := range sortedIDs(s.tips[layer]) { // upstream: in arbitrary order
			if n < len(h.Parents) {
				h.Parents[n] = tip
				n++
			}
		}
	}
	return event{Header: h, Content: content}
}

// capTips keeps the first n, lowest layers first (5.4).
func capTips(t tipMap, n int) tipMap {
	out := tipMap{}
	for _, layer := range sortedKeys(t) {
		for _, tip := range sortedIDs(t[layer]) {
			if n == 0 {
				return out
			}
			n--
			if out[layer] == nil {
				out[layer] = map[id]bool{}
			}
			out[layer][tip] = true
		}
	}
	return out
}

// beyond lists the headers that are neither in known nor ancestors of it (5.4).
func (s *slot) beyond(known tipMap) []eventgraph.Header {
	excluded := map[id]bool{}
	var todo []id
	for _, ids := range known {
		for i := range ids {
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if excluded[i] {
			continue
		}
		excluded[i] = true
		if h, ok := s.headers[i]; ok {
			todo = append(todo, parents(&h)...)
		}
	}
	var out []event // for the order
	for i, h := range s.headers {
		if !excluded[i] {
			out = append(out, event{Header: h})
		}
	}
	slices.SortFunc(out, byLayer)
	out = out[:min(len(out), maxHeaders)]
	hs := make([]eventgraph.Header, len(out))
	for i := range out {
		hs[i] = out[i].Header
	}
	return hs
}

// missing lists the headers without a body, by layer (6.2).
func (s *slot) missing() []eventgraph.Header {
	var out []event
	for i, h := range s.headers {
		if _, ok := s.bodies[i]; !ok && !h.GenesisShaped() {
			out = append(out, event{Header: h})
		}
	}
	slices.SortFunc(out, byLayer)
	hs := make([]eventgraph.Header, len(out))
	for i := range out {
		hs[i] = out[i].Header
	}
	return hs
}

// staticTips is a full scan (3.6).
func (g *graph) staticTips() tipMap {
	referred := map[id]bool{}
	for _, e := range g.static {
		for _, p := range parents(&e.Header) {
			referred[p] = true
		}
	}
	t := tipMap{}
	for i, e := range g.static {
		if !referred[i] {
			if t[e.Layer] == nil {
				t[e.Layer] = map[id]bool{}
			}
			t[e.Layer][i] = true
		}
	}
	return t
}

func sortedKeys[V any](m map[uint64]V) []uint64 { return slices.Sorted(maps.Keys(m)) }

func sortedIDs(m map[id]bool) []id {
	return slices.SortedFunc(maps.Keys(m), func(a, b id) int { return bytes.Compare(a[:], b[:]) })
}
