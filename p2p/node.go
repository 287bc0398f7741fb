package p2p

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Node meets peers and keeps connections to them. [New] makes one, [Node.Run] runs it.
type Node struct {
	cfg       *settings
	hosts     *hosts
	connector *connector
	builtin   []Protocol
	pools     [2]struct{ read, send *memPool } // 0: peers we chose, 1: inbound
	nextID    atomic.Uint64
	stats     counters

	listening chan struct{} // closed when all listeners are open
	stored    chan struct{} // holds one token: new addresses have come
	hungry    chan struct{} // holds one token: a slot has nothing to dial
	seeds     []*seed

	randMu sync.Mutex // guards cfg.Rand

	mu       sync.Mutex
	state    runState
	ctx      context.Context // of Run, while it runs
	wg       sync.WaitGroup  // goroutines of Run
	peers    map[ConnID]*Peer
	wake     chan struct{} // closed and replaced: slots look again
	slots    []ConnID      // 0: empty
	listen   []URL
	seenAs   []string  // how peers see our IPv6 address, newest last
	lastPeer time.Time // of the last finished handshake, seeds and probes included
	lastMet  time.Time // the same for connections that carry application protocols
	direct   map[URL]*directUse
}

type runState uint8

const (
	stateNew runState = iota
	stateRunning
	stateStopped
)

// A link is a connection that is to be served.
type link struct {
	conn    net.Conn
	session Session
	url     URL // canonical
	route   URL // dialed; zero for inbound
	// ready, if set, is called when the handshake is done; an error ends the connection.
	ready func(*Peer) error
}

// New validates cfg and makes a node. It opens nothing and starts nothing. Its errors
// are [ErrConfig].
func New(cfg Config) (*Node, error) {
	s, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg: s, listening: make(chan struct{}), stored: make(chan struct{}, 1), hungry: make(chan struct{}, 1),
		peers: make(map[ConnID]*Peer), wake: make(chan struct{}), slots: make([]ConnID, s.OutboundConnections),
		direct: make(map[URL]*directUse),
	}
	n.connector = &connector{cfg: s}
	n.hosts = newHosts(s, n.externalAddrs, n.connector.dialable)
	n.connector.hosts = n.hosts
	for i := range n.pools {
		n.pools[i].read, n.pools[i].send = newMemPool(readPool), newMemPool(sendPool)
	}
	base := func(names ...string) (cs []Command) {
		for _, c := range baseCommands {
			if slices.Contains(names, c.Name) {
				cs = append(cs, c)
			}
		}
		return cs
	}
	n.builtin = []Protocol{
		{"ping", SessionDefault | SessionSeed, base(cmdPing, cmdPong), newPinger},
		{"address", SessionDefault, base(cmdGetaddr, cmdAddr), newAddressHandler},
		{"seed", SessionSeed, base(cmdGetaddr, cmdAddr), newSeedHandler},
	}
	for _, u := range s.Seeds {
		n.seeds = append(n.seeds, &seed{node: n, url: u, trigger: make(chan struct{}, 1)})
	}
	return n, nil
}

// Run listens, dials and serves peers until ctx ends, and returns after the last of
// its goroutines. It fails at once where a listener cannot be opened or the host list
// cannot be read, else it returns the cause of ctx: connections have then been closed
// between frames, each within 2 s and the transport's own closing (ST-07), and the host
// list is saved. A node runs once.
func (n *Node) Run(ctx context.Context) error {
	n.mu.Lock()
	if n.state != stateNew {
		n.mu.Unlock()
		return errors.New("p2p: a node runs once")
	}
	n.state = stateRunning
	n.mu.Unlock()
	err := n.run(ctx)
	n.mu.Lock()
	n.state = stateStopped
	n.mu.Unlock()
	return err
}

func (n *Node) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if n.cfg.HostsFile != "" {
		if err := n.hosts.load(n.cfg.HostsFile, n.cfg.Now()); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, n.hosts.save(n.cfg.HostsFile)) }()
	}
	listeners, err := n.open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // nobody accepts any more
		}
	}()

	n.mu.Lock()
	n.ctx = ctx
	n.lastPeer = time.Now()
	n.mu.Unlock()
	for _, l := range listeners {
		n.spawn(func(ctx context.Context) {
			if err := n.accept(ctx, l); ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	for _, u := range n.cfg.Peers {
		n.spawn(func(ctx context.Context) { n.manual(ctx, u) })
	}
	for _, s := range n.seeds {
		n.spawn(s.run)
	}
	for i := range n.slots {
		n.spawn(func(ctx context.Context) { n.slot(ctx, i) })
	}
	if len(n.slots) > 0 {
		n.spawn(n.discover)
	}
	n.spawn(n.refinery)
	if n.cfg.HostsFile != "" {
		n.spawn(n.saver)
	}
	close(n.listening)
	n.cfg.Logger.Info("p2p: running", "listeners", len(listeners), "slots", len(n.slots),
		"peers", len(n.cfg.Peers), "seeds", len(n.seeds))

	<-ctx.Done()
	n.mu.Lock()
	n.ctx = nil // nothing is spawned from here on
	n.mu.Unlock()
	n.wg.Wait()
	n.cfg.Logger.Info("p2p: stopped")
	return context.Cause(ctx)
}

// spawn runs f in a goroutine of Run and tells whether Run is there to own it.
func (n *Node) spawn(f func(ctx context.Context)) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx == nil {
		return false
	}
	ctx := n.ctx
	n.wg.Go(func() { f(ctx) })
	return true
}

// open opens every listener or none.
func (n *Node) open(ctx context.Context) (listeners []Listener, err error) {
	for _, u := range n.cfg.Inbound {
		l, err := n.cfg.Transports[u.Scheme()].Listen(ctx, u)
		if err != nil {
			for _, l := range listeners {
				_ = l.Close() // the first error counts
			}
			return nil, fmt.Errorf("p2p: listen on %s: %w", u, err)
		}
		listeners = append(listeners, l)
		n.mu.Lock()
		n.listen = append(n.listen, l.Addr())
		n.mu.Unlock()
	}
	return listeners, nil
}

// Listening is closed once every listener is open. Where one fails, Run returns
// instead.
func (n *Node) Listening() <-chan struct{} { return n.listening }

// ListenAddrs are the addresses listened on, with their real ports; valid once
// Listening is closed.
func (n *Node) ListenAddrs() []URL {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.listen)
}

