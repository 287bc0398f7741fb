package eventgraph

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"slices"
)

// An index is the headers of one slot in memory, at about 120 bytes per event: who is
// whose parent, what has a body, the tips, and the time order. It is derived from
// the slot's records alone.
//
// Invariant: entry 0 is the genesis, and parents come before their children, so a
// walk over ancestors or descendants is one sweep over a slice.
//
// It is not safe for concurrent use; slotState guards it.
type index struct {
	ids     []ID
	entries []indexEntry
	table   []uint32 // open addressing; entry number + 1, 0 = free; length a power of two
	seed    maphash.Seed
	tips    map[uint32]struct{} // bodies without a child's body
	bodies  int                 // entries with a body, the genesis included

	byTime []uint32 // entry numbers by (timestamp, id), the first nsorted of them in order
	sorted int

	commit uint64 // number of the last commit that is contained
}

// An indexEntry does not change once it is in the index, but for body.
type indexEntry struct {
	timestamp uint64
	layer     uint64
	parents   [NumParents]uint32 // the ones that are not null, first; then noParent
	places    uint8              // of these in the header: bit i for position i
	body      bool
	content   ID // hash of the content
}

const noParent = ^uint32(0)

// newIndex holds nothing but the genesis, whose id is id.
func newIndex(id ID, genesis *Header, room int) *index {
	x := &index{
		ids:     make([]ID, 0, room+1),
		entries: make([]indexEntry, 0, room+1),
		seed:    maphash.MakeSeed(),
		tips:    map[uint32]struct{}{},
	}
	e := newEntry(genesis)
	for i := range e.parents {
		e.parents[i] = noParent
	}
	x.push(id, e)
	x.setBody(0)
	return x
}

// len is the number of entries, genesis included.
func (x *index) len() int { return len(x.ids) }

// find returns the entry of id.
func (x *index) find(id *ID) (uint32, bool) {
	if len(x.table) == 0 {
		return 0, false
	}
	mask := uint64(len(x.table) - 1)
	for at := maphash.Bytes(x.seed, id[:]) & mask; ; at = (at + 1) & mask {
		n := x.table[at]
		if n == 0 {
			return 0, false
		}
		if x.ids[n-1] == *id {
			return n - 1, true
		}
	}
}

func (x *index) push(id ID, e indexEntry) uint32 {
	n := uint32(len(x.ids))
	x.ids, x.entries, x.byTime = append(x.ids, id), append(x.entries, e), append(x.byTime, n)
	if 4*len(x.ids) > 3*len(x.table) {
		x.rebuildTable(len(x.ids))
	} else {
		x.enter(n)
	}
	return n
}

// rebuildTable makes a table with room for n entries and more.
func (x *index) rebuildTable(n int) {
	size := 16
	for 3*size < 4*n+4 {
		size *= 2
	}
	x.table = make([]uint32, size)
	for i := range x.ids {
		x.enter(uint32(i))
	}
}

func (x *index) enter(n uint32) {
	mask := uint64(len(x.table) - 1)
	at := maphash.Bytes(x.seed, x.ids[n][:]) & mask
	for x.table[at] != 0 {
		at = (at + 1) & mask
	}
	x.table[at] = n + 1
}

// newEntry is the entry of h without its parents' numbers.
func newEntry(h *Header) indexEntry {
	e := indexEntry{timestamp: h.Timestamp, layer: h.Layer, content: h.ContentHash}
	for i := range h.Parents {
		if !h.Parents[i].IsNull() {
			e.places |= 1 << i
		}
	}
	return e
}

// add records a header, and its body if there is one. It returns false if a parent
// is unknown, or known by header only although the event has a body.
func (x *index) add(id ID, h *Header, body bool) bool {
	n, known := x.find(&id)
	if !known {
		e := newEntry(h)
		k := 0
		for i := range h.Parents {
			if h.Parents[i].IsNull() {
				continue
			}
			p, ok := x.find(&h.Parents[i])
			if !ok {
				return false
			}
			e.parents[k] = p
			k++
		}
		for ; k < NumParents; k++ {
			e.parents[k] = noParent
		}
		n = x.push(id, e)
	}
	if !body || x.entries[n].body {
		return true
	}
	for _, p := range x.entries[n].parents {
		if p != noParent && !x.entries[p].body {
			return false
		}
	}
	x.setBody(n)
	return true
}

// setBody is tip maintenance: the body's parents stop being tips, it becomes one.
// (It has no child yet: children's bodies come after their parents'.)
func (x *index) setBody(n uint32) {
	for _, p := range x.entries[n].parents {
		if p == noParent {
			break
		}
		delete(x.tips, p)
	}
	x.entries[n].body = true
	x.tips[n] = struct{}{}
	x.bodies++
}

// missing is the number of entries without a body.
func (x *index) missing() int { return len(x.ids) - x.bodies }

