package outbound

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
	"hearsay/internal/serial"
)

// TestFortyLines: accepted offline, survive a crash, arrive in order once two peers are
// there, and nothing of them was seen before its turn (DS-32, DS-35, DS-41, DS-54; failure
// cases 3, 14, 31).
func TestFortyLines(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 40 {
			r.enqueue(fmt.Sprint("line ", i))
		}
		sleep(10 * time.Minute)
		if len(r.net.log()) != 0 || r.mat.count() != 0 {
			t.Fatal("something was made while offline")
		}
		r.crash()
		r.run()
		if s := r.summary(); s.Depth != 40 {
			t.Fatalf("depth %d after the crash", s.Depth)
		}
		r.connect(holder())
		sleep(time.Minute)
		if len(r.net.log()) != 0 {
			t.Fatal("sent with 1 of 2 connections (DS-57)")
		}
		r.connect(holder())
		sleep(time.Second)
		synctest.Wait()
		if s := r.summary(); s.Depth != 0 || s.Acked != 40 {
			t.Fatalf("depth %d, acked %d", s.Depth, s.Acked)
		}
		if n := len(r.net.log()); n != 40 {
			t.Errorf("%d puts for 40 messages and prompt answers", n)
		}
		for i, p := range r.net.order {
			if p != Position(i+1) {
				t.Fatalf("order %v", r.net.order)
			}
		}
	})
}

// TestSchedule: the exact times, over Run (DS-59, DS-60).
func TestSchedule(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.connect(&fakePeer{answer: always(eventgraph.NackBusy)}, &fakePeer{answer: always(eventgraph.NackInvalid)})
		start := time.Now()
		r.enqueue("x")
		sleep(time.Hour)
		want := []time.Duration{0, 30, 90, 210, 450, 930, 1410, 1890, 2370, 2850, 3330}
		var got []time.Duration
		for _, p := range r.net.log() {
			d := p.at.Sub(start)
			if d%time.Second != 0 {
				t.Errorf("put at %v", d)
			}
			got = append(got, d/time.Second)
		}
		if !slices.Equal(got, want) {
			t.Errorf("puts at %v, want %v", got, want)
		}
	})
}

// TestThirtyDaysOffline: the queue is byte-identical (failure case 5), with and without
// a generation that is out.
func TestThirtyDaysOffline(t *testing.T) {
	for _, sent := range []bool{false, true} {
		bubble(t, func(t *testing.T, r *rig) {
			r.change(func() { r.net.rotation = time.Hour })
			if sent {
				r.connect(silent(), silent())
			}
			sleep(10 * time.Minute)
			r.enqueue("a", "b", "c")
			synctest.Wait()
			r.disconnect()
			before := r.dump()
			sleep(30 * 24 * time.Hour)
			if r.dump() != before {
				t.Errorf("sent %v: the store changed", sent)
			}
			if s := r.summary(); s.Depth != 3 {
				t.Errorf("depth %d", s.Depth)
			}
		})
	}
}

// TestTenThousandRounds: the head stays the head, unchanged (failure case 6; DS-43,
// DS-63, DS-73).
func TestTenThousandRounds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.connect(silent(), silent())
		r.enqueue("a", "b")
		sleep(10_000 * 480 * time.Second)
		log := r.net.log()
		if n := len(log); n < 10_000 || n > 10_010 {
			t.Errorf("%d puts", n)
		}
		if len(r.net.order) != 1 || len(r.net.bytes) != 1 || r.mat.count() != 1 {
			t.Errorf("%v, %d generations", r.net.order, r.mat.count())
		}
		if s := r.summary(); s.Depth != 2 || s.Bytes > 2048 {
			t.Errorf("%+v", s)
		}
	})
}

// TestRestartKeepsSchedule: rounds and due time survive, no burst (failure case 4).
func TestRestartKeepsSchedule(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.connect(silent(), silent())
		start := time.Now()
		r.enqueue("x")
		sleep(5 * time.Minute) // after round 3, the next is due at 450 s
		r.crash()
		r.run()
		n := len(r.net.log())
		sleep(149 * time.Second)
		if len(r.net.log()) != n {
			t.Error("put before its due time")
		}
		sleep(2 * time.Second)
		log := r.net.log()
		if len(log) != n+1 || log[n].at.Sub(start) != 450*time.Second {
			t.Errorf("puts %d, last at %v", len(log), log[len(log)-1].at.Sub(start))
		}
		if h, ok := r.w.Head(); !ok || h.Rounds != 4 || h.Generations != 1 {
			t.Errorf("%+v", h)
		}
	})
}

