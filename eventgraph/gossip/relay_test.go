package gossip

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// contents lists what a peer was sent, in order.
func contents(p *puppet) (list []string) {
	for _, m := range heard[EventPut](p, CmdEventPut) {
		list = append(list, string(m.Event.Content))
	}
	return list
}

// A stored put goes to all peers but its source, and to none that has it already
// (failure-cases: forwards per event are at most the degree). The blob is empty,
// whatever was received.
func TestRelay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		a := newPuppet(t, n, p2p.SessionOutbound, false, nil)
		b := newPuppet(t, n, p2p.SessionManual, false, nil)
		c := newPuppet(t, n, p2p.SessionDirect, true, nil)
		d := newPuppet(t, n, p2p.SessionInbound, true, nil)
		for i := range 6 {
			a.put(n.child(fmt.Sprint(i))) // now the limiter takes its time
		}
		e := n.child("e")
		a.say(CmdEventPut, EventPut{Event: e, Blob: []byte("proof")}.AppendTo(nil))
		b.put(e)
		for range 3 {
			a.put(e)
		}
		rest(time.Minute)
		for name, want := range map[*puppet]int{a: 0, b: 0, c: 1, d: 1} {
			got := slices.DeleteFunc(heard[EventPut](name, CmdEventPut), func(m EventPut) bool { return string(m.Event.Content) != "e" })
			if len(got) > want || want == 1 && (len(got) != 1 || len(got[0].Blob) != 0) {
				t.Errorf("sent %d times, want %d", len(got), want)
			}
		}
	})
}

// DS-57 and p2p facts trap 5: an inbound connection is sent nothing until it is known
// to be no probe: it said something, announced the feature, or lived ten seconds.
func TestPutTargets_DS57(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		targets := func(want int) {
			t.Helper()
			if got := n.gossip.PutTargets(); got != want {
				t.Errorf("%d targets, want %d", got, want)
			}
		}
		targets(0)
		out := newPuppet(t, n, p2p.SessionOutbound, false, nil)
		targets(1)
		newPuppet(t, n, p2p.SessionInbound, true, nil)
		targets(2)
		probe := newPuppet(t, n, p2p.SessionInbound, false, nil)
		talker := newPuppet(t, n, p2p.SessionInbound, false, nil)
		targets(2)
		talker.say(CmdTipReq, TipReq{Name: testSlot.String()}.AppendTo(nil))
		targets(3)
		out.put(n.child("one"))
		rest(readyAfter - time.Millisecond)
		if n := probe.count(); n > 0 {
			t.Errorf("a possible probe was sent %d messages", n)
		}
		targets(3)
		rest(time.Millisecond)
		synctest.Wait()
		targets(4)
		if len(heard[TipReq](probe, CmdTipReq)) != 1 {
			t.Error("a proven peer is compared with")
		}
		out.put(n.child("two"))
		rest(time.Second)
		if got := contents(probe); !slices.Equal(got, []string{"two"}) {
			t.Errorf("sent %v", got)
		}
		out.Close(nil)
		synctest.Wait()
		targets(3)
	})
}

// The default limiter: a burst of one source is relayed at the network's pace, and
// what has become too old for a peer without the capability is dropped there instead
// of costing us a strike (trap 25), while a capable one gets everything.
func TestRelayBurst_DS19_Trap25(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		src := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		var late int
		stock := newPuppet(t, n, p2p.SessionOutbound, false, func(p *puppet, command string, payload []byte) {
			inStep(p, command, nil)
			if m, err := DecodeEventPut(payload); command == CmdEventPut && err == nil {
				if age := time.Now().UnixMilli() - int64(m.Event.Timestamp); age >= 50000 {
					late++
				}
			}
		})
		ours := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		for i := range 100 {
			src.put(n.child(fmt.Sprint(i)))
		}
		rest(time.Millisecond)
		if got := len(contents(ours)); got != 6 {
			t.Errorf("%d at once, want 6", got)
		}
		rest(3 * time.Minute)
		if got := len(contents(stock)); late > 0 || got < 40 || got > 60 {
			t.Errorf("a stock peer was sent %d, %d of them late", got, late)
		}
		if got := len(contents(ours)); got != 100 {
			t.Errorf("ours was sent %d", got)
		}
	})
}

// DS-86: never more than 180 puts in any 60 s towards one peer, own and relayed
// together, and the own put goes first.
func TestPacing_DS86(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, func(c *Config, _ *node) {
			c.SkipSync, c.Limits.RelayFree, c.Limits.FloodPuts = true, NoRelayLimit, 1<<20
		})
		src := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		var times []time.Time
		dst := newPuppet(t, n, p2p.SessionOutbound, true, func(_ *puppet, command string, _ []byte) {
			if command == CmdEventPut {
				times = append(times, time.Now())
			}
		})
		for i := range 400 {
			src.put(n.child(fmt.Sprint(i)))
		}
		rest(time.Second)
		if got := len(contents(dst)); got != 180-ownReserve {
			t.Errorf("%d relays at once", got)
		}
		own := n.publish("own")
		synctest.Wait()
		list := contents(dst)
		if last := list[len(list)-1]; last != "own" {
			t.Errorf("the own put waits behind %s", last)
		}
		for range ownReserve {
			n.gossip.Put(t.Context(), own, PutOptions{Wait: time.Millisecond})
		}
		rest(5 * time.Minute)
		for i := range times {
			if i >= 180 && times[i].Sub(times[i-180]) < time.Minute {
				t.Fatalf("%d puts within %v", 181, times[i].Sub(times[i-180]))
			}
		}
		if got := len(times); got != 400+1+ownReserve {
			t.Errorf("%d of %d arrived", got, 400+1+ownReserve)
		}
	})
}

