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

// staticEvents makes n static events, each on the one before.
func staticEvents(n int) (events []eventgraph.Event) {
	genesis := testParams.GenesisOf(testParams.Genesis)
	last := genesis.ID()
	for i := range n {
		e := eventgraph.Event{Content: fmt.Appendf(nil, "static %d", i)}
		e.Timestamp, e.Layer, e.ContentHash = 7, uint64(i)+1, eventgraph.HashContent(e.Content)
		e.Parents[0] = last
		last = e.ID()
		events = append(events, e)
	}
	return events
}

func (p *puppet) putStatic(e eventgraph.Event) {
	p.say(CmdStaticPut, EventPut{Event: e}.AppendTo(nil))
	synctest.Wait()
}

// Facts page, section 4.10, and DS-05: static puts are stored and passed on, and never
// answered; an unknown parent or a broken event is a strike, a copy is nothing.
func TestStaticPut_DS05(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		q := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		e := staticEvents(3)
		p.putStatic(e[0])
		p.putStatic(e[0])
		p.putStatic(e[1])
		if !n.graph.HasStatic(e[0].ID()) || !n.graph.HasStatic(e[1].ID()) {
			t.Error("not stored")
		}
		n.wantStrikes(0)
		if got := heard[EventPut](q, CmdStaticPut); len(got) != 2 || len(heard[EventPut](p, CmdStaticPut)) != 0 {
			t.Errorf("passed on %d times", len(got))
		}
		orphan := e[2]
		orphan.Parents[0] = numbered(1)
		p.putStatic(orphan)
		n.wantStrikes(1)
		forged := e[2]
		forged.Content = []byte("forged")
		p.putStatic(forged)
		n.wantStrikes(2)
		if got := heard[eventgraph.Status](p, CmdEventPutStatus); len(got) > 0 {
			t.Errorf("told %v", got)
		}
	})
}

// Static puts have a flood window of their own.
func TestStaticFlood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		events := staticEvents(201)
		for _, e := range events[:200] {
			p.putStatic(e)
		}
		p.put(n.child("an ordinary one"))
		if p.ctx.Err() != nil {
			t.Fatal("banned within the limit")
		}
		p.putStatic(events[200])
		if !p.forced.Load() {
			t.Error("not banned by force")
		}
	})
}

// The static graph is compared too: checklist 10 and 71 for static events. An answer
// that was not asked for changes nothing.
func TestStaticCompare_Checklist10(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newNode(t, synced), newNode(t, synced)
		for _, e := range staticEvents(300) {
			if _, err := a.graph.StaticInsert(e); err != nil {
				t.Fatal(err)
			}
		}
		connect(t, b, a)
		rest(2 * time.Minute)
		for _, e := range staticEvents(300) {
			if !b.graph.HasStatic(e.ID()) {
				t.Fatalf("%s is missing", e.Content)
			}
		}
		a.wantStrikes(0)
	})
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		e := staticEvents(3)
		newPuppet(t, n, p2p.SessionOutbound, true, func(p *puppet, command string, payload []byte) {
			q, _ := DecodeTipReq(payload)
			switch {
			case command == CmdTipReq && q.Name == StaticName:
				p.say(CmdTipRep, TipRep{eventgraph.Tips{2: ids(e[1])}}.AppendTo(nil))
			case command == CmdTipReq:
				inStep(p, command, payload)
			case command == CmdEventReq:
				p.say(CmdEventRep, reply(e[2], e[0]).AppendTo(nil))
			}
		})
		rest(time.Hour)
		if slices.ContainsFunc(e, func(e eventgraph.Event) bool { return n.graph.HasStatic(e.ID()) }) {
			t.Error("stored what was not asked for")
		}
	})
}
