package stock

import (
	"context"
	"errors"
	"sync"
	"time"

	"hearsay/p2p"
)

// ErrStaticSync ends a darkirc process whose static sync fails (eventgraph 6.7).
var ErrStaticSync = errors.New("stock: static sync failed, which ends the process")

// Run listens, keeps connections to the configured peers, rotates and syncs, until
// ctx ends or the process that this peer stands for would. It returns after the
// last of its goroutines, and never nil.
func (p *Peer) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(errStopped)
	var wg sync.WaitGroup
	for _, u := range p.cfg.Listen {
		l, err := p.cfg.Transport.Listen(ctx, u)
		if err != nil {
			stop(err)
			break
		}
		wg.Go(func() { stop(p.accept(ctx, l)) })
	}
	for _, u := range p.cfg.Peers {
		wg.Go(func() { p.keep(ctx, u) })
	}
	wg.Go(func() { p.rotateLoop(ctx) })
	if !p.cfg.SkipSync {
		wg.Go(func() { stop(p.syncLoop(ctx)) })
	}
	<-ctx.Done()
	wg.Wait()
	return context.Cause(ctx)
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// accept serves a listener (p2p 4.5): one accept at a time, its transport
// handshake included, and none while all places are taken.
func (p *Peer) accept(ctx context.Context, l p2p.Listener) error {
	defer func() { _ = l.Close() }()
	var wg sync.WaitGroup
	defer wg.Wait()
	places := make(chan struct{}, p.cfg.MaxInbound)
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		pending, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		conn, err := pending.Handshake(ctx)
		if err != nil {
			<-places
			continue
		}
		from := pending.Remote()
		p.mu.Lock()
		black := p.blackListed(from)
		p.mu.Unlock()
		if black {
			_ = conn.Close()
			<-places
			continue
		}
		wg.Go(func() {
			_ = p.Serve(ctx, conn, Inbound, from)
			<-places
		})
	}
}

// keep dials one configured peer for ever (p2p 4.7).
func (p *Peer) keep(ctx context.Context, u p2p.URL) {
	for {
		_ = p.Dial(ctx, u, p.cfg.Session)
		if !sleep(ctx, p.cfg.ConnectTimeout) {
			return
		}
	}
}

// rotateLoop is the rotation task (eventgraph 3.4), a plain sleep included.
func (p *Peer) rotateLoop(ctx context.Context) {
	period := p.graph.period()
	if period == 0 {
		return
	}
	for {
		now := p.nowMS()
		next := p.graph.slotAt(now) + period
		if now < uint64(p.cfg.Params.Genesis) {
			next = uint64(p.cfg.Params.Genesis)
		}
		if !sleep(ctx, time.Duration(next-now)*time.Millisecond) { // an hour
			return
		}
		p.mu.Lock()
		p.graph.rotate(next)
		p.mu.Unlock()
	}
}

// syncLoop is the initial sync and the disconnect monitor (eventgraph 6.7).
func (p *Peer) syncLoop(ctx context.Context) error {
	for {
		p.mu.Lock()
		synced, peers, changed := p.synced, len(p.channels), p.changed
		p.mu.Unlock()
		switch {
		case synced: // until the last peer has gone
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		case peers > 0:
			if !p.syncStatic() {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return ErrStaticSync
			}
			p.count(func(n *Counts) { n.SyncRounds++ })
			if p.syncSlots() {
				continue
			}
			p.count(func(n *Counts) { n.SyncFailures++ })
		}
		if !sleep(ctx, p.cfg.ConnectTimeout) {
			return ctx.Err()
		}
	}
}
