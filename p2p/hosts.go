package p2p

import (
	"slices"
	"sync"
	"time"
)

// A colour is a host list: what is known of its addresses.
type colour uint8

const (
	grey  colour = iota // heard of, or lost
	white               // answered a probe
	gold                // outbound or direct connection now, or when the file was saved
	black               // banned
	dark                // valid, but not dialable here
	colours
)

var (
	colourNames = [colours]string{"grey", "white", "gold", "black", "dark"}
	colourCaps  = [colours]int{greyCap, whiteCap, goldCap, blackCap, darkCap}
)

// A hostList is sorted newest first and cut at its cap.
type hostList struct {
	cap   int
	order []hostEntry
	has   map[URL]uint64 // last_seen, to find the entry in order
}

func compareSeen(a hostEntry, seen uint64) int {
	switch {
	case a.lastSeen > seen:
		return -1
	case a.lastSeen < seen:
		return 1
	}
	return 0
}

// put adds or refreshes u and returns what fell off the end.
func (l *hostList) put(e hostEntry) (evicted []hostEntry) {
	l.remove(e.url)
	i, _ := slices.BinarySearchFunc(l.order, e.lastSeen, compareSeen)
	l.order = slices.Insert(l.order, i, e)
	l.has[e.url] = e.lastSeen
	if len(l.order) > l.cap {
		evicted = slices.Clone(l.order[l.cap:])
		for _, e := range evicted {
			delete(l.has, e.url)
		}
		l.order = slices.Delete(l.order, l.cap, len(l.order))
	}
	return evicted
}

func (l *hostList) remove(u URL) {
	seen, ok := l.has[u]
	if !ok {
		return
	}
	i, _ := slices.BinarySearchFunc(l.order, seen, compareSeen)
	for l.order[i].url != u {
		i++
	}
	l.order = slices.Delete(l.order, i, i+1)
	delete(l.has, u)
}

// An addrState says what is being done with an address. An address without a state is free.
type addrState uint8

const (
	stateFree      addrState = iota
	stateRefine              // being probed
	stateConnect             // being dialed
	stateConnected           // in use by at least one connection
	stateSuspend             // could not be reached; waits for a probe
)

// mayBecome is the network's table of states. Upstream's states Insert and Move live
// inside one locked step here.
func (s addrState) mayBecome(next addrState) bool {
	switch next {
	case stateFree:
		return true
	case stateRefine:
		return s == stateFree || s == stateSuspend
	case stateConnect:
		return s == stateFree
	case stateConnected:
		return s == stateFree || s == stateConnect || s == stateRefine
	case stateSuspend:
		return s == stateConnect || s == stateFree
	}
	return false
}

type addrUse struct {
	state addrState
	refs  int // connections, while Connected
}

// hosts is the address book: lists by colour, the state of each address in use, and
// the filter for addresses that others bring. It never logs.
type hosts struct {
	localnet bool
	blocked  []BlockRule
	reserved map[URL]bool // configured seeds and manual peers: not taken from others
	seeds    map[URL]bool
	external func() []URL // own addresses
	dialable func(URL) bool

	mu      sync.Mutex
	lists   [colours]hostList
	uses    map[URL]addrUse
	changed bool // since the last save
}

func newHosts(s *settings, external func() []URL, dialable func(URL) bool) *hosts {
	h := &hosts{
		localnet: s.Localnet, blocked: s.Blacklist, external: external, dialable: dialable,
		reserved: make(map[URL]bool), seeds: make(map[URL]bool), uses: make(map[URL]addrUse),
	}
	for c := range h.lists {
		h.lists[c] = hostList{cap: colourCaps[c], has: make(map[URL]uint64)}
	}
	for _, u := range s.Seeds {
		h.reserved[u], h.seeds[u] = true, true
	}
	for _, u := range s.Peers {
		h.reserved[u] = true
	}
	return h
}

