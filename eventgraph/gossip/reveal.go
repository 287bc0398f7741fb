package gossip

import (
	"sync"

	"hearsay/eventgraph"
)

// A revealSet holds the ids that this node has shown to somebody, and so serves
// (facts page, section 5.5). It keeps two generations, this slot's time and the
// one before, since a peer may ask over the turn of the hour (trap 11).
type revealSet struct {
	mu   sync.Mutex
	slot eventgraph.Slot // of the newer generation
	gen  [2]generation   // newer, older
}

// A generation that met its bound is open: every id counts as shown.
type generation struct {
	ids  map[eventgraph.ID]struct{}
	open bool
}

// turn drops the older generation where the slot has changed. mu is held.
func (s *revealSet) turn(current eventgraph.Slot) {
	if s.slot != current {
		s.slot = current
		s.gen[0], s.gen[1] = generation{}, s.gen[0]
	}
}

// add marks id as shown. NullID is nobody's.
func (s *revealSet) add(current eventgraph.Slot, ids ...eventgraph.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(current)
	for _, id := range ids {
		s.put(id)
	}
}

// addParents marks the parents of e as shown.
func (s *revealSet) addParents(current eventgraph.Slot, h *eventgraph.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(current)
	for _, id := range h.Parents {
		s.put(id)
	}
}

func (s *revealSet) put(id eventgraph.ID) {
	g := &s.gen[0]
	switch {
	case id.IsNull(), g.open:
		return
	case g.ids == nil:
		g.ids = make(map[eventgraph.ID]struct{})
	case len(g.ids) >= maxRevealed:
		if _, ok := g.ids[id]; !ok {
			*g = generation{open: true}
			return
		}
	}
	g.ids[id] = struct{}{}
}

// has tells whether id was shown.
func (s *revealSet) has(current eventgraph.Slot, id eventgraph.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(current)
	for i := range s.gen {
		if _, ok := s.gen[i].ids[id]; ok || s.gen[i].open {
			return true
		}
	}
	return false
}
