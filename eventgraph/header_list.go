package eventgraph

import "slices"

// A HeaderList is headers of one slot as they were when the list was made. It takes four
// bytes for each: headers are put together when they are asked for, out of the slot's
// index, which the list keeps alive. So a long list may wait for a peer that reads slowly.
// It may be used concurrently.
type HeaderList struct {
	// Both as they were: entries are only added behind them, and what is read of one
	// does not change.
	ids     []ID
	entries []indexEntry
	numbers []uint32
}

// list makes a HeaderList of the lowest of all, at most limit.
func (x *index) list(all []uint32, limit int) HeaderList {
	return HeaderList{x.ids, x.entries, slices.Clone(x.lowest(all, limit))}
}

// Len is the number of headers.
func (l HeaderList) Len() int { return len(l.numbers) }

// ID is the id of the i-th header.
func (l HeaderList) ID(i int) ID { return l.ids[l.numbers[i]] }

// Header is the i-th header.
func (l HeaderList) Header(i int) Header {
	e := &l.entries[l.numbers[i]]
	h := Header{Timestamp: e.timestamp, Layer: e.layer, ContentHash: e.content}
	k := 0
	for i := range h.Parents {
		if e.places&(1<<i) != 0 {
			h.Parents[i] = l.ids[e.parents[k]]
			k++
		}
	}
	return h
}

// All is all headers.
func (l HeaderList) All() []Header {
	all := make([]Header, l.Len())
	for i := range all {
		all[i] = l.Header(i)
	}
	return all
}
