package p2p

import (
	"context"
	"sync"
)

// A directUse is a connection that callers of Direct share.
type directUse struct {
	users int
	ready chan struct{} // closed when peer or err is set
	peer  *Peer
	err   error
}

// Direct returns a connection to u with a finished handshake: one that there is
// already, or a new one. release gives it up; a connection that Direct made is closed
// when the last user has done so. ctx bounds the wait. Direct refuses seeds and our own
// addresses (ErrRefused), and needs Run (ErrNotRunning).
func (n *Node) Direct(ctx context.Context, u URL) (p *Peer, release func(), err error) {
	if n.hosts.seeds[u] || n.hosts.isOwn(u) {
		return nil, nil, ErrRefused
	}
	n.mu.Lock()
	if n.ctx == nil {
		n.mu.Unlock()
		return nil, nil, ErrNotRunning
	}
	d := n.direct[u]
	if d == nil {
		for _, p := range n.peers {
			if p.url == u && p.ctx.Err() == nil {
				n.mu.Unlock()
				return p, func() {}, nil
			}
		}
		d = &directUse{ready: make(chan struct{})}
		n.direct[u] = d
		run := n.ctx
		n.wg.Go(func() { n.dialDirect(run, u, d) })
	}
	d.users++
	n.mu.Unlock()

	var once sync.Once
	release = func() { once.Do(func() { n.releaseDirect(d) }) }
	select {
	case <-d.ready:
	case <-ctx.Done():
		release()
		return nil, nil, context.Cause(ctx)
	}
	if d.err != nil {
		release()
		return nil, nil, d.err
	}
	return d.peer, release, nil
}

// dialDirect makes and serves the connection.
func (n *Node) dialDirect(ctx context.Context, u URL, d *directUse) {
	var once sync.Once
	settle := func(p *Peer, err error) {
		once.Do(func() {
			d.peer, d.err = p, err
			close(d.ready)
		})
	}
	err := ErrRefused
	if n.hosts.claim(u) {
		n.emit(Event{Kind: EventDirectConnecting, URL: u})
		_, err = n.dialAndServe(ctx, u, SessionDirect, func(p *Peer) error {
			n.emit(Event{Kind: EventDirectConnected, URL: u, Peer: p.id})
			n.mu.Lock()
			unused := d.users == 0
			n.mu.Unlock()
			if unused { // all gave up waiting
				return ErrDone
			}
			settle(p, nil)
			return nil
		})
		n.hosts.unclaim(u)
		n.emit(Event{Kind: EventDirectDisconnected, URL: u, Reason: causeText(err)})
	}
	n.mu.Lock()
	if n.direct[u] == d {
		delete(n.direct, u)
	}
	n.mu.Unlock()
	settle(nil, err)
}

func (n *Node) releaseDirect(d *directUse) {
	n.mu.Lock()
	d.users--
	last := d.users == 0
	n.mu.Unlock()
	if !last {
		return
	}
	select {
	case <-d.ready:
		if d.peer != nil {
			d.peer.end(ErrDone, endFlush)
		}
	default: // dialDirect will see that nobody is left
	}
}
