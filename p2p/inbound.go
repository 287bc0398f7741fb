package p2p

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
)

// A gate counts what comes in through one listener. Its limits keep half-open
// connections from taking the places of live ones.
type gate struct {
	live, pending int // limits

	mu      sync.Mutex
	total   int            // connections with a goroutine, those that are being closed included
	used    int            // live ones
	waiting []*pendingConn // oldest first
}

// A pendingConn is a connection whose handshakes are not done.
type pendingConn struct {
	host   string
	cancel context.CancelCauseFunc
}

// enter adds a connection attempt. Beyond the limits the oldest attempt, of the same
// host first, is dropped in its favour: a real handshake takes less time than a flood
// needs to get round. It returns false where even those being dropped are too many.
func (g *gate) enter(c *pendingConn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.total >= g.live+g.pending+closingExtra {
		return false
	}
	g.total++
	g.waiting = append(g.waiting, c)
	same := 0
	for _, w := range g.waiting {
		if w.host == c.host {
			same++
		}
	}
	switch {
	case same > pendingPerHost && c.host != "":
		i := slices.IndexFunc(g.waiting, func(w *pendingConn) bool { return w.host == c.host })
		g.drop(i)
	case len(g.waiting) > g.pending:
		g.drop(0)
	}
	return true
}

// exit is the end of what enter let in.
func (g *gate) exit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.total--
}

func (g *gate) drop(i int) {
	g.waiting[i].cancel(ErrFull)
	g.waiting = slices.Delete(g.waiting, i, i+1)
}

// leave removes a connection attempt, and takes a live place for it if asked to and
// one is free.
func (g *gate) leave(c *pendingConn, live bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, c); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	if !live || g.used >= g.live {
		return false
	}
	g.used++
	return true
}

func (g *gate) free() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used--
}

// accept takes connections until ctx ends or the listener is closed. It never waits
// for a peer.
func (n *Node) accept(ctx context.Context, l Listener) error {
	g := &gate{live: n.cfg.InboundConnections, pending: n.cfg.InboundConnections + pendingExtra}
	pause := acceptPause
	for {
		pending, err := l.Accept(ctx)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = pending.Close() // came too late
			}
			return context.Cause(ctx)
		case errors.Is(err, net.ErrClosed):
			return errors.New("p2p: a listener was closed")
		case err != nil:
			if !sleepCtx(ctx, pause) {
				return context.Cause(ctx)
			}
			pause = min(2*pause, acceptPauseMax)
			continue
		}
		pause = acceptPause
		if n.hosts.blacklisted(pending.Remote()) {
			n.stats.refused.Add(1)
			_ = pending.Close() // refused, however it closes
			continue
		}
		ctx, cancel := context.WithCancelCause(ctx)
		c := &pendingConn{cancel: cancel}
		if u := pending.Remote(); !isLocal(u) { // behind a local one there may be all of Tor
			c.host = u.Host()
		}
		if !g.enter(c) {
			cancel(nil)
			n.stats.refused.Add(1)
			_ = pending.Close() // refused, however it closes
			continue
		}
		ok := n.spawn(func(context.Context) {
			defer cancel(nil)
			defer g.exit()
			n.inbound(ctx, g, c, pending)
		})
		if !ok {
			cancel(nil)
			_ = pending.Close() // stopping
		}
	}
}

// inbound serves one accepted connection.
func (n *Node) inbound(ctx context.Context, g *gate, c *pendingConn, pending Pending) {
	u := pending.Remote()
	conn, err := n.handshakeInbound(ctx, pending)
	if err != nil {
		g.leave(c, false)
		n.stats.refused.Add(1)
		return
	}
	live := false
	var id ConnID
	_, cause := n.serve(ctx, link{conn: conn, session: SessionInbound, url: u, ready: func(p *Peer) error {
		id, live = p.id, g.leave(c, true)
		if !live {
			// A probe or a seed's visitor closes by itself and is content.
			n.stats.refused.Add(1)
			_ = p.sleep(ctx, fullLinger)
			return ErrFull
		}
		n.emit(Event{Kind: EventInboundConnected, Peer: p.id, URL: u})
		return nil
	}})
	if !live {
		g.leave(c, false)
		return
	}
	g.free()
	n.emit(Event{Kind: EventInboundDisconnected, Peer: id, URL: u, Reason: causeText(cause)})
}

// handshakeInbound runs the transport's handshake within the profile's handshake timeout.
func (n *Node) handshakeInbound(ctx context.Context, pending Pending) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.profile(pending.Remote().Scheme()).HandshakeTimeout)
	defer cancel()
	conn, err := pending.Handshake(ctx)
	if err != nil {
		_ = pending.Close() // may be closed already
		return nil, err
	}
	if n.hosts.blacklisted(pending.Remote()) { // banned in the meantime
		_ = conn.Close()
		return nil, ErrBlacklisted
	}
	return conn, nil
}
