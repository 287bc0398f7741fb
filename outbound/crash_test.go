package outbound

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
	"hearsay/internal/kv/kvtest"
)

// allOps are the named commits of this package: the crash points.
var allOps = []kv.Op{
	opOpen, opEnqueue, opGeneration, opRound, opPark, opDequeue, opCancel, opPurge, opHold, opSweep,
}

// TestCrashTable fails every named commit, applied and not, and goes on in the same
// process or after a restart. What was accepted and not cancelled arrives, in order, once;
// the store keeps its invariants after every step (DS-31, DS-32, DS-40, DS-41, DS-54, DS-84,
// ST-03, ST-04; failure cases 1, 2, 19, 46).
func TestCrashTable(t *testing.T) {
	var names []string
	for _, op := range allOps {
		names = append(names, op.Name)
	}
	slices.Sort(names)
	t.Run("dry", func(t *testing.T) {
		if seen := crashRun(t, &kvtest.Faulty{}); !slices.Equal(seen, names) {
			t.Errorf("the story commits %v, want %v", seen, names)
		}
	})
	for _, op := range names {
		for _, applied := range []bool{false, true} {
			for _, goOn := range []bool{false, true} {
				for skip := range 4 {
					name := fmt.Sprintf("%s/applied=%v/continue=%v/%d", op, applied, goOn, skip)
					t.Run(name, func(t *testing.T) {
						f := &kvtest.Faulty{Op: op, Applied: applied, Skip: skip, Sticky: !goOn}
						if goOn {
							f.Err = errors.New("injected, the store goes on")
						}
						crashRun(t, f)
						if skip == 0 && !f.Failed() {
							t.Error("the commit never happened")
						}
					})
				}
			}
		}
	}
}

// story is one run of the crash table.
type story struct {
	*rig
	t    *testing.T
	f    *kvtest.Faulty
	done chan error
	end  context.CancelFunc
	// want holds what must arrive; maybe what an unknown outcome leaves open.
	want, maybe map[LogicalID]bool
	arrived     []LogicalID
}

func crashRun(t *testing.T, f *kvtest.Faulty) (seen []string) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{t: t, f: f, want: map[LogicalID]bool{}, maybe: map[LogicalID]bool{}}
		mem := kv.OpenMemory()
		f.Store = mem
		now := time.Now
		mat := &fakeMat{now: now}
		net := &fakeNet{
			t: t, now: now, synced: true, store: mem,
			inserted: map[eventgraph.ID]bool{}, bytes: map[eventgraph.ID][]byte{},
		}
		s.rig = &rig{t: t, mem: mem, store: f, now: now, net: net, mat: mat}
		s.cfg.Hooks.Dequeued = func(_ kv.Txn, _ Position, id LogicalID) error {
			s.arrived = append(s.arrived, id)
			return nil
		}
		s.start()
		s.tell()
		s.end()
		<-s.done
		s.invariants()
		seen = f.Seen()
	})
	return seen
}

// start opens the queue, again after a failure of the very open, and runs the worker.
func (s *story) start() {
	s.t.Helper()
	q, err := Open(s.store, s.cfg)
	if err != nil {
		s.mem = s.mem.Reopen()
		s.store = s.mem
		if q, err = Open(s.store, s.cfg); err != nil {
			s.t.Fatalf("reopened: %v", err)
		}
	}
	s.q, s.net.store = q, s.mem
	if s.w, err = NewWorker(q, s.net, s.mat, s.wcfg); err != nil {
		s.t.Fatal(err)
	}
	s.net.observe = s.w.Observe
	ctx, cancel := context.WithCancel(s.t.Context())
	s.end, s.done = cancel, make(chan error, 1)
	w, done := s.w, s.done
	go func() { done <- w.Run(ctx) }()
	synctest.Wait()
}

// rest lets time pass; a worker that died is started again from what is durable.
func (s *story) rest(d time.Duration) {
	s.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	select {
	case err := <-s.done:
		if !errors.Is(err, kv.ErrUnknown) {
			s.t.Fatalf("Run returned %v", err)
		}
		s.reopen()
	default:
	}
	s.invariants()
}

func (s *story) reopen() {
	s.mem = s.mem.Reopen()
	s.store = s.mem
	s.net.mu.Lock()
	s.net.inserted = map[eventgraph.ID]bool{}
	for _, p := range s.net.peers {
		p.conn += 1000
	}
	s.net.mu.Unlock()
	s.start()
}

// unknown handles the outcome of a call: after a sticky failure the process ends.
func (s *story) unknown(err error) bool {
	s.t.Helper()
	if err == nil {
		return false
	}
	if !errors.Is(err, ErrUnknown) {
		s.t.Fatalf("not an unknown outcome: %v", err)
	}
	if s.f.Sticky {
		s.end()
		<-s.done
		s.reopen()
	}
	return true
}

