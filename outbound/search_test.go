package outbound

import (
	"encoding/binary"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"hearsay/eventgraph"
)

// The exhaustive search (DS-35, DS-40, DS-41, DS-52 to DS-57, DS-61 to DS-63, DS-84): every
// interleaving of the head machine with a model of the store, two peers and the
// clock, up to three messages and three generations. The model may at any time
//
//   - crash, between any two actions, and start again from the store,
//   - fail a commit or an insertion, applied or not,
//   - deliver any status for any generation ever shown, from either peer, any number of
//     times and in any order, true or not; a tip, a foreign or a local child,
//   - write a put to both peers, to one or to none,
//   - cancel any record, accept another message, close and open the gate, refuse to
//     make an event, and let time pass.
//
// In each state reached the invariants below hold. A bug of each kind, planted in the
// model's stand-in for the code around the head, breaks one of them.

const (
	searchMessages    = 3
	searchGenerations = 3
	searchPeers       = 2
	searchSlot        = 2 * time.Minute // edges of 10 s and 5 s: everything happens on a grid of 5 s
)

var (
	searchStart  = time.Date(2026, 3, 1, 12, 1, 45, 0, time.UTC) // 15 s before a rotation
	searchPolicy = Policy{RetryInitial: 5 * time.Second, RetryRounds: 2, Wakeup: 5 * time.Second}
)

// shown is a generation that somebody has seen.
type shown struct {
	pos  Position
	num  int
	id   eventgraph.ID
	slot eventgraph.Slot
	// Ghosts, for the oracle.
	tooOld     bool              // a TooOld counted while it was active
	ends       instant           // the end of its first round; 0: none was written
	closedEnds instant           // the same of the first round that began in a later slot
	to         [searchPeers]bool // put on the present connection of this peer
}

// world is one state of the search.
type world struct {
	store   modelStore
	head    Head
	tracked tracked
	now     instant
	gate    bool
	blind   bool // a planted bug: the gate is not looked at
	luck    int8 // how much more may go wrong: see search

	shown []shown
	// Ghosts.
	evidence [searchMessages + 1]bool // real evidence was observed for the position
	removed  [searchMessages + 1]int8 // times it left the queue
	broken   string                   // the first invariant broken
}

func (w *world) clone() *world {
	c := *w
	c.head.todo = slices.Clone(w.head.todo)
	c.shown = slices.Clone(w.shown)
	return &c // the maps of tracked are shared until own
}

// own makes the maps of tracked w's own, before they change.
func (w *world) own() *tracked {
	w.tracked.gens = maps.Clone(w.tracked.gens)
	w.tracked.puts = maps.Clone(w.tracked.puts)
	w.tracked.local = maps.Clone(w.tracked.local)
	w.tracked.order = slices.Clone(w.tracked.order)
	return &w.tracked
}

func (w *world) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

func (w *world) facts() Facts {
	f := Facts{Synced: true, Targets: searchPeers, Window: testWindow(w.now.time(), searchSlot)}
	if !w.gate && !w.blind {
		f.Targets = 1
	}
	return f
}

// search explores and reports the first broken invariant with the way to it.
type search struct {
	bug     string // a planted bug; "" for the code as it is
	states  int
	seen    map[string]bool
	queue   []*node
	failed  string
	tried   int // transitions
	drained int // states from which an honest world was played to the end
	end     instant
	// reached counts what the search must have seen to mean anything.
	reached map[string]int
}

type node struct {
	w      *world
	parent *node
	label  string
}

// run explores for that long a time in the model, with that much bad luck, at most
// limit states; zero: all.
func (s *search) run(luck int8, horizon time.Duration, limit int) {
	s.end = toInstant(searchStart.Add(horizon))
	head, err := NewHead(searchPolicy)
	if err != nil {
		panic(err)
	}
	w := &world{store: newModelStore(searchMessages - 1), head: *head, gate: true, now: toInstant(searchStart), luck: luck}
	w.tracked.tips = true
	w.blind = s.bug == "sends through a closed gate"
	s.seen, s.reached = map[string]bool{}, map[string]int{}
	s.input(w, w.store.load())
	s.add(nil, w, "start")
	for len(s.queue) > 0 && s.failed == "" && (limit == 0 || s.states < limit) {
		n := s.queue[0]
		s.queue[0], s.queue = nil, s.queue[1:]
		s.expand(n)
		if s.bug == "" && s.states%7 == 0 {
			s.drain(n)
		}
	}
}