// put moves e into list c, as section 6 says which lists it leaves.
func (h *hosts) put(c colour, e hostEntry) {
	h.changed = true
	switch c {
	case grey:
		h.lists[white].remove(e.url)
		h.lists[gold].remove(e.url)
	case white:
		h.lists[grey].remove(e.url)
	case gold, black:
		h.lists[grey].remove(e.url)
		h.lists[white].remove(e.url)
		if c == black {
			h.lists[gold].remove(e.url)
		}
	case dark, colours: // nothing that is in another list enters dark
	}
	for _, old := range h.lists[c].put(e) {
		if c == grey && h.uses[old.url].state == stateSuspend {
			delete(h.uses, old.url) // nothing would ever free it
		}
	}
}

// become makes the state of u next, if the table allows that.
func (h *hosts) become(u URL, next addrState) bool {
	if !h.uses[u].state.mayBecome(next) {
		return false
	}
	if next == stateFree {
		delete(h.uses, u)
	} else {
		h.uses[u] = addrUse{state: next}
	}
	return true
}

// claim reserves u for dialing.
func (h *hosts) claim(u URL) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.become(u, stateConnect)
}

// unclaim frees u after a dial that failed and changes no list (manual, seed, direct).
func (h *hosts) unclaim(u URL) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uses[u].state == stateConnect {
		delete(h.uses, u)
	}
}

// failed is the end of a slot's dial or handshake that did not work: grey, until a
// probe works. A banned address is on the black list only.
func (h *hosts) failed(u URL, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.blacklistedLocked(u) {
		if h.uses[u].state == stateConnect {
			delete(h.uses, u)
		}
		return
	}
	h.put(grey, hostEntry{u, h.seen(u, now)})
	if h.uses[u].state == stateConnect {
		h.become(u, stateSuspend)
	}
}

// seen is the recorded last_seen of u, or now.
func (h *hosts) seen(u URL, now time.Time) uint64 {
	for _, c := range []colour{gold, white, grey} {
		if s, ok := h.lists[c].has[u]; ok {
			return s
		}
	}
	return unix(now)
}

// connected notes a connection with a finished handshake. golden: an outbound slot's
// or direct one. Two connections may share an address: a QUIC peer dials from the port
// that it listens on.
func (h *hosts) connected(u URL, golden bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.uses[u] = addrUse{state: stateConnected, refs: h.uses[u].refs + 1}
	if golden {
		h.put(gold, hostEntry{u, unix(now)})
	}
}

// disconnected is the end of what connected noted.
func (h *hosts) disconnected(u URL, golden bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if use := h.uses[u]; use.refs > 1 {
		use.refs--
		h.uses[u] = use
	} else {
		delete(h.uses, u)
	}
	if golden && !h.blacklistedLocked(u) {
		h.put(grey, hostEntry{u, h.seen(u, now)})
	}
}

// ban black-lists the address of a peer and tells whether there was anything to list.
// An inbound peer's port means nothing, so its whole host is listed for the scheme;
// unless that host is one that works, or the address says nothing about who it is.
func (h *hosts) ban(u URL, inbound bool, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.localnet && isLocal(u) {
		return false
	}
	if inbound {
		switch {
		case u.Host() == "", u.Scheme() == "unix", u.Scheme() == "tor" && isLocal(u):
			return false
		case !h.hostKnownGood(u.Host()):
			u = u.WithoutPort()
		}
	}
	h.put(black, hostEntry{u, unix(now)})
	return true
}

func (h *hosts) hostKnownGood(host string) bool {
	for _, c := range []colour{gold, white} {
		for _, e := range h.lists[c].order {
			if e.url.Host() == host {
				return true
			}
		}
	}
	return false
}

// blacklisted tells whether u is banned or configured away.
func (h *hosts) blacklisted(u URL) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.blacklistedLocked(u)
}

