package eventgraph

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"hearsay/internal/kv"
	"hearsay/internal/kv/kvtest"
)

// Checklist 10.6, item 53: the first insert returns the id, makes the event a tip and
// tells subscribers; the second does nothing of that.
func TestInsertTwice(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	var told []Arrival
	g.OnCommit(func(a Arrival) {
		if !g.HasBody(a.Slot, a.Event.ID()) {
			t.Error("told before the event is visible")
		}
		told = append(told, a)
	})
	s := g.Current()
	e := chain(g.Params(), s, 1)[0]
	for i, want := range []int{1, 0} {
		got, err := g.Insert(t.Context(), s, []Event{e}, SourcePut)
		if err != nil || len(got) != want || want == 1 && got[0] != e.ID() {
			t.Errorf("insert %d: %v, %v", i, got, err)
		}
	}
	if len(told) != 1 || told[0].Seq != 1 || told[0].Slot != s || told[0].Source != SourcePut ||
		!told[0].Time.Equal(c.now()) || told[0].Event.ID() != e.ID() {
		t.Errorf("told %+v", told)
	}
	tips, err := g.Tips(s)
	if err != nil || fmt.Sprint(tips) != fmt.Sprint(Tips{1: {e.ID()}}) {
		t.Errorf("tips %v, %v", tips, err)
	}
	a, err := g.Arrival(e.ID())
	if err != nil || a.Seq != 1 || a.Source != SourcePut || !a.Time.Equal(c.now()) || string(a.Event.Content) != "chain 0" {
		t.Errorf("Arrival: %+v, %v", a, err)
	}
}

// Checklist 10.6, item 62, and facts page section 4.5: a genesis-shaped event is
// skipped, whatever it holds.
func TestInsertGenesis(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	s := g.Current()
	alien := Event{Header: Header{Timestamp: 1, Layer: 9}}
	got, err := g.Insert(t.Context(), s, []Event{g.Params().GenesisOf(s), alien}, SourceSync)
	if err != nil || len(got) != 0 {
		t.Errorf("%v, %v; want nothing", got, err)
	}
	if err := g.InsertHeaders(s, []Header{g.Params().GenesisOf(s).Header, alien.Header}); err != nil {
		t.Error(err)
	}
	if s := g.Stats(); s.Slots != 0 || s.Arrived != 0 || g.HasHeader(g.Current(), alien.ID()) {
		t.Errorf("something was stored: %+v", s)
	}
}

// Checklist 10.6, items 54, 56 and 57: a batch is inserted whole or not at all, in
// whatever order it is, and a child never without its parents.
func TestInsertOrder(t *testing.T) {
	c := newClock()
	rapid.Check(t, func(rt *rapid.T) {
		g := memory(t, Config{Now: c.now})
		s := g.Current()
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 2))
		events := dag(r, g.Params(), s, 1+r.IntN(40))
		batch := slices.Clone(events)
		r.Shuffle(len(batch), func(a, b int) { batch[a], batch[b] = batch[b], batch[a] })
		batch = append(batch, batch[0]) // and one twice
		gap := r.IntN(len(events))
		incomplete := slices.DeleteFunc(slices.Clone(batch), func(e Event) bool { return e.ID() == events[gap].ID() })
		needed := slices.ContainsFunc(events, func(e Event) bool { return slices.Contains(e.Parents[:], events[gap].ID()) })
		_, err := g.Insert(t.Context(), s, incomplete, SourceSync)
		if needed != errors.Is(err, ErrNoParent) || needed && g.Stats().Events != 0 {
			rt.Fatalf("a parent is missing (%v): %v, %+v", needed, err, g.Stats())
		}
		stored, err := g.Insert(t.Context(), s, batch, SourceSync)
		if err != nil {
			rt.Fatal(err)
		}
		if needed && len(stored) != len(events) {
			rt.Fatalf("stored %d of %d", len(stored), len(events))
		}
		checkInvariants(t, g)
	})
}