func (s *search) add(parent *node, w *world, label string) {
	s.tried++
	s.check(w)
	key := w.key()
	if s.seen[key] && w.broken == "" {
		return
	}
	s.seen[key] = true
	s.states++
	n := &node{w, parent, label}
	if w.broken != "" {
		var way []string
		for m := n; m != nil; m = m.parent {
			way = append(way, m.label)
		}
		slices.Reverse(way)
		s.failed = w.broken + "\n\t" + strings.Join(way, "\n\t")
		return
	}
	s.queue = append(s.queue, n)
}

// input is what the driver does with an input: step, follow, feed what was observed.
func (s *search) input(w *world, in Input) {
	w.head.Step(w.now.time(), w.facts(), in)
	w.head.tell = nil
	s.follow(w)
	s.evidence(w)
}

func (s *search) follow(w *world) {
	ids, active := w.head.generations()
	var pos Position
	if w.head.rec != nil {
		pos = w.head.rec.Entry.Position
	}
	if t := &w.tracked; t.gens == nil || pos != t.pos || len(ids) != len(t.gens) || active != t.active {
		w.own().follow(pos, ids, active)
	}
}

func (s *search) evidence(w *world) {
	if w.tracked.acked != eventgraph.NullID && !w.head.acked {
		w.head.Step(w.now.time(), w.facts(), Acked{w.tracked.acked})
	}
	if w.tracked.tooOld != eventgraph.NullID && !w.head.life.tooOld {
		w.head.Step(w.now.time(), w.facts(), TooOld{w.tracked.tooOld})
	}
	w.head.tell = nil
}

// expand tries everything that can happen in a state.
func (s *search) expand(n *node) {
	try := func(label string, fn func(w *world)) {
		if s.failed != "" {
			return
		}
		w := n.w.clone()
		func() {
			defer func() {
				if p := recover(); p != nil {
					w.fail("panic: %v", p)
				}
			}()
			fn(w)
		}()
		s.add(n, w, label)
	}
	bad := func(label string, fn func(w *world)) {
		if n.w.luck > 0 {
			try(label, func(w *world) { w.luck--; fn(w) })
		}
	}
	w := n.w
	if len(w.head.todo) > 0 {
		s.act(n, try, bad)
	} else {
		s.idle(n, try, bad)
	}
	try("crash", func(w *world) { s.crash(w) })
	for i := range w.shown {
		for peer := range searchPeers {
			for _, r := range []eventgraph.Result{eventgraph.HasAlready, eventgraph.NackTooOld, eventgraph.NackBusy, eventgraph.NackInvalid} {
				st := eventgraph.Status{ID: w.shown[i].id, Result: r}
				if k := w.tracked; s.bug == "" && !k.status(st, ConnID(peer+1)) {
					continue // it changed nothing
				}
				try(fmt.Sprintf("peer %d says %v of %d.%d", peer, r, w.shown[i].pos, w.shown[i].num), func(w *world) {
					s.status(w, i, peer, r)
				})
			}
		}
		try(fmt.Sprintf("tip %d.%d", w.shown[i].pos, w.shown[i].num), func(w *world) {
			w.tracked.tip(w.shown[i].id)
			w.evidence[w.shown[i].pos] = true
			s.observed(w)
		})
		if w.shown[i].pos != w.store.head {
			continue
		}
		for _, src := range []eventgraph.Source{eventgraph.SourcePut, eventgraph.SourceLocal} {
			try(fmt.Sprintf("child of %d.%d, foreign %v", w.shown[i].pos, w.shown[i].num, src.Foreign()), func(w *world) {
				s.child(w, i, src)
			})
		}
	}
}