// Peers are the connections that carry application protocols, after their handshake,
// oldest first.
func (n *Node) Peers() []*Peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	peers := make([]*Peer, 0, len(n.peers))
	for _, id := range slices.Sorted(maps.Keys(n.peers)) {
		peers = append(peers, n.peers[id])
	}
	return peers
}

// serve runs one connection from its first byte to its end and tells whether the
// handshake was done, and why it ended. The end of ctx flushes and closes it.
func (n *Node) serve(ctx context.Context, l link) (shaken bool, cause error) {
	p := n.newPeer(ctx, l)
	handlers := p.attach(n.builtin)
	handlers = append(handlers, p.attach(n.cfg.Protocols)...)
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrFull) { // dropped while in its handshake
			p.end(ErrFull, endCut)
			return
		}
		p.end(ErrShutdown, endFlush)
	})()
	err := p.sendVersion()
	var wg sync.WaitGroup
	wg.Go(p.readLoop)
	wg.Go(p.writeLoop)

	timeout := p.profile.HandshakeTimeout
	if p.session == SessionRefine {
		timeout = min(timeout, refineTimeout)
	}
	if err == nil {
		err = p.shakeHands(timeout)
	}
	if err == nil {
		shaken = true
		err = n.established(p, l.ready)
	}
	if err == nil && p.session == SessionRefine {
		err = ErrDone
	}
	if err != nil {
		p.finish(err)
	} else {
		for _, h := range handlers {
			wg.Go(func() {
				if err := h.Run(p.ctx); err != nil {
					p.finish(err)
				}
			})
		}
		<-p.ctx.Done()
	}
	wg.Wait()
	n.forget(p)
	return shaken, context.Cause(p.ctx)
}

// finish ends the connection as an error of a handler's Run asks. On a connection that
// has ended the error is only the handler's own end: it must not take back a flush.
func (p *Peer) finish(err error) {
	if p.ctx.Err() != nil {
		return
	}
	if f, ok := errors.AsType[*Fault](err); ok && f.Ban {
		p.Ban(f.Force, f.Err)
		return
	}
	mode := endFrame
	if errors.Is(err, ErrDone) {
		mode = endFlush
	}
	p.end(err, mode)
}

// established notes a finished handshake.
func (n *Node) established(p *Peer, ready func(*Peer) error) error {
	n.mu.Lock()
	n.lastPeer = time.Now()
	n.mu.Unlock()
	if ready != nil {
		if err := ready(p); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.since = time.Now()
	p.mu.Unlock()
	if p.session&SessionDefault == 0 {
		return nil
	}
	n.hosts.connected(p.url, p.golden(), n.cfg.Now())
	n.mu.Lock()
	n.peers[p.id] = p
	n.lastMet = time.Now()
	n.mu.Unlock()
	n.cfg.Logger.Debug("p2p: peer connected", "session", p.session, "transport", p.Transport())
	return nil
}

// forget undoes established.
func (n *Node) forget(p *Peer) {
	n.mu.Lock()
	_, known := n.peers[p.id]
	delete(n.peers, p.id)
	n.mu.Unlock()
	if !known {
		return
	}
	n.hosts.disconnected(p.url, p.golden(), n.cfg.Now())
	n.cfg.Logger.Debug("p2p: peer disconnected", "session", p.session, "transport", p.Transport(),
		"cause", causeText(context.Cause(p.ctx)))
}

// golden tells whether the connection turns its address to gold.
func (p *Peer) golden() bool { return p.session == SessionOutbound || p.session == SessionDirect }

// intN draws a number below n; n is positive.
func (n *Node) intN(k int) int {
	n.randMu.Lock()
	defer n.randMu.Unlock()
	return n.cfg.Rand.IntN(k)
}

// jitter spreads d over d/2 to 3d/2: those who fail together do not come back together.
func (n *Node) jitter(d time.Duration) time.Duration {
	n.randMu.Lock()
	defer n.randMu.Unlock()
	return d/2 + time.Duration(n.cfg.Rand.Int64N(int64(d)+1))
}

// sleepCtx waits for d and tells whether ctx is still alive.
func sleepCtx(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