// inOrder compares by (layer, id).
func (x *index) inOrder(a, b uint32) int {
	if c := cmp.Compare(x.entries[a].layer, x.entries[b].layer); c != 0 {
		return c
	}
	return bytes.Compare(x.ids[a][:], x.ids[b][:])
}

// lowest sorts list by (layer, id) and cuts it to limit. It sorts only the layers
// that the result needs.
func (x *index) lowest(list []uint32, limit int) []uint32 {
	if len(list) > limit {
		layers := make([]uint64, len(list))
		for i, n := range list {
			layers[len(list)-1-i] = x.entries[n].layer // lists mostly come in falling order
		}
		slices.Sort(layers)
		top := layers[max(limit, 1)-1]
		list = slices.DeleteFunc(list, func(n uint32) bool { return x.entries[n].layer > top })
	}
	slices.SortFunc(list, x.inOrder)
	return list[:min(limit, len(list))]
}

// beyond lists the entries that are neither in known nor ancestors of one in known.
func (x *index) beyond(known Tips) []uint32 {
	excluded := newBits(len(x.ids))
	for _, ids := range known {
		for i := range ids {
			if n, ok := x.find(&ids[i]); ok {
				excluded.set(n)
			}
		}
	}
	var list []uint32
	for n := uint32(len(x.ids)); n > 0; {
		n--
		if !excluded.has(n) {
			list = append(list, n)
			continue
		}
		for _, p := range x.entries[n].parents {
			if p == noParent {
				break
			}
			excluded.set(p)
		}
	}
	return list
}

// descends tells whether a is an ancestor of d. Work: one step for each entry
// between the two.
func (x *index) descends(d, a uint32) bool {
	if d <= a || x.entries[d].layer <= x.entries[a].layer {
		return false
	}
	reached := newBits(int(d-a) + 1)
	reached.set(d - a)
	for n := d; n > a; n-- {
		// Nothing at or below a's layer leads to a.
		if !reached.has(n-a) || x.entries[n].layer <= x.entries[a].layer {
			continue
		}
		for _, p := range x.entries[n].parents {
			if p == noParent || p < a {
				continue
			}
			if p == a {
				return true
			}
			reached.set(p - a)
		}
	}
	return false
}

// descendants lists the entries with a body that descend from a, parents first.
func (x *index) descendants(a uint32) []uint32 {
	reached := newBits(len(x.ids) - int(a))
	reached.set(0)
	var list []uint32
	for n := a + 1; n < uint32(len(x.ids)); n++ {
		for _, p := range x.entries[n].parents {
			if p == noParent {
				break
			}
			if p >= a && reached.has(p-a) {
				reached.set(n - a)
				if x.entries[n].body {
					list = append(list, n)
				}
				break
			}
		}
	}
	return list
}

func (x *index) cmpTime(a, b uint32) int {
	if c := cmp.Compare(x.entries[a].timestamp, x.entries[b].timestamp); c != 0 {
		return c
	}
	return bytes.Compare(x.ids[a][:], x.ids[b][:])
}

// timeOrder is all entries by (timestamp, id). Entries mostly come in time order, so
// sorting what came since the last call and merging it is cheap.
func (x *index) timeOrder() []uint32 {
	if x.sorted == len(x.byTime) {
		return x.byTime
	}
	fresh := slices.Clone(x.byTime[x.sorted:])
	slices.SortFunc(fresh, x.cmpTime)
	// Merge from the back, in place.
	at := len(x.byTime) - 1
	old := x.sorted - 1
	for i := len(fresh) - 1; i >= 0; at-- {
		if old >= 0 && x.cmpTime(x.byTime[old], fresh[i]) > 0 {
			x.byTime[at] = x.byTime[old]
			old--
		} else {
			x.byTime[at] = fresh[i]
			i--
		}
	}
	x.sorted = len(x.byTime)
	return x.byTime
}

// beyondCursor lists at most max entries strictly after c in time order, or strictly
// before it, walking away from it.
func (x *index) beyondCursor(c Cursor, backward bool, limit int) []uint32 {
	order := x.timeOrder()
	at, found := slices.BinarySearchFunc(order, c, func(n uint32, c Cursor) int {
		if d := cmp.Compare(x.entries[n].timestamp, c.Timestamp); d != 0 {
			return d
		}
		return bytes.Compare(x.ids[n][:], c.ID[:])
	})
	if backward {
		list := slices.Clone(order[max(0, at-limit):at])
		slices.Reverse(list)
		return list
	}
	if found {
		at++
	}
	return slices.Clone(order[at:min(len(order), at+limit)])
}

// tipMap is a copy of the tips.
func (x *index) tipMap() Tips {
	t := Tips{}
	for n := range x.tips {
		l := x.entries[n].layer
		t[l] = append(t[l], x.ids[n])
	}
	t.sort()
	return t
}

type bits []uint64

func newBits(n int) bits         { return make(bits, (n+63)/64) }
func (b bits) set(i uint32)      { b[i/64] |= 1 << (i % 64) }
func (b bits) has(i uint32) bool { return b[i/64]&(1<<(i%64)) != 0 }
