package outbound

import "hearsay/eventgraph"

// tracked decides what counts as evidence for the head (DS-51 to DS-53, DS-65). It
// looks ids up at the call and remembers two bits, so no number of statuses takes
// more memory and none is lost. It is pure; the worker guards it with a mutex.
type tracked struct {
	tips   bool // tips of peers without the feature count (DS-65)
	pos    Position
	gens   map[eventgraph.ID]bool // the head's generations
	active eventgraph.ID

	puts  map[putKey]bool // which generation was put on which connection
	order []putKey        // the same, oldest first
	local map[eventgraph.ID]bool

	acked  eventgraph.ID // a generation with evidence; null: none yet
	tooOld eventgraph.ID // the active generation, if a peer says so
}

type putKey struct {
	id   eventgraph.ID
	conn ConnID
}

// follow makes the record at pos with these generations the tracked one. What is
// known of the same record is kept, so that evidence outlives a failed commit.
func (t *tracked) follow(pos Position, gens []eventgraph.ID, active eventgraph.ID) {
	if pos != t.pos || t.gens == nil {
		*t = tracked{
			tips: t.tips, pos: pos,
			gens: map[eventgraph.ID]bool{}, puts: map[putKey]bool{}, local: map[eventgraph.ID]bool{},
		}
	}
	for _, id := range gens {
		t.gens[id] = true
	}
	if t.active = active; t.tooOld != active {
		t.tooOld = eventgraph.NullID // of a superseded one: stale
	}
}

// put notes that a generation goes out on conn.
func (t *tracked) put(id eventgraph.ID, conn ConnID) {
	k := putKey{id, conn}
	if !t.gens[id] || t.puts[k] {
		return
	}
	if len(t.order) >= maxPuts {
		delete(t.puts, t.order[0])
		t.order = t.order[1:]
	}
	t.puts[k] = true
	t.order = append(t.order, k)
}

// status takes what a peer said of a put, and tells whether the worker has to look.
// Only Has and TooOld mean anything (DS-63), and only on a connection on which that
// generation was put.
func (t *tracked) status(s eventgraph.Status, conn ConnID) bool {
	if !t.puts[putKey{s.ID, conn}] {
		return false
	}
	switch {
	case s.Result.Has():
		return t.ack(s.ID)
	case s.Result == eventgraph.NackTooOld && s.ID == t.active && s.ID != t.tooOld:
		t.tooOld = s.ID
		return true
	}
	return false
}

// tip takes an id from the tips of a peer that cannot answer puts.
func (t *tracked) tip(id eventgraph.ID) bool { return t.tips && t.gens[id] && t.ack(id) }

// arrival takes an event that the graph has stored. A foreign one that rests on a
// generation is evidence; a local one only passes the line on (DS-53).
func (t *tracked) arrival(id eventgraph.ID, parents []eventgraph.ID, src eventgraph.Source) bool {
	if len(t.gens) == 0 || t.gens[id] {
		return false
	}
	for _, p := range parents {
		if !t.gens[p] && !t.local[p] {
			continue
		}
		if src.Foreign() {
			return t.ack(t.origin(p))
		}
		if len(t.local) < maxLocal {
			t.local[id] = true
		}
		return false
	}
	return false
}

// origin is a generation that the tracked event p rests on. Any will do: evidence for
// one is evidence for the record.
func (t *tracked) origin(p eventgraph.ID) eventgraph.ID {
	if t.gens[p] {
		return p
	}
	return t.active
}

// ack tells whether id is the first evidence: there is nothing to do for more of it.
func (t *tracked) ack(id eventgraph.ID) bool {
	first := t.acked == eventgraph.NullID
	t.acked = id
	return first
}
