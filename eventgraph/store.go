package eventgraph

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lukechampine.com/blake3"

	"hearsay/internal/kv"
)

// A slotState is one slot in memory. Its index comes and goes; everything else is
// small.
type slotState struct {
	slot      Slot
	genesis   Event
	genesisID ID

	loading sync.Mutex   // held while the index is read from the store; before mu
	dropped atomic.Bool  // being pruned: refuses everything
	used    atomic.Int64 // when the index was last used, ms

	mu      sync.RWMutex
	idx     *index     // nil: not loaded
	backlog *[]backlog // not nil: a load is under way, and commits are noted here too
	count   slotCount  // of commits that took effect
	tips    Tips       // while idx is nil: the tips, if known
}

// A backlog entry is a commit that took effect while the index was being read.
type backlog struct {
	commit uint64
	deltas []delta
	reset  bool
}

// A delta is a change of the index.
type delta struct {
	id     ID
	header *Header
	body   bool
}

func (g *Graph) newState(s Slot) *slotState {
	st := &slotState{slot: s, genesis: g.cfg.GenesisOf(s)}
	st.genesisID = st.genesis.ID()
	return st
}

func (st *slotState) counts() slotCount {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.count
}

// stored tells whether the slot has anything in the store.
func (st *slotState) stored() bool { return st.counts().headers > 0 }

// keptTips is the tips where they are known without an index: nil otherwise.
func (st *slotState) keptTips() Tips {
	st.mu.RLock()
	defer st.mu.RUnlock()
	switch {
	case st.count.bodies == 0:
		return Tips{0: {st.genesisID}}
	case st.idx == nil && st.tips != nil:
		return st.tips.clone()
	}
	return nil
}

func (st *slotState) tipCount() int {
	st.mu.RLock()
	defer st.mu.RUnlock()
	switch {
	case st.idx != nil:
		return len(st.idx.tips)
	case st.tips != nil:
		return st.tips.Count()
	}
	return 1
}

// withIndex runs fn on the slot's index, reading it from the store if necessary. fn
// holds a lock on the slot: it must be brief and must not touch the store. Only an
// exclusive one may change the index (its time order).
func (g *Graph) withIndex(st *slotState, exclusive bool, fn func(*index)) error {
	for {
		if st.useIndex(exclusive, fn) {
			return nil
		}
		if err := g.load(st); err != nil {
			return err
		}
	}
}

func (st *slotState) useIndex(exclusive bool, fn func(*index)) bool {
	if exclusive {
		st.mu.Lock()
		defer st.mu.Unlock()
	} else {
		st.mu.RLock()
		defer st.mu.RUnlock()
	}
	if st.idx == nil {
		return false
	}
	st.used.Store(time.Now().UnixMilli())
	fn(st.idx)
	return true
}

// load makes sure that the slot's index is in memory.
func (g *Graph) load(st *slotState) error {
	st.loading.Lock()
	defer st.loading.Unlock()
	for {
		st.mu.Lock()
		if st.idx != nil {
			st.mu.Unlock()
			return nil
		}
		if st.dropped.Load() {
			st.mu.Unlock()
			return ErrNoSlot
		}
		st.backlog = new([]backlog)
		room := int(st.count.headers)
		st.mu.Unlock()

		x, err := g.readIndex(st, room)

		st.mu.Lock()
		late := *st.backlog
		st.backlog = nil
		if err != nil {
			st.mu.Unlock()
			return err
		}
		if !x.replay(late) {
			st.mu.Unlock()
			continue
		}
		st.idx, st.tips = x, nil
		g.indexed.Add(int64(x.len()))
		st.mu.Unlock()
		st.used.Store(time.Now().UnixMilli())
		g.evict(st)
		return nil
	}
}

// replay applies commits later than the one that the index was read at. It returns
// false if the index must be read again.
func (x *index) replay(late []backlog) bool {
	for _, b := range late {
		if b.commit <= x.commit {
			continue
		}
		if b.reset {
			return false
		}
		for _, d := range b.deltas {
			x.mustAdd(d)
		}
		x.commit = b.commit
	}
	return true
}

// mustAdd adds what a transaction has checked.
func (x *index) mustAdd(d delta) {
	if !x.add(d.id, d.header, d.body) {
		panic("eventgraph: broken invariant: an event was committed before its parent")
	}
}

