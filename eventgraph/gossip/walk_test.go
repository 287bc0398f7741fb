package gossip

import (
	"fmt"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// star makes n events without children, all on the slot's genesis.
func star(slot eventgraph.Slot, n int) []eventgraph.Event {
	list := make([]eventgraph.Event, n)
	for i := range list {
		list[i] = testEvent(uint64(slot)+1000+uint64(i), genesisID(slot))
		list[i].Content = fmt.Append(nil, "ray ", i)
		list[i].ContentHash = eventgraph.HashContent(list[i].Content)
	}
	return list
}

// fringe makes a chain of n events, each tenth of which has a second child that
// nobody follows.
func fringe(slot eventgraph.Slot, n int) (list []eventgraph.Event) {
	last := genesisID(slot)
	for i := range n {
		e := testEvent(uint64(slot)+1000+uint64(i), last)
		e.Layer = uint64(i) + 1
		if list = append(list, e); i%10 == 0 {
			end := e
			end.Content = fmt.Append(nil, "end ", i)
			end.ContentHash = eventgraph.HashContent(end.Content)
			list = append(list, end)
		}
		last = e.ID()
	}
	return list
}

// A slot with more ends than messages can list is fetched completely before it counts
// as synced, whatever this node holds already, and a second look costs little.
func TestManyTips(t *testing.T) {
	for name, c := range map[string]struct {
		events []eventgraph.Event
		walks  bool // header pages do not lead everywhere
	}{
		"1023":          {star(testSlot, MaxTipRepTips-1), false},
		"1024":          {star(testSlot, MaxTipRepTips), false},
		"1025":          {star(testSlot, MaxTipRepTips+1), false},
		"the last page": {star(testSlot, MaxHeaderReqTips+MaxHeaderRepHeaders-1), false},
		"one more":      {star(testSlot, MaxHeaderReqTips+MaxHeaderRepHeaders+1), true},
		"many":          {star(testSlot, 9000), true},
		"fringe":        {fringe(testSlot, 12000), false},
		"long fringe":   {fringe(testSlot, 60000), true},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && len(c.events) > 20000 {
				t.Skip("takes seconds")
			}
			bubble(t, func(t *testing.T) {
				a, b := newNode(t, synced), newNode(t, nil)
				a.insert(testSlot, c.events...)
				b.insert(testSlot, c.events[:500]...)
				connect(t, a, b)
				for !b.gossip.Synced() {
					rest(10 * time.Millisecond)
				}
				count := func() uint64 { n, _ := b.graph.SlotStats(testSlot); return n }
				if got := count(); got != uint64(len(c.events)) {
					t.Fatalf("synced with %d of %d", got, len(c.events))
				}
				s := b.gossip.Stats()
				if s.Walks > 0 != c.walks || s.PullsFailed > 0 {
					t.Errorf("%d walks, %d pulls failed", s.Walks, s.PullsFailed)
				}
				// What comes later, without being pushed, is found in the same way.
				late := star(testSlot, 10)
				for i := range late {
					late[i].Timestamp = uint64(time.Now().UnixMilli()) + uint64(i)
				}
				a.insert(testSlot, late...)
				served := a.gossip.Stats().Served
				rest(time.Minute + time.Second)
				if got := count(); got != uint64(len(c.events)+len(late)) {
					t.Errorf("%d of %d after an interval", got, len(c.events)+len(late))
				}
				most := int64(32) // each other slot is looked at once
				if !c.walks && b.gossip.Stats().Walks > 0 {
					most += int64(len(c.events)/MaxRangePage + 2) // the first walk is a whole one
				}
				if got := a.gossip.Stats().Served - served; got > most {
					t.Errorf("a second look took %d requests", got)
				}
				a.wantStrikes(0)
				b.wantStrikes(0)
			})
		})
	}
}

// In fast mode the headers of a closed slot are walked.
func TestManyTipsFastMode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		old := testSlot - hourMS
		a, b := newNode(t, synced), newNode(t, func(c *Config, _ *node) { c.FastMode = true })
		events := star(old, 9000)
		a.insert(old, events...)
		connect(t, a, b)
		rest(time.Minute)
		if bodies, headers := b.graph.SlotStats(old); bodies != 0 || headers != uint64(len(events)) {
			t.Errorf("%d bodies, %d headers", bodies, headers)
		}
	})
}

