package gossip

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// same fails unless all nodes hold the same bodies in a slot, n of them but for the
// genesis.
func same(t *testing.T, slot eventgraph.Slot, n int, nodes ...*node) {
	t.Helper()
	synctest.Wait()
	var want []eventgraph.ID
	for i, x := range nodes {
		hs, err := x.graph.HeadersBeyond(slot, nil, MaxHeaderRepHeaders)
		if err != nil {
			t.Fatal(err)
		}
		var got []eventgraph.ID
		for _, h := range hs.All() {
			if id := h.ID(); !h.GenesisShaped() && x.graph.HasBody(slot, id) {
				got = append(got, id)
			}
		}
		if i == 0 {
			want = got
		}
		if len(got) != n || !slices.Equal(got, want) {
			t.Errorf("node %d holds %d events, want %d, the same as the first: %v", i, len(got), n, slices.Equal(got, want))
		}
	}
}

// fill stores n events in a slot: a random-looking but fixed graph.
func fill(nodes []*node, slot eventgraph.Slot, n int) []eventgraph.Event {
	genesis := testParams.GenesisOf(slot)
	events := []eventgraph.Event{genesis}
	for i := range n {
		e := testEvent(uint64(slot) + 1000 + uint64(i))
		for j, back := range []int{1, 2, 5} {
			if k := len(events) - back; k >= 0 {
				p := events[k]
				e.Parents[j] = p.ID()
				e.Layer = max(e.Layer, p.Layer+1)
			}
		}
		events = append(events, e)
	}
	for _, x := range nodes {
		x.insert(slot, events[1:]...)
	}
	return events[1:]
}

// Checklist 64: five nodes, two connections each way; an event of one reaches all.
func TestPropagation_Checklist64(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var nodes []*node
		for range 5 {
			nodes = append(nodes, newNode(t, nil))
		}
		for i := range nodes {
			connect(t, nodes[i], nodes[(i+1)%5])
			connect(t, nodes[i], nodes[(i+2)%5])
		}
		rest(15 * time.Second)
		for i, n := range nodes {
			if !n.gossip.Synced() {
				t.Fatalf("node %d is not synced", i)
			}
			if got := n.gossip.PutTargets(); got != 4 {
				t.Errorf("node %d has %d targets", i, got)
			}
			n.publish(fmt.Sprint("from ", i))
			rest(time.Second)
		}
		same(t, testSlot, 5, nodes...)
		for _, n := range nodes {
			for _, a := range n.arrivals {
				if a.Source != eventgraph.SourceLocal && a.Source != eventgraph.SourcePut {
					t.Errorf("came as %v", a.Source)
				}
			}
			n.wantStrikes(0)
		}
		// Each author is told by each peer that it has it (DS-16).
		for _, n := range nodes {
			for _, a := range n.arrivals {
				if got := n.statuses(a.Event.ID()); a.Source == eventgraph.SourceLocal && (len(got) != 4 || slices.Contains(got, eventgraph.NackBusy)) {
					t.Errorf("told %v", got)
				}
			}
		}
	})
}

// Checklist 71: four have everything, in many slots; the fifth comes late.
func TestLateJoiner_Checklist71(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var nodes []*node
		for range 4 {
			nodes = append(nodes, newNode(t, synced))
		}
		for s := range eventgraph.Slot(24) {
			fill(nodes, testSlot-s*hourMS, 150)
		}
		late := newNode(t, nil)
		for _, n := range nodes[:2] {
			connect(t, late, n)
		}
		if done, all := late.gossip.Progress(); done != 0 || all != 24 {
			t.Errorf("%d of %d slots", done, all)
		}
		if err := late.gossip.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		same(t, testSlot, 150, late, nodes[0]) // the gate is the current slot's
		rest(30 * time.Second)
		if done, all := late.gossip.Progress(); done != 24 || all != 24 {
			t.Errorf("%d of %d slots", done, all)
		}
		for s := range eventgraph.Slot(24) {
			same(t, testSlot-s*hourMS, 150, nodes[0], late)
		}
		for _, n := range append(nodes, late) {
			n.wantStrikes(0)
		}
		if late.arrivals[0].Source != eventgraph.SourceSync {
			t.Error("not told as synced")
		}
	})
}

