package relay

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// Bounds on what one address can take from the others, before any quota of the relay. An
// IPv6 address counts as its /64.
const (
	// maxConns and maxConnsPerAddress bound connections.
	maxConns           = 1024
	maxConnsPerAddress = 32
	// maxDialsPerAddress bounds the connections that an address begins in a minute: each
	// costs a handshake. A client of TLS makes one for each request.
	maxDialsPerAddress = 240
	// maxRateRows bounds the addresses whose connections, and whose requests, are counted.
	// When there are more, all counts begin again: memory stays bounded and nobody is shut
	// out.
	maxRateRows = 16384
	// maxPendingPerAddress bounds the requests under way of an address, so that slow
	// ones leave room for others.
	maxPendingPerAddress = 8
	// addressShare is the part of the relay's request rate that one address can use up,
	// under however many keys: keys cost nothing. A client's whole rate fits in any case.
	addressShare = 2
)

// requestsPerAddress is the requests of an address in a minute.
func requestsPerAddress(l Limits) int { return max(l.ClientRequests, l.RelayRequests/addressShare) }

// gate counts what addresses have and do.
type gate struct {
	now func() time.Time // monotonic

	mu      sync.Mutex
	total   int
	conns   map[netip.Prefix]int
	pending map[netip.Prefix]int
	dials   rates
	asked   rates
	most    int // requests of an address in a minute
}

// rates counts what addresses do in a minute.
type rates map[netip.Prefix]rate

type rate struct {
	since time.Time
	count int
}

// current is the count of the running minute, with room for it in the table.
func (r rates) current(p netip.Prefix, now time.Time) rate {
	v, known := r[p]
	if !known && len(r) >= maxRateRows {
		clear(r)
	}
	if now.Sub(v.since) >= time.Minute {
		v = rate{since: now}
	}
	return v
}

func newGate(requests int) *gate {
	return &gate{
		now: time.Now, conns: map[netip.Prefix]int{}, pending: map[netip.Prefix]int{}, dials: rates{}, asked: rates{}, most: requests,
	}
}

// dial counts the beginning of a connection from addr, or refuses it.
func (g *gate) dial(addr net.Addr) bool {
	p, now := prefixOf(addr), g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.dials.current(p, now)
	if d.count >= maxDialsPerAddress || g.total >= maxConns || g.conns[p] >= maxConnsPerAddress {
		return false
	}
	d.count++
	g.dials[p] = d
	return true
}

// enter counts a connection, or refuses it.
func (g *gate) enter(addr net.Addr) (leave func(), ok bool) {
	p := prefixOf(addr)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.total >= maxConns || g.conns[p] >= maxConnsPerAddress {
		return nil, false
	}
	g.total++
	g.conns[p]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.total--
		if g.conns[p]--; g.conns[p] == 0 {
			delete(g.conns, p)
		}
	}, true
}

// begin counts a request, or refuses it.
func (g *gate) begin(addr net.Addr) (end func(), ok bool) {
	p, now := prefixOf(addr), g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.asked.current(p, now)
	if g.pending[p] >= maxPendingPerAddress || a.count >= g.most {
		return nil, false
	}
	a.count++
	g.asked[p] = a
	g.pending[p]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.pending[p]--; g.pending[p] == 0 {
			delete(g.pending, p)
		}
	}, true
}

func prefixOf(addr net.Addr) netip.Prefix {
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := ap.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
