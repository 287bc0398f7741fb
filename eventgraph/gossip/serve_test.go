package gossip

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// request says one request and returns what came for it.
func ask[M any](p *puppet, command, answer string, m appender) []M {
	before := len(heard[M](p, answer))
	p.say(command, m.AppendTo(nil))
	synctest.Wait()
	return heard[M](p, answer)[before:]
}

// An unmodified requester: no capability, inbound.
func newAsker(t *testing.T, n *node) *puppet {
	return newPuppet(t, n, p2p.SessionInbound, false, nil)
}

// Facts page, section 5.4, TipReq and HeaderReq, and what they reveal; also from a
// node that is not synced (decision 0032).
func TestServeTipsAndHeaders(t *testing.T) {
	for _, skip := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			n := newNode(t, func(c *Config, _ *node) { c.SkipSync = skip })
			a := n.child("a")
			b := n.child("b", a)
			c := n.child("c", a)
			n.insert(testSlot, a, b, c)
			p := newAsker(t, n)
			name := testSlot.String()

			tips := ask[TipRep](p, CmdTipReq, CmdTipRep, TipReq{name})
			if len(tips) != 1 || tips[0].Tips.Count() != 2 || len(tips[0].Tips[2]) != 2 {
				t.Fatalf("tips %+v", tips)
			}
			all := ask[HeaderRep](p, CmdHeaderReq, CmdHeaderRep, HeaderReq{Name: "+000" + name})
			if len(all) != 1 || len(all[0].Headers) != 4 || all[0].Headers[0].Layer != 0 || all[0].Headers[1].ID() != a.ID() {
				t.Fatalf("headers %+v", all)
			}
			some := ask[HeaderRep](p, CmdHeaderReq, CmdHeaderRep, HeaderReq{name, eventgraph.Tips{2: ids(b)}})
			if len(some) != 1 || len(some[0].Headers) != 1 || some[0].Headers[0].ID() != c.ID() {
				t.Fatalf("headers beyond b: %+v", some)
			}
			none := ask[HeaderRep](p, CmdHeaderReq, CmdHeaderRep, HeaderReq{name, tips[0].Tips})
			if len(none) != 1 || len(none[0].Headers) != 0 {
				t.Fatalf("an empty answer is an answer: %+v", none)
			}
			for _, name := range []string{"", "x", StaticName, "-1", "0", "1", "946684800001", "18446744073709551616"} {
				if got := ask[HeaderRep](p, CmdHeaderReq, CmdHeaderRep, HeaderReq{Name: name}); len(got) > 0 {
					t.Errorf("headers of %q", name)
				}
				if got := ask[TipRep](p, CmdTipReq, CmdTipRep, TipReq{name}); len(got) > 0 != (name == StaticName) {
					t.Errorf("tips of %q: %v", name, got)
				}
			}
			// What was shown is served, in the order of the request, twice if asked twice.
			got := ask[EventRep](p, CmdEventReq, CmdEventRep, EventReq{ids(c, a, c)})
			if len(got) != 1 || !slices.Equal(ids(got[0].Events...), ids(c, a, c)) || len(got[0].Blobs) != 3 {
				t.Errorf("events %+v", got)
			}
			n.wantStrikes(0)
		})
	}
}