// InsertValid stores what can be stored, whatever is between it.
func TestInsertValid(t *testing.T) {
	c := newClock()
	rapid.Check(t, func(rt *rapid.T) {
		g := memory(t, Config{Now: c.now})
		s := g.Current()
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
		events := dag(r, g.Params(), s, 40)
		bad := map[ID]bool{} // bad ones and what rests on them
		batch := slices.Clone(events)
		for i := range batch {
			id := events[i].ID()
			if r.IntN(10) == 0 {
				bad[id] = true
				batch[i].Content = []byte("forged")
			}
			for _, p := range events[i].Parents {
				if bad[p] {
					bad[id] = true
				}
			}
		}
		r.Shuffle(len(batch), func(a, b int) { batch[a], batch[b] = batch[b], batch[a] })
		stored, refused, err := g.InsertValid(t.Context(), s, batch, SourceSync)
		if err != nil {
			rt.Fatal(err)
		}
		if len(stored) != len(events)-len(bad) || len(refused) != len(bad) {
			rt.Fatalf("stored %d, refused %d; want %d and %d", len(stored), len(refused), len(events)-len(bad), len(bad))
		}
		for _, f := range refused {
			if !bad[f.ID] || !errors.Is(f.Err, ErrInvalid) && !errors.Is(f.Err, ErrNoParent) {
				rt.Fatalf("refused %v: %v", f.ID, f.Err)
			}
			if g.HasBody(s, f.ID) || g.HasHeader(s, f.ID) {
				rt.Fatalf("refused %v, but it is stored", f.ID)
			}
		}
		checkInvariants(t, g)
		// The honest versions still fit: a forged body poisons nothing (trap 1).
		if _, err := g.Insert(t.Context(), s, events, SourceSync); err != nil {
			rt.Fatal(err)
		}
		if n := g.Stats().Events; n != uint64(len(events)) {
			rt.Fatalf("%d events, want %d", n, len(events))
		}
	})
}

// A batch above one transaction is refused whole, or committed in parts, parents first.
func TestInsertLargeBatch(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	s := g.Current()
	events := chain(g.Params(), s, 2*maxCommitEvents+10)
	broken := slices.Clone(events)
	broken[len(broken)-1].Layer++
	if _, err := g.Insert(t.Context(), s, broken, SourceSync); !errors.Is(err, ErrInvalid) {
		t.Errorf("%v, want ErrInvalid", err)
	}
	if err := g.InsertHeaders(s, headersOf(broken)); !errors.Is(err, ErrInvalid) {
		t.Errorf("headers: %v, want ErrInvalid", err)
	}
	if s := g.Stats(); s.Events != 0 || s.HeaderOnly != 0 {
		t.Fatalf("the last event is bad, and %d events and %d headers were stored", s.Events, s.HeaderOnly)
	}
	stored, err := g.Insert(t.Context(), s, events, SourceSync)
	if err != nil || !slices.Equal(stored, ids(events)) {
		t.Errorf("stored %d of %d, %v", len(stored), len(events), err)
	}
	big := make([]Event, 40)
	last := events[len(events)-1]
	for i := range big {
		big[i] = forge(uint64(s)+1, string(make([]byte, DefaultMaxContent-i)), &last)
	}
	mustInsert(t, g, s, big...)
	if _, err := g.Insert(t.Context(), s, make([]Event, MaxBatch+1), SourceSync); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%d events: %v, want ErrTooLarge", MaxBatch+1, err)
	}
	checkInvariants(t, g)
}

