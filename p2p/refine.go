package p2p

import (
	"context"
	"time"
)

// refinery probes one heard-of address per interval. What answers a handshake turns
// white, what does not is forgotten.
func (n *Node) refinery(ctx context.Context) {
	for sleepCtx(ctx, n.cfg.GreylistRefineryInterval) {
		if n.hosts.counts()[grey] == 0 {
			continue
		}
		if n.alone() { // it may be our own network that is down: judge nobody
			n.hosts.freeSuspended()
			continue
		}
		u, ok := n.hosts.claimRefine(n.intN)
		if !ok {
			continue
		}
		shaken, _ := n.dialAndServe(ctx, u, SessionRefine, nil) // only whether it answered counts
		if ctx.Err() != nil && !shaken {
			n.hosts.unrefine(u)
			return
		}
		n.hosts.refined(u, shaken, n.cfg.Now())
	}
}

// alone tells whether there is no peer, and no handshake of any kind has been done for
// TimeWithNoConnections.
func (n *Node) alone() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.peers) == 0 && time.Since(n.lastPeer) >= n.cfg.TimeWithNoConnections
}

// saver saves changed host lists now and then: a killed node should not start from nothing.
func (n *Node) saver(ctx context.Context) {
	for sleepCtx(ctx, saveInterval) {
		if err := n.hosts.save(n.cfg.HostsFile); err != nil {
			n.cfg.Logger.Warn("p2p: host list not saved", "err", err)
		}
	}
}
