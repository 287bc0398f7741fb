package stock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/serial"
	"hearsay/p2p"
)

const (
	appName       = "darkirc"
	refineTimeout = 5 * time.Second
)

var appVersion = semver{0, 5, 1, "", ""}

// shareable are the schemes that leave a node (p2p 5.6): quic is not among them.
var shareable = []string{"tor", "tls", "tcp", "nym", "i2p", "tor+tls", "nym+tls", "tcp+tls", "i2p+tls"}

// handshake runs both of its halves side by side (p2p 3.1).
func (c *channel) handshake() bool {
	timeout := c.peer.cfg.HandshakeTimeout
	if c.session == Refine {
		timeout = min(timeout, refineTimeout)
	}
	var halves sync.WaitGroup
	results := make(chan error, 2)
	halves.Go(func() { results <- c.sendVersion(timeout) })
	halves.Go(func() {
		_, err := c.nextOf(cmdVersion, timeout)
		if err == nil {
			err = c.send(cmdVerack, serial.AppendString(appVersion.appendTo(nil), appName))
		}
		results <- err
	})
	halves.Wait()
	for range 2 {
		if err := <-results; err != nil {
			if errors.Is(err, errTimedOut) {
				c.costs(RuleHandshake, Close, "")
			}
			c.stop(err)
			return false
		}
	}
	return true
}

func (c *channel) sendVersion(timeout time.Duration) error {
	v := &versionMessage{
		app: appName, version: appVersion, timestamp: c.peer.nowMS() / 1000,
		connectRecv: c.url, external: c.peer.cfg.External,
	}
	if c.session != Inbound {
		v.resolveRecv = &c.url
	}
	if err := c.send(cmdVersion, v.encode()); err != nil {
		return err
	}
	got, err := c.nextOf(cmdVerack, timeout)
	if err != nil {
		return err
	}
	ack, _ := got.(verackMessage)
	if ack.app != appName || ack.version.major != appVersion.major || ack.version.minor != appVersion.minor {
		cost := Close
		if c.session == Outbound {
			cost = Ban
		}
		c.costs(RuleMismatch, cost, "%s %d.%d", ack.app, ack.version.major, ack.version.minor)
		return errStopped
	}
	return nil
}

// register adds the channel to the peers and starts its protocols.
func (c *channel) register(wg *sync.WaitGroup) {
	p := c.peer
	if c.session.carriesGraph() {
		p.mu.Lock()
		// A channel that has a listener's own address never counts as a peer (p2p 5.4).
		if c.ctx.Err() == nil && (c.session != Inbound || !slices.Contains(p.cfg.Listen, c.url)) {
			p.channels[c] = true
			p.notify()
		}
		p.mu.Unlock()
	}
	if c.session == Refine {
		c.stop(errDone)
		return
	}
	wg.Go(c.pingLoop)
	wg.Go(c.answerPings)
	if c.session == Seed {
		wg.Go(c.seedExchange)
		return
	}
	wg.Go(c.exchangeAddresses)
	wg.Go(c.takeAddresses)
	wg.Go(c.answerGetaddr)
	wg.Go(c.handlePuts)
	wg.Go(c.relayLoop)
	wg.Go(c.broadcastLoop)
	wg.Go(c.handleStaticPuts)
	wg.Go(c.serveEvents)
	wg.Go(c.serveHeaders)
	wg.Go(c.serveTips)
	wg.Go(c.serveRanges)
}

func (c *channel) unregister() {
	p := c.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, c)
	if !p.channels[c] {
		return
	}
	delete(p.channels, c)
	if len(p.channels) == 0 && !p.cfg.SkipSync {
		p.synced = false // the disconnect monitor (eventgraph 6.7)
	}
	p.notify()
}

// pingLoop is p2p 4.2.
func (c *channel) pingLoop() {
	for {
		nonce := c.peer.random16()
		c.mu.Lock()
		c.pinging = true
		c.mu.Unlock()
		if c.send(cmdPing, serial.AppendUint16(nil, nonce)) != nil {
			return
		}
		pong, err := c.nextOf(cmdPong, c.peer.cfg.ConnectTimeout)
		switch {
		case errors.Is(err, errTimedOut):
			c.costs(RulePong, Close, "none in time")
			return
		case err != nil:
			return
		case pong != nonce:
			c.costs(RulePong, Close, "wrong nonce")
			return
		}
		if !c.sleep(c.peer.cfg.Heartbeat) {
			return
		}
	}
}

func (p *Peer) random16() uint16 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return uint16(p.rand.Uint32()) // truncated on purpose
}

func (c *channel) answerPings() {
	for {
		nonce, err := c.nextOf(cmdPing, 0)
		if err != nil {
			return
		}
		n, _ := nonce.(uint16)
		if c.send(cmdPong, serial.AppendUint16(nil, n)) != nil {
			return
		}
	}
}

