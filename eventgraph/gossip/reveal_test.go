package gossip

import (
	"encoding/binary"
	"testing"

	"hearsay/eventgraph"
)

func numbered(n int) (id eventgraph.ID) {
	binary.BigEndian.PutUint64(id[8:], uint64(n)+1)
	return id
}

// Trap 11: what was shown in the slot before still counts, but not what was shown
// before that.
func TestRevealGenerations(t *testing.T) {
	var s revealSet
	s.add(1, numbered(1), eventgraph.NullID)
	if !s.has(1, numbered(1)) || s.has(1, numbered(2)) || s.has(1, eventgraph.NullID) {
		t.Error("same slot")
	}
	if !s.has(2, numbered(1)) {
		t.Error("next slot")
	}
	s.add(2, numbered(2))
	if s.has(3, numbered(1)) || !s.has(3, numbered(2)) {
		t.Error("the slot after")
	}
	h := eventgraph.Header{}
	h.Parents[2] = numbered(7)
	s.addParents(3, &h)
	if !s.has(3, numbered(7)) {
		t.Error("parents")
	}
}

// At its bound a generation keeps counting; one past it everything is revealed and
// nothing is kept.
func TestRevealBound(t *testing.T) {
	var s revealSet
	for i := range maxRevealed {
		s.add(1, numbered(i))
	}
	s.add(1, numbered(0))
	if s.has(1, numbered(maxRevealed)) || len(s.gen[0].ids) != maxRevealed {
		t.Error("at the bound")
	}
	s.add(1, numbered(maxRevealed))
	if !s.has(1, numbered(maxRevealed+5)) || s.gen[0].ids != nil {
		t.Error("past the bound")
	}
}

func TestKnownSetBound(t *testing.T) {
	var k knownSet
	for i := range 5 * maxKnown {
		k.add(numbered(i))
		if !k.has(numbered(i)) || i > 0 && !k.has(numbered(i-1)) {
			t.Fatal("forgets at once")
		}
	}
	if k.has(numbered(0)) || len(k.gens[0])+len(k.gens[1]) > 2*maxKnown {
		t.Error("never forgets")
	}
}
