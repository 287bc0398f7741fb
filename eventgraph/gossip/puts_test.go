package gossip

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// Each put gets one answer, on its own connection and on no other.
func TestPutAnswers_DS05_DS11_DS12_DS13_DS16(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		q := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		e := n.child("one")
		p.put(e)
		p.wantAnswer(e, eventgraph.HasInserted)
		if !n.has(e.ID()) {
			t.Error("DS-16: told has, and has it not")
		}
		p.put(e)
		p.wantAnswer(e, eventgraph.HasInserted, eventgraph.HasAlready)
		q.put(e)
		q.wantAnswer(e, eventgraph.HasAlready)

		// DS-12: a closed slot that holds it, and one that does not.
		held := testEvent(uint64(testSlot)-hourMS+5000, genesisID(testSlot-hourMS))
		n.insert(testSlot-hourMS, held)
		p.put(held)
		p.wantAnswer(held, eventgraph.HasAlready)
		lost := testEvent(uint64(testSlot)-hourMS+6000, genesisID(testSlot-hourMS))
		p.put(lost)
		p.wantAnswer(lost, eventgraph.NackTooOld)
		n.wantStrikes(0)

		// DS-13, DS-17: told and struck.
		future := n.child("future")
		future.Timestamp += 60001
		layer := n.child("layer")
		layer.Layer = 2
		for _, bad := range []eventgraph.Event{future, layer} {
			p.put(bad)
			p.wantAnswer(bad, eventgraph.NackInvalid)
		}
		n.wantStrikes(2)
		if got := heard[EventPut](p, CmdEventPut); len(got) != 0 {
			t.Errorf("relayed back to its sender: %d", len(got))
		}
		if got := q.answers(held.ID()); len(got) != 0 {
			t.Error("DS-05: told somebody else")
		}
	})
}

func genesisID(s eventgraph.Slot) eventgraph.ID {
	e := testParams.GenesisOf(s)
	return e.ID()
}

// DS-10, and DS-12 for a slot that was not compared yet.
func TestPutNotSynced_DS10_DS12(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, nil)
		// It lists nothing for the current slot and keeps silent on others.
		p := newPuppet(t, n, p2p.SessionOutbound, true, func(p *puppet, command string, payload []byte) {
			if q, err := DecodeTipReq(payload); command == CmdTipReq && err == nil && q.Name == testSlot.String() {
				time.AfterFunc(time.Second, func() { p.say(CmdTipRep, TipRep{}.AppendTo(nil)) })
			}
		})
		e := n.child("one")
		p.put(e)
		p.wantAnswer(e, eventgraph.NackNotSynced)
		if n.has(e.ID()) {
			t.Error("stored while not synced")
		}
		rest(5 * time.Second)
		if !n.gossip.Synced() {
			t.Fatal("not synced")
		}
		p.put(e)
		p.wantAnswer(e, eventgraph.NackNotSynced, eventgraph.HasInserted)
		old := testEvent(uint64(testSlot)-hourMS+6000, genesisID(testSlot-hourMS))
		p.put(old)
		p.wantAnswer(old, eventgraph.NackNotSynced)
		n.wantStrikes(0)
	})
}

// DS-80: a peer that announced nothing is told nothing, whatever it puts.
func TestNoStatusWithoutCapability_DS80(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newPuppet(t, n, p2p.SessionInbound, false, nil)
		e, bad := n.child("one"), n.child("two")
		bad.Layer = 9
		p.put(e, e, bad)
		if !n.has(e.ID()) {
			t.Error("not stored")
		}
		n.wantStrikes(1)
		rest(time.Minute)
		if got := heard[eventgraph.Status](p, CmdEventPutStatus); len(got) > 0 {
			t.Errorf("told %v", got)
		}
	})
	bubble(t, func(t *testing.T) {
		n := newNode(t, func(c *Config, _ *node) { c.SkipSync, c.NoStatus = true, true })
		p := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		p.put(n.child("one"))
		if got := heard[eventgraph.Status](p, CmdEventPutStatus); len(got) > 0 {
			t.Errorf("NoStatus: told %v", got)
		}
		if n.gossip.Features() != nil {
			t.Error("NoStatus announces the feature")
		}
	})
}

