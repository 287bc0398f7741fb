package eventgraph

import (
	"slices"
)

// An indexBuilder makes an index of events that come in no order. It works within the
// arrays of the result, since a slot may be large and memory that a start-up uses once
// stays with the process for long.
type indexBuilder struct {
	x *index
	// parents of all entries, one after another, in blocks of parentBlock; until finish
	// an entry's parents hold where its own are and how many.
	parents [][]ID
}

const parentBlock = 1 << 12

func newIndexBuilder(id ID, genesis *Header, room int) *indexBuilder {
	return &indexBuilder{x: newIndex(id, genesis, room)}
}

// push adds an event.
func (b *indexBuilder) push(id ID, h *Header, body bool) {
	e := newEntry(h)
	e.body = body
	for _, p := range h.Parents {
		if p.IsNull() {
			continue
		}
		last := len(b.parents) - 1
		if last < 0 || len(b.parents[last]) == parentBlock {
			b.parents = append(b.parents, make([]ID, 0, parentBlock))
			last++
		}
		if e.parents[1] == 0 {
			e.parents[0] = uint32(last*parentBlock + len(b.parents[last]))
		}
		b.parents[last] = append(b.parents[last], p)
		e.parents[1]++
	}
	b.x.ids, b.x.entries = append(b.x.ids, id), append(b.x.entries, e)
}

// finish puts the events in order and links them. The error is ErrCorrupt: an event
// without its parents, or a body without theirs.
func (b *indexBuilder) finish() (*index, error) {
	x := b.x
	order := make([]uint32, len(x.ids))
	for i := range order {
		order[i] = uint32(i)
	}
	// The genesis is in place; a stored record on layer 0 must not come before it.
	slices.SortFunc(order[1:], x.inOrder)
	x.permute(order)
	x.byTime = order
	for i := range order {
		order[i] = uint32(i)
	}
	x.sorted = 0
	x.rebuildTable(len(x.ids))
	for n := uint32(1); int(n) < len(x.ids); n++ {
		e := &x.entries[n]
		at, count := e.parents[0], int(e.parents[1])
		for k := range e.parents {
			e.parents[k] = noParent
			if k >= count {
				continue
			}
			id := &b.parents[(int(at)+k)/parentBlock][(int(at)+k)%parentBlock]
			p, ok := x.find(id)
			if !ok || p >= n || e.body && !x.entries[p].body {
				return nil, corrupt("event %v: stored without its parents", x.ids[n])
			}
			e.parents[k] = p
		}
		if count == 0 {
			return nil, corrupt("event %v: stored without a parent", x.ids[n])
		}
		if e.body {
			x.setBody(n)
		}
	}
	return x, nil
}

// permute moves entry order[i] to i, and makes order the identity.
func (x *index) permute(order []uint32) {
	for i := range order {
		id, e := x.ids[i], x.entries[i]
		for k := i; ; {
			next := int(order[k])
			order[k] = uint32(k)
			if next == i {
				x.ids[k], x.entries[k] = id, e
				break
			}
			x.ids[k], x.entries[k] = x.ids[next], x.entries[next]
			k = next
		}
	}
}
