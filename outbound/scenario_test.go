package outbound

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"hearsay/eventgraph"
)

// TestHeadScenarios runs testdata/head/*.txt: what the head does, as text. Each command
// moves the clock (at=hh:mm:ss), feeds one input and performs all actions over a model
// store, the way of failing set by fail=insert|generation|round|dequeue(-applied).
func TestHeadScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/head/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			var s scenario
			datadriven.RunTest(t, f, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
		})
	}
}

// scenarioDay is the day of all scenarios.
var scenarioDay = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

type scenario struct {
	head     *Head
	store    modelStore
	tracked  tracked
	now      time.Time
	rotation time.Duration
	facts    Facts
	made     int
	written  int
	refuse   *Refused
	stale    bool // the materialiser is too slow: its events are from the last slot
	fail     string
	out      strings.Builder
}

func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	s.fail, s.refuse, s.stale = "", nil, false
	if d.Cmd == "new" {
		s.reset(t, d)
	}
	in := Input(Tick{})
	gen, conn := 0, ConnID(1)
	var retry instant
	var refuse string
	for _, arg := range d.CmdArgs {
		v := ""
		if len(arg.Vals) > 0 {
			v = arg.Vals[0]
		}
		switch arg.Key {
		case "at":
			s.now = s.clock(t, v)
		case "synced":
			s.facts.Synced = v == "true"
		case "targets":
			fmt.Sscan(v, &s.facts.Targets)
		case "written":
			fmt.Sscan(v, &s.written)
		case "gen":
			fmt.Sscan(v, &gen)
		case "conn":
			fmt.Sscan(v, (*uint64)(&conn))
		case "fail":
			s.fail = v
		case "refuse":
			refuse = v
		case "retry":
			retry = toInstant(s.clock(t, v))
		case "paced":
			s.facts.NotBefore = time.Time{}
			if v != "" {
				s.facts.NotBefore = s.clock(t, v)
			}
		case "stale":
			s.stale = true
		}
	}
	if refuse != "" {
		for r := ReasonBudget; r.stored(); r++ {
			if r.String() == refuse {
				s.refuse = &Refused{Reason: r, RetryAt: retry}
			}
		}
	}
	switch d.Cmd {
	case "new":
		in = s.store.load()
	case "restart":
		s.head, _ = NewHead(s.head.policy)
		s.tracked = tracked{tips: s.tracked.tips}
		in = s.store.load()
	case "tick":
	case "nudge":
		in = Nudge{}
	case "enqueue":
		s.store.enqueue()
		in = s.store.load()
	case "cancel":
		var p int
		d.ScanArgs(t, "pos", &p)
		if !s.store.cancel(Position(p)) {
			return "no such record\n"
		}
		in = s.store.load()
	case "hold", "release":
		l := s.store.load()
		l.Held = d.Cmd == "hold"
		in = l
	case "has", "tooold", "busy", "invalid", "notsynced":
		result := map[string]eventgraph.Result{
			"has": eventgraph.HasAlready, "tooold": eventgraph.NackTooOld, "busy": eventgraph.NackBusy,
			"invalid": eventgraph.NackInvalid, "notsynced": eventgraph.NackNotSynced,
		}[d.Cmd]
		if !s.tracked.status(eventgraph.Status{ID: s.id(gen), Result: result}, conn) {
			fmt.Fprintln(&s.out, "ignored")
		}
	case "tip":
		if !s.tracked.tip(s.id(gen)) {
			fmt.Fprintln(&s.out, "ignored")
		}
	case "child":
		src := eventgraph.SourcePut
		if d.HasArg("local") {
			src = eventgraph.SourceLocal
		}
		if !s.tracked.arrival(eventgraph.ID{0xee, byte(gen)}, []eventgraph.ID{s.id(gen)}, src) {
			fmt.Fprintln(&s.out, "ignored")
		}
	case "status":
		return s.status()
	default:
		t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	}
	s.drive(in)
	if s.out.Len() == 0 {
		return "nothing\n"
	}
	return s.out.String()
}

func (s *scenario) reset(t *testing.T, d *datadriven.TestData) {
	p := Policy{}
	n, tips := 1, true
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "messages":
			fmt.Sscan(arg.Vals[0], &n)
		case "rotation":
			s.rotation, _ = time.ParseDuration(arg.Vals[0])
		case "no-tips":
			tips = false
		}
	}
	var err error
	if s.head, err = NewHead(p); err != nil {
		t.Fatal(err)
	}
	s.store = newModelStore(Position(n))
	s.tracked = tracked{tips: tips}
	s.facts.Synced, s.facts.Targets, s.written = true, 2, 2
}

// clock reads hh:mm:ss, or +n for n days later.
func (s *scenario) clock(t *testing.T, v string) time.Time {
	days := 0
	if i := strings.IndexByte(v, '+'); i >= 0 {
		fmt.Sscan(v[i+1:], &days)
		v = v[:i]
	}
	c, err := time.Parse("15:04:05", v)
	if err != nil {
		t.Fatal(err)
	}
	return scenarioDay.AddDate(0, 0, days).Add(c.Sub(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)))
}