// TestClockWalk: whatever the clock does, the next round is never further off than its
// delay, and the head goes on (DS-59; failure cases 24, 37).
func TestClockWalk(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var offset time.Duration
		r.change(func() { r.now = func() time.Time { return time.Now().Add(offset) } })
		rng := rand.New(rand.NewPCG(1, 2))
		r.change(func() { r.net.rotation = time.Hour })
		r.connect(silent(), silent())
		r.enqueue("x")
		for range 300 {
			// A jump, or a suspend: wall time runs on while timers stand still.
			r.change(func() { offset += time.Duration(rng.Int64N(int64(4*time.Hour))) - 2*time.Hour })
			r.w.Wake()
			before := len(r.net.log())
			sleep(8*time.Minute + 31*time.Second)
			if len(r.net.log()) == before {
				t.Fatalf("nothing put within the longest delay and a wakeup")
			}
			if h, _ := r.w.Head(); h.NextAttempt.Sub(r.now()) > 8*time.Minute {
				t.Fatalf("next attempt %v off", h.NextAttempt.Sub(r.now()))
			}
		}
	})
}

// TestSuspend: timers slept, the wall clock did not: the wakeup sees it within 30 s.
func TestSuspend(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var offset time.Duration
		r.change(func() { r.now = func() time.Time { return time.Now().Add(offset) } })
		r.connect(silent(), silent())
		r.enqueue("x")
		sleep(931 * time.Second) // the next round is due in 479 s
		n := len(r.net.log())
		r.change(func() { offset = time.Hour })
		sleep(30 * time.Second)
		if len(r.net.log()) != n+1 {
			t.Error("not put within a wakeup of resuming")
		}
	})
}

// TestRotationsSilent: with peers that say nothing the head is recreated once a slot,
// in its place, and the chain is kept (DS-37 to DS-39, DS-61, DS-85).
func TestRotationsSilent(t *testing.T) {
	for _, peer := range []func() *fakePeer{silent, stock} {
		bubble(t, func(t *testing.T, r *rig) {
			r.change(func() { r.net.rotation = time.Hour })
			sleep(20 * time.Minute)
			r.connect(peer(), peer())
			e := r.enqueue("a", "b")[0]
			sleep(6 * time.Hour)
			h, _ := r.w.Head()
			if h.Position != 1 || h.Generations < 5 || h.Generations > 7 {
				t.Errorf("%+v", h)
			}
			rec, _, err := r.q.store.head()
			if err != nil || len(rec.Generations) != h.Generations {
				t.Fatalf("%v, %d", err, len(rec.Generations))
			}
			for i, g := range rec.Generations {
				if i > 0 && g.slot <= rec.Generations[i-1].slot {
					t.Errorf("two generations in one slot")
				}
				if owner, ok, err := r.q.Owner(g.id); owner != e.ID || !ok || err != nil {
					t.Errorf("DS-85: owner %v %v %v", owner, ok, err)
				}
			}
			// An answer for the oldest is an answer for the message (DS-52); a connection
			// on which only later ones were put cannot give it.
			r.w.Observe(eventgraph.Status{ID: rec.Generations[0].id, Result: eventgraph.HasAlready}, 77)
			synctest.Wait()
			if s := r.summary(); s.Depth != 2 {
				t.Fatal("a stranger's answer counted")
			}
			r.w.Observe(eventgraph.Status{ID: rec.Generations[0].id, Result: eventgraph.HasAlready}, 1)
			synctest.Wait()
			if s := r.summary(); s.Depth != 1 {
				t.Error("an answer for an old generation did not count")
			}
		})
	}
}