// ask sends getaddr.
func (c *channel) ask() error {
	const most = 8
	b := serial.AppendUint32(nil, most)
	b = serial.AppendVarInt(b, uint64(len(c.peer.cfg.Schemes)))
	for _, s := range c.peer.cfg.Schemes {
		b = serial.AppendString(b, s)
	}
	c.mu.Lock()
	c.asked += most
	c.mu.Unlock()
	return c.send(cmdGetaddr, b)
}

func (c *channel) announce() error {
	var own []addrEntry
	for _, u := range c.peer.cfg.External {
		if c.session == Outbound {
			u = u.WithoutQuery()
		}
		own = append(own, addrEntry{u, c.peer.nowMS() / 1000})
	}
	if len(own) == 0 {
		return nil
	}
	return c.send(cmdAddr, appendAddrs(nil, own))
}

// exchangeAddresses is the sending part of p2p 4.3.
func (c *channel) exchangeAddresses() {
	if c.session == Outbound && c.announce() != nil {
		return
	}
	_ = c.ask()
}

func (c *channel) takeAddresses() {
	for {
		m, err := c.nextOf(cmdAddr, 0)
		if err != nil {
			return
		}
		c.store(m)
	}
}

// store filters addresses into the host list (p2p 5.5, without colours).
func (c *channel) store(m any) {
	addrs, _ := m.(*addrMessage)
	p := c.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range addrs.entries {
		u := e.url
		known := u.Scheme() == "quic" || slices.Contains(shareable, u.Scheme())
		if u.Host() == "" || !u.HasPort() || !known || slices.Contains(p.cfg.Peers, u) || p.blackListed(u) {
			continue
		}
		if !slices.ContainsFunc(p.cfg.External, func(own p2p.URL) bool { return own.Host() == u.Host() }) {
			p.hosts[u] = e.lastSeen
		}
	}
}

func (c *channel) answerGetaddr() {
	for {
		m, err := c.nextOf(cmdGetaddr, 0)
		if err != nil {
			return
		}
		req, _ := m.(getaddrMessage)
		p := c.peer
		p.mu.Lock()
		var answer []addrEntry
		for u, seen := range p.hosts {
			if slices.Contains(shareable, u.Scheme()) {
				answer = append(answer, addrEntry{u, seen})
			}
		}
		p.mu.Unlock()
		slices.SortFunc(answer, func(a, b addrEntry) int { return strings.Compare(a.url.String(), b.url.String()) })
		answer = answer[:min(uint64(len(answer)), 2*uint64(req.max))]
		if c.send(cmdAddr, appendAddrs(nil, answer)) != nil {
			return
		}
	}
}

// seedExchange is p2p 4.4.
func (c *channel) seedExchange() {
	if c.announce() != nil || c.ask() != nil {
		return
	}
	m, err := c.nextOf(cmdAddr, 0)
	if err != nil {
		return
	}
	c.store(m)
	c.stop(errDone)
}

// ban puts the other side on the black list (p2p 2.6, eventgraph 9.4).
func (p *Peer) ban(c *channel) {
	u := c.url
	if c.session == Inbound {
		u = u.WithoutPort()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record.bans = append(p.record.bans, u.String())
	ip := u.IP()
	local := ip.IsValid() && (ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast())
	if u.Host() != "" && (!local || p.cfg.Localnet) {
		p.black[u.String()] = true
		delete(p.hosts, u)
	}
}

// blackListed is true for an address or its host. p.mu is held.
func (p *Peer) blackListed(u p2p.URL) bool {
	return p.black[u.String()] || p.black[u.WithoutPort().String()]
}

// Dial connects to url as the session and serves the connection until it ends.
// With Refine and Seed it ends by itself once the exchange is over, with a nil
// error.
func (p *Peer) Dial(ctx context.Context, url p2p.URL, session Session) error {
	p.mu.Lock()
	black := p.blackListed(url)
	p.mu.Unlock()
	if black {
		return errBlack
	}
	dialing, cancel := context.WithTimeout(ctx, p.cfg.ConnectTimeout)
	conn, err := p.cfg.Transport.Dial(dialing, url)
	cancel()
	if err != nil {
		return err
	}
	if err := p.Serve(ctx, conn, session, url); !errors.Is(err, errDone) {
		return err
	}
	return nil
}

// Publish makes an event on the current tips, stores it and sends it to every
// peer (eventgraph 7). Unlike darkirc it does not wait for the sync.
func (p *Peer) Publish(content []byte) (eventgraph.Event, error) {
	p.mu.Lock()
	e := p.graph.create(content, p.nowMS())
	err := p.graph.insertHeaders(p.graph.current, []eventgraph.Header{e.Header})
	if err == nil {
		_, err = p.graph.insertBodies(p.graph.current, []eventgraph.Event{e})
	}
	p.mu.Unlock()
	if err != nil {
		return e, err
	}
	p.broadcast(cmdEventPut, encodePut(&e), nil)
	return e, nil
}
