package p2p

import (
	"context"
	"slices"
)

// An addressHandler trades addresses on default sessions: it asks once at the start
// and whenever peer discovery wants it, and answers.
type addressHandler struct {
	peer *Peer
	asks chan getaddrMsg // to answer
}

func newAddressHandler(p *Peer) Handler {
	return &addressHandler{peer: p, asks: make(chan getaddrMsg, getaddrBacklog)}
}

// Handle takes getaddr and addr.
func (h *addressHandler) Handle(command string, payload []byte) error {
	if command == cmdAddr {
		return h.peer.takeAddrs(payload)
	}
	m, err := decodeGetaddr(payload)
	if err != nil {
		return err
	}
	select {
	case h.asks <- m:
	default: // more than any honest peer sends
	}
	return nil
}

// Run announces our own addresses to a peer that a slot dialed, asks, and answers.
func (h *addressHandler) Run(ctx context.Context) error {
	p := h.peer
	if p.session == SessionOutbound {
		if err := p.announce(ctx); err != nil {
			return err
		}
	}
	if err := p.sendGetaddr(ctx); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.ask:
			if err := p.sendGetaddr(ctx); err != nil {
				return err
			}
		case m := <-h.asks:
			n := p.node
			answer := n.hosts.answer(m, n.connector.shareable(), n.intN)
			if err := p.sendBase(ctx, cmdAddr, encodeAddr(answer)); err != nil {
				return err
			}
		}
	}
}

// A seedHandler visits a seed: announce, ask, take the first answer, leave.
type seedHandler struct {
	peer *Peer
	got  chan struct{} // holds one token when an addr message has come
}

func newSeedHandler(p *Peer) Handler {
	return &seedHandler{peer: p, got: make(chan struct{}, 1)}
}

// Handle takes addr. A seed's getaddr is not answered.
func (h *seedHandler) Handle(command string, payload []byte) error {
	if command != cmdAddr {
		return checkBase(command, payload)
	}
	if err := h.peer.takeAddrs(payload); err != nil {
		return err
	}
	select {
	case h.got <- struct{}{}:
	default:
	}
	return nil
}

// Run ends with ErrDone: the visit is over. A seed that answers pings and nothing else
// is left after two connect timeouts.
func (h *seedHandler) Run(ctx context.Context) error {
	if err := h.peer.announce(ctx); err != nil {
		return err
	}
	if err := h.peer.sendGetaddr(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*h.peer.profile.ConnectTimeout)
	defer cancel()
	select {
	case <-h.got:
	case <-ctx.Done():
	}
	return ErrDone
}

// announce sends our own addresses, if we have any.
func (p *Peer) announce(ctx context.Context) error {
	var own []hostEntry
	for _, u := range p.node.externalAddrs() {
		own = append(own, hostEntry{u.WithoutQuery(), unix(p.node.cfg.Now())})
	}
	if len(own) == 0 {
		return nil
	}
	return p.sendBase(ctx, cmdAddr, encodeAddr(own))
}

// sendGetaddr asks for addresses of the schemes that this node dials.
func (p *Peer) sendGetaddr(ctx context.Context) error {
	n := p.node
	m := getaddrMsg{max: uint32(n.cfg.GetaddrsMax), transports: n.connector.shareable()}
	p.mu.Lock()
	p.getaddr++
	p.mu.Unlock()
	return p.sendBase(ctx, cmdGetaddr, m.encode())
}

// takeAddrs checks an addr message and keeps of it no more than was asked for: twice
// the number in our getaddr, or as many as an announcement has.
func (p *Peer) takeAddrs(payload []byte) error {
	entries, err := decodeAddr(payload)
	if err != nil {
		return err
	}
	limit := unsolicitedAddrs
	p.mu.Lock()
	if p.getaddr > 0 && len(entries) > 0 {
		p.getaddr--
		limit = max(limit, 2*p.node.cfg.GetaddrsMax)
	}
	p.mu.Unlock()
	if p.node.hosts.intake(entries[:min(limit, len(entries))], p.node.cfg.Now()) > 0 {
		signal(p.node.stored)
	}
	return nil
}

// externalAddrs are the addresses under which others reach this node. The wildcard
// of a tcp listener stands for the IPv6 address that most peers see.
func (n *Node) externalAddrs() []URL {
	n.mu.Lock()
	defer n.mu.Unlock()
	own := slices.Clone(n.cfg.ExternalAddrs)
	for i, u := range own {
		if s := u.Scheme(); (s == "tcp" || s == "tcp+tls") && u.Host() == "::" {
			if ip := n.commonIPv6(); ip != "" {
				if v, err := ParseURL(s + "://[" + ip + "]:" + u.Port()); err == nil {
					own[i] = v
				}
			}
		}
	}
	return own
}

// noteIPv6 keeps how a peer sees us, if it does so over IPv6.
func (n *Node) noteIPv6(u URL) {
	if u.HostKind() != HostIPv6 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seenAs = append(n.seenAs, u.Host())
	if len(n.seenAs) > ipv6Ring {
		n.seenAs = slices.Delete(n.seenAs, 0, 1)
	}
}

// commonIPv6 is the most frequent entry of the ring, or empty. n.mu is held.
func (n *Node) commonIPv6() (best string) {
	count := make(map[string]int)
	for _, h := range n.seenAs {
		if count[h]++; count[h] > count[best] {
			best = h
		}
	}
	return best
}

// signal leaves one token in a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