// TestLatePuts: while its slot is current a late put goes to capable peers only, once the
// slot is 90 s gone to everybody (DS-19).
func TestLatePuts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.change(func() { r.net.rotation = time.Hour })
		r.connect(silent(), stock())
		sleep(10 * time.Minute)
		r.enqueue("x")
		sleep(100 * time.Minute)
		for _, p := range r.net.log() {
			slot := uint64(p.at.Truncate(time.Hour).UnixMilli())
			ev := eventgraph.ReadEvent(serial.NewReader(r.net.bytes[p.id]), MaxEvent)
			age := p.at.Sub(time.UnixMilli(int64(ev.Timestamp)))
			current := ev.Timestamp > slot
			late := p.at.Sub(time.UnixMilli(int64(slot))) >= 90*time.Second
			if want := current && age < 50*time.Second || !current && late; p.stock != want {
				t.Errorf("at %v, age %v: to stock peers %v", p.at.Format("15:04:05"), age, p.stock)
			}
		}
	})
}

// TestRetainedHolder: a peer that kept the slot answers Has after the rotation: never
// recreated (DS-62).
func TestRetainedHolder(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.change(func() { r.net.rotation = time.Hour })
		sleep(40 * time.Minute)
		r.connect(silent(), silent())
		r.enqueue("x")
		sleep(time.Minute)
		r.disconnect()
		sleep(5 * time.Hour)
		r.connect(&fakePeer{conn: 8, answer: always(eventgraph.NackTooOld)}, &fakePeer{conn: 9, answer: always(eventgraph.HasAlready)})
		sleep(time.Second)
		if s := r.summary(); s.Depth != 0 || r.mat.count() != 1 {
			t.Errorf("depth %d, %d generations", s.Depth, r.mat.count())
		}
	})
}

// TestLyingTooOld: at most one replacement for each first round of the schedule (DS-81).
func TestLyingTooOld(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.connect(&fakePeer{answer: always(eventgraph.NackTooOld)}, &fakePeer{answer: always(eventgraph.NackTooOld)})
		r.enqueue("x")
		sleep(time.Hour - time.Second)
		if r.mat.count() != 40 { // 30 s to the first round, 60 s to its end
			t.Errorf("%d generations in an hour", r.mat.count())
		}
		if s := r.summary(); s.Depth != 1 {
			t.Errorf("depth %d", s.Depth)
		}
	})
}

// TestAckRacesRecreation: evidence for the old generation at each point of making the new
// one: the new one is never seen (DS-56, DS-62).
func TestAckRacesRecreation(t *testing.T) {
	for _, point := range []string{"materialise", "generation"} {
		t.Run(point, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				var first eventgraph.ID
				ack := func() { r.w.Observe(eventgraph.Status{ID: first, Result: eventgraph.HasAlready}, 1) }
				r.connect(&fakePeer{answer: always(eventgraph.NackTooOld)}, silent())
				r.enqueue("x", "y")
				sleep(time.Second)
				first = r.net.log()[0].id
				switch point {
				case "materialise":
					r.mat.mu.Lock()
					r.mat.during = func() {
						if r.mat.count() == 2 {
							ack()
						}
					}
					r.mat.mu.Unlock()
				case "generation":
					r.change(func() {
						r.q.store.hooks.Generated = func(_ kv.Txn, e Entry, number int, _ Generation) error {
							if e.Position == 1 && number == 1 {
								ack()
							}
							return nil
						}
					})
				}
				sleep(95 * time.Second)
				for _, p := range r.net.log() {
					if p.pos == 1 && p.id != first {
						t.Error("the replacement was shown")
					}
				}
				if h, ok := r.w.Head(); !ok || h.Position != 2 {
					t.Errorf("%+v", h)
				}
			})
		})
	}
}

// TestChildBeforeCrash: a foreign child was stored, and the process died before it was
// taken for evidence (DS-52).
func TestChildBeforeCrash(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.connect(silent(), silent())
		r.enqueue("x")
		synctest.Wait()
		after := r.net.log()[0].id
		r.change(func() { r.net.after = after })
		r.disconnect()
		r.crash()
		r.run()
		synctest.Wait()
		if s := r.summary(); s.Depth != 0 {
			t.Error("stored evidence was not found")
		}
	})
}

