package outbound

import (
	"slices"
	"time"

	"hearsay/eventgraph"
)

// Head is the machine that decides what happens to the record at the head of the
// queue (spec/delivery.md, section 2). It does no I/O, takes no lock and reads no
// clock: the driver calls Step with what happened, then performs what Next returns,
// one action after another, and steps with each result.
//
// The order of the actions is the order of their effects: a generation's commit is
// ahead of its insertion, and that ahead of its put (DS-40, DS-71).
type Head struct {
	policy Policy

	rec   *Record // nil: the queue is empty. Never changed in place
	held  bool
	todo  []Action // what the driver has yet to perform, in order
	tell  []Notice // likewise; told before the next action
	doing Action   // what it performs now: Next returned it, its result is not here yet

	life   life  // of the active generation, in this process
	before *life // the life and record that a generation's commit is to replace
	prior  *Record

	late      bool    // R_MAX rounds of one generation brought no evidence
	acked     bool    // evidence came; the record is on its way out
	park      Reason  // why the last attempt to make or keep a generation failed
	parkUntil instant // no earlier attempt
	stuck     instant // a dequeue failed: no earlier attempt

	blocked blocked
}

// life is what the head knows of its active generation, beyond the record.
type life struct {
	sent      bool    // the first put is behind us; every further one is a round
	inserted  bool    // the local graph has it, as far as this process knows
	tooOld    bool    // a peer says its slot is closed
	rounds    uint32  // rounds written
	due       instant // the next round
	ends      instant // the end of the last round
	expired   bool    // the last round began with the slot known to be closed
	recreate  bool    // slot closed and a round over without evidence: a replacement may be made
	sending   bool    // the put under way is a round ...
	closed    bool    // ... begun with the slot known to be closed
	sendAfter instant // the insertion failed: no earlier attempt
}

// NewHead makes a machine without a record: it waits for Loaded.
func NewHead(p Policy) (*Head, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	return &Head{policy: p}, nil
}

// Step takes one input and the facts of the moment.
func (h *Head) Step(clock time.Time, f Facts, in Input) {
	now := toInstant(clock)
	switch in := in.(type) {
	case Loaded:
		h.load(in.Record, in.Held)
	case Tick:
	case Done:
		if _, ok := h.doing.(PutGeneration); ok {
			h.before, h.prior = nil, nil // durable
		}
	case Nudge:
		h.parkUntil, h.stuck, h.life.sendAfter = 0, 0, 0
	case Acked:
		if h.rec != nil && h.rec.has(in.Generation) && !h.acked {
			h.acked = true
			h.todo = nil // nothing that is not out yet needs to go out (DS-54, DS-62)
		}
	case TooOld:
		if h.rec != nil && h.rec.Active != nil && h.rec.active().id == in.Generation {
			h.life.tooOld = true
		}
	case Materialised:
		h.adopt(now, f, in)
	case Refused:
		h.setPark(now, in.Reason, in.RetryAt)
	case PutDone:
		h.putDone(now, in.Written)
	case Failed:
		h.failed(now, in)
	}
	switch in.(type) {
	case Loaded, Done, Materialised, Refused, PutDone, Failed:
		h.doing = nil
	}
	if len(h.todo) == 0 {
		h.decide(now, f)
	}
	h.notice(now, f)
}

// Next takes the next action off the list. ok is false when there is nothing to do
// before the next input.
func (h *Head) Next() (a Action, ok bool) {
	if len(h.tell) > 0 {
		a = Tell{h.tell[0]}
		h.tell = h.tell[1:]
		return a, true
	}
	if len(h.todo) == 0 {
		return nil, false
	}
	a = h.todo[0]
	h.todo, h.doing = h.todo[1:], a
	return a, true
}