func (h *hosts) blacklistedLocked(u URL) bool {
	if _, ok := h.lists[black].has[u]; ok {
		return true
	}
	if _, ok := h.lists[black].has[u.WithoutPort()]; ok && u.Host() != "" {
		return true
	}
	return slices.ContainsFunc(h.blocked, func(r BlockRule) bool { return r.matches(u) })
}

// isOwn tells whether u is one of our external addresses: exactly.
func (h *hosts) isOwn(u URL) bool { return slices.Contains(h.external(), u) }

// intake filters addresses that another node brought, and returns how many were new.
func (h *hosts) intake(entries []hostEntry, now time.Time) (stored int) {
	own := h.external()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range entries {
		// A future time would sort first and outlive honest entries.
		e.lastSeen = min(e.lastSeen, unix(now))
		if h.intakeLocked(e, own, now) {
			stored++
		}
	}
	return stored
}

// intakeLocked applies the filter of spec/wire.md, section 6, in its order.
func (h *hosts) intakeLocked(e hostEntry, own []URL, now time.Time) bool {
	u := e.url
	switch {
	case u.Host() == "" || !u.HasPort() || u.IsOpaque() || len(u.String()) > maxDialedURL:
		return false
	case h.reserved[u], h.blacklistedLocked(u), h.looksOwn(u, own):
		return false
	case !h.localnet && isLocal(u), !learnable(u):
		return false
	}
	if !h.dialable(u) {
		h.pruneDark(now)
		h.changed = true
		h.lists[dark].put(e)
		return false
	}
	h.lists[dark].remove(u)
	for _, c := range []colour{gold, white, grey} {
		if _, ok := h.lists[c].has[u]; ok {
			return false
		}
	}
	if h.uses[u].state != stateFree {
		return false
	}
	h.put(grey, e)
	return true
}

// looksOwn recognises own addresses in what others bring: by host, or on a local
// network, where many nodes share one, by port.
func (h *hosts) looksOwn(u URL, own []URL) bool {
	return slices.ContainsFunc(own, func(o URL) bool {
		if h.localnet {
			return o.HasPort() && o.Port() == u.Port()
		}
		return o.Host() == u.Host()
	})
}

// learnable checks scheme and host of an address that another node brought.
func learnable(u URL) bool {
	switch u.Scheme() {
	case "tcp", "tcp+tls", "quic":
		return true
	case "tor", "tor+tls":
		return validOnion(u.Host())
	case "i2p", "i2p+tls":
		return validI2P(u.Host())
	default:
		return false
	}
}

func (h *hosts) pruneDark(now time.Time) {
	limit := unix(now.Add(-darkAge))
	l := &h.lists[dark]
	for len(l.order) > 0 && l.order[len(l.order)-1].lastSeen < limit {
		l.remove(l.order[len(l.order)-1].url)
	}
}

// refined is the end of a probe.
func (h *hosts) refined(u URL, ok bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uses[u].state == stateRefine {
		delete(h.uses, u)
	}
	if _, listed := h.lists[grey].has[u]; !listed {
		return // banned or connected meanwhile
	}
	if ok {
		h.put(white, hostEntry{u, unix(now)})
		return
	}
	h.changed = true
	h.lists[grey].remove(u)
}

// unrefine frees u after a probe that was called off.
func (h *hosts) unrefine(u URL) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uses[u].state == stateRefine {
		delete(h.uses, u)
	}
}

// freeSuspended gives every unreachable address another chance: it was this node that
// was offline.
func (h *hosts) freeSuspended() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for u, use := range h.uses {
		if use.state == stateSuspend {
			delete(h.uses, u)
		}
	}
}

// counts is how many addresses each list holds.
func (h *hosts) counts() (n [colours]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.lists {
		n[c] = len(h.lists[c].order)
	}
	return n
}

// unix is t in seconds, never negative.
func unix(t time.Time) uint64 { return uint64(max(t.Unix(), 0)) }
