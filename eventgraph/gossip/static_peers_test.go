package gossip

import (
	"fmt"
	"testing"
	"time"

	"hearsay/eventgraph"
)

// Checklist 11: what no single peer has comes together from several.
func TestStaticFromTwoPeers_Checklist11(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n, a, b := newNode(t, synced), newNode(t, synced), newNode(t, synced)
		genesis := testParams.GenesisOf(testParams.Genesis)
		var all []eventgraph.Event
		for i, x := range []*node{a, b} {
			last := genesis.ID()
			for k := range 150 {
				e := eventgraph.Event{Content: fmt.Appendf(nil, "static %d of %d", k, i)}
				e.Timestamp, e.Layer, e.ContentHash = 7, uint64(k)+1, eventgraph.HashContent(e.Content)
				e.Parents[0] = last
				last = e.ID()
				if _, err := x.graph.StaticInsert(e); err != nil {
					t.Fatal(err)
				}
				all = append(all, e)
			}
		}
		connect(t, n, a)
		connect(t, n, b)
		rest(2 * time.Minute)
		for _, e := range all {
			if !n.graph.HasStatic(e.ID()) {
				t.Fatalf("%s is missing", e.Content)
			}
		}
	})
}