// load makes rec the head's record. What is known of another record is forgotten; what
// is known of the same one is kept, unless an action of it was cut short.
func (h *Head) load(rec *Record, held bool) {
	idle := len(h.todo) == 0 && h.doing == nil
	samePosition := h.rec != nil && rec != nil && h.rec.Entry.Position == rec.Entry.Position
	same := samePosition && idle && sameActive(h.rec, rec)
	h.rec, h.held, h.todo, h.before, h.prior = rec, held, nil, nil, nil
	if !samePosition {
		h.acked, h.late, h.stuck = false, false, 0
	}
	if same {
		return
	}
	h.park, h.parkUntil, h.life = ReasonNone, 0, life{}
	if rec == nil {
		return
	}
	h.park, h.parkUntil = rec.retry.park, rec.retry.parkUntil
	if rec.Active != nil {
		// Found at start: it is retried when it is due, as if it had been sent, so that
		// restarting causes no burst (DS-72).
		h.life = life{
			sent: true, rounds: rec.retry.rounds, expired: rec.retry.expired,
			due: rec.retry.due, ends: rec.retry.due,
		}
		h.late = h.late || h.life.rounds >= uint32(h.policy.RetryRounds)
	}
}

// decide fills the list for an idle head.
func (h *Head) decide(now instant, f Facts) {
	if h.rec == nil {
		return
	}
	if h.acked {
		if now >= h.stuck {
			h.todo = []Action{Dequeue{h.rec.Entry.Position}}
		}
		return
	}
	h.clamp(now)
	if h.rec.Active != nil {
		h.expire(now, f)
	}
	if h.held || !h.gate(f) || now < toInstant(f.NotBefore) {
		return
	}
	switch {
	case h.rec.Active == nil || h.life.recreate:
		if now >= h.parkUntil && f.Window.edge(now) == 0 {
			h.todo = []Action{Materialise{h.rec.Entry}}
			return
		}
		if h.rec.Active == nil {
			return
		}
	}
	if (!h.life.sent || now >= h.life.due) && now >= h.life.sendAfter {
		h.send(now, f)
	}
}

// gate is DS-57: synced, and enough connections that can take a put.
func (h *Head) gate(f Facts) bool { return f.Synced && f.Targets >= h.policy.MinPeers }

// clamp pulls in times that a clock which went back has left too far off: no due
// time is further off than its own delay (DS-59).
func (h *Head) clamp(now instant) {
	limit := now.add(h.policy.delay(h.life.rounds + 1))
	h.life.due = min(h.life.due, limit)
	h.life.ends = min(h.life.ends, limit)
	h.life.sendAfter = min(h.life.sendAfter, now.add(h.policy.Wakeup))
	h.parkUntil = min(h.parkUntil, now.add(maxPark))
	h.stuck = min(h.stuck, now.add(h.policy.Wakeup))
}

// expire notes when a replacement may be made: the slot is known to be closed, and a
// round that could have found a holder is over (DS-61).
func (h *Head) expire(now instant, f Facts) {
	l := &h.life
	if l.rounds > 0 && now >= l.ends && h.closed(f) && (l.expired || l.tooOld) {
		l.recreate = true
	}
}

// closed tells whether the active generation's slot is known to be closed.
func (h *Head) closed(f Facts) bool {
	return h.life.tooOld || f.Window.closed(h.rec.active().slot)
}

// adopt takes a fresh event as the new active generation, or throws it away.
func (h *Head) adopt(now instant, f Facts, m Materialised) {
	id := m.Event.Header.ID()
	if h.rec == nil || h.acked {
		return
	}
	if !f.Window.contains(m.Event.Timestamp) || h.rec.has(id) {
		// Rotation overtook it (DS-19 e), or its nonce was not fresh (DS-74).
		h.setPark(now, ReasonProcessing, 0)
		return
	}
	row := generationRow{id: id, slot: f.Window.Slot, end: f.Window.End, made: now}
	rec := *h.rec
	rec.Generations = slices.Clone(rec.Generations)
	if len(rec.Generations) > 0 {
		rec.active().superseded = id
	}
	rec.Generations = append(rec.Generations, row)
	rec.Active = &Generation{Event: m.Event, Blob: m.Blob, Slot: row.slot}
	due := now.add(h.policy.delay(1))

	before := h.life
	h.before, h.prior = &before, h.rec
	h.rec = &rec
	h.life = life{due: due, ends: due}
	h.park, h.parkUntil = ReasonNone, 0
	h.todo = []Action{PutGeneration{
		Entry:      rec.Entry,
		Number:     uint32(len(rec.Generations) - 1),
		Generation: *rec.Active,
		row:        row,
		due:        due,
	}}
	if h.gate(f) {
		h.send(now, f)
	}
}

