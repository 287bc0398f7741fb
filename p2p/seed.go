package p2p

import (
	"context"
	"time"
)

// A seed is a configured seed node and how often it is visited. Upstream's nodes come
// every 5 s while nobody else is connected; ours with growing pauses (decision 0048).
type seed struct {
	node    *Node
	url     URL
	trigger chan struct{} // holds one token
}

// run visits the seed when triggered. A trigger inside the pause is dropped: discovery
// pulls it again.
func (s *seed) run(ctx context.Context) {
	n := s.node
	first, last := n.cfg.DiscoveryAttempt, seedPauseFactor*n.cfg.DiscoveryCooloff
	pause := first
	var visited, next time.Time
	for {
		select {
		case <-s.trigger:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		if n.metSince(visited) {
			pause = first // we were connected in between: this is a new outage
		} else if now.Before(next) {
			continue
		}
		visited = now
		if n.hosts.claim(s.url) {
			_, _ = n.dialAndServe(ctx, s.url, SessionSeed, nil) // the next visit comes by itself
			n.hosts.unclaim(s.url)
		}
		next = time.Now().Add(n.jitter(pause))
		pause = min(2*pause, max(first, last))
	}
}

// metSince tells whether an ordinary peer was met after t.
func (n *Node) metSince(t time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lastMet.After(t)
}