// DS-17: strikes 1 to 4 are told, the fifth closes and tells nothing.
func TestFifthStrikeCloses_DS17(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		for i := range 5 {
			if p.ctx.Err() != nil {
				t.Fatalf("closed after %d", i)
			}
			bad := n.child(fmt.Sprint(i))
			bad.Layer = 7
			p.put(bad)
			if i < 4 {
				p.wantAnswer(bad, eventgraph.NackInvalid)
			} else {
				p.wantAnswer(bad)
			}
		}
		if p.ctx.Err() == nil || p.banned.Load() {
			t.Error("the fifth strike closes, and does not ban")
		}
	})
}

// The flood window counts what is new, not what is here already (DS-11); the 201st
// bans by force and is told nothing (DS-17). Statuses do not count (DS-18).
func TestFloodBan_DS11_DS17_DS18(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, func(c *Config, _ *node) { c.SkipSync = true })
		p := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		e := n.child("again")
		p.put(e)
		for range 300 {
			p.say(CmdEventPut, EventPut{Event: e}.AppendTo(nil))
			p.say(CmdEventPutStatus, AppendStatus(nil, eventgraph.Status{ID: e.ID(), Result: eventgraph.HasAlready}))
		}
		synctest.Wait()
		for i := range 199 {
			p.say(CmdEventPut, EventPut{Event: n.child(fmt.Sprint(i))}.AppendTo(nil))
			if i%50 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if p.ctx.Err() != nil {
			t.Fatal("banned within the limit")
		}
		last := n.child("one too many")
		p.put(last)
		if !p.banned.Load() || !p.forced.Load() {
			t.Error("not banned by force")
		}
		p.wantAnswer(last)
		n.wantStrikes(0)
	})
}

// A sliding window: 150 a minute for an hour is no flood.
func TestFloodWindowSlides(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newPuppet(t, n, p2p.SessionOutbound, false, nil)
		for i := range 900 {
			p.put(n.child(fmt.Sprint(i)))
			rest(400 * time.Millisecond)
		}
		if p.ctx.Err() != nil {
			t.Fatal("banned")
		}
		if got := n.gossip.Stats().PutsStored; got != 900 {
			t.Errorf("stored %d", got)
		}
	})
}

// DS-14, DS-15, DS-17: a fault of our own is Busy and strikes nobody.
func TestOwnFaultIsBusy_DS14_DS15_DS17(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		fail := func() error { return errors.New("disk on fire") }
		n.store.insert.Store(&fail)
		e := n.child("one")
		for range 10 {
			p.put(e)
		}
		if got := p.answers(e.ID()); len(got) != 10 || got[9] != eventgraph.NackBusy {
			t.Errorf("told %v", got)
		}
		n.wantStrikes(0)
		n.store.insert.Store(nil)
		p.put(e)
		if got := p.answers(e.ID()); got[10] != eventgraph.HasInserted {
			t.Errorf("told %v", got[10])
		}
	})
}

// DS-19 a: a put of any age that fits the current slot is welcome.
func TestOldPutOfCurrentSlot_DS19(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		e := n.child("one")
		e.Timestamp = uint64(testSlot) + 60000
		rest(45 * time.Minute)
		p.put(e)
		p.wantAnswer(e, eventgraph.HasInserted)
		n.wantStrikes(0)
	})
}

// DS-23: a put stamped in the next slot is held until that opens, without a strike
// and without asking for its parents; beyond the bound it is Busy.
func TestHeldForNextSlot_DS23(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		rest(49*time.Minute + 50*time.Second) // 10 s before the turn
		next := testSlot + hourMS
		var events []eventgraph.Event
		for i := range maxHeldPuts + 1 {
			events = append(events, testEvent(uint64(next)+100+uint64(i), genesisID(next)))
		}
		p.put(events...)
		p.wantAnswer(events[0])
		p.wantAnswer(events[maxHeldPuts], eventgraph.NackBusy)
		rest(9 * time.Second)
		p.wantAnswer(events[0])
		rest(1100 * time.Millisecond)
		synctest.Wait()
		p.wantAnswer(events[0], eventgraph.HasInserted)
		p.wantAnswer(events[maxHeldPuts-1], eventgraph.HasInserted)
		n.wantStrikes(0)
		if got := heard[EventReq](p, CmdEventReq); len(got) > 0 {
			t.Error("asked for parents")
		}
		if !n.graph.HasBody(next, events[0].ID()) {
			t.Error("not in the next slot")
		}
	})
}

