package stock

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/eventgraph/gossip"
	"hearsay/p2p"
	"hearsay/p2p/p2ptest"
)

// DS-19, the proof that it asks for: two days in which the network is gone for an hour out
// of three and single peers for minutes, and the last messages of each of ours are put
// again and again; two of ours and three stock peers, with clocks 10 s apart. No strike on either
// side, and ours have everything. (What a stock peer was cut off from for the rest of its slot is for
// the queue to make anew.)
func TestRetriesForDays_DS19(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	synctest.Test(t, func(t *testing.T) {
		n := testNetwork()
		var stocks []*Peer
		var urls []p2p.URL
		var hosts []*p2ptest.Host
		for i, skew := range []time.Duration{-5 * time.Second, 0, 5 * time.Second} {
			name := fmt.Sprintf("10.0.0.%d", i+1)
			stocks = append(stocks, start(t, n, Config{
				Name: name, SkipSync: true, Window: 72, Now: func() time.Time { return time.Now().Add(skew) },
			}))
			urls = append(urls, addr(name))
			hosts = append(hosts, n.Host(name))
		}
		var mine []*ours
		for i, skew := range []time.Duration{-5 * time.Second, 5 * time.Second} {
			name := fmt.Sprintf("10.0.1.%d", i+1)
			mine = append(mine, startOurs(t, n, oursConfig{name: name, peers: slices.Clone(urls), skew: skew}))
			urls = append(urls, addr(name))
		}
		time.Sleep(30 * time.Minute)
		var heads [2][]eventgraph.Event // of each: the last four are retried
		all := 0
		for i := range 2 * 24 * 60 { // every minute, for two days
			// An hour out of three ours are alone; else one stock peer after the other is
			// away for five minutes of twenty, and lacks what was said meanwhile.
			if i%5 == 0 {
				n.Heal()
				switch away := hosts[i/20%3]; {
				case i/60%3 == 2:
					n.Partition(hosts, []*p2ptest.Host{n.Host("10.0.1.1")}, []*p2ptest.Host{n.Host("10.0.1.2")})
				case i%20 == 5:
					others := slices.DeleteFunc(slices.Clone(hosts), func(h *p2ptest.Host) bool { return h == away })
					n.Partition([]*p2ptest.Host{away}, append(others, n.Host("10.0.1.1"), n.Host("10.0.1.2")))
				}
			}
			for k, o := range mine {
				at := time.Now().Minute()*60 + time.Now().Second()
				if i%7 == 0 && at > 20 && at < 3570 && o.gossip.Synced() { // DS-87, DS-57
					heads[k] = append(heads[k], o.publish(fmt.Sprint("head ", k, i)))
					all++
				}
				for _, e := range heads[k][max(0, len(heads[k])-4):] {
					o.gossip.Put(t.Context(), e, gossip.PutOptions{Wait: time.Second})
				}
			}
			time.Sleep(time.Minute - time.Second*time.Duration(i%2))
		}
		n.Heal()
		time.Sleep(30 * time.Minute)
		oldest := uint64(mine[0].graph.Slots()[0]) // of the 48 hours kept
		lost := 0
		for _, e := range slices.Concat(heads[0], heads[1]) {
			if e.Timestamp < oldest {
				continue
			}
			for _, o := range mine {
				if !o.has(e) {
					t.Errorf("%s lacks %s", o.name, e.Content)
				}
			}
			for _, p := range stocks {
				if !p.Has(e.ID()) {
					lost++
				}
			}
		}
		t.Logf("%d messages, %d copies missing at three stock peers", all, lost)
		if all < 100 {
			t.Errorf("only %d messages", all)
		}
		for _, o := range mine {
			if s := o.gossip.Stats(); s.Strikes != 0 || s.FloodBans != 0 || o.node.Stats().Bans != 0 {
				t.Errorf("%s: %d strikes, %d flood bans", o.name, s.Strikes, s.FloodBans)
			}
		}
		for _, p := range stocks {
			for _, v := range p.Violations() {
				switch { // what a cut link costs: late replies, no pong, no handshake
				case v.Cost == Silent && v.Rule == RuleUnsolicited, v.Cost == Close && (v.Rule == RulePong || v.Rule == RuleHandshake):
				default:
					t.Errorf("%s says: %v", p.cfg.Name, v)
				}
			}
			if p.Strikes() != 0 || len(p.Bans()) != 0 {
				t.Errorf("%s: %d strikes, bans %v", p.cfg.Name, p.Strikes(), p.Bans())
			}
		}
	})
}

// DS-19: with minutes of skew nothing is lost, and strikes are counted and told (to the
// author, as Nack Invalid). Three of ours, one of them three minutes ahead, over an
// evening with its rotations.
func TestMinutesOfSkew_DS19(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testNetwork()
		var mine []*ours
		var urls []p2p.URL
		for i, skew := range []time.Duration{0, 3 * time.Minute, 0} {
			name := fmt.Sprintf("10.0.1.%d", i+1)
			mine = append(mine, startOurs(t, n, oursConfig{name: name, peers: slices.Clone(urls), skew: skew}))
			urls = append(urls, addr(name))
		}
		var told atomic.Int64 // observers are called from each connection's reader
		ahead := mine[1]
		ahead.graph.ObserveReceipts(func(r eventgraph.Receipt) {
			if r.Result == eventgraph.NackInvalid {
				told.Add(1)
			}
		})
		time.Sleep(20 * time.Minute)
		var want []eventgraph.Event
		for i := range 5 * 30 { // five hours
			for _, o := range mine {
				if o.gossip.Synced() { // struck out, it is alone for a while
					want = append(want, o.publish(fmt.Sprint(o.name, " ", i)))
				}
			}
			time.Sleep(2 * time.Minute)
		}
		time.Sleep(75 * time.Minute) // past the next turn, for what was said last
		lacks := map[string]int{}
		var authors [3]int
		for _, e := range want {
			for k, o := range mine {
				if !o.has(e) {
					lacks[o.name]++
				}
				if bytes.HasPrefix(e.Content, []byte(o.name)) {
					authors[k]++
				}
			}
		}
		if len(lacks) > 0 {
			t.Errorf("of %d events are missing: %v", len(want), lacks)
		}
		counted := int64(0)
		for _, o := range mine {
			counted += o.gossip.Stats().Strikes
			if s := o.gossip.Stats(); s.FloodBans != 0 || o.node.Stats().Bans != 0 {
				t.Errorf("%s banned somebody", o.name)
			}
		}
		t.Logf("events by author %v, %d strikes counted, %d told", authors, counted, told.Load())
		if counted == 0 || told.Load() == 0 || slices.Min(authors[:]) < 50 {
			t.Error("strikes are neither counted nor told, or nobody spoke")
		}
	})
}