// Facts page, section 5.5: an id that was shown to nobody is a strike each, and the
// rest of the request is still answered; parents of stored events are shown.
func TestServeUnrevealed_DS17(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		a := n.child("a")
		b := n.child("b", a)
		n.insert(testSlot, a, b)
		p := newAsker(t, n)
		got := ask[EventRep](p, CmdEventReq, CmdEventRep, EventReq{[]eventgraph.ID{b.ID(), numbered(1), a.ID()}})
		if len(got) != 1 || !slices.Equal(ids(got[0].Events...), ids(a)) {
			t.Errorf("events %+v", got)
		}
		n.wantStrikes(2)
		// Nothing to serve: nothing is sent, not even an empty answer.
		n.gossip.revealed.add(testSlot, numbered(9))
		if got := ask[EventRep](p, CmdEventReq, CmdEventRep, EventReq{[]eventgraph.ID{numbered(9)}}); len(got) > 0 {
			t.Errorf("events %+v", got)
		}
		n.wantStrikes(2)
		static := testParams.GenesisOf(testParams.Genesis)
		if got := ask[EventRep](p, CmdEventReq, CmdEventRep, EventReq{ids(static)}); len(got) != 1 {
			t.Error("static ids are always served")
		}
		ask[EventRep](p, CmdEventReq, CmdEventRep, EventReq{[]eventgraph.ID{numbered(2), numbered(3), numbered(4), numbered(5)}})
		if p.ctx.Err() == nil {
			t.Error("five strikes")
		}
	})
}

// More than 128 ids, or more than 1024 tips: one strike, no answer.
func TestServeTooMany_DS17(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newAsker(t, n)
		many := make([]eventgraph.ID, 1025)
		for i := range many {
			many[i] = numbered(i)
		}
		ask[EventRep](p, CmdEventReq, CmdEventRep, EventReq{many[:129]})
		n.wantStrikes(1)
		ask[HeaderRep](p, CmdHeaderReq, CmdHeaderRep, HeaderReq{testSlot.String(), eventgraph.Tips{3: many}})
		n.wantStrikes(2)
		if got := ask[HeaderRep](p, CmdHeaderReq, CmdHeaderRep, HeaderReq{testSlot.String(), eventgraph.Tips{3: many[:1024]}}); len(got) != 1 {
			t.Error("1024 tips are served")
		}
		n.wantStrikes(2)
	})
}

// Checklist 37, 39, 41, 42, 76 on the wire; never a strike, never touched by what was
// revealed.
func TestServeRange_Checklist76(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		var events []eventgraph.Event
		for i := range 3 {
			events = append(events, n.child(fmt.Sprint(i), events...))
			rest(time.Second)
		}
		n.insert(testSlot, events...)
		p := newAsker(t, n)
		newest := eventgraph.Cursor{Timestamp: ^uint64(0)}
		page := func(name string, from eventgraph.Cursor, backward bool, limit uint32) RangeRep {
			t.Helper()
			got := ask[RangeRep](p, CmdRangeReq, CmdRangeRep, RangeReq{name, from, backward, limit})
			if len(got) != 1 {
				t.Fatalf("%d answers", len(got))
			}
			return got[0]
		}
		name := testSlot.String()
		r := page(name, newest, true, 2)
		if !slices.Equal(ids(r.Events...), ids(events[2], events[1])) || len(r.Blobs) != 2 || r.Exhausted ||
			r.Next != (eventgraph.Cursor{Timestamp: events[1].Timestamp, ID: events[1].ID()}) {
			t.Errorf("newest two: %+v", r)
		}
		r = page(name, r.Next, true, 2)
		if !slices.Equal(ids(r.Events...), ids(events[0])) || !r.Exhausted {
			t.Errorf("the rest: %+v", r)
		}
		for _, name := range []string{"", "static-dag", "12"} {
			if r := page(name, newest, true, 100); len(r.Events) > 0 || !r.Exhausted || r.Next != newest {
				t.Errorf("%q: %+v", name, r)
			}
		}
		if r := page(name, newest, true, 0); len(r.Events) > 0 || !r.Exhausted || r.Next != newest {
			t.Errorf("limit 0: %+v", r)
		}
		var more []eventgraph.Event
		for i := range 120 {
			more = append(more, n.child(fmt.Sprint("more", i)))
		}
		n.insert(testSlot, more...)
		if r := page(name, eventgraph.Cursor{}, false, 1<<31); len(r.Events) != MaxRangePage || r.Exhausted {
			t.Errorf("%d events in a page", len(r.Events))
		}
		n.wantStrikes(0)
	})
}