// inStep answers TipReqs as a peer that has nothing that we have not.
func inStep(p *puppet, command string, _ []byte) {
	if command == CmdTipReq {
		p.say(CmdTipRep, TipRep{}.AppendTo(nil))
	}
}

// serveFrom answers EventReqs from a set, as an honest peer does: in order, or not at all.
func serveFrom(events ...eventgraph.Event) func(p *puppet, command string, payload []byte) {
	return func(p *puppet, command string, payload []byte) {
		if command != CmdEventReq {
			return
		}
		q, err := DecodeEventReq(payload)
		if err != nil {
			p.t.Error(err)
			return
		}
		var rep EventRep
		for _, id := range q.IDs {
			for _, e := range events {
				if e.ID() == id {
					rep.Events, rep.Blobs = append(rep.Events, e), append(rep.Blobs, nil)
				}
			}
		}
		if len(rep.Events) > 0 {
			p.say(CmdEventRep, rep.AppendTo(nil))
		}
	}
}

// Missing parents are fetched from the sender, all the way, and are not relayed; the
// child is (facts page, section 4.7).
func TestParentFetch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		a := n.child("a")
		b := n.child("b", a)
		c := n.child("c", b, a)
		d := n.child("d", c)
		p := newPuppet(t, n, p2p.SessionOutbound, true, serveFrom(a, b, c))
		q := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		p.put(d)
		p.wantAnswer(d, eventgraph.HasInserted)
		for _, e := range []eventgraph.Event{a, b, c, d} {
			if !n.has(e.ID()) {
				t.Errorf("%s is not stored", e.Content)
			}
		}
		rest(time.Second)
		relayed := heard[EventPut](q, CmdEventPut)
		if len(relayed) != 1 || string(relayed[0].Event.Content) != "d" {
			t.Errorf("relayed %d events", len(relayed))
		}
		for _, r := range n.arrivals {
			want := eventgraph.SourceParent
			if string(r.Event.Content) == "d" {
				want = eventgraph.SourcePut
			}
			if r.Source != want {
				t.Errorf("%s came as %v", r.Event.Content, r.Source)
			}
		}
		n.wantStrikes(0)
	})
}

// Checklist 65 and trap 18, DS-14: a parent that is known by its header only is
// fetched; where that fails the put is Busy, and neither stored nor relayed. The body
// of a known header is accepted later.
func TestHeaderOnlyParent_DS14_Checklist65(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		a := n.child("a")
		b := n.child("b", a)
		if err := n.graph.InsertHeaders(testSlot, []eventgraph.Header{a.Header}); err != nil {
			t.Fatal(err)
		}
		p := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		q := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		p.put(b)
		rest(16 * time.Second)
		p.wantAnswer(b, eventgraph.NackBusy)
		if got := heard[EventPut](q, CmdEventPut); len(got) > 0 || n.has(b.ID()) {
			t.Error("relayed or stored")
		}
		p.put(a)
		p.wantAnswer(a, eventgraph.HasInserted)
		p.put(b)
		p.wantAnswer(b, eventgraph.NackBusy, eventgraph.HasInserted)
		n.wantStrikes(0)
	})
}

// Checklist 69, DS-13: the child of a refused parent is not stored, nor is the
// parent; the put is Invalid without a strike (facts page, 4.7 step 6).
func TestRefusedParent_DS13_Checklist69(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		bad := n.child("bad")
		bad.Layer = 5
		child := n.child("child", bad)
		child.Layer = 6
		p := newPuppet(t, n, p2p.SessionOutbound, true, serveFrom(bad))
		p.put(child)
		p.wantAnswer(child, eventgraph.NackInvalid)
		if n.has(bad.ID()) || n.has(child.ID()) {
			t.Error("stored")
		}
		n.wantStrikes(0)
	})
}

