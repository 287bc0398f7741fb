package eventgraph

import (
	"errors"
	"fmt"
	"sync"

	"hearsay/internal/kv"
	"hearsay/internal/serial"
)

// static is the shape of the static graph in memory: at most MaxStaticEvents entries.
// With RLN off, upstream stores what anybody sends there, for ever and unread; here
// it is kept for compatibility and bounded (decision 0022).
type static struct {
	inserting sync.Mutex // one insert at a time keeps the bound exact; before mu

	mu      sync.RWMutex
	genesis ID
	layers  map[ID]uint64
	tips    map[ID]struct{} // ids that no static event refers to
	bytes   int
}

func (s *static) counts() (events, bytes int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.layers) - 1, s.bytes
}

// add records a stored event. It may come before its parents: the scan at open is in
// id order.
func (s *static) add(id ID, e *Event, referenced map[ID]bool) {
	s.layers[id] = e.Layer
	s.bytes += e.Size()
	for _, p := range e.Parents {
		delete(s.tips, p)
		if referenced != nil {
			referenced[p] = true
		}
	}
	if !referenced[id] {
		s.tips[id] = struct{}{}
	}
}

func (g *Graph) loadStatic() error {
	s := &g.static
	genesis := g.cfg.GenesisOf(g.cfg.Genesis)
	s.genesis = genesis.ID()
	s.layers = map[ID]uint64{s.genesis: 0}
	s.tips = map[ID]struct{}{s.genesis: {}}
	referenced := map[ID]bool{}
	return g.store.View(func(r kv.Reader) error {
		return r.Scan(kv.Scan{Prefix: []byte{keyStatic}}, func(k, v []byte) error {
			e, err := decodeEvent(v, maxMaxContent)
			if err != nil {
				return corrupt("static event: %v", err)
			}
			id := e.ID()
			if string(k[1:]) != string(id[:]) || HashContent(e.Content) != e.ContentHash {
				return corrupt("static event %v does not match its key or content", id)
			}
			s.add(id, &e, referenced)
			return nil
		})
	})
}

// decodeEvent reads one event that fills b.
func decodeEvent(b []byte, limit int) (Event, error) {
	r := serial.NewReader(b)
	e := ReadEvent(r, limit)
	return e, r.Done()
}

// StaticTips is the tips of the static graph, whose genesis is that of the very first
// slot.
func (g *Graph) StaticTips() Tips {
	g.static.mu.RLock()
	defer g.static.mu.RUnlock()
	t := Tips{}
	for id := range g.static.tips {
		l := g.static.layers[id]
		t[l] = append(t[l], id)
	}
	t.sort()
	return t
}

// HasStatic tells whether the event is in the static graph, its genesis included.
func (g *Graph) HasStatic(id ID) bool {
	g.static.mu.RLock()
	defer g.static.mu.RUnlock()
	_, ok := g.static.layers[id]
	return ok
}

// StaticInsert stores an event of the static graph after the static check (facts
// page, section 4.3: no rule on timestamp or layer). It returns false for one that is
// there already. ErrInvalid and ErrNoParent as for Insert; ErrStaticFull at
// MaxStaticEvents or MaxStaticBytes.
func (g *Graph) StaticInsert(e Event) (bool, error) {
	id := e.ID()
	if g.HasStatic(id) {
		return false, nil
	}
	if err := checkShape(&e.Header, &id, &NullID); err != nil {
		return false, &EventError{id, err}
	}
	switch {
	case len(e.Content) == 0:
		return false, &EventError{id, errEmpty}
	case len(e.Content) > g.cfg.MaxContent:
		return false, &EventError{id, fmt.Errorf("%w: content of %d bytes", ErrTooLarge, len(e.Content))}
	case HashContent(e.Content) != e.ContentHash:
		return false, &EventError{id, errContentHash}
	}
	s := &g.static
	s.inserting.Lock()
	defer s.inserting.Unlock()
	if g.HasStatic(id) {
		return false, nil
	}
	for _, p := range e.Parents {
		if !p.IsNull() && !g.HasStatic(p) {
			return false, &EventError{id, ErrNoParent}
		}
	}
	if n, size := s.counts(); n >= MaxStaticEvents || size+e.Size() > MaxStaticBytes {
		return false, ErrStaticFull
	}
	err := g.commit(OpStatic, func(tx kv.Txn, _ *meta) error {
		return tx.Set(staticKey(&id), e.AppendTo(nil))
	}, func(meta) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.add(id, &e, nil)
	})
	return err == nil, err
}

// StaticFind returns an event of the static graph, its genesis included, or
// ErrNotFound.
func (g *Graph) StaticFind(id ID) (Event, error) {
	if !g.HasStatic(id) {
		return Event{}, ErrNotFound
	}
	if id == g.static.genesis {
		return g.cfg.GenesisOf(g.cfg.Genesis), nil
	}
	var e Event
	err := g.store.View(func(r kv.Reader) error {
		b, err := r.Get(staticKey(&id))
		if errors.Is(err, kv.ErrNotFound) {
			return corrupt("static event %v is gone", id)
		}
		if err != nil {
			return err
		}
		if e, err = decodeEvent(b, maxMaxContent); err != nil {
			return corrupt("static event %v: %v", id, err)
		}
		return nil
	})
	return e, err
}