// drain plays an honest world from a state on: the gate opens, commits work, peers take
// every put and answer. The queue must run empty, in order: no state is a dead end.
func (s *search) drain(n *node) {
	w := n.w.clone()
	w.gate = true
	s.input(w, Tick{})
	for range 200 {
		if w.store.rec == nil && len(w.head.todo) == 0 {
			s.drained++
			return
		}
		a, ok := w.head.Next()
		if !ok {
			w.now = max(w.now.add(time.Second), toInstant(w.head.Wake(w.now.time(), w.facts())))
			s.input(w, Tick{})
			continue
		}
		switch a := a.(type) {
		case Materialise:
			num := 0
			if w.head.rec != nil {
				num = len(w.head.rec.Generations)
			}
			s.input(w, Materialised{Event: testEvent(a.Entry.Position, num, w.now)})
		case Send:
			s.input(w, s.send(w, a, 1<<searchPeers-1))
			w.evidence[a.Position] = true
			w.own().status(eventgraph.Status{ID: a.Generation.ID(), Result: eventgraph.HasInserted}, 1)
			s.observed(w)
		default:
			s.input(w, s.do(w, a))
		}
		if w.broken != "" {
			break
		}
	}
	w.fail("a dead end")
	s.states-- // add counts
	s.add(n, w, "an honest world from here on")
}

func (s *search) crash(w *world) {
	// A crash needs no telling: connections, flags and lists are gone.
	head := Head{policy: w.head.policy}
	w.evidence = [searchMessages + 1]bool{}
	w.head, w.tracked = head, tracked{tips: w.tracked.tips}
	for i := range w.shown {
		w.shown[i].to = [searchPeers]bool{}
	}
	l := w.store.load()
	switch {
	case s.bug == "forgets the generation at a crash" && l.Record != nil:
		l.Record = &Record{Entry: l.Record.Entry}
		w.store.rec = l.Record
	case s.bug == "resurrects a removed record" && w.store.head > 1:
		w.store.head--
		l.Record = &Record{Entry: Entry{Position: w.store.head}}
		w.store.rec = l.Record
	}
	s.input(w, l)
}

// observed lets an idle driver look; a busy one looks before its next action.
func (s *search) observed(w *world) {
	if len(w.head.todo) == 0 {
		s.input(w, Tick{})
	} else {
		s.evidence(w)
	}
}

func (s *search) status(w *world, i, peer int, r eventgraph.Result) {
	g := &w.shown[i]
	conn := ConnID(peer + 1)
	if g.to[peer] {
		if r.Has() {
			w.evidence[g.pos] = true
		}
		if r == eventgraph.NackTooOld && w.tracked.active == g.id {
			g.tooOld = true
		}
	}
	switch {
	case s.bug == "believes a peer that was never put to" && r.Has() && w.tracked.gens[g.id]:
		w.tracked.ack(g.id)
	case s.bug == "forgets evidence of a superseded generation" && g.id != w.tracked.active:
	case s.bug == "takes Busy for an answer" && r == eventgraph.NackBusy && w.tracked.gens[g.id] && g.to[peer]:
		w.tracked.ack(g.id)
	case s.bug == "takes a status for another message" && r.Has() && w.head.rec != nil && w.head.rec.Active != nil:
		w.tracked.ack(w.head.rec.active().id)
	default:
		w.tracked.status(eventgraph.Status{ID: g.id, Result: r}, conn)
	}
	s.observed(w)
}

func (s *search) child(w *world, i int, src eventgraph.Source) {
	g := &w.shown[i]
	if src.Foreign() {
		w.evidence[g.pos] = true
	} else if s.bug == "takes a local child for evidence" {
		src = eventgraph.SourcePut
	}
	w.own().arrival(eventgraph.ID{0xcc}, []eventgraph.ID{g.id}, src)
	s.observed(w)
}

// idle is what can happen while the head waits.
func (s *search) idle(n *node, try, bad func(string, func(*world))) {
	w := n.w
	for p := w.store.head; p < w.store.next; p++ {
		if w.store.cancelled[p] {
			continue
		}
		bad(fmt.Sprintf("cancel %d", p), func(w *world) {
			if w.store.cancel(p) {
				w.removed[p]++
				s.input(w, w.store.load())
			}
		})
	}
	if w.store.next <= searchMessages {
		bad("enqueue", func(w *world) { w.store.enqueue(); s.input(w, w.store.load()) })
	}
	bad("gate", func(w *world) { w.gate = !w.gate; s.input(w, Tick{}) })
	next := toInstant(w.head.Wake(w.now.time(), w.facts()))
	if edge := instant(w.facts().Window.End); next == 0 || next > edge {
		next = edge
	}
	if next <= s.end {
		try("until "+next.time().Format("15:04:05"), func(w *world) { w.now = next; s.input(w, Tick{}) })
	}
}