// Trap 21: nodes that were never synced bring each other up; without a peer nobody is.
func TestAllUnsynced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newNode(t, nil), newNode(t, nil)
		fill([]*node{a}, testSlot, 20)
		rest(10 * time.Minute)
		if a.gossip.Synced() || b.gossip.Synced() {
			t.Fatal("synced without a peer")
		}
		l := connect(t, a, b)
		rest(5 * time.Second)
		if !a.gossip.Synced() || !b.gossip.Synced() {
			t.Fatal("not synced")
		}
		same(t, testSlot, 20, a, b)
		b.publish("hello")
		rest(time.Second)
		same(t, testSlot, 21, a, b)
		l.close()
		synctest.Wait()
		if a.gossip.Synced() || b.gossip.Synced() {
			t.Error("still synced without a peer")
		}
	})
}

// Trap 22: what was lost on the way is found while both stay connected.
func TestHolesHealWhileConnected(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newNode(t, synced), newNode(t, synced)
		l := connect(t, a, b)
		rest(20 * time.Second)
		l.drop.Store(true)
		for i := range 10 {
			a.publish(fmt.Sprint("a", i))
			b.publish(fmt.Sprint("b", i))
		}
		rest(time.Second)
		l.drop.Store(false)
		same(t, testSlot, 10, a)
		rest(2 * time.Minute)
		same(t, testSlot, 20, a, b)
		if l.a.ctx.Err() != nil {
			t.Error("reconnected")
		}
	})
}

// Failure-cases 10: on a line A-B-C, what B learned by sync reaches C.
func TestLineConverges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b, c := newNode(t, synced), newNode(t, synced), newNode(t, synced)
		fill([]*node{a}, testSlot, 50)
		connect(t, b, c)
		rest(30 * time.Second)
		connect(t, a, b)
		rest(2 * time.Minute)
		same(t, testSlot, 50, a, b, c)
		if got := b.gossip.Stats().EventsSynced; got != 50 {
			t.Errorf("B learned %d by sync", got)
		}
		if got := c.gossip.Stats(); got.EventsSynced != 50 || got.PutsStored != 0 {
			t.Errorf("C learned %d by sync", got.EventsSynced)
		}
	})
}

// What arrives at the turn of the slot is found in the closed one (DS-82).
func TestClosedSlotIsCompared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newNode(t, synced), newNode(t, synced)
		connect(t, a, b)
		rest(49*time.Minute + 59*time.Second)
		late := a.child("late")
		rest(2 * time.Second)
		a.insert(testSlot, late)
		rest(3 * time.Minute)
		if !b.has(late.ID()) {
			t.Error("not found")
		}
	})
}

// Trap 19: more than one page of headers; and a gap of the same size at a node that
// was away.
func TestManyPages_Trap19(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newNode(t, synced), newNode(t, nil)
		events := fill([]*node{a}, testSlot, 9000)
		l := connect(t, b, a)
		rest(20 * time.Second)
		for _, e := range events {
			if !b.graph.HasBody(testSlot, e.ID()) {
				t.Fatalf("%s is missing", e.Content)
			}
		}
		if !b.gossip.Synced() {
			t.Error("not synced")
		}
		l.close()
		a.wantStrikes(0)
	})
}

// A slot so wide that headers alone do not lead to every tip.
func TestWideSlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newNode(t, synced), newNode(t, nil)
		var events []eventgraph.Event
		for i := range 3000 {
			events = append(events, a.child(fmt.Sprint(i)))
		}
		a.insert(testSlot, events...)
		connect(t, b, a)
		rest(10 * time.Minute)
		same(t, testSlot, 3000, a, b)
		a.wantStrikes(0)
	})
}