// The largest event that a configuration can allow fits a transaction.
func TestInsertLargestContent(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now, MaxContent: maxMaxContent})
	e, err := g.Publish(t.Context(), make([]byte, maxMaxContent))
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := g.Find(e.ID())
	if err != nil || len(got.Content) != maxMaxContent {
		t.Errorf("%d bytes, %v", len(got.Content), err)
	}
	if _, err := g.NewEvent(make([]byte, maxMaxContent+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}

// Many goroutines insert overlapping pieces out of order: everything gets in exactly
// once (what a parent's absence refuses is tried again), arrivals are dense and in the
// order in which OnCommit told of them (failure case 34).
func TestInsertConcurrently(t *testing.T) {
	c := newClock()
	for _, durable := range []bool{false, true} {
		g, err := OpenMemory(Config{Now: c.now})
		if durable {
			g, err = Open(t.TempDir()+"/g", Config{Now: c.now, NoSync: true})
		}
		if err != nil {
			t.Fatal(err)
		}
		var told []Arrival
		g.OnCommit(func(a Arrival) { told = append(told, a) })
		s := g.Current()
		r := rand.New(rand.NewPCG(4, 4))
		events := dag(r, g.Params(), s, 400)
		var mu sync.Mutex
		stored := map[ID]int{}
		var wg sync.WaitGroup
		for w := range 8 {
			r := rand.New(rand.NewPCG(5, uint64(w)))
			wg.Go(func() {
				for at := 0; at < len(events); {
					n := 1 + r.IntN(20)
					batch := events[at:min(at+n, len(events))]
					ids, err := g.Insert(context.Background(), s, batch, SourcePut)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for _, id := range ids {
						stored[id]++
					}
					mu.Unlock()
					at += len(batch)
					if r.IntN(3) == 0 {
						g.unload(g.slots[s])
					}
				}
			})
		}
		wg.Wait()
		for id, n := range stored {
			if n != 1 {
				t.Errorf("%v was reported as new %d times", id, n)
			}
		}
		if len(stored) != len(events) || len(told) != len(events) {
			t.Errorf("stored %d, told %d, want %d", len(stored), len(told), len(events))
		}
		for i, a := range told {
			if a.Seq != Seq(i+1) {
				t.Fatalf("told of arrival %d as number %d", a.Seq, i+1)
			}
		}
		checkInvariants(t, g)
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A full disk refuses, and nothing else changes (ST-02).
func TestInsertDiskFull(t *testing.T) {
	c := newClock()
	st := &kvtest.Faulty{Store: kv.OpenMemory(), Op: OpInsert.Name, Err: kv.ErrDiskFull}
	g := open(t, st, Config{Now: c.now})
	s := g.Current()
	events := chain(g.Params(), s, 2)
	if _, err := g.Insert(t.Context(), s, events[:1], SourcePut); !errors.Is(err, ErrBusy) || !errors.Is(err, kv.ErrDiskFull) {
		t.Errorf("%v, want ErrBusy", err)
	}
	if g.HasBody(s, events[0].ID()) {
		t.Error("a refused event is visible")
	}
	mustInsert(t, g, s, events...)
	checkInvariants(t, g)
}

// ErrNothing must not report success for what is not durable yet, and an unknown
// outcome ends the graph (ST-03).
func TestUnknownOutcomeEndsTheGraph(t *testing.T) {
	c := newClock()
	st := &kvtest.Faulty{Store: kv.OpenMemory(), Op: OpInsert.Name}
	g := open(t, st, Config{Now: c.now})
	s := g.Current()
	events := chain(g.Params(), s, 2)
	if _, err := g.Insert(t.Context(), s, events[:1], SourcePut); !errors.Is(err, kv.ErrUnknown) {
		t.Errorf("%v, want ErrUnknown", err)
	}
	if _, err := g.Insert(t.Context(), s, events, SourcePut); !errors.Is(err, kv.ErrUnknown) {
		t.Errorf("after it: %v, want ErrUnknown", err)
	}
	if err := g.Run(t.Context()); !errors.Is(err, kv.ErrUnknown) {
		t.Errorf("Run: %v, want ErrUnknown", err)
	}
	for _, err := range g.Subscribe(t.Context(), 0) {
		if !errors.Is(err, kv.ErrUnknown) {
			t.Errorf("Subscribe: %v, want ErrUnknown", err)
		}
	}
}

// A gate holds back the return of Updates, as a group commit does while it syncs: later
// transactions see what the graph does not know of yet.
type gate struct {
	kv.Store
	hold chan struct{} // Updates return when it is closed
}

func (g *gate) Update(op kv.Op, fn func(kv.Txn) error) error {
	hold := g.hold
	err := g.Store.Update(op, fn)
	<-hold
	return err
}

// Transactions that run between another's commit and its effect see it: a child gets in
// behind its parent, a copy is no news, and neither returns before the other is durable.
// Effects come in commit order.
func TestInsertBehindUnfinishedCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		close(open)
		st := &gate{kv.OpenMemory(), open}
		c := newClock()
		g, err := OpenStore(st, Config{Now: c.now})
		if err != nil {
			t.Fatal(err)
		}
		s := g.Current()
		events := chain(g.Params(), s, 3)
		mustInsert(t, g, s, events[0]) // the index is loaded
		var told []ID
		g.OnCommit(func(a Arrival) { told = append(told, a.Event.ID()) })
		hold := make(chan struct{})
		st.hold = hold
		type result struct {
			stored []ID
			err    error
		}
		results := make([]chan result, 4)
		for i, batch := range [][]Event{events[1:2], events[1:2], events[2:], events[:2]} {
			results[i] = make(chan result, 1)
			go func() {
				stored, err := g.Insert(t.Context(), s, batch, SourcePut)
				results[i] <- result{stored, err}
			}()
			synctest.Wait()
		}
		if g.HasBody(s, events[1].ID()) || g.Last() != 1 {
			t.Error("visible before it is durable")
		}
		for i, r := range results {
			if len(r) != 0 {
				t.Errorf("insert %d returned before what it saw is durable", i)
			}
		}
		st.hold = open
		close(hold)
		for i, want := range []int{1, 0, 1, 0} {
			if r := <-results[i]; r.err != nil || len(r.stored) != want {
				t.Errorf("insert %d: %v, %v; want %d new", i, r.stored, r.err, want)
			}
		}
		if !slices.Equal(told, ids(events[1:])) {
			t.Errorf("told of %v", told)
		}
		checkInvariants(t, g)
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A meddler does something after each View, before its caller goes on.
type meddler struct {
	kv.Store
	after func()
}

func (m *meddler) View(fn func(kv.Reader) error) error {
	err := m.Store.View(fn)
	if after := m.after; after != nil {
		m.after = nil
		after()
	}
	return err
}

// An index that is read while commits take effect holds all of them, and is read again
// where headers were dropped meanwhile.
func TestLoadDuringCommits(t *testing.T) {
	c := newClock()
	st := &meddler{Store: kv.OpenMemory()}
	g := open(t, st, Config{Now: c.now})
	s := g.Current()
	events := chain(g.Params(), s, 5)
	mustInsert(t, g, s, events[:2]...)
	state := g.slots[s]
	bare := delta{events[4].ID(), &events[4].Header, false}
	commit := func(e Event) {
		b := batch{g: g, st: state, src: SourcePut, items: []item{{e.ID(), &e}}}
		if err := b.commit(OpInsert); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []struct {
		name            string
		do              func()
		events, headers int
	}{
		{"a commit", func() { commit(events[2]) }, 3, 0},
		{"a commit and a copy", func() { commit(events[3]); commit(events[2]) }, 4, 0},
		{"a header", func() { check(t, g.commitHeaders(state, []delta{bare}, nil)) }, 4, 1},
		{"dropped headers", func() { check(t, g.DropHeaders(s)) }, 4, 0},
	} {
		g.unload(state)
		st.after = m.do
		check(t, g.load(state))
		if x := state.idx; x.bodies-1 != m.events || x.missing() != m.headers {
			t.Errorf("%s: %d events and %d headers in the index, want %d and %d",
				m.name, x.bodies-1, x.missing(), m.events, m.headers)
		}
		checkInvariants(t, g)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