// TestAncestry: parents are matched at the call, foreign events only (DS-52, DS-53), and
// while the gate is closed too (DS-58).
func TestAncestry(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.connect(silent(), silent())
		r.enqueue("x")
		synctest.Wait()
		r.disconnect()
		id := r.net.log()[0].id
		local, child := eventgraph.ID{5}, eventgraph.ID{6}
		r.w.Arrived(id, []eventgraph.ID{{1}}, eventgraph.SourceLocal)
		r.w.Arrived(local, []eventgraph.ID{{9}, id}, eventgraph.SourceLocal)
		r.w.Arrived(eventgraph.ID{7}, []eventgraph.ID{{9}}, eventgraph.SourcePut)
		synctest.Wait()
		if s := r.summary(); s.Depth != 1 {
			t.Fatal("local or unrelated events counted")
		}
		r.w.Arrived(child, []eventgraph.ID{local}, eventgraph.SourceSync)
		synctest.Wait()
		if s := r.summary(); s.Depth != 0 {
			t.Error("a foreign descendant did not count")
		}
	})
}

// TestTips: DS-65, both ways.
func TestTips(t *testing.T) {
	for _, off := range []bool{false, true} {
		bubble(t, func(t *testing.T, r *rig) {
			r.connect(stock(), stock())
			r.enqueue("x")
			synctest.Wait()
			r.w.ObserveTips([]eventgraph.ID{{1}, r.net.log()[0].id})
			synctest.Wait()
			want := 0
			if off {
				want = 1
			}
			if s := r.summary(); s.Depth != want {
				t.Errorf("off %v: depth %d", off, s.Depth)
			}
		}, func(r *rig) { r.wcfg.Policy.NoTipEvidence = off })
	}
}

// TestFlappingLink: order is kept, nothing is lost (failure case 32).
func TestFlappingLink(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range 30 {
			r.enqueue(fmt.Sprint(i))
			r.connect(holder())
			sleep(5 * time.Second)
			r.connect(holder())
			sleep(10 * time.Millisecond)
			r.disconnect()
			sleep(15 * time.Second)
		}
		if s := r.summary(); s.Depth != 0 || s.Acked != 30 {
			t.Errorf("%+v", s)
		}
	})
}

// TestParkedHead: told once, later messages wait, going on when the cause is gone (DS-75
// to DS-79; failure case 23).
func TestParkedHead(t *testing.T) {
	for _, reason := range []Reason{ReasonIdentity, ReasonKey, ReasonProcessing} {
		bubble(t, func(t *testing.T, r *rig) {
			r.mat.set(&Refusal{Reason: reason})
			if reason == ReasonProcessing {
				r.mat.set(errors.New("anything"))
			}
			r.connect(holder(), holder())
			r.enqueue("a", "b")
			sleep(10*time.Minute + time.Second)
			if n := r.mat.count(); n != 21 {
				t.Errorf("%v: tried %d times in 10 minutes", reason, n)
			}
			if h, _ := r.w.Head(); h.State != "parked" || h.Reason != reason.String() || h.Position != 1 {
				t.Errorf("%+v", h)
			}
			if len(r.told()) != 1 || r.told()[0].Reason != reason || r.told()[0].Cleared {
				t.Errorf("told %+v", r.told())
			}
			if n, ok := r.w.Blocked(); !ok || n.Reason != reason {
				t.Errorf("a client that connects now is told %+v", n)
			}
			r.mat.set(nil)
			r.w.Retry()
			sleep(wakeGap)
			if s := r.summary(); s.Depth != 0 {
				t.Errorf("depth %d", s.Depth)
			}
			if len(r.told()) != 2 || !r.told()[1].Cleared {
				t.Errorf("told %+v", r.told())
			}
		})
	}
}

// TestRetryIsBounded: callers cannot make a parked head spin (DS-77).
func TestRetryIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.mat.set(&Refusal{Reason: ReasonKey})
		r.connect(holder(), holder())
		r.enqueue("a")
		for range 1000 {
			r.w.Retry()
			sleep(10 * time.Millisecond)
		}
		if n := r.mat.count(); n < 10 || n > 12 {
			t.Errorf("tried %d times in 10 s", n)
		}
	})
}

// TestNotices: the hourly repeat, and the numbers (DS-76).
func TestNotices(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.connect(holder())
		sleep(time.Hour)
		if len(r.told()) != 0 {
			t.Fatal("an empty queue is not blocked")
		}
		r.enqueue("a")
		sleep(29 * time.Second)
		if len(r.told()) != 0 {
			t.Fatal("told too early")
		}
		sleep(3 * time.Hour)
		if len(r.told()) != 3 {
			t.Errorf("told %d times in three hours", len(r.told()))
		}
		if n := r.told()[0]; n.Reason != ReasonConnections || n.Have != 1 || n.Want != 2 {
			t.Errorf("%+v", n)
		}
	})
}