// FastMode: bodies of the current slot, headers of the others.
func TestFastMode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newNode(t, synced)
		b := newNode(t, func(c *Config, _ *node) { c.FastMode = true })
		fill([]*node{a}, testSlot, 30)
		old := fill([]*node{a}, testSlot-hourMS, 5000)
		connect(t, b, a)
		rest(10 * time.Second)
		same(t, testSlot, 30, a, b)
		for _, e := range old {
			if !b.graph.HasHeader(testSlot-hourMS, e.ID()) || b.graph.HasBody(testSlot-hourMS, e.ID()) {
				t.Fatalf("%s: header %v", e.Content, b.graph.HasHeader(testSlot-hourMS, e.ID()))
			}
		}
		if done, all := b.gossip.Progress(); done != all {
			t.Errorf("%d of %d", done, all)
		}
	})
}

// A library answers requests from a set of events, as the facts page says, with
// whatever the test makes of it.
type library struct {
	slot    eventgraph.Slot
	events  []eventgraph.Event
	tips    []eventgraph.ID                         // listed; all that have no child if nil
	headers []eventgraph.Header                     // beside those of events
	refuse  func(id eventgraph.ID) bool             // bodies not served
	mangle  func(eventgraph.Event) eventgraph.Event // what is served
	mute    map[string]bool                         // commands without an answer
	asked   []eventgraph.ID
}

func (l *library) answer(p *puppet, command string, payload []byte) {
	if l.mute[command] {
		return
	}
	switch command {
	case CmdTipReq:
		q, _ := DecodeTipReq(payload)
		if q.Name != l.slot.String() {
			p.say(CmdTipRep, TipRep{}.AppendTo(nil))
			return
		}
		tips := eventgraph.Tips{}
		if l.tips != nil {
			tips[1] = l.tips
		} else if len(l.events) > 0 {
			last := l.events[len(l.events)-1]
			tips[last.Layer] = ids(last)
		}
		p.say(CmdTipRep, TipRep{tips}.AppendTo(nil))
	case CmdHeaderReq:
		q, _ := DecodeHeaderReq(payload)
		if q.Name != l.slot.String() {
			return
		}
		all := slices.Clone(l.headers)
		for _, e := range l.events {
			all = append(all, e.Header)
		}
		var sorted []headed
		for i := range all {
			sorted = append(sorted, headed{all[i].ID(), &all[i]})
		}
		slices.SortFunc(sorted, compareHeaded)
		excluded := map[eventgraph.ID]bool{}
		for _, list := range q.Tips {
			for _, id := range list {
				excluded[id] = true
			}
		}
		for _, h := range slices.Backward(sorted) {
			for _, p := range h.Parents {
				if excluded[h.id] {
					excluded[p] = true
				}
			}
		}
		var rep HeaderRep
		for _, h := range sorted {
			if !excluded[h.id] && len(rep.Headers) < MaxHeaderRepHeaders {
				rep.Headers = append(rep.Headers, *h.Header)
			}
		}
		p.say(CmdHeaderRep, rep.AppendTo(nil))
	case CmdEventReq:
		q, _ := DecodeEventReq(payload)
		var rep EventRep
		l.asked = append(l.asked, q.IDs...)
		for _, id := range q.IDs {
			for _, e := range l.events {
				if e.ID() == id && (l.refuse == nil || !l.refuse(id)) {
					if l.mangle != nil {
						e = l.mangle(e)
					}
					rep.Events, rep.Blobs = append(rep.Events, e), append(rep.Blobs, nil)
				}
			}
		}
		if len(rep.Events) > 0 {
			p.say(CmdEventRep, rep.AppendTo(nil))
		}
	}
}

// invented makes n headers that nobody has a body for.
func invented(n int) (list []eventgraph.Header) {
	last := genesisID(testSlot)
	for i := range n {
		h := eventgraph.Header{Timestamp: uint64(testSlot) + 5000, Layer: uint64(i) + 1, ContentHash: numbered(i)}
		h.Parents[0] = last
		last = h.ID()
		list = append(list, h)
	}
	return list
}