// Checklist 67: a body that is not its header's is stored by nobody, and the genuine
// one is still welcome (trap 1).
func TestForgedBody_Checklist67(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		e := n.child("genuine")
		forged := e
		forged.Content = []byte("forged")
		p.put(forged)
		p.wantAnswer(forged, eventgraph.NackInvalid)
		p.put(e)
		if found, _, err := n.graph.Find(e.ID()); err != nil || string(found.Content) != "genuine" {
			t.Errorf("%q, %v", found.Content, err)
		}
	})
}

// Checklist 68, trap 44: a genesis-shaped put is a strike, but for the current
// genesis, which is here already.
func TestGenesisShaped_Checklist68(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		e := n.child("x")
		e.Parents = [5]eventgraph.ID{}
		p.put(e)
		p.wantAnswer(e, eventgraph.NackInvalid)
		n.wantStrikes(1)
		genesis := testParams.GenesisOf(testSlot)
		p.put(genesis)
		p.wantAnswer(genesis, eventgraph.HasAlready)
		n.wantStrikes(1)
	})
}

// Facts page, 4.7 step 4: a reply that breaks the rules is a strike; the put is Busy.
func TestBadParentReply(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		other := n.child("other")
		p := newPuppet(t, n, p2p.SessionOutbound, true, func(p *puppet, command string, _ []byte) {
			if command == CmdEventReq {
				p.say(CmdEventRep, reply(other).AppendTo(nil))
			}
		})
		child := n.child("child", n.child("parent"))
		p.put(child)
		p.wantAnswer(child, eventgraph.NackBusy)
		n.wantStrikes(1)
	})
}

// Trap 27: no parents are fetched for an event of another slot. One that belongs to
// the slot before, though stamped after the turn, is stored there without a relay.
func TestLateEventOfSlotBefore_Trap27(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		a := n.child("a")
		n.insert(testSlot, a)
		p := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		q := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		rest(50*time.Minute + 10*time.Second)
		late := n.child("late", a)
		half := n.child("half", a, n.child("unknown"))
		p.put(late, half)
		p.wantAnswer(late, eventgraph.HasInserted)
		p.wantAnswer(half, eventgraph.NackBusy)
		if !n.graph.HasBody(testSlot, late.ID()) {
			t.Error("not in its slot")
		}
		if len(heard[EventReq](p, CmdEventReq)) > 0 {
			t.Error("asked for parents")
		}
		rest(time.Minute)
		if len(heard[EventPut](q, CmdEventPut)) > 0 {
			t.Error("relayed")
		}
		n.wantStrikes(0)
	})
}

// A child that comes right behind its parent waits for it instead of asking, and
// copies from several peers are stored once (DS-11: the losers are told Has).
func TestBurstKeepsOrder_DS11(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		slow := func() error { time.Sleep(20 * time.Millisecond); return nil }
		n.store.insert.Store(&slow)
		p := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		q := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		events := []eventgraph.Event{n.child("0")}
		for i := range 60 {
			events = append(events, n.child(fmt.Sprint(i+1), events[i]))
		}
		for _, e := range events {
			payload := EventPut{Event: e}.AppendTo(nil)
			p.say(CmdEventPut, payload)
			q.say(CmdEventPut, payload)
		}
		rest(10 * time.Second)
		if len(heard[EventReq](p, CmdEventReq))+len(heard[EventReq](q, CmdEventReq)) > 0 {
			t.Error("asked for what was on its way")
		}
		for _, e := range events {
			got := append(p.answers(e.ID()), q.answers(e.ID())...)
			inserted := 0
			for _, r := range got {
				if r == eventgraph.HasInserted {
					inserted++
				}
			}
			if len(got) != 2 || inserted != 1 || !got[0].Has() || !got[1].Has() {
				t.Fatalf("%s: told %v", e.Content, got)
			}
		}
	})
}