// act performs the next action in every way it can end.
func (s *search) act(n *node, try, bad func(string, func(*world))) {
	first, _ := n.w.clone().head.Next()
	name := fmt.Sprintf("%T", first)[len("outbound."):]
	step := func(label string, in func(w *world, a Action) Input) {
		how := try
		if label == " refused" || label == " lost" || strings.HasPrefix(label, " failed") || label == " to 00" {
			how = bad
		}
		how(name+label, func(w *world) {
			if s.bug == "shows before it is durable" {
				if _, ok := w.head.todo[0].(PutGeneration); ok && len(w.head.todo) > 1 {
					w.head.todo[0], w.head.todo[1] = w.head.todo[1], w.head.todo[0]
				}
			}
			a, _ := w.head.Next()
			s.input(w, in(w, a))
		})
	}
	failing := func(applied bool) func(w *world, a Action) Input {
		return func(w *world, a Action) Input {
			if _, insert := a.(Insert); applied && !insert {
				s.commit(w, a)
			}
			s.reached["fault"]++
			return Failed{Reason: ReasonStorage, Record: w.store.rec}
		}
	}
	switch first.(type) {
	case Materialise:
		if n.w.head.rec == nil || len(n.w.head.rec.Generations) < searchGenerations {
			step("", func(w *world, a Action) Input { return s.materialise(w, a.(Materialise)) })
		}
		step(" refused", func(*world, Action) Input { return Refused{Reason: ReasonKey} })
	case Send:
		for written := range 1 << searchPeers {
			if written == 2 {
				continue // the peers are alike
			}
			step(fmt.Sprintf(" to %02b", written), func(w *world, a Action) Input { return s.send(w, a.(Send), written) })
		}
	case SaveRound, SavePark:
		step("", func(w *world, a Action) Input { s.commit(w, a); return Done{} })
		step(" lost", func(*world, Action) Input { return Done{} })
	default:
		step("", func(w *world, a Action) Input { return s.do(w, a) })
		step(" failed", failing(false))
		step(" failed, applied", failing(true))
	}
}

func (s *search) materialise(w *world, a Materialise) Input {
	pos := a.Entry.Position
	if w.store.rec == nil || w.store.head != pos {
		w.fail("DS-35: made %d, which is not the head", pos)
	}
	if w.facts().Window.edge(w.now) != 0 {
		w.fail("DS-87: made at the edge of a slot")
	}
	if w.removed[pos] > 0 {
		w.fail("DS-56: made %d, which is gone", pos)
	}
	n := 0
	if w.head.rec != nil {
		n = len(w.head.rec.Generations)
	}
	return Materialised{Event: testEvent(pos, n, w.now)}
}

// commit applies a commit and keeps the ghosts.
func (s *search) commit(w *world, a Action) {
	switch a := a.(type) {
	case PutGeneration:
		s.replaced(w, a)
		old := w.store.rec
		if err := w.store.commit(a); err != nil {
			w.fail("DS-56: %v", err)
			return
		}
		if s.bug == "keeps two active generations" && a.Number > 0 {
			rec := *w.store.rec
			rec.Generations = append([]generationRow(nil), rec.Generations...)
			rec.Generations[a.Number-1].superseded = eventgraph.NullID
			w.store.rec = &rec
		}
		if s.bug == "loses the generation's commit" {
			w.store.rec = old
		}
		if rec := w.store.rec; rec.retry.generations > 0 {
			if err := rec.valid(); err != nil {
				w.fail("DS-41: %v", err)
			}
		}
		s.reached[fmt.Sprintf("generation %d", a.Number)]++
		return
	case Dequeue:
		w.removed[a.Position]++
		if !w.evidence[a.Position] {
			w.fail("DS-63: dequeued %d without evidence", a.Position)
		}
		s.reached["dequeue"]++
	}
	if err := w.store.commit(a); err != nil {
		w.fail("DS-56: %v", err)
	}
	if _, ok := a.(Dequeue); ok && s.bug == "dequeues twice" && w.store.rec != nil {
		if !w.evidence[w.store.head] {
			w.fail("DS-54: dequeued twice")
		}
		w.store.pass()
	}
}