// Partial replies keep an EventRep near a megabyte.
func TestServeBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		var events []eventgraph.Event
		for i := range 40 {
			events = append(events, n.child(fmt.Sprint(i)+string(make([]byte, 60000))))
		}
		n.insert(testSlot, events...)
		p := newAsker(t, n)
		ask[TipRep](p, CmdTipReq, CmdTipRep, TipReq{testSlot.String()})
		got := ask[EventRep](p, CmdEventReq, CmdEventRep, EventReq{ids(events...)})
		if len(got) != 1 || len(got[0].Events) != 17 || !slices.Equal(ids(got[0].Events...), ids(events[:17]...)) {
			t.Errorf("%d events", len(got[0].Events))
		}
	})
}

// Peers that ask for everything and read nothing have no answers made, and little of
// what they ask is kept; others are served at once (failure-cases 67).
func TestServeStalledReaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		n.insert(testSlot, chain(4200)...)
		tips := eventgraph.Tips{}
		for i := range uint64(MaxHeaderReqTips) {
			tips[i] = []eventgraph.ID{{byte(i), byte(i >> 8)}}
		}
		question := HeaderReq{Name: testSlot.String(), Tips: tips}.AppendTo(nil)
		var stalled []*puppet
		for range 100 {
			p := newAsker(t, n)
			p.stall.Store(true)
			for range 5 {
				p.say(CmdHeaderReq, question)
			}
			p.say(CmdTipReq, TipReq{testSlot.String()}.AppendTo(nil))
			stalled = append(stalled, p)
		}
		synctest.Wait()
		if got := n.gossip.Stats().Served; got != 0 {
			t.Errorf("%d answers were made for peers that do not read", got)
		}
		for _, c := range n.gossip.conns() {
			if held := c.requests.bytes; held > maxQuestionBytes {
				t.Errorf("%d bytes of questions are kept", held)
			}
		}
		honest := newAsker(t, n)
		honest.say(CmdHeaderReq, question) // as large as theirs
		synctest.Wait()
		got := heard[HeaderRep](honest, CmdHeaderRep)
		if len(got) != 1 || len(got[0].Headers) != MaxHeaderRepHeaders {
			t.Errorf("%d answers", len(got))
		}
		for _, p := range stalled {
			p.Close(p2p.ErrSlowPeer)
		}
	})
}

// Whatever an honest peer has out at a time finds room, and no more.
func TestQuestionBound(t *testing.T) {
	tips := eventgraph.Tips{}
	for i := range uint64(MaxHeaderReqTips) {
		tips[i] = []eventgraph.ID{{byte(i), byte(i >> 8)}}
	}
	name := "18446744073709551615"
	events := EventReq{IDs: make([]eventgraph.ID, MaxEventReqIDs)}.AppendTo(nil)
	q := newRequestQueue()
	for _, r := range []request{
		{CmdHeaderReq, HeaderReq{Name: name, Tips: tips}.AppendTo(nil)},
		{CmdEventReq, events},
		{CmdEventReq, events},
		{CmdTipReq, TipReq{name}.AppendTo(nil)},
		{CmdRangeReq, RangeReq{Name: name}.AppendTo(nil)},
	} {
		if !q.push(r) {
			t.Errorf("no room for a %s", r.command)
		}
	}
	left := maxQuestionBytes - q.bytes
	if q.full(left) || !q.full(left+1) {
		t.Errorf("the bound is not %d bytes", maxQuestionBytes)
	}
	first, _ := q.take()
	if !q.full(left + 1) {
		t.Error("what is being answered does not count")
	}
	q.done(len(first.payload))
	if q.full(left + 1) {
		t.Error("what was answered counts")
	}
	q = newRequestQueue()
	if !q.push(request{CmdEventReq, make([]byte, maxRequest)}) {
		t.Error("an empty queue has no room for the largest")
	}
}

