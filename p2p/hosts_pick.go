package p2p

import "slices"

// shareable are the schemes that upstream passes on. quic is not among them; a node of
// ours passes quic addresses to those who ask for them by name (decision 0049).
var shareable = []string{"tor", "tls", "tcp", "nym", "i2p", "tor+tls", "nym+tls", "tcp+tls", "i2p+tls"}

// answerable tells whether an address of the scheme may be in an answer to a getaddr
// that asks for the schemes in asked.
func answerable(scheme string, asked []string) bool {
	return slices.Contains(shareable, scheme) || scheme == "quic" && slices.Contains(asked, "quic")
}

// claimOutbound picks an address for a slot and claims it. preferKnown: one that has
// worked, if there is one, else one that is only heard of. pick draws a number below n.
func (h *hosts) claimOutbound(preferKnown, greys bool, pick func(n int) int) (URL, bool) {
	order := []colour{gold, white}
	switch {
	case greys && preferKnown:
		order = []colour{gold, white, grey}
	case greys:
		order = []colour{grey, gold, white}
	}
	own := h.external()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range order {
		u, ok := h.random(c, pick, func(u URL) bool {
			return h.uses[u].state.mayBecome(stateConnect) && h.dialable(u) && !h.seeds[u] &&
				!slices.Contains(own, u) && !h.blacklistedLocked(u)
		})
		if ok {
			h.become(u, stateConnect)
			return u, true
		}
	}
	return URL{}, false
}

// claimRefine picks a heard-of address to probe and claims it.
func (h *hosts) claimRefine(pick func(n int) int) (u URL, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u, ok = h.random(grey, pick, func(u URL) bool {
		return h.uses[u].state.mayBecome(stateRefine) && h.dialable(u)
	})
	if ok {
		h.become(u, stateRefine)
	}
	return u, ok
}

// random draws one of the addresses of list c that ok admits.
func (h *hosts) random(c colour, pick func(n int) int, ok func(URL) bool) (URL, bool) {
	l := h.lists[c].order
	if len(l) == 0 {
		return URL{}, false
	}
	// Try a few draws first: on a full list most addresses will do.
	for range 8 {
		if u := l[pick(len(l))].url; ok(u) {
			return u, true
		}
	}
	var candidates []URL
	for _, e := range l {
		if ok(e.url) {
			candidates = append(candidates, e.url)
		}
	}
	if len(candidates) == 0 {
		return URL{}, false
	}
	return candidates[pick(len(candidates))], true
}

// answer chooses what a getaddr gets: known addresses of the schemes that it asks for
// first, at most twice what it asks for, and never a grey one.
func (h *hosts) answer(m getaddrMsg, ours []string, pick func(n int) int) []hostEntry {
	n := int(min(m.max, maxGetaddr))
	asked := func(u URL) bool {
		s := u.Scheme()
		return slices.Contains(m.transports, s) && slices.Contains(ours, s) && answerable(s, m.transports)
	}
	other := func(u URL) bool { return !asked(u) && answerable(u.Scheme(), m.transports) }
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []hostEntry
	draw := func(c colour, n int, ok func(URL) bool) {
		var found []hostEntry
		for _, e := range h.lists[c].order {
			if ok(e.url) && !h.blacklistedLocked(e.url) {
				found = append(found, e)
			}
		}
		for range min(n, len(found)) {
			i := pick(len(found))
			out = append(out, found[i])
			found[i] = found[len(found)-1]
			found = found[:len(found)-1]
		}
	}
	draw(gold, n, asked)
	draw(white, n, asked)
	draw(gold, 2*n-len(out), other)
	draw(white, 2*n-len(out), other)
	draw(dark, 2*n-len(out), func(u URL) bool { return answerable(u.Scheme(), m.transports) })
	return out
}
