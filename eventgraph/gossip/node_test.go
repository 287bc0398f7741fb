package gossip_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/eventgraph/gossip"
	"hearsay/p2p"
	"hearsay/p2p/p2ptest"
)

// These tests run whole nodes over package p2p and a network in memory.

var realParams = eventgraph.Params{
	Genesis: 946684800000 - 48*3600*1000, Contents: []byte("test"), Rotation: time.Hour, Drift: time.Minute,
}

type realNode struct {
	graph  *eventgraph.Graph
	gossip *gossip.Gossip
	p2p    *p2p.Node
	net    *p2ptest.Network
	host   *p2ptest.Host
	url    p2p.URL
	stop   func()
}

// startNode runs a node on a host of net until the test or stop ends it.
func startNode(t *testing.T, net *p2ptest.Network, number int, peers []*realNode, change func(*gossip.Config, *p2p.Config)) *realNode {
	t.Helper()
	name := fmt.Sprintf("5.0.0.%d", number)
	n := &realNode{net: net, host: net.Host(name), url: p2p.MustParseURL("tcp://" + name + ":26661")}
	var err error
	if n.graph, err = eventgraph.OpenMemory(eventgraph.Config{Params: realParams}); err != nil {
		t.Fatal(err)
	}
	gc := gossip.Config{Graph: n.graph}
	pc := p2p.Config{
		Inbound: []p2p.URL{n.url}, Transports: n.host.Transports("tcp"), ActiveProfiles: []string{"tcp"},
		OutboundConnections: -1, Rand: rand.New(rand.NewPCG(1, uint64(number))),
	}
	for _, peer := range peers {
		pc.Peers = append(pc.Peers, peer.url)
	}
	if change != nil {
		change(&gc, &pc)
	}
	if n.gossip, err = gossip.New(gc); err != nil {
		t.Fatal(err)
	}
	pc.Protocols, pc.Features = []p2p.Protocol{n.gossip.Protocol()}, n.gossip.Features()
	if n.p2p, err = p2p.New(pc); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{n.graph.Run, n.gossip.Run, n.p2p.Run} {
		running.Go(func() {
			if err := run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("node %d: %v", number, err)
			}
		})
	}
	n.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err := n.graph.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(n.stop)
	return n
}

func newNet(seed uint64) *p2ptest.Network {
	return p2ptest.New(seed, p2ptest.Link{Latency: 20 * time.Millisecond, Jitter: 5 * time.Millisecond})
}

// inBubble runs fn in fake time, ten minutes into a slot.
func inBubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(10 * time.Minute)
		fn(t)
	})
}

func publish(t *testing.T, n *realNode, text string) eventgraph.Event {
	t.Helper()
	e, err := n.graph.Publish(t.Context(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func bodies(t *testing.T, n *realNode, slot eventgraph.Slot) (ids []eventgraph.ID) {
	t.Helper()
	hs, err := n.graph.HeadersBeyond(slot, nil, gossip.MaxHeaderRepHeaders)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hs.All() {
		if id := h.ID(); !h.GenesisShaped() && n.graph.HasBody(slot, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func wantSame(t *testing.T, slot eventgraph.Slot, want int, nodes ...*realNode) {
	t.Helper()
	first := bodies(t, nodes[0], slot)
	for i, n := range nodes {
		if got := bodies(t, n, slot); len(got) != want || !slices.Equal(got, first) {
			t.Errorf("node %d holds %d events, want %d, as the first does: %v", i, len(got), want, slices.Equal(got, first))
		}
	}
}

func noTrouble(t *testing.T, nodes ...*realNode) {
	t.Helper()
	for i, n := range nodes {
		s := n.gossip.Stats()
		if s.Strikes+s.FloodBans != 0 || n.p2p.Stats().Bans != 0 || n.p2p.Stats().Faults != 0 {
			t.Errorf("node %d: %d strikes, %d bans, %d faults", i, s.Strikes, n.p2p.Stats().Bans, n.p2p.Stats().Faults)
		}
	}
}

// Checklist 64 and 71: five nodes, each dials two; all are synced from nothing, an
// event of each reaches all, and a late joiner gets everything.
func TestNodes_Checklist64_71(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		net := newNet(1)
		var nodes []*realNode
		for i := range 5 {
			nodes = append(nodes, startNode(t, net, i+1, nodes[max(0, i-2):], nil))
		}
		time.Sleep(30 * time.Second)
		for i, n := range nodes {
			if !n.gossip.Synced() {
				t.Fatalf("node %d is not synced", i)
			}
			publish(t, n, fmt.Sprint("from ", i))
			time.Sleep(time.Second)
		}
		slot := nodes[0].graph.Current()
		wantSame(t, slot, 5, nodes...)
		if s := nodes[0].gossip.Stats(); s.StatusesReceived == 0 || s.Capable == 0 {
			t.Errorf("no statuses: %+v", s)
		}
		late := startNode(t, net, 6, nodes[:2], nil)
		time.Sleep(10 * time.Second)
		wantSame(t, slot, 5, append(nodes, late)...)
		if !late.gossip.Synced() {
			t.Error("the late joiner is not synced")
		}
		noTrouble(t, append(nodes, late)...)
	})
}

// Two nodes that were never synced come alive; when one leaves the other is not
// synced any more.
func TestNodesComeAlive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		net := newNet(2)
		a := startNode(t, net, 1, nil, nil)
		b := startNode(t, net, 2, []*realNode{a}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := errors.Join(a.gossip.WaitSynced(ctx), b.gossip.WaitSynced(ctx)); err != nil {
			t.Fatal(err)
		}
		publish(t, a, "hello")
		time.Sleep(time.Second)
		wantSame(t, a.graph.Current(), 1, a, b)
		b.stop()
		time.Sleep(time.Minute)
		if a.gossip.Synced() {
			t.Error("synced without a peer")
		}
		noTrouble(t, a)
	})
}

// A stall of ten seconds that no connection dies of: what was lost is found, and
// after a partition that kills the connections, too.
func TestNodesHeal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		net := newNet(3)
		a := startNode(t, net, 1, nil, nil)
		b := startNode(t, net, 2, []*realNode{a}, nil)
		c := startNode(t, net, 3, []*realNode{b}, nil)
		time.Sleep(20 * time.Second)
		slot, total := a.graph.Current(), 0
		for _, d := range []time.Duration{10 * time.Second, 5 * time.Minute} {
			net.Partition([]*p2ptest.Host{a.host, b.host}, []*p2ptest.Host{c.host})
			for i := range 20 {
				publish(t, a, fmt.Sprint("a", total, i))
				publish(t, c, fmt.Sprint("c", total, i))
				time.Sleep(d / 20)
			}
			total += 40
			net.Heal()
			time.Sleep(3 * time.Minute)
			wantSame(t, slot, total, a, b, c)
		}
		noTrouble(t, a, b, c)
	})
}