// readIndex builds the index from the slot's records and checks them.
func (g *Graph) readIndex(st *slotState, room int) (*index, error) {
	b := newIndexBuilder(st.genesisID, &st.genesis.Header, room)
	var m meta
	var count slotCount
	err := g.store.View(func(r kv.Reader) (err error) {
		if m, err = readMeta(r); err != nil {
			return err
		}
		if count, err = readSlotCount(r, st.slot); err != nil {
			return err
		}
		return r.Scan(kv.Scan{Prefix: slotKey(keyEvent, st.slot)}, func(k, v []byte) error {
			id, err := parseEventKey(k)
			if err != nil {
				return err
			}
			rec, err := decodeRecord(v)
			if err != nil {
				return fmt.Errorf("event %v: %w", id, err)
			}
			if ID(blake3.Sum256(v[:HeaderSize])) != id {
				return corrupt("event %v: its header has another id", id)
			}
			b.push(id, &rec.header, rec.hasBody())
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	x, err := b.finish()
	if err != nil {
		return nil, err
	}
	if uint64(x.len()-1) != count.headers || uint64(x.bodies-1) != count.bodies {
		return nil, corrupt("slot %v: %d events and %d bodies, but its counters say %d and %d",
			st.slot, x.len()-1, x.bodies-1, count.headers, count.bodies)
	}
	x.commit = m.commit
	x.timeOrder()
	return x, nil
}

// apply gives a commit its effect on the slot.
func (g *Graph) apply(st *slotState, m meta, count slotCount, deltas []delta, reset bool) {
	st.mu.Lock()
	st.count = count
	st.tips = nil
	if st.backlog != nil {
		*st.backlog = append(*st.backlog, backlog{m.commit, deltas, reset})
	}
	grown := 0
	switch {
	case st.idx == nil || m.commit <= st.idx.commit:
	case reset:
		grown = -st.idx.len()
		st.idx = nil
	default:
		before := st.idx.len()
		for _, d := range deltas {
			st.idx.mustAdd(d)
		}
		st.idx.commit = m.commit
		grown = st.idx.len() - before
	}
	st.mu.Unlock()
	if g.indexed.Add(int64(grown)) > maxIndexed && grown > 0 {
		g.evict(st)
	}
}

// evict drops the least recently used indexes while there are too many entries. keep
// and the current slot stay.
func (g *Graph) evict(keep *slotState) {
	for g.indexed.Load() > maxIndexed {
		var victim *slotState
		cur := g.Current()
		g.mu.Lock()
		for _, st := range g.slots {
			if st != keep && st.slot != cur && st.hasIndex() && (victim == nil || st.used.Load() < victim.used.Load()) {
				victim = st
			}
		}
		g.mu.Unlock()
		if victim == nil {
			return
		}
		g.unload(victim)
	}
}

// dropIdle drops the indexes that nobody has used for a while.
func (g *Graph) dropIdle(now time.Time) {
	cur := g.Current()
	for _, st := range g.retained() {
		if st.slot != cur && st.hasIndex() && now.UnixMilli()-st.used.Load() > indexIdle.Milliseconds() {
			g.unload(st)
		}
	}
}

func (st *slotState) hasIndex() bool {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.idx != nil
}

func (g *Graph) unload(st *slotState) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.idx == nil {
		return
	}
	if len(st.idx.tips) <= maxKeptTips {
		st.tips = st.idx.tipMap()
	}
	g.indexed.Add(-int64(st.idx.len()))
	st.idx = nil
}

func (g *Graph) versionRow() []byte {
	f := g.cfg.fingerprint()
	return append(binary.BigEndian.AppendUint32(nil, Schema), f[:]...)
}

// checkVersion tells whether the store is new, or fails if it is not ours.
func (g *Graph) checkVersion(r kv.Reader) (fresh bool, err error) {
	b, err := r.Get(versionKey)
	switch {
	case errors.Is(err, kv.ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	case len(b) != 36:
		return false, corrupt("version row of %d bytes", len(b))
	}
	if v := binary.BigEndian.Uint32(b); v != Schema {
		return false, fmt.Errorf("%w: event graph schema %d, this program knows %d", kv.ErrSchema, v, Schema)
	}
	if string(b) != string(g.versionRow()) {
		return false, fmt.Errorf("%w: the store belongs to a network with another genesis or rotation", ErrConfig)
	}
	return false, nil
}

func readSlotCount(r kv.Reader, s Slot) (slotCount, error) {
	b, err := r.Get(slotKey(keySlot, s))
	if errors.Is(err, kv.ErrNotFound) {
		return slotCount{}, nil
	}
	if err != nil {
		return slotCount{}, err
	}
	return decodeSlotCount(b)
}

// readRecord returns an event's record; ok is false where there is none.
func readRecord(r kv.Reader, s Slot, id *ID) (rec record, ok bool, err error) {
	var key [1 + 8 + 32]byte
	b, err := r.Get(appendEventKey(key[:0], keyEvent, s, id))
	if errors.Is(err, kv.ErrNotFound) {
		return record{}, false, nil
	}
	if err != nil {
		return record{}, false, err
	}
	rec, err = decodeRecord(b)
	return rec, err == nil, err
}

// readEvent returns an event with its body; ok is false where it is not stored.
func readEvent(r kv.Reader, s Slot, id *ID) (e Event, rec record, ok bool, err error) {
	rec, ok, err = readRecord(r, s, id)
	if err != nil || !ok || !rec.hasBody() {
		return Event{}, rec, false, err
	}
	content := rec.content
	if content == nil {
		content, err = r.Get(appendEventKey(nil, keyContent, s, id))
		if errors.Is(err, kv.ErrNotFound) {
			return Event{}, rec, false, corrupt("event %v: no content", id)
		}
		if err != nil {
			return Event{}, rec, false, err
		}
	}
	if HashContent(content) != rec.header.ContentHash {
		return Event{}, rec, false, corrupt("event %v: content does not match its hash", id)
	}
	return Event{rec.header, content}, rec, true, nil
}

func parseSlotKey(k []byte) (Slot, error) {
	if len(k) != 9 {
		return 0, corrupt("slot key of %d bytes", len(k))
	}
	return Slot(binary.BigEndian.Uint64(k[1:])), nil
}

func parseEventKey(k []byte) (id ID, err error) {
	if len(k) != 41 {
		return id, corrupt("event key of %d bytes", len(k))
	}
	copy(id[:], k[9:])
	return id, nil
}
