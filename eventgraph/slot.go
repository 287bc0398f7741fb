package eventgraph

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"time"

	"lukechampine.com/blake3"
)

// A Slot is one rotating graph, named by its genesis timestamp in ms.
type Slot uint64

// String is the slot's name on the wire: decimal.
func (s Slot) String() string { return strconv.FormatUint(uint64(s), 10) }

// Time is the slot's start.
func (s Slot) Time() time.Time { return time.UnixMilli(int64(min(uint64(s), math.MaxInt64))) }

func (p *Params) period() uint64 { return uint64(p.Rotation / time.Millisecond) }
func (p *Params) drift() uint64  { return uint64(p.Drift / time.Millisecond) }

// millis is t in ms since the epoch, 0 before it.
func millis(t time.Time) uint64 { return uint64(max(t.UnixMilli(), 0)) }

// SlotAt is the slot that t lies in: the very first one for any time before it.
func (p Params) SlotAt(t time.Time) Slot {
	now, first, period := millis(t), uint64(p.Genesis), p.period()
	if period == 0 || now < first {
		return p.Genesis
	}
	return Slot(now - (now-first)%period)
}

// Next is the start of the first slot that begins strictly after t. ok is false
// where slots do not rotate.
func (p Params) Next(t time.Time) (next Slot, ok bool) {
	switch {
	case p.Rotation == 0:
		return 0, false
	case millis(t) < uint64(p.Genesis):
		return p.Genesis, true
	}
	return p.SlotAt(t) + Slot(p.period()), true
}

// End is the first ms after the slot; the largest Slot where slots do not rotate.
func (p Params) End(s Slot) Slot {
	if p.Rotation == 0 || uint64(s) > math.MaxUint64-p.period() {
		return math.MaxUint64
	}
	return s + Slot(p.period())
}

// GenesisOf is the genesis of a slot, which every node computes for itself.
func (p Params) GenesisOf(s Slot) Event {
	return Event{
		Header:  Header{Timestamp: uint64(s), ContentHash: HashContent(p.Contents)},
		Content: slices.Clone(p.Contents),
	}
}

// aligned tells whether s is the start of a slot.
func (p *Params) aligned(s Slot) bool {
	if p.Rotation == 0 {
		return s == p.Genesis
	}
	return s >= p.Genesis && uint64(s-p.Genesis)%p.period() == 0
}

// fits is the rule on timestamps of facts page section 4.1: the lower bound is
// inclusive, the upper one exclusive where slots rotate and inclusive where they
// do not. Overflow of the upper bound is a misfit.
func (p *Params) fits(s Slot, ts uint64, now time.Time) bool {
	lower := uint64(s) - min(uint64(s), p.drift())
	if p.Rotation == 0 {
		return ts >= lower && ts <= millis(now)+p.drift()
	}
	span := p.period() + p.drift()
	return uint64(s) <= math.MaxUint64-span && ts >= lower && ts < uint64(s)+span
}

// fingerprint tells networks apart: a store belongs to one of them for ever.
func (p *Params) fingerprint() [32]byte {
	b := []byte("hearsay eventgraph params")
	b = binary.BigEndian.AppendUint64(b, uint64(p.Genesis))
	b = binary.BigEndian.AppendUint64(b, p.period())
	return blake3.Sum256(append(b, p.Contents...))
}

// Params returns the network's parameters.
func (g *Graph) Params() Params { return g.cfg.Params }

// Current is the slot of the wall clock, at this very moment.
func (g *Graph) Current() Slot { return g.cfg.SlotAt(g.cfg.Now()) }

// oldest is the first slot of the window at time now.
func (g *Graph) oldest(now time.Time) Slot {
	cur := g.cfg.SlotAt(now)
	back := uint64(g.cfg.Window-1) * g.cfg.period()
	if uint64(cur-g.cfg.Genesis) < back {
		return g.cfg.Genesis
	}
	return cur - Slot(back)
}

// Slots lists the retained slots up to the current one, oldest first. Slots of the
// window in which nothing has happened yet are listed as well.
func (g *Graph) Slots() []Slot {
	now := g.cfg.Now()
	cur, oldest := g.cfg.SlotAt(now), g.oldest(now)
	var list []Slot
	if g.cfg.Archive {
		g.mu.Lock()
		for s, st := range g.slots {
			if s < oldest && st.stored() {
				list = append(list, s)
			}
		}
		g.mu.Unlock()
		slices.Sort(list)
	}
	if g.cfg.Rotation == 0 {
		return append(list, cur)
	}
	for s := oldest; ; s += Slot(g.cfg.period()) {
		list = append(list, s)
		if s == cur {
			return list
		}
	}
}

// state returns the state of a retained slot, making it if it is of the window.
// Beyond the current slot, those are retained that hold events (the clock was set
// back) and the one that begins within the drift (another clock is ahead).
func (g *Graph) state(s Slot) (*slotState, error) {
	if !g.cfg.aligned(s) {
		return nil, ErrNoSlot
	}
	now := g.cfg.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	st := g.slots[s]
	if st != nil && st.dropped.Load() {
		return nil, ErrNoSlot
	}
	inWindow := s >= g.oldest(now) && uint64(s) <= max(millis(now)+g.cfg.drift(), uint64(g.cfg.SlotAt(now)))
	if !inWindow && (st == nil || !st.stored() || s < g.oldest(now) && !g.cfg.Archive) {
		return nil, ErrNoSlot
	}
	if st == nil {
		st = g.newState(s)
		g.slots[s] = st
	}
	return st, nil
}

// retained lists the states of all retained slots, newest first, those of the window
// in which nothing has happened included.
func (g *Graph) retained() []*slotState {
	now := g.cfg.Now()
	oldest, cur := g.oldest(now), g.cfg.SlotAt(now)
	g.mu.Lock()
	defer g.mu.Unlock()
	for s := oldest; s <= cur; s += Slot(g.cfg.period()) {
		if g.slots[s] == nil {
			g.slots[s] = g.newState(s)
		}
		if g.cfg.Rotation == 0 {
			break
		}
	}
	list := make([]*slotState, 0, len(g.slots))
	for s, st := range g.slots {
		if !st.dropped.Load() && (s >= oldest || g.cfg.Archive) {
			list = append(list, st)
		}
	}
	slices.SortFunc(list, func(a, b *slotState) int {
		if a.slot > b.slot {
			return -1
		}
		return 1
	})
	return list
}