// replaced checks DS-61: a replacement needs a closed slot and a round that ended.
func (s *search) replaced(w *world, a PutGeneration) {
	if a.Number == 0 {
		return
	}
	for i := range w.shown {
		g := &w.shown[i]
		if g.pos != a.Entry.Position || g.num != int(a.Number)-1 {
			continue
		}
		over := func(ends instant) bool { return ends != 0 && w.now >= ends }
		switch {
		case g.slot >= w.facts().Window.Slot && !g.tooOld:
			w.fail("DS-61: replaced %d.%d in its slot", g.pos, g.num)
		case (!g.tooOld || !over(g.ends)) && !over(g.closedEnds):
			w.fail("DS-61: replaced %d.%d without a round", g.pos, g.num)
		}
		return
	}
	w.fail("DS-61: replaced %d.%d, which nobody has seen", a.Entry.Position, a.Number-1)
}

// visible checks what may be shown, and notes that it was.
func (s *search) visible(w *world, pos Position, id eventgraph.ID) int {
	rec := w.store.rec
	switch {
	case w.removed[pos] > 0:
		w.fail("DS-56: showed %d, which is gone", pos)
	case rec == nil || w.store.head != pos:
		w.fail("DS-35: showed %d, which is not the head", pos)
	case rec.Active == nil || rec.active().id != id:
		w.fail("DS-40: showed a generation of %d that is not durable", pos)
	}
	for p := Position(1); p < pos; p++ {
		if w.removed[p] == 0 {
			w.fail("DS-64: %d overtook %d", pos, p)
		}
	}
	if !w.gate {
		w.fail("DS-57: sent through a closed gate")
	}
	for i := range w.shown {
		if w.shown[i].id == id {
			return i
		}
	}
	g := shown{pos: pos, id: id}
	if rec != nil && rec.Active != nil {
		g.num, g.slot = len(rec.Generations)-1, rec.active().slot
	}
	w.shown = append(w.shown, g)
	return len(w.shown) - 1
}

func (s *search) do(w *world, a Action) Input {
	switch a := a.(type) {
	case Insert:
		s.visible(w, a.Position, a.Generation.ID())
	case Dequeue:
		s.commit(w, a)
		l := w.store.load()
		if s.bug == "skips a record" && l.Record != nil && w.store.head+1 < w.store.next {
			l.Record = &Record{Entry: Entry{Position: w.store.head + 1}}
		}
		return l
	default:
		s.commit(w, a)
	}
	return Done{}
}

func (s *search) send(w *world, a Send, written int) Input {
	if s.bug == "recreates without a round" {
		w.head.life.recreate = w.head.closed(w.facts())
	}
	i := s.visible(w, a.Position, a.Generation.ID())
	if w.broken != "" {
		return PutDone{}
	}
	g := &w.shown[i]
	for peer := range searchPeers {
		if written&(1<<peer) != 0 {
			g.to[peer] = true
			w.own().put(g.id, ConnID(peer+1))
		}
	}
	if written > 0 && w.head.life.sending {
		ends := w.now.add(searchPolicyDelay(w.head.life.rounds + 2))
		if g.ends == 0 {
			g.ends = ends
		}
		if g.closedEnds == 0 && g.slot < w.facts().Window.Slot {
			g.closedEnds = ends
		}
	}
	s.reached["send"]++
	n := 0
	for b := written; b > 0; b >>= 1 {
		n += b & 1
	}
	return PutDone{n}
}

func searchPolicyDelay(n uint32) time.Duration {
	p := searchPolicy
	if err := p.validate(); err != nil {
		panic(err)
	}
	return p.delay(n)
}

