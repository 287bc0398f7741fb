package p2ptest

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Link says how traffic between two hosts fares, each way.
type Link struct {
	// Latency is the time that a byte takes, Jitter the most that is added to it at
	// random. Order is kept.
	Latency, Jitter time.Duration
	// Bandwidth in bytes per second and connection; 0: unlimited.
	Bandwidth int
	// Window is how many bytes one direction of a connection holds, in flight or
	// unread, before a Write blocks; default [DefaultWindow].
	Window int
	// MTBF is the mean lifetime of a connection, after which both ends see it reset;
	// 0: none breaks. Lifetimes are exponentially distributed.
	MTBF time.Duration
}

// DefaultWindow is about what kernels hold, in bytes.
const DefaultWindow = 256 << 10

// backlog is how many connections wait to be accepted; more dials block.
const backlog = 128

type pairKey struct{ from, to string }

// A Network connects hosts.
type Network struct {
	seed uint64

	mu      sync.Mutex // guards everything below and the hosts' fields; never held while waiting
	hosts   map[string]*Host
	link    Link
	links   map[pairKey]Link
	stalled map[pairKey]bool
	group   map[string]int // of a partition; nil: none
	dials   map[pairKey]uint64
	pairs   map[*pair]bool // open connections
	changed chan struct{}  // closed and replaced when connectivity changes

	written atomic.Uint64
}

// New makes a network without hosts whose links are all alike.
func New(seed uint64, link Link) *Network {
	return &Network{
		seed: seed, link: link,
		hosts: map[string]*Host{}, links: map[pairKey]Link{}, stalled: map[pairKey]bool{},
		dials: map[pairKey]uint64{}, pairs: map[*pair]bool{}, changed: make(chan struct{}),
	}
}

// Host returns the host of that name, which is what URLs have as their host: an IP
// address, an IPv6 address without brackets, or a name. A new one is made the first
// time.
func (n *Network) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[name]
	if h == nil {
		h = &Host{net: n, name: name, listeners: map[listenKey]*listener{}, nextPort: 49152}
		n.hosts[name] = h
	}
	return h
}

// SetLink replaces the link between two hosts, both ways. Latency, jitter and
// bandwidth change for open connections too.
func (n *Network) SetLink(a, b *Host, link Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[pairKey{a.name, b.name}] = link
	n.links[pairKey{b.name, a.name}] = link
	for p := range n.pairs {
		if p.connects(a.name, b.name) {
			for _, h := range p.halves {
				h.setLink(link)
			}
		}
	}
}

// Partition splits the network: hosts in different groups, and hosts in no group
// and everybody else, cannot reach each other. Open connections across stall, and
// dials across wait. It replaces an earlier partition.
func (n *Network) Partition(groups ...[]*Host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.group = map[string]int{}
	for i, g := range groups {
		for _, h := range g {
			n.group[h.name] = i + 1
		}
	}
	n.reconnect()
}

// Heal ends a partition. What was written meanwhile arrives.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.group = nil
	n.reconnect()
}

// Stall holds back everything that one host sends to another, or lets it go: to
// the sender the receiver looks like a peer that does not read.
func (n *Network) Stall(from, to *Host, stalled bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stalled[pairKey{from.name, to.name}] = stalled
	n.reconnect()
}

// Break resets every connection between two hosts.
func (n *Network) Break(a, b *Host) {
	n.breakWhere(func(p *pair) bool { return p.connects(a.name, b.name) })
}

// Conns is the number of connections that neither end has closed or lost.
func (n *Network) Conns() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.pairs)
}

// Bytes is how much was written to all connections so far.
func (n *Network) Bytes() uint64 {
	return n.written.Load()
}

func (n *Network) breakWhere(match func(*pair) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.pairs {
		if match(p) {
			p.fail(syscall.ECONNRESET)
			delete(n.pairs, p)
		}
	}
}

// reconnect tells connections and waiting dials that reachability has changed.
// n.mu is held.
func (n *Network) reconnect() {
	for p := range n.pairs {
		for _, h := range p.halves {
			h.setStalled(n.blocked(h.from, h.to))
		}
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

// blocked tells whether nothing gets from one host to another. n.mu is held.
func (n *Network) blocked(from, to string) bool {
	if n.stalled[pairKey{from, to}] {
		return true
	}
	if n.group == nil || from == to {
		return false
	}
	a, b := n.group[from], n.group[to]
	return a != b || a == 0
}

// linkBetween is the link from one host to another. n.mu is held.
func (n *Network) linkBetween(from, to string) Link {
	if l, ok := n.links[pairKey{from, to}]; ok {
		return l
	}
	return n.link
}

// random makes the source of the i-th connection that one host dials to another.
func (n *Network) random(from, to string, i uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(from + "\x00" + to))
	return rand.New(rand.NewPCG(n.seed^h.Sum64(), i)) // replayable on purpose
}