// id is the event id of the head's generation number gen.
func (s *scenario) id(gen int) eventgraph.ID {
	if s.store.rec != nil && gen < len(s.store.rec.Generations) {
		return s.store.rec.Generations[gen].id
	}
	return eventgraph.ID{0xff, byte(gen)}
}

func (s *scenario) step(in Input) {
	s.facts.Window = testWindow(s.now, s.rotation)
	s.head.Step(s.now, s.facts, in)
}

func (s *scenario) follow() {
	ids, active := s.head.generations()
	var pos Position
	if s.head.rec != nil {
		pos = s.head.rec.Entry.Position
	}
	s.tracked.follow(pos, ids, active)
}

func (s *scenario) drive(in Input) {
	s.step(in)
	s.follow()
	for {
		if s.tracked.acked != eventgraph.NullID && !s.head.acked {
			s.step(Acked{s.tracked.acked})
		}
		if s.tracked.tooOld != eventgraph.NullID && !s.head.life.tooOld {
			s.step(TooOld{s.tracked.tooOld})
		}
		a, ok := s.head.Next()
		if !ok {
			return
		}
		s.step(s.perform(a))
		s.follow()
	}
}

func (s *scenario) commit(a Action) {
	if err := s.store.commit(a); err != nil {
		fmt.Fprintln(&s.out, err)
	}
}

func (s *scenario) failing(name string, a Action) (Input, bool) {
	if !strings.HasPrefix(s.fail, name) {
		return nil, false
	}
	if strings.HasSuffix(s.fail, "-applied") {
		s.commit(a)
	}
	reason := ReasonStorage
	if strings.HasSuffix(s.fail, "-capacity") {
		reason = ReasonCapacity
	}
	s.fail = ""
	fmt.Fprintf(&s.out, "  failed\n")
	return Failed{Reason: reason, Record: s.store.rec}, true
}

func (s *scenario) perform(a Action) Input {
	hms := func(i instant) string {
		at := i.time()
		if d := at.Sub(scenarioDay) / (24 * time.Hour); d != 0 {
			return fmt.Sprintf("%s+%d", at.Format("15:04:05"), d)
		}
		return at.Format("15:04:05")
	}
	p := func(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }
	switch a := a.(type) {
	case Materialise:
		p("materialise %v", a.Entry.Position)
		if s.refuse != nil {
			p("  refused: %v", s.refuse.Reason)
			return *s.refuse
		}
		at := s.now
		if s.stale {
			at = at.Add(-s.rotation)
		}
		s.made++
		return Materialised{Event: testEvent(a.Entry.Position, s.made, toInstant(at))}
	case PutGeneration:
		p("COMMIT generation %v.%d, due %s", a.Entry.Position, a.Number, hms(a.due))
		if in, ok := s.failing("generation", a); ok {
			return in
		}
		s.commit(a)
	case Insert:
		p("insert %v.%d", a.Position, len(s.store.rec.Generations)-1)
		if in, ok := s.failing("insert", a); ok {
			return in
		}
	case Send:
		to := "capable peers"
		if a.ToStock {
			to = "all peers"
		}
		p("put %v.%d to %s", a.Position, len(s.store.rec.Generations)-1, to)
		for c := range ConnID(s.written) {
			s.tracked.put(a.Generation.ID(), c+1)
		}
		return PutDone{s.written}
	case SaveRound:
		p("COMMIT round %d, due %s", a.retry.rounds, hms(a.retry.due))
		if _, ok := s.failing("round", a); ok {
			return Done{} // as the worker does
		}
		s.commit(a)
	case SavePark:
		p("COMMIT parked: %v", a.retry.park)
		s.commit(a)
	case Dequeue:
		p("COMMIT dequeue %v", a.Position)
		if in, ok := s.failing("dequeue", a); ok {
			return in
		}
		s.commit(a)
		return s.store.load()
	case Tell:
		if a.Notice.Cleared {
			p("tell: %v is over", a.Notice.Reason)
		} else {
			p("tell: %v (%d of %d, %d rounds)", a.Notice.Reason, a.Notice.Have, a.Notice.Want, a.Notice.Rounds)
		}
	}
	return Done{}
}

func (s *scenario) status() string {
	s.facts.Window = testWindow(s.now, s.rotation)
	st, ok := s.head.Status(s.now, s.facts)
	if !ok {
		return "empty\n"
	}
	next := ""
	if !st.NextAttempt.IsZero() {
		next = st.NextAttempt.Format("15:04:05")
	}
	wake := "never"
	if at := s.head.Wake(s.now, s.facts); !at.IsZero() {
		wake = at.Format("15:04:05")
	}
	return fmt.Sprintf("%v %s reason=%q generations=%d rounds=%d next=%s wake=%s\n",
		st.Position, st.State, st.Reason, st.Generations, st.Rounds, next, wake)
}