// send appends a put of the active generation, its insertion ahead of it where that is
// still possible.
func (h *Head) send(now instant, f Facts) {
	row, active := h.rec.active(), h.rec.Active
	if !h.life.inserted && row.slot == f.Window.Slot {
		h.todo = append(h.todo, Insert{h.rec.Entry.Position, active})
		h.life.inserted = true // a failure takes it back
	}
	h.life.sending, h.life.closed = h.life.sent, h.closed(f)
	h.life.sent = true
	h.todo = append(h.todo, Send{
		Position:   h.rec.Entry.Position,
		Generation: active,
		ToStock:    h.policy.toStock(now, f.Window, row, active.Event.Timestamp),
	})
}

// putDone accounts a put: a round counts if somebody took it (DS-59).
func (h *Head) putDone(now instant, written int) {
	if h.rec == nil || h.rec.Active == nil || h.acked {
		return
	}
	l := &h.life
	if !l.recreate {
		h.park, h.parkUntil = ReasonNone, 0
	}
	if !l.sending {
		// The first send. Its due time was set with the generation, which can be long
		// ago if the gate closed in between.
		l.due = max(l.due, now.add(h.policy.delay(1)))
		l.ends = l.due
		return
	}
	l.sending = false
	if written == 0 {
		l.due = now.add(h.policy.delay(l.rounds + 1))
		return
	}
	l.rounds++
	h.late = h.late || l.rounds >= uint32(h.policy.RetryRounds)
	l.expired = l.closed
	l.due = now.add(h.policy.delay(l.rounds + 1))
	l.ends = l.due
	h.todo = append(h.todo, SaveRound{h.rec.Entry.Position, h.retry()})
}

// retry is the schedule as it is stored.
func (h *Head) retry() retryRow {
	r := h.rec.retry
	r.rounds, r.due, r.expired = h.life.rounds, h.life.due, h.life.expired
	r.park, r.parkUntil = h.park, h.parkUntil
	return r
}

// setPark stops attempts to make a generation until at, or for one wakeup. The reason
// is stored when it changes (DS-30).
func (h *Head) setPark(now instant, reason Reason, at instant) {
	if h.rec == nil {
		return
	}
	changed := h.park != reason
	h.park = reason
	h.parkUntil = now.add(h.policy.Wakeup)
	if at > now {
		h.parkUntil = min(at, now.add(maxPark))
	}
	if changed && reason != ReasonStorage && !h.acked {
		h.todo = append(h.todo, SavePark{h.rec.Entry.Position, h.retry()})
	}
}

// failed goes back to what the store has, and tries again after a wakeup. Evidence is
// kept: the record is still on its way out.
func (h *Head) failed(now instant, in Failed) {
	h.todo, h.held = nil, in.Held
	retry := now.add(h.policy.Wakeup)
	if h.rec == nil || in.Record == nil || h.rec.Entry.Position != in.Record.Entry.Position {
		h.load(in.Record, in.Held) // a dequeue was applied after all
		return
	}
	switch h.doing.(type) {
	case PutGeneration:
		if h.prior != nil && sameActive(h.prior, in.Record) {
			h.rec, h.life = h.prior, *h.before // not stored, not seen: on with the one before
		} else if sameActive(h.rec, in.Record) {
			h.life.sent, h.life.inserted, h.life.sendAfter = false, false, retry // stored, not seen
		} else {
			h.load(in.Record, in.Held)
		}
		h.before, h.prior = nil, nil
	case Insert:
		h.life.inserted, h.life.sendAfter = false, retry
		h.life.sent = h.life.sending // its put was dropped with it
	case Dequeue:
		h.stuck = retry
	}
	if !h.acked {
		h.setPark(now, in.Reason, 0)
	}
}