// Each of these peers is all that stands beside one honest peer, which has 300
// events. The node gets them all, is synced, and nothing of the other is stored.
func TestOneBadPeerBlocksNothing(t *testing.T) {
	foreign := eventgraph.Params{Genesis: testParams.Genesis, Contents: []byte("other"), Rotation: time.Hour, Drift: time.Minute}
	foreignGenesis := foreign.GenesisOf(testSlot)
	other := testEvent(uint64(testSlot)+5, foreignGenesis.ID())
	for name, l := range map[string]*library{
		"silent":             {mute: map[string]bool{CmdTipReq: true}},
		"silent on headers":  {tips: []eventgraph.ID{numbered(1)}, mute: map[string]bool{CmdHeaderReq: true}},
		"lying tips":         {tips: []eventgraph.ID{numbered(1), numbered(2)}},
		"unserved headers":   {headers: invented(6000), tips: []eventgraph.ID{numbered(1)}},
		"unserved tips":      {headers: invented(500), tips: []eventgraph.ID{invented(500)[499].ID()}},
		"header out of time": {headers: []eventgraph.Header{testEvent(1, genesisID(testSlot)).Header}, tips: []eventgraph.ID{numbered(1)}},
		"header of nothing":  {headers: []eventgraph.Header{testEvent(uint64(testSlot), numbered(3)).Header}, tips: []eventgraph.ID{numbered(1)}},
		"foreign network":    {events: []eventgraph.Event{other}},
		"forged bodies": {events: chain(50), mangle: func(e eventgraph.Event) eventgraph.Event {
			e.Content = []byte("forged")
			return e
		}},
		"other events": {events: chain(50), mangle: func(e eventgraph.Event) eventgraph.Event {
			e.Timestamp++
			return e
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				l.slot = testSlot
				n, honest := newNode(t, nil), newNode(t, synced)
				fill([]*node{honest}, testSlot, 300)
				bad := newPuppet(t, n, p2p.SessionOutbound, false, l.answer)
				connect(t, n, honest)
				rest(time.Minute)
				if !n.gossip.Synced() {
					t.Error("not synced")
				}
				same(t, testSlot, 300, honest, n)
				if hs, _ := n.graph.Missing(testSlot, 10); hs.Len() > 0 {
					t.Error("inventions are stored")
				}
				rest(time.Hour) // and it goes on
				if bad.ctx.Err() == nil && len(heard[TipReq](bad, CmdTipReq)) > 400 {
					t.Errorf("asked %d times", len(heard[TipReq](bad, CmdTipReq)))
				}
			})
		})
	}
}

// The same peers alone: the node does not hang, and after three timeouts or with the
// next honest word it is synced.
func TestOnlyBadPeer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, nil)
		l := &library{slot: testSlot, headers: invented(300), tips: []eventgraph.ID{numbered(1)}}
		newPuppet(t, n, p2p.SessionOutbound, false, l.answer)
		rest(3*15*time.Second - time.Millisecond)
		if n.gossip.Synced() {
			t.Error("synced too early")
		}
		rest(time.Minute)
		if !n.gossip.Synced() {
			t.Error("never synced")
		}
	})
}

// Trap 20: an honest peer heard of headers that nobody serves, below the events that
// it has. The events come all the same, at once.
func TestUnserveableHeadersOfHonestPeer_Trap20(t *testing.T) {
	for _, junk := range []int{3, 1000, 5000} {
		bubble(t, func(t *testing.T) {
			n := newNode(t, nil)
			l := &library{slot: testSlot, events: chain(200), headers: invented(junk)}
			newPuppet(t, n, p2p.SessionOutbound, false, l.answer)
			rest(2 * time.Second)
			for _, e := range l.events {
				if !n.has(e.ID()) {
					t.Fatalf("%d inventions: %s is missing", junk, e.Content)
				}
			}
			if !n.gossip.Synced() {
				t.Error("not synced")
			}
			if len(l.asked) != 200 {
				t.Errorf("asked for %d events", len(l.asked))
			}
		})
	}
}