// Failure-cases 10: a line A-B-C where B learned by sync only.
func TestNodesLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		net := newNet(4)
		a := startNode(t, net, 1, nil, func(g *gossip.Config, _ *p2p.Config) { g.SkipSync = true })
		for i := range 30 {
			publish(t, a, fmt.Sprint(i))
		}
		c := startNode(t, net, 3, nil, nil)
		time.Sleep(time.Minute)
		b := startNode(t, net, 2, []*realNode{a, c}, nil)
		time.Sleep(2 * time.Minute)
		wantSame(t, a.graph.Current(), 30, a, b, c)
		noTrouble(t, a, b, c)
	})
}

// DS-80: with a node that never heard of statuses chat flows both ways, and nobody
// bans anybody.
func TestMixedNodes_DS80(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		net := newNet(5)
		old := startNode(t, net, 1, nil, func(g *gossip.Config, _ *p2p.Config) { g.NoStatus = true })
		ours := startNode(t, net, 2, []*realNode{old}, nil)
		older := startNode(t, net, 3, []*realNode{ours}, func(g *gossip.Config, _ *p2p.Config) { g.NoStatus = true })
		time.Sleep(20 * time.Second)
		for i := range 20 {
			for j, n := range []*realNode{old, ours, older} {
				publish(t, n, fmt.Sprint(i, j))
				time.Sleep(2 * time.Second)
			}
		}
		time.Sleep(10 * time.Second)
		wantSame(t, old.graph.Current(), 60, old, ours, older)
		if s := ours.gossip.Stats(); s.StatusesSent+s.StatusesReceived != 0 || s.Capable != 0 {
			t.Errorf("%d statuses sent", s.StatusesSent)
		}
		noTrouble(t, old, ours, older)
	})
}

// Two days of chat over 49 turns of the slot: every node ends with the same events in
// every retained slot.
func TestNodesTwoDays(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a few seconds")
	}
	inBubble(t, func(t *testing.T) {
		net := newNet(6)
		var nodes []*realNode
		for i := range 4 {
			nodes = append(nodes, startNode(t, net, i+1, nodes[max(0, i-2):], nil))
		}
		time.Sleep(20 * time.Second)
		rng := rand.New(rand.NewPCG(7, 7))
		for range 48 * 12 {
			publish(t, nodes[rng.IntN(4)], fmt.Sprint(rng.Uint64()))
			time.Sleep(time.Duration(rng.Int64N(int64(10 * time.Minute))))
		}
		time.Sleep(5 * time.Minute)
		total := 0
		for _, slot := range nodes[0].graph.Slots() {
			n := len(bodies(t, nodes[0], slot))
			total += n
			wantSame(t, slot, n, nodes...)
		}
		if total < 200 {
			t.Errorf("only %d events in all slots", total)
		}
		for i, n := range nodes {
			if done, all := n.gossip.Progress(); done != all || !n.gossip.Synced() {
				t.Errorf("node %d: %d of %d slots", i, done, all)
			}
		}
		noTrouble(t, nodes...)
	})
}