// What arrives during one commit goes into the next one together: children with their
// parents, from whichever connection. Nothing is said or relayed before it is durable
// (DS-16), and parents go out before their children.
func TestPutsBatch_DS16(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, func(c *Config, _ *node) { c.SkipSync = true; c.Limits.RelayFree = NoRelayLimit })
		slow := func() error { time.Sleep(time.Second); return nil }
		n.store.insert.Store(&slow)
		p := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		q := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		r := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		events := chain(100)
		for i, e := range events {
			from := p
			if i%2 == 1 {
				from = q
			}
			from.say(CmdEventPut, EventPut{Event: e}.AppendTo(nil))
			synctest.Wait()
		}
		q.put(events[50]) // a copy, from who did not put it
		rest(999 * time.Millisecond)
		if p.answers(events[0].ID()) != nil || len(heard[EventPut](r, CmdEventPut)) > 0 {
			t.Fatal("told or relayed before the commit")
		}
		rest(1100 * time.Millisecond)
		if got := n.store.batches.Load(); got != 2 {
			t.Errorf("%d commits", got)
		}
		for i, e := range events {
			from := p
			if i%2 == 1 {
				from = q
			}
			from.wantAnswer(e, eventgraph.HasInserted)
		}
		if got := q.answers(events[50].ID()); len(got) != 1 || got[0] != eventgraph.HasAlready {
			t.Errorf("the copy is told %v", got)
		}
		got := heard[EventPut](r, CmdEventPut)
		if len(got) != len(events) {
			t.Fatalf("%d are relayed", len(got))
		}
		for i := range got {
			if got[i].Event.ID() != events[i].ID() {
				t.Fatalf("the relay %d is out of order", i)
			}
		}
		if back := heard[EventPut](q, CmdEventPut); len(back) != 49 {
			t.Errorf("%d of the other's 50 events are relayed, one of which it put itself", len(back))
		}
	})
}

// A child that was staged with its parent is Busy when the parent turns out invalid, and
// only the parent's sender is struck (DS-13, DS-17).
func TestStagedParentFails_DS13_DS17(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		slow := func() error { time.Sleep(time.Second); return nil }
		n.store.insert.Store(&slow)
		p := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		q := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		other := n.child("other")
		bad := n.child("bad")
		bad.Layer = 2
		child := testEvent(bad.Timestamp, bad.ID())
		child.Layer = 3
		p.put(other) // the commit under way
		p.put(bad)
		q.put(child)
		n.wantStrikes(0)
		rest(2100 * time.Millisecond)
		p.wantAnswer(other, eventgraph.HasInserted)
		p.wantAnswer(bad, eventgraph.NackInvalid)
		q.wantAnswer(child, eventgraph.NackBusy)
		n.wantStrikes(1)
		if n.has(bad.ID()) || n.has(child.ID()) {
			t.Error("stored")
		}
	})
}

// A line that ends while its puts are in the stage, and the storing goroutine with it,
// holds up nobody else's.
func TestStageOutlivesALine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		slow := func() error { time.Sleep(time.Second); return nil }
		n.store.insert.Store(&slow)
		p := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		q := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		events := chain(3)
		p.put(events[0])
		p.put(events[1])
		q.put(events[2])
		p.Close(errors.New("gone"))
		rest(2100 * time.Millisecond)
		q.wantAnswer(events[2], eventgraph.HasInserted)
		if got := n.gossip.Stats().PutsStored; got != 1 {
			t.Errorf("%d puts are answered", got)
		}
		n.gossip.stage.mu.Lock()
		defer n.gossip.stage.mu.Unlock()
		if s := n.gossip.stage; s.running || len(s.puts)+len(s.queue) > 0 {
			t.Error("the stage is not empty")
		}
	})
}