// One body that is not served stops its descendants and nothing else, and is asked
// for again (failure-cases 11).
func TestUnserveableBody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, nil)
		l := &library{slot: testSlot, events: chain(10)}
		gone := l.events[4].ID()
		branch := testEvent(uint64(testSlot)+9000, l.events[2].ID())
		branch.Layer = 4
		l.events = append(l.events, branch)
		l.tips = ids(l.events[9], branch)
		var back atomic.Bool
		l.refuse = func(id eventgraph.ID) bool { return !back.Load() && id == gone }
		newPuppet(t, n, p2p.SessionOutbound, false, l.answer)
		rest(20 * time.Second)
		for i, e := range l.events {
			if want := i < 4 || i == 10; n.has(e.ID()) != want {
				t.Errorf("event %d: %v", i, !want)
			}
		}
		back.Store(true)
		rest(2 * time.Minute)
		for i, e := range l.events {
			if !n.has(e.ID()) {
				t.Errorf("event %d is still missing", i)
			}
		}
	})
}

// DS-65: tips that a peer lists are told of, with the connection and whether the peer
// could have answered.
func TestOnTips_DS65(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		type tip struct {
			conn    eventgraph.Conn
			capable bool
			slot    eventgraph.Slot
			id      eventgraph.ID
		}
		var mu sync.Mutex
		var told []tip
		n.gossip.OnTips(func(conn eventgraph.Conn, capable bool, slot eventgraph.Slot, ids []eventgraph.ID) {
			mu.Lock()
			defer mu.Unlock()
			for _, id := range ids {
				told = append(told, tip{conn, capable, slot, id})
			}
		})
		e := n.publish("mine")
		l := &library{slot: testSlot, events: []eventgraph.Event{e}}
		p := newPuppet(t, n, p2p.SessionOutbound, false, l.answer)
		rest(59 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if want := (tip{eventgraph.Conn(p.id), false, testSlot, e.ID()}); len(told) != 1 || told[0] != want {
			t.Errorf("told %d", len(told))
		}
		mu.Unlock()
		rest(2 * time.Second)
		mu.Lock()
		if len(told) != 2 {
			t.Errorf("told %d times", len(told))
		}
	})
}

// Trap 8: one request a type at a time, and a stray answer is not taken for another's.
func TestRequester_Trap8(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRequester(15 * time.Second)
		p := newFakePeer(t.Context(), p2p.SessionOutbound, nil)
		ask := func(kind replyKind, fit fitFunc) (any, error) {
			return r.ask(t.Context(), p, kind, p2p.Message{}, 100, fit)
		}
		if r.limit(replyTips) != 0 || r.deliver(replyTips, 1) {
			t.Error("an answer to nothing")
		}
		start := time.Now()
		if _, err := ask(replyTips, nil); !errors.Is(err, errTimeout) || time.Since(start) != 15*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if _, err := ask(replyTips, nil); !errors.Is(err, errSuspect) {
			t.Errorf("suspect: %v", err)
		}
		if r.limit(replyTips) != 100 || r.limit(replyHeaders) != 0 {
			t.Error("a stray may still come")
		}
		if !r.deliver(replyTips, "stray") || r.deliver(replyTips, "another") {
			t.Error("one stray is expected")
		}
		time.AfterFunc(time.Second, func() { r.deliver(replyTips, "mine") })
		if v, err := ask(replyTips, nil); err != nil || v != "mine" {
			t.Errorf("%v, %v", v, err)
		}
		// After three timeouts no stray is waited for any more.
		_, _ = ask(replyTips, nil)
		rest(45 * time.Second)
		time.AfterFunc(time.Second, func() { r.deliver(replyTips, "mine") })
		if v, err := ask(replyTips, nil); err != nil || v != "mine" {
			t.Errorf("%v, %v", v, err)
		}
		// Where answers show what they answer, the stray is told apart.
		mine := func(v any) (any, bool) { return v, v == "mine" }
		_, _ = ask(replyEvents, mine)
		time.AfterFunc(time.Second, func() { r.deliver(replyEvents, "stray") })
		time.AfterFunc(2*time.Second, func() { r.deliver(replyEvents, "mine") })
		if v, err := ask(replyEvents, mine); err != nil || v != "mine" {
			t.Errorf("%v, %v", v, err)
		}
		// With nothing owed, what does not match is the caller's to judge.
		time.AfterFunc(time.Second, func() { r.deliver(replyEvents, "wrong") })
		if v, err := ask(replyEvents, mine); err != nil || v != "wrong" {
			t.Errorf("%v, %v", v, err)
		}
		// Two at once take turns.
		for range 2 {
			go func() { _, _ = ask(replyHeaders, nil) }()
		}
		synctest.Wait()
		n := len(p.out)
		r.deliver(replyHeaders, 1)
		synctest.Wait()
		if len(p.out) != n+1 {
			t.Error("did not take turns")
		}
		r.deliver(replyHeaders, 2)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.ask(ctx, p, replyTips, p2p.Message{}, 1, nil); err == nil {
			t.Error("asked under a context that has ended")
		}
	})
}

