package stock

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// A stock node lists the lowest 1,024 ends of a slot and no more. Ours gets all of
// its events all the same, before it counts as synced, and is not struck for it.
func TestStockWithManyTips(t *testing.T) {
	for _, count := range []int{1024, 1025, 6000} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := testNetwork()
				time.Sleep(5 * time.Minute)
				p := start(t, n, Config{Name: "10.0.0.1", SkipSync: true})
				slot := p.Current()
				genesis := testParams.GenesisOf(slot)
				var events []event
				var headers []eventgraph.Header
				for i := range count {
					e := event{Content: fmt.Append(nil, "ray ", i)}
					e.Timestamp, e.Layer, e.ContentHash = uint64(slot)+uint64(i), 1, eventgraph.HashContent(e.Content)
					e.Parents[0] = genesis.ID()
					events, headers = append(events, e), append(headers, e.Header)
				}
				p.mu.Lock()
				err := p.graph.insertHeaders(uint64(slot), headers)
				if err == nil {
					_, err = p.graph.insertBodies(uint64(slot), events)
				}
				p.mu.Unlock()
				if err != nil {
					t.Fatal(err)
				}
				o := startOurs(t, n, oursConfig{name: "10.0.0.2", peers: []p2p.URL{addr("10.0.0.1")}})
				for !o.gossip.Synced() {
					time.Sleep(100 * time.Millisecond)
				}
				if got, _ := o.graph.SlotStats(slot); got != uint64(count) {
					t.Errorf("synced with %d of %d", got, count)
				}
				time.Sleep(5 * time.Minute)
				if s := o.gossip.Stats(); s.PullsFailed != 0 || s.Walks > 0 != (count > 5120) {
					t.Errorf("%d pulls failed, %d walks", s.PullsFailed, s.Walks)
				}
				harmless(t, nil, p)
			})
		})
	}
}