// check holds in every state.
func (s *search) check(w *world) {
	for p, n := range w.removed {
		if n > 1 {
			w.fail("DS-54: %d left the queue %d times", p, n)
		}
	}
	for p := Position(1); p < w.store.head; p++ {
		if w.removed[p] != 1 {
			w.fail("DS-64: %d was passed", p)
		}
	}
	rec := w.store.rec
	if (rec == nil) != (w.store.head == w.store.next) {
		w.fail("ST-04: an empty queue that is not")
	}
	if w.head.rec != nil && w.head.life.due > w.now.add(searchPolicyDelay(w.head.life.rounds+1)) && len(w.head.todo) == 0 {
		w.fail("DS-59: due time beyond its delay")
	}
	if rec != nil && w.evidence[w.store.head] && !w.head.acked {
		w.fail("DS-52: evidence for %d was lost", w.store.head)
	}
	// A generation that somebody has seen is never forgotten while its message waits.
	for i := range w.shown {
		if g := &w.shown[i]; rec != nil && g.pos == w.store.head && !rec.has(g.id) {
			w.fail("DS-38: %d.%d is forgotten", g.pos, g.num)
		}
	}
}

// key names a state: everything that can make a difference from here on. What cannot
// is left out: notices, texts, event ids (a generation is its place in the chain), and
// what is known of records that are gone, beyond that a status may still come for them.
func (w *world) key() string {
	b := make([]byte, 0, 256)
	u := func(v int) { b = append(b, byte(v)) }
	i := func(v instant) { b = binary.AppendVarint(b, int64(max(v-w.now, -1))) } // the past is the past
	t := func(vs ...bool) {
		for _, v := range vs {
			if v {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		}
	}
	record := func(r *Record) {
		if r == nil {
			b = append(b, 0xff)
			return
		}
		u(int(r.Entry.Position))
		u(len(r.Generations))
		if len(r.Generations) > 0 {
			b = binary.AppendVarint(b, int64(w.facts().Window.Slot)-int64(r.active().slot))
		}
		u(int(min(r.retry.rounds, uint32(searchPolicy.RetryRounds))))
		i(r.retry.due)
		i(r.retry.parkUntil)
		u(int(r.retry.park))
		t(r.retry.expired, r.Active != nil)
	}
	lifeOf := func(l *life) {
		t(l.sent, l.inserted, l.tooOld, l.expired, l.recreate, l.sending, l.closed)
		u(int(min(l.rounds, uint32(searchPolicy.RetryRounds))))
		i(l.due)
		i(l.ends)
		i(l.sendAfter)
	}
	b = binary.AppendVarint(b, int64(w.now))
	u(int(w.store.next))
	u(int(w.store.head))
	t(w.store.cancelled[:]...)
	record(w.store.rec)
	h := &w.head
	record(h.rec)
	for _, a := range h.todo {
		b = append(b, fmt.Sprintf("%T", a)[len("outbound."):]...)
		if a, ok := a.(SaveRound); ok {
			i(a.retry.due)
		}
	}
	b = append(b, '|')
	lifeOf(&h.life)
	if h.before != nil {
		lifeOf(h.before)
		record(h.prior)
	}
	t(h.held, h.acked, h.doing != nil)
	u(int(h.park))
	i(h.parkUntil)
	i(h.stuck)
	k := &w.tracked
	u(int(k.pos))
	u(len(k.gens))
	t(k.acked != eventgraph.NullID, k.tooOld != eventgraph.NullID && k.tooOld == k.active, len(k.local) > 0)
	u(int(w.luck))
	t(w.gate, w.evidence[min(int(w.store.head), searchMessages)])
	gone := 0
	for k := range w.shown {
		g := &w.shown[k]
		if g.pos < w.store.head {
			gone |= 1 << g.pos
			continue
		}
		t(g.tooOld)
		peers := 0
		for _, to := range g.to {
			if to {
				peers++
			}
		}
		u(peers) // they are alike ...
		if peers == 1 && len(w.shown) > 1 {
			t(g.to[0]) // ... but not towards different generations
		}
		i(g.ends)
		i(g.closedEnds)
	}
	u(gone)
	return string(b)
}

// TestSearchKey fails when the machine grows a field that key may have to name.
func TestSearchKey(t *testing.T) {
	for typ, want := range map[reflect.Type]int{
		reflect.TypeFor[Head]():     15,
		reflect.TypeFor[life]():     11,
		reflect.TypeFor[tracked]():  9,
		reflect.TypeFor[retryRow](): 7,
		reflect.TypeFor[Record]():   4,
	} {
		if got := typ.NumField(); got != want {
			t.Errorf("%v has %d fields, was %d: does world.key name all that matter?", typ, got, want)
		}
	}
}