// TestHeld: a restored queue sends nothing until it is confirmed; purging empties it (ST-06).
func TestHeld(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.enqueue("a", "b")
		if err := r.q.Hold(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.connect(holder(), holder())
		sleep(time.Hour)
		r.crash()
		r.run()
		sleep(time.Hour)
		if len(r.net.log()) != 0 || !r.summary().Held {
			t.Fatal("a held queue sent")
		}
		if err := r.q.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		sleep(time.Second)
		if s := r.summary(); s.Depth != 0 || s.Held {
			t.Errorf("%+v", s)
		}
	})
}

// TestCancel: the head and a queued record, while the worker runs (DS-84).
func TestCancel(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.connect(silent(), silent())
		r.enqueue("a", "b", "c", "d")
		synctest.Wait()
		for _, p := range []Position{3, 1} {
			if err := r.q.Cancel(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if err := r.q.Cancel(t.Context(), p); !errors.Is(err, ErrNotFound) {
				t.Errorf("cancelled twice: %v", err)
			}
		}
		synctest.Wait()
		if h, _ := r.w.Head(); h.Position != 2 {
			t.Errorf("%+v", h)
		}
		old := r.net.log()[0].id
		r.w.Observe(eventgraph.Status{ID: old, Result: eventgraph.HasInserted}, 1)
		synctest.Wait()
		if s := r.summary(); s.Depth != 2 || s.Cancelled != 2 || s.Tombstones != 1 {
			t.Errorf("%+v", s)
		}
		id := r.net.log()[len(r.net.log())-1].id
		r.w.Observe(eventgraph.Status{ID: id, Result: eventgraph.HasInserted}, 1)
		synctest.Wait()
		if s := r.summary(); s.Depth != 1 || s.Tombstones != 0 {
			t.Errorf("%+v", s)
		}
		if !slices.Equal(r.net.order, []Position{1, 2, 4}) {
			t.Errorf("order %v", r.net.order)
		}
	})
}

// TestObserveFlood: statuses take no memory, block nobody, and none that counts is lost
// (DS-21, DS-22, DS-51; failure case 72).
func TestObserveFlood(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.connect(silent(), silent())
		r.enqueue("a", "b")
		synctest.Wait()
		id := r.net.log()[0].id
		for i := range 100_000 {
			r.w.Observe(eventgraph.Status{ID: eventgraph.ID{byte(i), byte(i >> 8), 1}, Result: eventgraph.HasInserted}, ConnID(i))
			r.w.Observe(eventgraph.Status{ID: id, Result: eventgraph.HasInserted}, ConnID(i+10))
		}
		if n := len(r.w.tracked.puts); n != 2 {
			t.Errorf("%d puts tracked", n)
		}
		synctest.Wait()
		if s := r.summary(); s.Depth != 2 {
			t.Fatal("an answer from a connection that was never put to counted")
		}
		r.w.Observe(eventgraph.Status{ID: id, Result: eventgraph.HasInserted}, 2)
		for i := range 100_000 {
			r.w.Observe(eventgraph.Status{ID: id, Result: eventgraph.NackBusy}, ConnID(i))
		}
		synctest.Wait()
		if s := r.summary(); s.Depth != 1 {
			t.Error("the answer was lost")
		}
	})
}

// TestPutsAreBounded: connections that come and go are forgotten, oldest first.
func TestPutsAreBounded(t *testing.T) {
	var k tracked
	id := eventgraph.ID{1}
	k.follow(1, []eventgraph.ID{id}, id)
	for c := range ConnID(maxPuts + 1) {
		k.put(id, c)
	}
	if len(k.puts) != maxPuts || len(k.order) != maxPuts {
		t.Errorf("%d, %d", len(k.puts), len(k.order))
	}
	if k.status(eventgraph.Status{ID: id, Result: eventgraph.HasAlready}, 0) {
		t.Error("the oldest is still known")
	}
	if !k.status(eventgraph.Status{ID: id, Result: eventgraph.HasAlready}, maxPuts) {
		t.Error("the newest is not")
	}
}

// TestRunTwice, and what Run returns.
func TestRunTwice(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		if err := r.w.Run(t.Context()); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("a second Run returned %v", err)
		}
	})
}