// Local events go out by themselves, unless the application puts them.
func TestLocalBroadcast(t *testing.T) {
	for _, manual := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			n := newNode(t, func(c *Config, _ *node) { c.SkipSync, c.ManualPut = true, manual })
			a := newPuppet(t, n, p2p.SessionOutbound, false, nil)
			b := newPuppet(t, n, p2p.SessionOutbound, true, nil)
			e := n.publish("mine")
			synctest.Wait()
			if got := len(contents(a)) + len(contents(b)); manual && got != 0 || !manual && got != 2 {
				t.Errorf("manual %v: sent %d times", manual, got)
			}
			var sending []eventgraph.Conn
			report := n.gossip.Put(t.Context(), e, PutOptions{Sending: func(c eventgraph.Conn) {
				sending = append(sending, c)
			}})
			want := []eventgraph.Conn{eventgraph.Conn(a.id), eventgraph.Conn(b.id)}
			slices.Sort(report.Written)
			if !slices.Equal(report.Written, want) || !slices.Equal(sending, want) || report.Failed+report.Pending+report.Withheld != 0 {
				t.Errorf("%+v, sending %d", report, len(sending))
			}
		})
	}
}

// DS-19 b to d for own puts: an old one is withheld from peers that would strike it,
// until its slot has been closed for 1.5 drifts.
func TestPutWithheld_DS19(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, func(c *Config, _ *node) { c.SkipSync, c.ManualPut = true, true })
		e := n.publish("mine")
		stock := newPuppet(t, n, p2p.SessionOutbound, false, inStep)
		ours := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		for _, c := range []struct {
			after time.Duration
			stock bool
		}{
			{0, true},
			{49 * time.Second, true},
			{50 * time.Second, false},
			{30 * time.Minute, false},
			{50*time.Minute + 89*time.Second, false},
			{50*time.Minute + 90*time.Second, true},
			{5 * time.Hour, true},
		} {
			rest(time.Until(eventgraph.Slot(e.Timestamp).Time().Add(c.after)))
			before := len(contents(stock))
			r := n.gossip.Put(t.Context(), e, PutOptions{})
			if got := len(contents(stock)) - before; got == 1 != c.stock || len(r.Written)+r.Withheld != 2 || r.Withheld == 1 == c.stock {
				t.Errorf("after %v: %+v, stock was sent %d", c.after, r, got)
			}
		}
		if got := len(contents(ours)); got != 7 {
			t.Errorf("ours was sent %d", got)
		}
	})
}

// A peer that does not read delays no put to the others, and is reported.
func TestPutStalledPeer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, func(c *Config, _ *node) { c.SkipSync, c.ManualPut = true, true })
		stalled := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		stalled.stall.Store(true)
		good := newPuppet(t, n, p2p.SessionOutbound, true, nil)
		e := n.publish("mine")
		start := time.Now()
		r := n.gossip.Put(t.Context(), e, PutOptions{Wait: 3 * time.Second})
		if len(r.Written) != 1 || r.Written[0] != eventgraph.Conn(good.id) || r.Pending != 1 || time.Since(start) != 3*time.Second {
			t.Errorf("%+v after %v", r, time.Since(start))
		}
		time.AfterFunc(time.Second, func() { stalled.Close(p2p.ErrSlowPeer) })
		r = n.gossip.Put(t.Context(), e, PutOptions{})
		if len(r.Written) != 1 || r.Failed != 1 {
			t.Errorf("%+v", r)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start = time.Now()
		n.gossip.Put(ctx, e, PutOptions{})
		if time.Since(start) != 0 {
			t.Errorf("took %v under a context that has ended", time.Since(start))
		}
	})
}

// What waits for a peer is bounded, and the oldest goes.
func TestOutboxBounds(t *testing.T) {
	article := func(size int) article { return article{payload: make([]byte, size)} }
	b := newOutbox(window{limit: 180, span: time.Minute})
	var dropped int64
	for range maxOutboxPuts {
		dropped += b.push(outPut{article: article(1)})
	}
	if dropped != 0 {
		t.Errorf("dropped %d at the bound", dropped)
	}
	if b.push(outPut{article: article(1)}) != 1 || len(b.relay) != maxOutboxPuts {
		t.Error("past the bound")
	}
	if n := b.push(outPut{article: article(maxOutboxBytes), own: true}); n != maxOutboxPuts || b.bytes != maxOutboxBytes {
		t.Errorf("dropped %d for a large own put, %d bytes wait", n, b.bytes)
	}
	var err error
	b.push(outPut{article: article(1), own: true, written: func(e error) { err = e }})
	b.close()
	if !errors.Is(err, errGone) || b.push(outPut{own: true}) != 1 || len(b.own) != 0 {
		t.Errorf("closed: %v", err)
	}

	q := newRelayQueue(3)
	for i := range 3 {
		if q.push(article(i)) != 0 {
			t.Error("dropped at the bound")
		}
	}
	if q.push(article(9)) != 1 {
		t.Error("past the bound")
	}
	if a, _ := q.pop(); len(a.payload) != 1 {
		t.Error("the oldest stays")
	}
	pool := newBudget(maxRelayPool)
	q.open(pool)
	if n := q.push(article(maxRelayBytes)); n != 2 || q.bytes.used != maxRelayBytes {
		t.Errorf("dropped %d, %d bytes wait", n, q.bytes.used)
	}
	// What others hold is not there; what does not count is.
	other := newRelayQueue(3)
	other.open(newBudget(0))
	if other.push(article(relayAllowance)) != 0 || other.push(article(1)) != 1 || other.push(article(relayAllowance+1)) != 2 {
		t.Error("more waits than there is room for")
	}
	q.close()
	if pool.left.Load() != maxRelayPool {
		t.Errorf("%d of the pool are left", pool.left.Load())
	}
}
