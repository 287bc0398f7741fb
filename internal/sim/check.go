package sim

import (
	"slices"

	"hearsay/eventgraph"
	"hearsay/internal/stock"
)

// check compares all nodes, slot by slot.
func (w *World) check() {
	slots := w.nodes[0].graph.Slots()
	union := map[eventgraph.Slot]map[eventgraph.ID]bool{}
	held := make([]map[eventgraph.Slot]map[eventgraph.ID]bool, len(w.nodes))
	for i, n := range w.nodes {
		if got := n.graph.Slots(); !slices.Equal(got, slots) {
			w.t.Errorf("%s retains %v, %s %v", n.name, got, w.nodes[0].name, slots)
			continue
		}
		held[i] = map[eventgraph.Slot]map[eventgraph.ID]bool{}
		for _, s := range slots {
			held[i][s] = n.holds(s)
			if union[s] == nil {
				union[s] = map[eventgraph.ID]bool{}
			}
			for id := range held[i][s] {
				union[s][id] = true
			}
		}
	}
	total, bad := 0, 0
	for k, s := range slots {
		total += len(union[s])
		for i, n := range w.nodes {
			if missing := len(union[s]) - len(held[i][s]); missing != 0 {
				bad++
				if bad <= 20 {
					w.t.Errorf("%s lacks %d of %d events of slot %d of %d", n.name, missing, len(union[s]), k+1, len(slots))
				}
			}
			if _, bare := n.graph.SlotStats(s); bare != 0 {
				w.t.Errorf("%s: %d headers without a body are left in slot %d", n.name, bare, k+1)
			}
		}
	}
	lost := 0
	for id, s := range w.published {
		if s != 0 && s >= slots[0] && !union[s][id] {
			lost++
		}
	}
	if lost != 0 {
		w.t.Errorf("%d events that were stored at their author's are nowhere", lost)
	}
	for _, n := range w.nodes {
		s := n.gossip.Stats()
		if k := n.past.Strikes + s.Strikes; k != 0 {
			w.t.Errorf("%s struck peers %d times", n.name, k)
		}
		if k := n.past.FloodBans + s.FloodBans; k != 0 {
			w.t.Errorf("%s banned %d peers for flooding", n.name, k)
		}
		if k := n.bans + n.p2p.Stats().Bans; k != 0 {
			w.t.Errorf("%s banned %d addresses", n.name, k)
		}
		if !s.Synced {
			w.t.Errorf("%s is not synced", n.name)
		}
	}
	w.checkStocks()
	if total == 0 {
		w.t.Error("the retained slots are empty: nothing was simulated")
	}
	w.t.Logf("%d events published, %d in the %d retained slots; %v; %d MB between nodes",
		len(w.published), total, len(slots), w.counts, w.net.Bytes()>>20)
	if w.t.Failed() {
		for _, line := range w.log {
			w.t.Log(line)
		}
	}
}

// holds lists the events that the node stores in a slot.
func (n *Node) holds(s eventgraph.Slot) map[eventgraph.ID]bool {
	held := map[eventgraph.ID]bool{}
	for from := (eventgraph.Cursor{}); ; {
		page, err := n.graph.Page(s, from, false, eventgraph.MaxPage)
		if err != nil {
			n.w.t.Fatalf("%s: %v", n.name, err)
		}
		for i := range page.Events {
			held[page.Events[i].ID()] = true
		}
		if page.Exhausted || page.Next == from {
			return held
		}
		from = page.Next
	}
}

// checkStocks asks the stock peers whether they suffered. Links that stall cost late
// replies, to requests that they have given up, and pongs, which are nobody's fault.
func (w *World) checkStocks() {
	for _, s := range w.stocks {
		shown := 0
		for _, v := range s.Violations() {
			if v.Cost == stock.Silent && v.Rule == stock.RuleUnsolicited ||
				v.Cost == stock.Close && v.Rule == stock.RulePong {
				continue
			}
			if shown++; shown <= 5 {
				w.t.Errorf("%s says: %v", s.name, v)
			}
		}
		if s.Strikes() != 0 || len(s.Bans()) != 0 {
			w.t.Errorf("%s: %d strikes, bans %v", s.name, s.Strikes(), s.Bans())
		}
	}
}
