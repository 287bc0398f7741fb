package gossip

import (
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

const (
	planTimeout  = 15 * time.Second
	planInterval = time.Minute
)

// A planTest drives a plan in fake time.
type planTest struct {
	*testing.T
	*plan
	now time.Time
}

func newPlanTest(t *testing.T, skip bool) *planTest {
	p := newPlan(testParams, planTimeout, planInterval, skip)
	x := &planTest{t, p, t0.Add(10 * time.Minute)}
	x.rotate(x.now, testSlot, []eventgraph.Slot{testSlot - hourMS, testSlot - 2*hourMS, testSlot - 3*hourMS})
	return x
}

// ask takes the next slot for a peer and fails unless it is want.
func (x *planTest) ask(id p2p.ConnID, want eventgraph.Slot) {
	x.Helper()
	got, wait, ok := x.next(x.now, id)
	if !ok || got != want {
		x.Fatalf("peer %d: next is %v (%v, wait %v), want %v", id, got, ok, wait, want)
	}
	x.asking(id, got)
}

func (x *planTest) idle(id p2p.ConnID) time.Duration {
	x.Helper()
	got, wait, ok := x.next(x.now, id)
	if ok {
		x.Fatalf("peer %d: next is %v, want nothing", id, got)
	}
	return wait
}

func (x *planTest) end(id p2p.ConnID, s eventgraph.Slot, v verdict) { x.done(x.now, id, s, v) }

func (x *planTest) wantGate(want bool) time.Duration {
	x.Helper()
	got, wait := x.gate(x.now)
	if got != want {
		x.Fatalf("synced: %v, want %v", got, want)
	}
	return wait
}

// The current slot comes first and opens the gate; the others follow, each peer
// starting elsewhere.
func TestPlanOrder(t *testing.T) {
	x := newPlanTest(t, false)
	x.up(x.now, 1)
	x.up(x.now, 2)
	x.ask(1, testSlot)
	x.ask(2, testSlot)
	x.end(1, testSlot, verdictMatched)
	x.end(2, testSlot, verdictMatched)
	x.wantGate(true)
	if done, all := x.count(); done != 1 || all != 4 {
		t.Errorf("%d of %d slots", done, all)
	}
	x.ask(1, testSlot-hourMS)
	x.ask(2, testSlot-hourMS) // recently closed: everybody
	x.ask(1, testSlot-2*hourMS)
	x.ask(2, testSlot-2*hourMS)
	x.ask(1, testSlot-3*hourMS)
}

func TestPlanSpreadsHistory(t *testing.T) {
	x := newPlanTest(t, false)
	x.now = x.now.Add(30 * time.Minute)
	for id := range p2p.ConnID(3) {
		x.up(x.now, id)
		x.ask(id, testSlot)
		x.end(id, testSlot, verdictMatched)
		x.ask(id, testSlot-hourMS)
		x.end(id, testSlot-hourMS, verdictMatched)
	}
	x.ask(1, testSlot-2*hourMS)
	x.ask(2, testSlot-3*hourMS)
	x.ask(0, testSlot-2*hourMS)
}

// A new peer is compared with at once, and then at the interval.
func TestPlanInterval(t *testing.T) {
	x := newPlanTest(t, true)
	x.up(x.now, 1)
	for s := range eventgraph.Slot(4) {
		x.ask(1, testSlot-s*hourMS)
		x.end(1, testSlot-s*hourMS, verdictMatched)
	}
	if wait := x.idle(1); wait != planInterval {
		t.Errorf("waits %v", wait)
	}
	x.now = x.now.Add(planInterval)
	x.ask(1, testSlot)
	x.end(1, testSlot, verdictMatched)
	if wait := x.idle(1); wait != planInterval {
		t.Errorf("and then %v", wait)
	}
}

// Trap 21: nobody answers. After three timeouts with a peer the node is synced, and
// not before; without a peer it never is.
func TestPlanSilentNetwork(t *testing.T) {
	x := newPlanTest(t, false)
	x.wantGate(false)
	x.now = x.now.Add(time.Hour)
	x.wantGate(false)
	x.up(x.now, 1)
	x.ask(1, testSlot)
	x.now = x.now.Add(planTimeout)
	x.end(1, testSlot, verdictSilent)
	if x.idle(1) <= 0 {
		t.Error("a silent peer is asked for history at once")
	}
	if wait := x.wantGate(false); wait != 2*planTimeout {
		t.Errorf("looks again in %v", wait)
	}
	x.now = x.now.Add(2*planTimeout - 1)
	x.wantGate(false)
	x.now = x.now.Add(1)
	x.wantGate(true)
}

// One silent peer does not hold the gate that another one opens.
func TestPlanOneSilentPeer(t *testing.T) {
	x := newPlanTest(t, false)
	x.up(x.now, 1)
	x.up(x.now, 2)
	x.ask(1, testSlot)
	x.ask(2, testSlot)
	x.now = x.now.Add(time.Second)
	x.end(2, testSlot, verdictMatched)
	if wait := x.wantGate(false); wait != gateGrace {
		t.Errorf("looks again in %v", wait)
	}
	x.now = x.now.Add(gateGrace)
	x.wantGate(true)
}

// A peer that has more holds the gate until it is fetched; one that drips does not
// hold it for ever once another one matches; one that lies is left out.
func TestPlanPullingHoldsGate(t *testing.T) {
	for name, drip := range map[string]bool{"done": false, "drips": true} {
		t.Run(name, func(t *testing.T) {
			x := newPlanTest(t, false)
			x.up(x.now, 1)
			x.up(x.now, 2)
			x.ask(1, testSlot)
			x.ask(2, testSlot)
			x.end(1, testSlot, verdictMatched)
			if !x.pull(x.now, 2, testSlot) {
				t.Fatal("nobody else pulls")
			}
			x.now = x.now.Add(gateGrace)
			x.wantGate(false)
			if !drip {
				x.end(2, testSlot, verdictMatched)
				x.wantGate(true)
				return
			}
			x.now = x.now.Add(3*planTimeout - gateGrace - 1)
			x.wantGate(false)
			x.now = x.now.Add(1)
			x.wantGate(true)
		})
	}
	x := newPlanTest(t, false)
	x.up(x.now, 1)
	x.up(x.now, 2)
	x.ask(1, testSlot)
	x.ask(2, testSlot)
	x.pull(x.now, 1, testSlot)
	x.end(1, testSlot, verdictFailed)
	x.wantGate(false)
	x.end(2, testSlot, verdictMatched)
	x.wantGate(true)
}

// Only liars: as if nobody had answered.
func TestPlanOnlyLiars(t *testing.T) {
	x := newPlanTest(t, false)
	x.up(x.now, 1)
	x.ask(1, testSlot)
	x.pull(x.now, 1, testSlot)
	x.now = x.now.Add(time.Second)
	x.end(1, testSlot, verdictFailed)
	x.wantGate(false)
	x.now = x.now.Add(3 * planTimeout)
	x.wantGate(true)
}

// One peer pulls a slot at a time; a second one takes over when it is done, or when it
// makes no progress.
func TestPlanHedge(t *testing.T) {
	start := func(t *testing.T) *planTest {
		x := newPlanTest(t, false)
		x.up(x.now, 1)
		x.up(x.now, 2)
		x.ask(1, testSlot)
		x.ask(2, testSlot)
		if !x.pull(x.now, 1, testSlot) || x.pull(x.now, 2, testSlot) {
			t.Fatal("the first pulls, the second waits")
		}
		return x
	}
	t.Run("done", func(t *testing.T) {
		x := start(t)
		x.ask(2, testSlot-hourMS) // meanwhile something else
		x.end(1, testSlot, verdictMatched)
		x.ask(2, testSlot)
	})
	t.Run("stalls", func(t *testing.T) {
		x := start(t)
		x.now = x.now.Add(2 * time.Second)
		x.progress(x.now, 1, testSlot)
		x.now = x.now.Add(hedgeAfter - 1)
		if x.pull(x.now, 2, testSlot) {
			t.Error("too soon")
		}
		x.now = x.now.Add(1)
		x.ask(2, testSlot)
		if !x.pull(x.now, 2, testSlot) {
			t.Error("the first has stalled")
		}
		x.end(1, testSlot, verdictFailed)
		if x.slots[testSlot].leader != 2 || !x.slots[testSlot].lead {
			t.Error("the first ends what is not its own any more")
		}
	})
	t.Run("leaves", func(t *testing.T) {
		x := start(t)
		x.down(1)
		x.ask(2, testSlot)
		if !x.pull(x.now, 2, testSlot) {
			t.Error("the first is gone")
		}
	})
}

// Losing the last peer closes the gate; losing another one does not. SkipSync never
// closes it.
func TestPlanLosesPeers(t *testing.T) {
	x := newPlanTest(t, false)
	x.up(x.now, 1)
	x.up(x.now, 2)
	x.ask(1, testSlot)
	x.end(1, testSlot, verdictMatched)
	x.now = x.now.Add(gateGrace)
	x.wantGate(true)
	x.down(2)
	x.wantGate(true)
	x.down(1)
	x.wantGate(false)
	if x.slotSynced(testSlot) {
		t.Error("the slot is still synced")
	}
	x.now = x.now.Add(time.Hour)
	x.wantGate(false)

	x = newPlanTest(t, true)
	x.wantGate(true)
	x.up(x.now, 1)
	x.down(1)
	x.wantGate(true)
}

// At the turn of the slot a synced node stays so, and looks at the closed slot once
// more; over a jump of the clock (suspend) it has to compare first.
func TestPlanRotation(t *testing.T) {
	x := newPlanTest(t, false)
	x.up(x.now, 1)
	for s := range eventgraph.Slot(4) {
		x.ask(1, testSlot-s*hourMS)
		x.end(1, testSlot-s*hourMS, verdictMatched)
	}
	x.wantGate(true)
	x.now = t0.Add(time.Hour)
	x.rotate(x.now, testSlot+hourMS, []eventgraph.Slot{testSlot, testSlot - hourMS, testSlot - 2*hourMS})
	x.wantGate(true)
	if !x.slotSynced(testSlot + hourMS) {
		t.Error("the new slot is not synced")
	}
	for s := eventgraph.Slot(1); s <= 2; s++ { // matched an hour ago: the peer may have learned more
		x.ask(1, testSlot-s*hourMS)
		x.end(1, testSlot-s*hourMS, verdictMatched)
	}
	if wait := x.idle(1); wait != planInterval/4 {
		t.Errorf("compares in %v", wait)
	}
	x.now = x.now.Add(planInterval / 4)
	x.ask(1, testSlot+hourMS)
	x.end(1, testSlot+hourMS, verdictMatched)
	x.now = x.now.Add(testParams.Drift / 2)
	x.ask(1, testSlot)
	x.end(1, testSlot, verdictMatched)
	if x.slots[testSlot-3*hourMS] != nil || x.peers[1].pairs[testSlot-3*hourMS] != nil {
		t.Error("the oldest slot is remembered")
	}

	x.now = t0.Add(9 * time.Hour)
	x.rotate(x.now, testSlot+9*hourMS, []eventgraph.Slot{testSlot + 8*hourMS, testSlot + 7*hourMS})
	x.wantGate(false)
	x.ask(1, testSlot+9*hourMS)
	x.end(1, testSlot+9*hourMS, verdictMatched)
	x.wantGate(true)
}

// Foreign peers are not asked again; kick brings a comparison forward.
func TestPlanForeignAndKick(t *testing.T) {
	x := newPlanTest(t, false)
	x.up(x.now, 1)
	x.ask(1, testSlot)
	x.end(1, testSlot, verdictForeign)
	x.now = x.now.Add(time.Hour)
	x.idle(1)

	x = newPlanTest(t, true)
	x.up(x.now, 1)
	for s := range eventgraph.Slot(4) {
		x.ask(1, testSlot-s*hourMS)
		x.end(1, testSlot-s*hourMS, verdictMatched)
	}
	x.kick(x.now, 1, testSlot)
	if wait := x.idle(1); wait != kickDelay {
		t.Errorf("kicked, waits %v", wait)
	}
	x.kick(x.now, 7, testSlot) // nobody
}

// What was pushed while the gate was closed was dropped, so it is looked for as soon
// as it opens.
func TestPlanLooksAgainAfterOpening(t *testing.T) {
	x := newPlanTest(t, false)
	x.up(x.now, 1)
	for s := range eventgraph.Slot(4) {
		x.ask(1, testSlot-s*hourMS)
		x.end(1, testSlot-s*hourMS, verdictMatched)
	}
	x.wantGate(true)
	if wait := x.idle(1); wait != kickDelay {
		t.Errorf("waits %v", wait)
	}
}