// Two requests for events are out at a time. Each gets the answer that fits it, in
// whatever order; the time of the second begins when the first has ended; what is too
// long, or fits neither, was for the first.
func TestRequesterTwoAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const timeout = 15 * time.Second
		r := newRequester(timeout)
		p := newFakePeer(t.Context(), p2p.SessionOutbound, nil)
		type result struct {
			v    any
			err  error
			took time.Duration
		}
		start := time.Now()
		ask := func(name string) chan result {
			got := make(chan result, 1)
			go func() {
				v, err := r.ask(t.Context(), p, replyEvents, p2p.Message{}, len(name), func(v any) (any, bool) {
					return "fits " + name, v == name
				})
				got <- result{v, err, time.Since(start)}
			}()
			synctest.Wait()
			return got
		}
		a, b, c := ask("a"), ask("bb"), ask("ccc")
		if len(p.out) != 2 || r.limit(replyEvents) != 2 {
			t.Errorf("%d are out, of at most %d bytes", len(p.out), r.limit(replyEvents))
		}
		r.deliver(replyEvents, "bb")
		if got := <-b; got.v != "fits bb" || got.err != nil {
			t.Errorf("the second: %+v", got)
		}
		synctest.Wait()
		if len(p.out) != 3 || r.limit(replyEvents) != 3 {
			t.Error("the third did not follow")
		}
		rest(timeout - time.Second)
		r.deliver(replyEvents, "ccc")
		if got := <-c; got.v != "fits ccc" {
			t.Errorf("the third: %+v", got)
		}
		if got := <-a; !errors.Is(got.err, errTimeout) || got.took != timeout {
			t.Errorf("the first: %+v", got)
		}
		rest(strayTimeouts * timeout)

		start = time.Now()
		a, b = ask("a"), ask("b")
		if got := <-a; !errors.Is(got.err, errTimeout) || got.took != timeout {
			t.Errorf("the first: %+v", got)
		}
		if got := <-b; !errors.Is(got.err, errTimeout) || got.took != 2*timeout {
			t.Errorf("the second: %+v", got)
		}
		rest(strayTimeouts * timeout)
		a, b = ask("a"), ask("b")
		r.deliver(replyEvents, "neither")
		if got := <-a; got.v != "neither" {
			t.Errorf("what fits neither: %+v", got)
		}
		a = ask("a")
		r.fail(replyEvents, errTooLong)
		if got := <-b; !errors.Is(got.err, errTooLong) {
			t.Errorf("what was too long: %+v", got)
		}
		r.deliver(replyEvents, "a")
		if got := <-a; got.v != "fits a" || r.busy() {
			t.Errorf("the last: %+v", got)
		}
		if r.deliver(replyEvents, "a") {
			t.Error("an answer to nothing")
		}
	})
}