func sameActive(a, b *Record) bool {
	if (a.Active == nil) != (b.Active == nil) || len(a.Generations) != len(b.Generations) {
		return false
	}
	return a.Active == nil || a.active().id == b.active().id
}

// reason is why the head does not move, for status and notices.
func (h *Head) reason(f Facts) Reason {
	switch {
	case h.rec == nil || h.acked:
		return ReasonNone
	case h.held:
		return ReasonHeld
	case h.park != ReasonNone:
		return h.park
	case !f.Synced:
		return ReasonNotSynced
	case f.Targets < h.policy.MinPeers:
		return ReasonConnections
	case h.late:
		return ReasonNoAck
	}
	return ReasonNone
}

// notice tells what is worth telling, once nothing is left to try.
func (h *Head) notice(now instant, f Facts) {
	if len(h.todo) > 0 || h.doing != nil {
		return
	}
	if n, ok := h.blocked.step(now, h.reason(f)); ok {
		h.tell = append(h.tell, h.fill(n, f))
	}
}

func (h *Head) fill(n Notice, f Facts) Notice {
	n.Have, n.Want, n.Rounds = f.Targets, h.policy.MinPeers, int(h.life.rounds)
	return n
}

// Blocked is what to tell a user who connects now (DS-76).
func (h *Head) Blocked(clock time.Time, f Facts) (n Notice, ok bool) {
	n, ok = h.blocked.current(toInstant(clock))
	return h.fill(n, f), ok
}

// Wake is the next time at which a Tick can do something, if nothing else happens
// before; zero: none. It is wall time: the driver looks again at each wakeup, since the
// clock may jump.
func (h *Head) Wake(clock time.Time, f Facts) time.Time {
	now := toInstant(clock)
	var at instant
	consider := func(t instant) {
		if t > now && (at == 0 || t < at) {
			at = t
		}
	}
	consider(h.blocked.next())
	if h.rec == nil {
		return at.time()
	}
	consider(h.stuck)
	consider(h.parkUntil)
	consider(toInstant(f.NotBefore))
	consider(f.Window.edge(now))
	if h.rec.Active != nil {
		consider(h.life.due)
		consider(h.life.ends)
		consider(h.life.sendAfter)
	}
	return at.time()
}

// HeadStatus is what status output says of the head: never text.
type HeadStatus struct {
	Position    Position
	State       string // "waiting", "sent", "parked"
	Reason      string // "" or why it does not move
	Generations int
	Rounds      int
	NextAttempt time.Time // of a put or of a parked condition; zero: when the gate opens
}

// Status describes the head; ok is false for an empty queue.
func (h *Head) Status(clock time.Time, f Facts) (s HeadStatus, ok bool) {
	if h.rec == nil {
		return s, false
	}
	s = HeadStatus{
		Position:    h.rec.Entry.Position,
		State:       "waiting",
		Reason:      h.reason(f).String(),
		Generations: len(h.rec.Generations),
		Rounds:      int(h.life.rounds),
	}
	if h.rec.Active != nil {
		s.State = "sent"
		if h.life.due > toInstant(clock) {
			s.NextAttempt = h.life.due.time()
		}
	}
	if h.park != ReasonNone && !h.acked {
		s.State = "parked"
		if at := h.parkUntil.time(); s.NextAttempt.IsZero() || at.Before(s.NextAttempt) {
			s.NextAttempt = at
		}
	}
	return s, true
}

// generations lists the ids of the record's generations and its active one.
func (h *Head) generations() (ids []eventgraph.ID, active eventgraph.ID) {
	if h.rec == nil {
		return nil, active
	}
	for i := range h.rec.Generations {
		ids = append(ids, h.rec.Generations[i].id)
	}
	if h.rec.Active != nil {
		active = h.rec.active().id
	}
	return ids, active
}
