package gossip

import (
	"slices"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// A plan says which slot is compared with which peer next, and whether this node
// is synced. It is pure: inputs with the time they happened at, answers, no I/O.
//
// Each peer is compared with on its own, slot by slot: its tips are asked for, and
// where they show something that is not here, its headers and bodies. So no peer
// and no slot can hold up another (facts page, traps 16 and 19 to 22):
//
//	        tips all here ┌─────────► matched ──(interval)──┐
//	due ──► asked ────────┤                                 ├──► due
//	          │           └► pulling ─► matched | failed ───┤
//	          └─ no answer ─► silent ───────────────────────┘
//
// A pulling peer that finds another one pulling the same slot waits (deferred) until
// that one is done or makes no progress any more; most often its tips are here then.
type plan struct {
	params   eventgraph.Params
	timeout  time.Duration // of one request
	interval time.Duration // between comparisons of the current slot with a peer
	skip     bool          // synced from the start, whatever happens

	current eventgraph.Slot
	history []eventgraph.Slot // older slots to compare, newest first
	peers   map[p2p.ConnID]*planPeer
	slots   map[eventgraph.Slot]*planSlot
	ups     int // peers ever seen: spreads them over the history

	synced  bool
	since   time.Time // unsynced, with a peer at least, since then; zero otherwise
	matched time.Time // the first match of the current slot while unsynced
}

// A planSlot is what is known of a slot whatever the peer.
type planSlot struct {
	synced bool // compared with a peer and nothing missing, or lived through
	lead   bool // somebody pulls it
	leader p2p.ConnID
	moved  time.Time // when the leader last made progress
}

// A planPeer is one connection that may be asked.
type planPeer struct {
	offset  int
	foreign bool // of another network: never asked again
	pairs   map[eventgraph.Slot]*pair
}

// A pair is a slot as compared with a peer.
type pair struct {
	verdict verdict
	asking  bool      // a comparison is under way
	started time.Time // of pulling
	due     time.Time
}

// A verdict is how a comparison ended.
type verdict uint8

const (
	verdictNone     verdict = iota // never compared
	verdictMatched                 // everything behind its tips is here
	verdictSilent                  // it did not answer
	verdictFailed                  // it could not make good its tips, or its headers are invalid
	verdictForeign                 // it is of another network
	verdictPulling                 // it has something that we are fetching
	verdictDeferred                // it has something; another peer is being asked for it
	verdictLater                   // it has something, but the slot turns just now
)

// Pacing of comparisons, in multiples of the settings.
const (
	hedgeAfter     = 3 * time.Second // without progress of the leader a second peer is asked
	gateGrace      = 2 * time.Second // for peers that have not answered while another one matches
	silentTimeouts = 3               // that many timeouts without any answer: nobody knows more
	historyEvery   = 10              // closed slots are compared again after that many intervals
	recentFor      = 5               // intervals for which a closed slot is still compared
)

func newPlan(params eventgraph.Params, timeout, interval time.Duration, skip bool) *plan {
	return &plan{
		params: params, timeout: timeout, interval: interval, skip: skip, synced: skip,
		peers: make(map[p2p.ConnID]*planPeer), slots: make(map[eventgraph.Slot]*planSlot),
	}
}

// rotate tells the plan the slots of the clock: the current one, and older ones that
// are wanted, newest first. A step to the next slot keeps what is synced; a jump of
// the clock (suspend) closes the gate until a peer was asked.
func (p *plan) rotate(now time.Time, current eventgraph.Slot, history []eventgraph.Slot) {
	p.history = slices.Clone(history)
	for _, s := range history {
		p.slot(s)
	}
	if current == p.current && p.slots[current] != nil {
		p.prune()
		return
	}
	stepped := p.current != 0 && p.params.End(p.current) == current
	started := p.current != 0
	p.current = current
	s := p.slot(current)
	switch {
	case stepped && p.synced:
		s.synced = true // lived through from its first moment
	case started && !p.skip:
		p.synced = false
		p.matched, p.since = time.Time{}, time.Time{}
		if len(p.peers) > 0 {
			p.since = now
		}
	}
	for _, peer := range p.peers {
		if pr := peer.pair(current); stepped && p.synced {
			pr.due = now.Add(p.interval / 4) // tips are worth little in the first seconds
		} else {
			pr.due = now
		}
		if stepped && len(history) > 0 {
			// What arrived late at the turn is found by one more look.
			peer.pair(history[0]).due = now.Add(p.params.Drift/2 + p.interval/4)
		}
	}
	p.prune()
}

func (p *plan) prune() {
	keep := func(s eventgraph.Slot) bool { return s == p.current || slices.Contains(p.history, s) }
	for s := range p.slots {
		if !keep(s) {
			delete(p.slots, s)
		}
	}
	for _, peer := range p.peers {
		for s := range peer.pairs {
			if !keep(s) {
				delete(peer.pairs, s)
			}
		}
	}
}

func (p *plan) slot(s eventgraph.Slot) *planSlot {
	if p.slots[s] == nil {
		p.slots[s] = &planSlot{}
	}
	return p.slots[s]
}

func (pp *planPeer) pair(s eventgraph.Slot) *pair {
	if pp.pairs[s] == nil {
		pp.pairs[s] = &pair{}
	}
	return pp.pairs[s]
}

// up adds a peer that may be asked.
func (p *plan) up(now time.Time, id p2p.ConnID) {
	p.peers[id] = &planPeer{offset: p.ups, pairs: make(map[eventgraph.Slot]*pair)}
	p.ups++
	if !p.synced && p.since.IsZero() {
		p.since = now
	}
}

// down removes a peer. Without a peer nobody is synced.
func (p *plan) down(id p2p.ConnID) {
	if p.peers[id] == nil {
		return
	}
	delete(p.peers, id)
	for s, ps := range p.slots {
		if ps.lead && ps.leader == id {
			p.release(s)
		}
	}
	if len(p.peers) == 0 && !p.skip {
		p.synced = false
		p.since, p.matched = time.Time{}, time.Time{}
		// What the others said is forgotten with them: slots are compared again.
		for _, ps := range p.slots {
			ps.synced = false
		}
	}
}

// next is the slot to compare with a peer now, or how long there is none; wait is 0
// where only another input can change that.
func (p *plan) next(now time.Time, id p2p.ConnID) (slot eventgraph.Slot, wait time.Duration, ok bool) {
	peer := p.peers[id]
	if peer == nil || peer.foreign {
		return 0, 0, false
	}
	consider := func(s eventgraph.Slot) bool {
		pr := peer.pair(s)
		d := pr.due.Sub(now)
		if pr.asking {
			return false
		}
		if d <= 0 {
			slot, ok = s, true
			return true
		}
		if wait == 0 || d < wait {
			wait = d
		}
		return false
	}
	if consider(p.current) {
		return slot, 0, true
	}
	if n := len(p.history); n > 0 {
		if consider(p.history[0]) {
			return slot, 0, true
		}
		// Peers start at different slots, so that they are fetched side by side.
		for i := range n {
			if consider(p.history[(i+peer.offset)%n]) {
				return slot, 0, true
			}
		}
	}
	return 0, wait, false
}

// asking notes that the tips of slot are being asked for.
func (p *plan) asking(id p2p.ConnID, slot eventgraph.Slot) {
	if peer := p.peers[id]; peer != nil {
		peer.pair(slot).asking = true
	}
}

// pull notes that a peer's tips show something new, and says whether it may be
// fetched from this peer now. If not, the comparison is deferred.
func (p *plan) pull(now time.Time, id p2p.ConnID, slot eventgraph.Slot) bool {
	peer := p.peers[id]
	if peer == nil || p.slots[slot] == nil {
		return false
	}
	pr, ps := peer.pair(slot), p.slots[slot]
	if pr.started.IsZero() {
		pr.started = now
	}
	if ps.lead && ps.leader != id && now.Sub(ps.moved) < hedgeAfter {
		pr.verdict, pr.asking = verdictDeferred, false
		pr.due = ps.moved.Add(hedgeAfter)
		return false
	}
	ps.lead, ps.leader, ps.moved = true, id, now
	pr.verdict = verdictPulling
	return true
}

// progress notes that the fetch of slot from a peer made progress.
func (p *plan) progress(now time.Time, id p2p.ConnID, slot eventgraph.Slot) {
	if ps := p.slots[slot]; ps != nil && ps.lead && ps.leader == id {
		ps.moved = now
	}
}

// release lets the peers that wait for the slot try again.
func (p *plan) release(slot eventgraph.Slot) {
	p.slots[slot].lead = false
	for _, peer := range p.peers {
		if pr := peer.pairs[slot]; pr != nil && pr.verdict == verdictDeferred {
			pr.due = time.Time{}
		}
	}
}

// done notes how a comparison ended.
func (p *plan) done(now time.Time, id p2p.ConnID, slot eventgraph.Slot, v verdict) {
	peer := p.peers[id]
	if peer == nil {
		return
	}
	ps := p.slots[slot]
	if ps != nil && ps.lead && ps.leader == id {
		p.release(slot)
	}
	if ps == nil {
		return // the slot left the window meanwhile
	}
	pr := peer.pair(slot)
	pr.verdict, pr.asking = v, false
	if v != verdictLater {
		pr.started = time.Time{}
	}
	pr.due = p.due(now, slot)
	switch v {
	case verdictForeign:
		peer.foreign = true
	case verdictMatched:
		ps.synced = true
		if slot == p.current && !p.synced && p.matched.IsZero() {
			p.matched = now
		}
	case verdictSilent:
		// A peer without this slot has no older one either, and one that is not synced
		// has none at all: ask for those later too.
		for _, s := range p.history {
			if older := peer.pair(s); s < slot && !older.asking && older.verdict == verdictNone {
				older.due = pr.due
			}
		}
	default:
	}
}

func (p *plan) due(now time.Time, slot eventgraph.Slot) time.Time {
	recent := p.params.Rotation > 0 && now.Sub(p.params.End(slot).Time()) < recentFor*p.interval
	if slot == p.current || recent {
		return now.Add(p.interval)
	}
	// Also where everything matched: nothing is pushed into a closed slot, but the peer
	// may learn more of it from another one (a partition that heals, a node that comes
	// back), and only asking tells.
	return now.Add(historyEvery * p.interval)
}

// kick makes the comparison of slot with a peer due soon: there is a hole.
func (p *plan) kick(now time.Time, id p2p.ConnID, slot eventgraph.Slot) {
	peer := p.peers[id]
	if peer == nil || p.slots[slot] == nil && slot != p.current {
		return
	}
	if pr := peer.pair(slot); pr.due.After(now.Add(kickDelay)) {
		pr.due = now.Add(kickDelay)
	}
}

// kickDelay gathers the holes of a burst into one comparison.
const kickDelay = time.Second

// gate updates and returns whether this node is synced, and when to look again if
// no input comes before (0: no need).
func (p *plan) gate(now time.Time) (synced bool, wait time.Duration) {
	if p.synced || p.since.IsZero() {
		return p.synced, 0
	}
	var matched, pulling, pending int
	for _, peer := range p.peers {
		pr := peer.pair(p.current)
		switch {
		case peer.foreign:
		case pr.verdict == verdictMatched:
			matched++
		case pr.verdict == verdictPulling, pr.verdict == verdictDeferred, pr.verdict == verdictLater:
			// A peer that drips does not hold the gate once another one matches.
			if d := pr.started.Add(silentTimeouts * p.timeout).Sub(now); d > 0 || p.matched.IsZero() {
				pulling++
				wait = sooner(wait, d)
			}
		case pr.verdict == verdictNone:
			pending++
		}
	}
	last := p.since.Add(silentTimeouts * p.timeout).Sub(now)
	switch {
	case pulling > 0:
		return false, wait
	case matched > 0:
		if d := p.matched.Add(gateGrace).Sub(now); pending > 0 && d > 0 {
			return false, sooner(wait, d)
		}
	case last > 0:
		return false, sooner(wait, last)
	}
	p.synced, p.since, p.matched = true, time.Time{}, time.Time{}
	p.slot(p.current).synced = true
	for _, peer := range p.peers {
		// What was pushed here while the gate was closed was dropped: look again.
		if pr := peer.pair(p.current); !pr.asking && pr.verdict == verdictMatched {
			pr.due = now.Add(kickDelay)
		}
	}
	return true, 0
}

// sooner is the smaller of two waits of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if b > 0 && (a == 0 || b < a) {
		return b
	}
	return a
}

// slotSynced tells whether a slot was compared with a peer, or lived through.
func (p *plan) slotSynced(s eventgraph.Slot) bool {
	ps := p.slots[s]
	return p.skip || ps != nil && ps.synced
}

// count is the number of wanted slots, and of those that are synced.
func (p *plan) count() (done, total int) {
	for _, s := range append([]eventgraph.Slot{p.current}, p.history...) {
		if p.slotSynced(s) {
			done++
		}
	}
	return done, 1 + len(p.history)
}
