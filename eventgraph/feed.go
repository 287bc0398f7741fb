package eventgraph

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"hearsay/internal/kv"
)

// Seq is a position in the durable arrival order of this store, dense from 1. Where
// slots were pruned their numbers are gone for ever.
type Seq uint64

// An Arrival is an event with the place and the manner of its coming here.
type Arrival struct {
	Seq    Seq
	Slot   Slot
	Source Source
	Time   time.Time // wall clock at commit, in ms
	Event  Event
}

// feed wakes subscribers. The channels carry hints only: a subscriber reads the
// store from its own cursor, so a full channel may drop.
type feed struct {
	mu    sync.Mutex
	hints map[chan struct{}]struct{}
}

func (f *feed) init() { f.hints = map[chan struct{}]struct{}{} }

func (f *feed) join() chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := make(chan struct{}, 1)
	f.hints[ch] = struct{}{}
	return ch
}

func (f *feed) leave(ch chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.hints, ch)
}

func (f *feed) notify() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ch := range f.hints {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Last is the newest arrival that is durable, 0 if there was none.
func (g *Graph) Last() Seq { return Seq(g.turns.arrival.Load()) }

// Subscribe yields arrivals after from, in order: first the stored ones, then each
// new one as it commits, until ctx ends (which is no error) or the graph is closed or
// fails (which is one). The cursor is durable: a subscriber that kept the last Seq it
// handled loses nothing over a restart, as long as the slot is retained. A slow
// subscriber blocks nobody and grows nothing.
func (g *Graph) Subscribe(ctx context.Context, from Seq) iter.Seq2[Arrival, error] {
	return func(yield func(Arrival, error) bool) {
		hint := g.feed.join()
		defer g.feed.leave(hint)
		for ctx.Err() == nil {
			if err := g.turns.cause(); err != nil {
				yield(Arrival{}, err)
				return
			}
			page, last, err := g.arrivals(from)
			if err != nil {
				yield(Arrival{}, err)
				return
			}
			for _, a := range page {
				if ctx.Err() != nil || !yield(a, nil) {
					return
				}
			}
			if last != from {
				from = last
				continue
			}
			select {
			case <-ctx.Done():
			case <-hint:
			case <-g.turns.dead:
			}
		}
	}
}

// arrivals reads the next durable arrivals after from, and the position reached.
func (g *Graph) arrivals(from Seq) (page []Arrival, last Seq, err error) {
	upto := g.Last()
	last = from
	if from >= upto {
		return nil, from, nil
	}
	err = g.store.View(func(r kv.Reader) error {
		type row struct {
			seq Seq
			arrivalRow
		}
		var rows []row
		err := r.Scan(kv.Scan{Prefix: []byte{keyArrival}, Start: arrivalKey(from + 1)}, func(k, v []byte) error {
			q, err := parseSlotKey(k) // the same shape
			if err != nil {
				return err
			}
			if Seq(q) > upto || len(rows) == feedPage {
				return kv.ErrStop
			}
			a, err := decodeArrival(v)
			rows = append(rows, row{Seq(q), a})
			return err
		})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			last = upto // the rest was pruned
		}
		size := 0
		for _, a := range rows {
			if size > feedPageBytes {
				return nil
			}
			e, _, ok, err := readEvent(r, a.slot, &a.id)
			if err != nil {
				return err
			}
			if last = a.seq; ok { // else its slot is being pruned
				page = append(page, Arrival{a.seq, a.slot, a.source, a.wall(), e})
				size += e.Size()
			}
		}
		return nil
	})
	return page, last, err
}

// readArrival returns the arrival row of a stored event.
func readArrival(r kv.Reader, q Seq) (arrivalRow, error) {
	b, err := r.Get(arrivalKey(q))
	if errors.Is(err, kv.ErrNotFound) {
		return arrivalRow{}, corrupt("no arrival %d", q)
	}
	if err != nil {
		return arrivalRow{}, err
	}
	return decodeArrival(b)
}

// OnCommit registers fn, which is called for each arrival, in order, once it is
// durable and before its Insert returns. It may read the graph; it must not block and
// must not write. Register before use.
func (g *Graph) OnCommit(fn func(Arrival)) { g.onCommit = append(g.onCommit, fn) }