// No request goes to a peer for an id that it has not shown, nor for more than 128
// (traps 10 and 12): a peer that strikes for either sees neither.
func TestAsksOnlyForWhatWasRevealed_Trap10(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, honest := newNode(t, nil), newNode(t, nil)
		l := &library{slot: testSlot, events: chain(700)}
		newPuppet(t, honest, p2p.SessionOutbound, true, l.answer)
		rest(5 * time.Second)
		connect(t, n, honest)
		rest(5 * time.Second)
		same(t, testSlot, 700, honest, n)
		shown := map[eventgraph.ID]bool{}
		for _, e := range l.events {
			shown[e.ID()] = true
		}
		for _, id := range l.asked {
			if !shown[id] {
				t.Error("asked for what was never shown")
			}
		}
		honest.wantStrikes(0)
		n.wantStrikes(0)
	})
}

// An answer with bodies larger than we keep is not read; smaller requests get the
// others all the same.
func TestOversizeBodiesInSync(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, nil)
		l := &library{slot: testSlot, events: chain(20)}
		branch := l.events[9].ID()
		for i := range 8 {
			e := testEvent(uint64(testSlot)+9000+uint64(i), branch)
			e.Layer, e.Content = 11, make([]byte, 900<<10)
			e.ContentHash = eventgraph.HashContent(e.Content)
			l.events = append(l.events, e)
		}
		l.tips = ids(l.events[19:]...)
		newPuppet(t, n, p2p.SessionOutbound, false, l.answer)
		rest(5 * time.Second)
		for i, e := range l.events {
			if want := i < 20; n.has(e.ID()) != want {
				t.Errorf("event %d: %v", i, !want)
			}
		}
	})
}

// Trap 11: a comparison that meets the turn of the slot asks a peer without the
// capability for nothing that it may have forgotten; it goes on after the turn.
func TestPullAcrossTurn_Trap11(t *testing.T) {
	for _, capable := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			rest(49*time.Minute + 50*time.Second) // 10 s before the turn
			n := newNode(t, nil)
			l := &library{slot: testSlot, events: chain(300)}
			newPuppet(t, n, p2p.SessionOutbound, capable, l.answer)
			rest(15 * time.Second)
			if got := n.graph.HasBody(testSlot, l.events[299].ID()); got != capable {
				t.Errorf("capable %v: fetched over the turn: %v", capable, got)
			}
			rest(5 * time.Minute)
			if !n.graph.HasBody(testSlot, l.events[299].ID()) || !n.gossip.Synced() {
				t.Errorf("capable %v: never fetched", capable)
			}
		})
	}
}

// Trap 16: a peer of another network is compared with once; its pushes cost it
// nothing but are not stored.
func TestForeignPeerIsLeftAlone_Trap16(t *testing.T) {
	bubble(t, func(t *testing.T) {
		foreign := testParams
		foreign.Contents = []byte("other")
		genesis := foreign.GenesisOf(testSlot)
		e := testEvent(uint64(time.Now().UnixMilli()), genesis.ID())
		n := newNode(t, synced)
		l := &library{slot: testSlot, events: []eventgraph.Event{genesis, e}}
		p := newPuppet(t, n, p2p.SessionOutbound, true, l.answer)
		rest(time.Minute)
		before := len(heard[TipReq](p, CmdTipReq))
		p.put(e)
		p.wantAnswer(e, eventgraph.NackInvalid)
		rest(45 * time.Minute)
		if got := len(heard[TipReq](p, CmdTipReq)) - before; got > 5 { // the static graph only
			t.Errorf("asked %d times more", got)
		}
		if p.ctx.Err() != nil || n.has(e.ID()) {
			t.Errorf("closed: %v", p.ctx.Err())
		}
		n.wantStrikes(0)
	})
}
