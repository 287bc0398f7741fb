package gossip

import (
	"slices"
	"testing"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// Trap 21: a node that is not synced answers tip, header, event and range requests
// from what it has. Unmodified nodes keep silent, so that a network of such never starts.
func TestUnsyncedNodeServes_Trap21(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, nil)
		a := n.child("a")
		n.insert(testSlot, a)
		p := newPuppet(t, n, p2p.SessionInbound, true, nil) // it lists nothing: the gate stays closed
		name := testSlot.String()
		if got := ask[TipRep](p, CmdTipReq, CmdTipRep, TipReq{name}); len(got) != 1 || !slices.Equal(got[0].Tips[1], ids(a)) {
			t.Errorf("tips %+v", got)
		}
		if got := ask[HeaderRep](p, CmdHeaderReq, CmdHeaderRep, HeaderReq{Name: name}); len(got) != 1 || len(got[0].Headers) != 2 {
			t.Errorf("headers %+v", got)
		}
		if got := ask[EventRep](p, CmdEventReq, CmdEventRep, EventReq{ids(a)}); len(got) != 1 || !slices.Equal(ids(got[0].Events...), ids(a)) {
			t.Errorf("events %+v", got)
		}
		newest := eventgraph.Cursor{Timestamp: ^uint64(0)}
		if got := ask[RangeRep](p, CmdRangeReq, CmdRangeRep, RangeReq{name, newest, true, 10}); len(got) != 1 || !slices.Equal(ids(got[0].Events...), ids(a)) {
			t.Errorf("range %+v", got)
		}
		if n.gossip.Synced() {
			t.Error("synced: nothing was tested")
		}
		n.wantStrikes(0)
	})
}
