package p2p

import (
	"context"
	"time"
)

// slot keeps one outbound connection: pick an address, dial, serve, again.
func (n *Node) slot(ctx context.Context, i int) {
	pause := slotPause
	for ctx.Err() == nil {
		wake := n.wakeChan()
		u, ok := n.hosts.claimOutbound(n.prefersKnown(), !n.cfg.DisableGreys, n.intN)
		if !ok {
			n.emit(Event{Kind: EventSlotSleeping, Slot: i})
			signal(n.hungry)
			select {
			case <-wake:
			case <-ctx.Done():
			}
			continue
		}
		n.emit(Event{Kind: EventSlotConnecting, Slot: i, URL: u})
		start := time.Now()
		shaken, cause := n.dialAndServe(ctx, u, SessionOutbound, func(p *Peer) error {
			n.setSlot(i, p.id)
			n.emit(Event{Kind: EventSlotConnected, Slot: i, URL: u, Peer: p.id})
			return nil
		})
		n.setSlot(i, 0)
		n.emit(Event{Kind: EventSlotDisconnected, Slot: i, Reason: causeText(cause)})
		switch {
		case ctx.Err() != nil:
			n.hosts.unclaim(u)
			return
		case !shaken: // grey until probed, so the next pick is another address
			n.hosts.failed(u, n.cfg.Now())
			sleepCtx(ctx, n.jitter(slotPause))
		case time.Since(start) >= slotStable:
			pause = slotPause
		default: // it may be the only one we know
			sleepCtx(ctx, n.jitter(pause))
			pause = min(2*pause, slotPauseMax)
		}
	}
}

// dialAndServe is the whole life of a dialed connection. The address is claimed.
func (n *Node) dialAndServe(ctx context.Context, u URL, s Session, ready func(*Peer) error) (shaken bool, cause error) {
	conn, route, err := n.connector.dial(ctx, u)
	if err != nil {
		return false, err
	}
	return n.serve(ctx, link{conn: conn, session: s, url: u, route: route, ready: ready})
}

// prefersKnown tells whether the next slot to be filled belongs to the share of those
// that prefer addresses known to work.
func (n *Node) prefersKnown() bool {
	share := n.cfg.KnownPeerPercent
	if n.cfg.DisableGreys {
		share = 100
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	live := 0
	for _, id := range n.slots {
		if id != 0 {
			live++
		}
	}
	return live < len(n.slots)*share/100
}

func (n *Node) setSlot(i int, id ConnID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slots[i] = id
}

func (n *Node) wakeChan() chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wake
}

func (n *Node) wakeSlots() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.wake)
	n.wake = make(chan struct{})
}

// discover finds addresses when a slot has none: it asks the peers, and seeds when
// there are none or they know nothing new.
func (n *Node) discover(ctx context.Context) {
	failures, attempt := 0, 0
	for {
		select {
		case <-n.hungry:
		case <-ctx.Done():
			return
		}
		attempt++
		peers := n.Peers()
		switch {
		case failures >= 2 || len(peers) == 0:
			n.emit(Event{Kind: EventPeerDiscovery, Attempt: attempt, State: "seeds"})
			failures = 0
			for _, s := range n.seeds {
				signal(s.trigger)
			}
		default:
			n.emit(Event{Kind: EventPeerDiscovery, Attempt: attempt, State: "peers"})
			drain(n.stored)
			for _, p := range peers {
				signal(p.ask)
			}
			failures++
			if n.awaitStored(ctx, n.cfg.DiscoveryAttempt) {
				failures = 0
			}
		}
		n.wakeSlots()
		for end := time.Now().Add(n.cfg.DiscoveryAttempt); n.awaitStored(ctx, time.Until(end)); {
			n.wakeSlots() // a seed or an announcement came in
		}
	}
}

// awaitStored waits at most d and tells whether new addresses have come.
func (n *Node) awaitStored(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-n.stored:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

func drain(c chan struct{}) {
	select {
	case <-c:
	default:
	}
}