func (s *story) accept(n int) (ps []Position) {
	s.t.Helper()
	var drafts []Draft
	for i := range n {
		id := LogicalID{byte(len(s.want) + len(s.maybe) + 1), byte(i)}
		drafts = append(drafts, Draft{ID: id, Payload: Payload("text")})
	}
	es, err := s.q.Enqueue(s.t.Context(), drafts...)
	for _, d := range drafts {
		if s.maybe[d.ID] = err != nil; err == nil {
			delete(s.maybe, d.ID)
			s.want[d.ID] = true
		}
	}
	if s.unknown(err) {
		return nil
	}
	for _, e := range es {
		ps = append(ps, e.Position)
	}
	return ps
}

func (s *story) drop(e Position, id LogicalID) {
	s.t.Helper()
	err := s.q.Cancel(s.t.Context(), e)
	delete(s.want, id)
	if s.unknown(err) {
		s.maybe[id] = true
	}
}

// tell runs through every commit that there is.
func (s *story) tell() {
	s.mat.set(&Refusal{Reason: ReasonKey})
	s.connect(&fakePeer{answer: always(eventgraph.NackTooOld)}, silent())
	s.accept(1)
	s.rest(35 * time.Second) // parked, one way or the other
	s.mat.set(nil)
	s.w.Retry()
	s.rest(5 * time.Second)
	s.accept(3)
	s.rest(4 * time.Minute) // rounds, and a replacement
	if ps := s.accept(2); ps != nil {
		s.drop(ps[0], s.idAt(ps[0])) // a tombstone
	}
	s.rest(time.Second)
	s.unknown(s.q.Hold(s.t.Context()))
	s.rest(time.Minute)
	if s.unknown(s.q.Release(s.t.Context())) && s.summary().Held {
		if err := s.q.Release(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
	s.rest(time.Second)
	s.net.mu.Lock()
	s.net.peers = nil
	s.net.mu.Unlock()
	s.connect(holder(), holder())
	s.rest(20 * time.Minute)
	s.accept(2)
	s.rest(20 * time.Minute)
	// A removed record comes back (ST-04).
	s.comeBack()
	s.end()
	<-s.done
	s.start()
	s.rest(time.Minute)
	select {
	case <-s.done: // the sweep failed for good
		s.reopen()
	default:
	}
	s.verify()
	// Purged, what waits is gone.
	s.net.mu.Lock()
	s.net.peers = nil
	s.net.mu.Unlock()
	es := s.accept(3)
	_, err := s.q.Purge(s.t.Context())
	s.unknown(err)
	if err != nil {
		if _, err := s.q.Purge(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
	s.rest(time.Second)
	if sum := s.summary(); sum.Depth != 0 {
		s.t.Errorf("%d records of %v after a purge", sum.Depth, es)
	}
}

func (s *story) idAt(p Position) (id LogicalID) {
	err := s.mem.View(func(r kv.Reader) error {
		row, err := get(r, positionKey(tableEntry, p), readEntry)
		id = row.id
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// comeBack writes a removed record's row again, behind the store's back.
func (s *story) comeBack() {
	err := s.mem.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error {
		key := positionKey(tableEntry, 1)
		row := entryRow{id: LogicalID{0xdd}, payload: Payload("a ghost")}
		return tx.Set(key, seal(key, row.appendTo(nil)))
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// verify: everything accepted arrived, once, in order; nothing else did.
func (s *story) verify() {
	s.t.Helper()
	if sum := s.summary(); sum.Depth != 0 {
		s.t.Errorf("%d records left: %+v", sum.Depth, sum)
	}
	var got []LogicalID
	for _, id := range s.arrived {
		if slices.Contains(got, id) {
			// The hook of a commit that was not applied ran as well.
			got = slices.DeleteFunc(got, func(g LogicalID) bool { return g == id })
		}
		got = append(got, id)
	}
	for id := range s.want {
		if !slices.Contains(got, id) {
			s.t.Errorf("%v was accepted and did not arrive", id)
		}
	}
	for _, id := range got {
		if !s.want[id] && !s.maybe[id] {
			s.t.Errorf("%v arrived", id)
		}
	}
	if !slices.IsSorted(s.net.order) {
		s.t.Errorf("order %v", s.net.order)
	}
	if got := s.mem.View(func(r kv.Reader) error {
		_, err := r.Get(positionKey(tableEntry, 1))
		return err
	}); !errors.Is(got, kv.ErrNotFound) {
		s.t.Errorf("a removed record that came back was not swept: %v", got)
	}
}
