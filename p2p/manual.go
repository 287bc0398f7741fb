package p2p

import (
	"context"
	"slices"
)

// manual keeps a configured peer connected: dial, serve, pause for the connect timeout,
// again. It changes no list.
func (n *Node) manual(ctx context.Context, u URL) {
	if slices.Contains(n.cfg.Seeds, u) {
		n.cfg.Logger.Warn("p2p: a manual peer is also a seed and is left alone")
		return
	}
	pause := n.cfg.profile(u.Scheme()).ConnectTimeout
	for ctx.Err() == nil {
		if n.hosts.claim(u) {
			_, _ = n.dialAndServe(ctx, u, SessionManual, nil) // whatever the cause, we try again
			n.hosts.unclaim(u)
		}
		sleepCtx(ctx, pause)
	}
}