// A peer whose list of tips is full, whose headers are all known, and whose ranges are
// one of these, is never matched with; it delays the gate no longer than a silent one.
func TestBadRanges(t *testing.T) {
	known := star(testSlot, MaxHeaderRepHeaders+10)
	stray := testEvent(uint64(testSlot)+90000, numbered(1))
	stray.Layer = 7
	for name, answer := range map[string]func(q RangeReq) *RangeRep{
		"silent": func(RangeReq) *RangeRep { return nil },
		"stuck":  func(q RangeReq) *RangeRep { return &RangeRep{Next: q.From} },
		"backwards": func(q RangeReq) *RangeRep {
			return &RangeRep{Events: []eventgraph.Event{known[1], known[0]}, Blobs: make([][]byte, 2), Next: eventgraph.Newest, Exhausted: true}
		},
		"behind the page": func(q RangeReq) *RangeRep {
			return &RangeRep{Events: known[:2], Blobs: make([][]byte, 2)}
		},
		"out of the slot": func(q RangeReq) *RangeRep {
			return &RangeRep{Events: []eventgraph.Event{testEvent(5, genesisID(testSlot))}, Blobs: make([][]byte, 1), Next: eventgraph.Newest, Exhausted: true}
		},
		"forged": func(q RangeReq) *RangeRep {
			e := testEvent(uint64(testSlot)+90000, genesisID(testSlot))
			e.Content = []byte("forged")
			return &RangeRep{Events: []eventgraph.Event{e}, Blobs: make([][]byte, 1), Next: eventgraph.Newest, Exhausted: true}
		},
		"no parents": func(q RangeReq) *RangeRep {
			return &RangeRep{Events: []eventgraph.Event{stray}, Blobs: make([][]byte, 1), Next: eventgraph.Newest, Exhausted: true}
		},
		"no parents, for ever": func(q RangeReq) *RangeRep {
			rep := &RangeRep{}
			for i := range uint64(MaxRangePage) {
				e := stray
				e.Timestamp = max(q.From.Timestamp, stray.Timestamp) + i + 1
				rep.Events, rep.Blobs = append(rep.Events, e), append(rep.Blobs, nil)
				rep.Next = eventgraph.Cursor{Timestamp: e.Timestamp, ID: e.ID()}
			}
			return rep
		},
		"empty, for ever": func(q RangeReq) *RangeRep {
			q.From.Timestamp++
			return &RangeRep{Next: q.From}
		},
		"foreign": func(q RangeReq) *RangeRep {
			e := testEvent(uint64(testSlot)+90000, numbered(1))
			return &RangeRep{Events: []eventgraph.Event{e}, Blobs: make([][]byte, 1), Next: eventgraph.Newest, Exhausted: true}
		},
		"too long a list": func(q RangeReq) *RangeRep {
			return &RangeRep{Events: known[:MaxRangePage+1], Blobs: make([][]byte, MaxRangePage+1), Next: eventgraph.Newest, Exhausted: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNode(t, nil)
				n.insert(testSlot, known...)
				newPuppet(t, n, p2p.SessionOutbound, true, func(p *puppet, command string, payload []byte) {
					switch command {
					case CmdTipReq:
						if q, _ := DecodeTipReq(payload); q.Name == testSlot.String() {
							p.say(CmdTipRep, TipRep{eventgraph.Tips{1: ids(known[:MaxTipRepTips]...)}}.AppendTo(nil))
						}
					case CmdHeaderReq:
						var rep HeaderRep
						for i := range MaxHeaderRepHeaders {
							rep.Headers = append(rep.Headers, known[i].Header)
						}
						p.say(CmdHeaderRep, rep.AppendTo(nil))
					case CmdRangeReq:
						q, _ := DecodeRangeReq(payload)
						if rep := answer(q); rep != nil {
							p.say(CmdRangeRep, rep.AppendTo(nil))
						}
					}
				})
				rest(44 * time.Second)
				if n.gossip.slotSynced(testSlot) {
					t.Error("the slot counts as compared")
				}
				if s := n.gossip.Stats(); s.Walks == 0 {
					t.Error("not walked")
				}
				rest(2 * time.Second)
				if !n.gossip.Synced() {
					t.Error("the gate stays closed")
				}
				if got, _ := n.graph.SlotStats(testSlot); got != uint64(len(known)) {
					t.Errorf("%d events", got)
				}
				n.wantStrikes(0)
			})
		})
	}
}