// A full inbox slows the reader down, then drops, with Busy; memory stays bounded.
func TestInboxBound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, func(c *Config, _ *node) { c.SkipSync = true; c.Limits.FloodPuts = 1 << 20 })
		gate := make(chan struct{})
		block := func() error { <-gate; return nil }
		n.store.insert.Store(&block)
		p := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		room := maxInboxPuts + maxStagedPuts
		var last eventgraph.Event
		for i := range room {
			last = n.child(fmt.Sprint(i))
			p.say(CmdEventPut, EventPut{Event: last}.AppendTo(nil))
			if i == maxStagedPuts-1 {
				synctest.Wait()
			}
		}
		if got := n.gossip.Stats().PutsDropped; got != 0 {
			t.Errorf("dropped %d at the bound", got)
		}
		start := time.Now()
		extra := n.child("extra")
		p.say(CmdEventPut, EventPut{Event: extra}.AppendTo(nil))
		if d := time.Since(start); d != inboxWait || n.gossip.Stats().PutsDropped != 1 {
			t.Errorf("held back for %v, dropped %d", d, n.gossip.Stats().PutsDropped)
		}
		close(gate)
		synctest.Wait()
		p.wantAnswer(extra, eventgraph.NackBusy)
		before := len(heard[TipReq](p, CmdTipReq))
		rest(kickDelay)
		if len(heard[TipReq](p, CmdTipReq)) != before+1 {
			t.Error("what was dropped is not looked for")
		}
		p.wantAnswer(last, eventgraph.HasInserted)
	})
}

// A hundred peers whose puts wait for parents that do not come hold little together, and
// another peer's put is stored meanwhile.
func TestPutBudget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, func(c *Config, _ *node) { c.SkipSync = true; c.Limits.FloodPuts = 1 << 20 })
		orphan := func(number, size int) []byte {
			e := n.child(fmt.Sprint(number) + string(make([]byte, size)))
			e.Parents[0] = eventgraph.ID{1, byte(number), byte(number >> 8)}
			return EventPut{Event: e}.AppendTo(nil)
		}
		var hostile []*puppet
		for i := range 100 {
			p := newPuppet(t, n, p2p.SessionInbound, true, nil)
			hostile = append(hostile, p)
			go func() {
				for k := range 8 {
					p.say(CmdEventPut, orphan(i<<3|k, 60_000))
				}
			}()
		}
		rest(5 * time.Second)
		held := 0
		for _, c := range n.gossip.conns() {
			held += c.in.bytes.used
		}
		if left := n.gossip.puts.left.Load(); left < 0 || held > maxPutBytes+100*putAllowance || held < maxPutBytes/2 {
			t.Errorf("%d bytes are held, %d are left", held, left)
		}
		honest := newPuppet(t, n, p2p.SessionInbound, true, nil)
		e := n.child("honest")
		honest.say(CmdEventPut, EventPut{Event: e}.AppendTo(nil))
		synctest.Wait()
		honest.wantAnswer(e, eventgraph.HasInserted)
		for _, p := range hostile {
			p.Close(p2p.ErrDisconnected)
		}
		rest(inboxWait)
		if left := n.gossip.puts.left.Load(); left != maxPutBytes {
			t.Errorf("%d bytes are left of the budget", left)
		}
	})
}

// DS-03: what does not decode is dropped, told of once, and costs nothing; the next
// message is handled. Up to 1 KiB; more closes.
func TestBadStatus_DS03(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		for _, f := range vectors(t, "gossip-bad.txt") {
			if f[0] == CmdEventPutStatus {
				p.say(CmdEventPutStatus, badVector(t, f))
			}
		}
		p.say(CmdEventPutStatus, make([]byte, 1024))
		good := eventgraph.Status{ID: numbered(1), Result: eventgraph.NackBusy}
		p.say(CmdEventPutStatus, AppendStatus(nil, good))
		if got := n.statuses(good.ID); len(got) != 1 || got[0] != eventgraph.NackBusy {
			t.Errorf("published %v", got)
		}
		if p.ctx.Err() != nil || n.gossip.Stats().StatusesBad < 5 {
			t.Errorf("%v, %d bad", p.ctx.Err(), n.gossip.Stats().StatusesBad)
		}
		n.wantStrikes(0)
		p.say(CmdEventPutStatus, make([]byte, 1025))
		if p.ctx.Err() == nil || p.banned.Load() {
			t.Error("1025 bytes close, and do not ban")
		}
	})
}

// DS-20: statuses are published as they come, with their connection, asked for or not.
func TestStatusesUnfiltered_DS20(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, nil) // not even synced
		p := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		q := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		s := eventgraph.Status{ID: numbered(5), Result: eventgraph.NackTooOld}
		p.say(CmdEventPutStatus, AppendStatus(nil, s))
		q.say(CmdEventPutStatus, AppendStatus(nil, s))
		if len(n.receipts) != 2 || n.receipts[0].Status != s ||
			n.receipts[0].Conn != eventgraph.Conn(p.id) || n.receipts[1].Conn != eventgraph.Conn(q.id) {
			t.Errorf("published %d", len(n.receipts))
		}
	})
}