// Where there is little room, answers are made in part, and lead on (facts page,
// section 5.4): an event that does not fit is sent alone, and nobody is struck twice.
func TestServeInLittleRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		var events []eventgraph.Event
		for i := range 10 {
			events = append(events, n.child(fmt.Sprint(i)+string(make([]byte, 500+2000*(i/9)))))
		}
		n.insert(testSlot, events...)
		p := newAsker(t, n)
		ask[TipRep](p, CmdTipReq, CmdTipRep, TipReq{testSlot.String()})
		p.room.Store(1600)
		all := ids(events...)
		for left := append([]eventgraph.ID{{0xee}}, all...); len(left) > 0; {
			got := ask[EventRep](p, CmdEventReq, CmdEventRep, EventReq{left})
			if len(got) != 1 || len(got[0].Events) == 0 {
				t.Fatalf("no answer while %d are left", len(left))
			}
			if k := len(got[0].Events); k > 2 || k == 1 && len(all) > 2 {
				t.Errorf("%d events in the room of two", k)
			}
			all = all[len(got[0].Events):]
			left = all
		}
		n.wantStrikes(1)
		q := RangeReq{Name: testSlot.String(), Limit: 100}
		var seen []eventgraph.ID
		for range events {
			got := ask[RangeRep](p, CmdRangeReq, CmdRangeRep, q)
			if len(got) != 1 {
				t.Fatal("no page")
			}
			if k := len(got[0].Events); k > 2 {
				t.Errorf("%d events in the room of two", k)
			}
			seen = append(seen, ids(got[0].Events...)...)
			q.From = got[0].Next
			if got[0].Exhausted {
				break
			}
		}
		slices.SortFunc(seen, compareIDs)
		want := ids(events...)
		slices.SortFunc(want, compareIDs)
		if !slices.Equal(seen, want) {
			t.Errorf("pages hold %d events of %d", len(seen), len(want))
		}
	})
}

// No answer is larger than what is reserved for it.
func TestServedAnswersFit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		var events []eventgraph.Event
		for i := range 40 {
			events = append(events, n.child(fmt.Sprint(i)+string(make([]byte, eventgraph.DefaultMaxContent-3))))
		}
		n.insert(testSlot, events...)
		p := newAsker(t, n)
		ask[TipRep](p, CmdTipReq, CmdTipRep, TipReq{testSlot.String()})
		for _, k := range []int{1, 2, 17, 40} {
			if got := ask[EventRep](p, CmdEventReq, CmdEventRep, EventReq{ids(events[:k]...)}); len(got) != 1 {
				t.Errorf("%d events are not served", k)
			}
		}
		if got := ask[RangeRep](p, CmdRangeReq, CmdRangeRep, RangeReq{Name: testSlot.String(), Limit: 100}); len(got) != 1 {
			t.Error("a page is not served")
		}
	})
}

// More requests than an honest peer has out are dropped.
func TestRequestInboxBound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newAsker(t, n)
		p.stall.Store(true)
		for range 500 {
			p.say(CmdTipReq, TipReq{testSlot.String()}.AppendTo(nil))
		}
		synctest.Wait()
		if got := n.gossip.Stats().RequestsDropped; got < 500-64-maxInboxRequests-3 {
			t.Errorf("dropped %d", got)
		}
		if p.ctx.Err() != nil {
			t.Error("closed")
		}
	})
}

// Facts page, section 5.5: what was served shows its parents, also where nothing was
// committed by this process.
func TestServedEventRevealsParents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		events := chain(3)
		n.insert(testSlot, events...)
		n.gossip.revealed.gen = [2]generation{} // as after a restart
		p := newAsker(t, n)
		ask[TipRep](p, CmdTipReq, CmdTipRep, TipReq{testSlot.String()})
		for i := range 3 {
			e := events[2-i]
			if got := ask[EventRep](p, CmdEventReq, CmdEventRep, EventReq{ids(e)}); len(got) != 1 {
				t.Errorf("event %d is not served", 2-i)
			}
		}
		n.wantStrikes(0)
	})
}