// What a malformed payload costs: the address where the network bans for it, and
// for bytes behind the content only from the side that dialed.
func TestMalformedCosts(t *testing.T) {
	for _, f := range vectors(t, "gossip-bad.txt") {
		if f[0] == CmdEventPutStatus {
			continue
		}
		for _, session := range []p2p.Session{p2p.SessionOutbound, p2p.SessionInbound} {
			bubble(t, func(t *testing.T) {
				n := newNode(t, synced)
				p := newPuppet(t, n, session, true, nil)
				err := n.gossip.conns()[0].Handle(f[0], badVector(t, f))
				fault, _ := errors.AsType[*p2p.Fault](err)
				switch {
				case f[1] == "many":
					if err != nil {
						t.Errorf("%v: %v", f[:2], err)
					}
				case fault == nil || fault.Force:
					t.Errorf("%v: %v", f[:2], err)
				case fault.Ban != (f[1] != "trailing" || session == p2p.SessionOutbound):
					t.Errorf("%v on %v: ban %v", f[:2], session, fault.Ban)
				}
				p.Close(nil)
			})
		}
	}
}

// An event above our content bound is legal on the network: no strike and no ban for
// who relays it, whatever its size up to a megabyte.
func TestOversizeEventCostsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		for _, size := range []int{eventgraph.DefaultMaxContent, eventgraph.DefaultMaxContent + 1, 1 << 20} {
			e := n.child(string(make([]byte, size)))
			p.put(e)
			switch size {
			case eventgraph.DefaultMaxContent:
				p.wantAnswer(e, eventgraph.HasInserted)
			case 1 << 20:
				p.wantAnswer(e) // not even read
			default:
				p.wantAnswer(e, eventgraph.NackInvalid)
			}
		}
		if p.ctx.Err() != nil {
			t.Error("closed")
		}
		n.wantStrikes(0)
	})
}

// Fake ancestries: one without end is a strike after 1000 rounds, one that drips is
// given up after four timeouts; nothing of either is stored, and the same event from
// another peer is not held up (10.1, hostile peers).
func TestFakeAncestry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		deep := chain(1200)
		deep[0].Parents[0] = numbered(1)
		for i := 1; i < len(deep); i++ {
			deep[i].Parents[0] = deep[i-1].ID()
		}
		p := newPuppet(t, n, p2p.SessionOutbound, true, serveFrom(deep...))
		last := deep[len(deep)-1]
		p.put(last)
		p.wantAnswer(last, eventgraph.NackBusy)
		n.wantStrikes(1)
		if n.graph.Stats().Events != 0 {
			t.Error("stored")
		}
	})
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		real := chain(100)
		drip := newPuppet(t, n, p2p.SessionOutbound, true, func(p *puppet, command string, payload []byte) {
			if command == CmdEventReq {
				time.AfterFunc(14*time.Second, func() { serveFrom(real...)(p, command, payload) })
			}
		})
		quick := newPuppet(t, n, p2p.SessionOutbound, true, serveFrom(real...))
		drip.put(real[99])
		quick.put(real[99])
		quick.wantAnswer(real[99], eventgraph.HasInserted)
		rest(fetchTimeouts*15*time.Second + time.Second)
		if got := drip.answers(real[99].ID()); len(got) != 1 {
			t.Errorf("told %v", got)
		}
		n.wantStrikes(0)
	})
}

// A put that is stored only after its slot has closed is not relayed: unmodified nodes
// would count it against us.
func TestStoredAfterTheTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		q := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		rest(49*time.Minute + 58*time.Second)
		slow := func() error { time.Sleep(3 * time.Second); return nil }
		n.store.insert.Store(&slow)
		e := n.child("late")
		p.put(e)
		rest(time.Minute)
		p.wantAnswer(e, eventgraph.HasInserted)
		if len(heard[EventPut](q, CmdEventPut)) > 0 {
			t.Error("relayed")
		}
	})
}
