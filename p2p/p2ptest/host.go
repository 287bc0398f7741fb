package p2ptest

import (
	"context"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"hearsay/p2p"
)

// A Host is one machine.
type Host struct {
	net  *Network
	name string

	listeners map[listenKey]*listener // guarded by net.mu, as is nextPort
	nextPort  uint16
}

type listenKey struct {
	scheme string
	port   uint16
}

// Name is the host's name.
func (h *Host) Name() string { return h.name }

// Transport is the host's transport, for every scheme: dials start here, and
// listeners are reached under the host's name whatever host their URL has.
func (h *Host) Transport() p2p.Transport { return (*transport)(h) }

// Transports is Transport under each of the schemes.
func (h *Host) Transports(schemes ...string) map[string]p2p.Transport {
	m := map[string]p2p.Transport{}
	for _, s := range schemes {
		m[s] = h.Transport()
	}
	return m
}

// Drop resets every connection of the host.
func (h *Host) Drop() {
	h.net.breakWhere(func(p *pair) bool { return p.ends[0].host == h.name || p.ends[1].host == h.name })
}

// Crash kills what runs on the host, without a word to its peers: listeners close,
// the host's own ends of connections fail, and the other ends are left half-open:
// nothing arrives, and what they write goes nowhere until the window is full. The
// host can be used again at once.
func (h *Host) Crash() {
	n := h.net
	n.mu.Lock()
	ls := h.listeners
	h.listeners = map[listenKey]*listener{}
	for p := range n.pairs {
		for i, e := range p.ends {
			if e.host == h.name {
				p.halves[i].abandon()   // what it sends
				p.halves[1-i].abandon() // what it receives
				e.kill(net.ErrClosed)
				delete(n.pairs, p)
			}
		}
	}
	n.mu.Unlock()
	for _, l := range ls {
		_ = l.Close()
	}
}

type transport Host

var _ p2p.Transport = (*transport)(nil)

// Dial connects in one round trip. Nobody listening is ECONNREFUSED; an unreachable
// host takes until ctx ends.
func (t *transport) Dial(ctx context.Context, addr p2p.URL) (net.Conn, error) {
	n := t.net
	port, err := strconv.ParseUint(addr.Port(), 10, 16)
	if addr.Host() == "" || err != nil {
		return nil, p2p.ErrNoAddress
	}
	n.mu.Lock()
	link := n.linkBetween(t.name, addr.Host())
	n.mu.Unlock()
	if err := sleep(ctx, 2*link.Latency); err != nil {
		return nil, err
	}
	for {
		n.mu.Lock()
		changed := n.changed
		blocked := n.blocked(t.name, addr.Host()) || n.blocked(addr.Host(), t.name)
		var l *listener
		if !blocked {
			if h := n.hosts[addr.Host()]; h != nil {
				l = h.listeners[listenKey{addr.Scheme(), uint16(port)}]
			}
			if l == nil {
				n.mu.Unlock()
				return nil, &net.OpError{Op: "dial", Net: "p2ptest", Err: syscall.ECONNREFUSED}
			}
		}
		if l != nil && len(l.queue) < backlog {
			p := n.connect((*Host)(t), l, addr)
			n.mu.Unlock()
			return p.ends[0], nil
		}
		n.mu.Unlock()
		var room <-chan struct{}
		if l != nil {
			room = l.room
		}
		select {
		case <-changed:
		case <-room:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connect makes a connection and hands its far end to l. n.mu is held.
func (n *Network) connect(from *Host, l *listener, addr p2p.URL) *pair {
	to := addr.Host()
	key := pairKey{from.name, to}
	random := n.random(from.name, to, n.dials[key])
	n.dials[key]++
	local := endpoint{from.name, from.ephemeralPort()}
	remote := endpoint{to, l.key.port}
	link := n.linkBetween(from.name, to)
	p := newPair(n, link, local, remote, random)
	for _, h := range p.halves {
		h.setStalled(n.blocked(h.from, h.to))
	}
	n.pairs[p] = true
	if link.MTBF > 0 {
		life := time.Duration(random.ExpFloat64() * float64(link.MTBF))
		p.timer = time.AfterFunc(life, func() {
			n.breakWhere(func(o *pair) bool { return o == p })
		})
	}
	source := p2p.MustParseURL(addr.Scheme() + "://" + local.String())
	l.queue <- &pending{conn: p.ends[1], remote: source} // there is room
	return p
}

// ephemeralPort is the next one. net.mu is held.
func (h *Host) ephemeralPort() uint16 {
	p := h.nextPort
	if h.nextPort++; h.nextPort == 0 {
		h.nextPort = 49152
	}
	return p
}

// Listen listens on the host under the URL's scheme and port; port 0 takes a free
// one.
func (t *transport) Listen(_ context.Context, addr p2p.URL) (p2p.Listener, error) {
	port, err := strconv.ParseUint(addr.Port(), 10, 16)
	if addr.Host() == "" || err != nil {
		return nil, p2p.ErrNoAddress
	}
	n := t.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == 0 {
		port = uint64((*Host)(t).ephemeralPort())
	}
	key := listenKey{addr.Scheme(), uint16(port)}
	if t.listeners[key] != nil {
		return nil, &net.OpError{Op: "listen", Net: "p2ptest", Err: syscall.EADDRINUSE}
	}
	l := &listener{
		host: (*Host)(t), key: key, url: addr.WithPort(uint16(port)),
		queue: make(chan *pending, backlog), room: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	t.listeners[key] = l
	return l, nil
}

type listener struct {
	host   *Host
	key    listenKey
	url    p2p.URL
	queue  chan *pending // sent to with net.mu held, so its length is known there
	room   chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Addr() p2p.URL { return l.url }

func (l *listener) Accept(ctx context.Context) (p2p.Pending, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	default:
	}
	select {
	case p := <-l.queue:
		select {
		case l.room <- struct{}{}:
		default:
		}
		return p, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the listener; connections that nobody accepted are reset.
func (l *listener) Close() error {
	err := net.ErrClosed
	l.once.Do(func() {
		err = nil
		n := l.host.net
		n.mu.Lock()
		if l.host.listeners[l.key] == l {
			delete(l.host.listeners, l.key)
		}
		close(l.closed)
		close(n.changed) // dials that wait for room are refused
		n.changed = make(chan struct{})
		n.mu.Unlock()
		for {
			select {
			case p := <-l.queue:
				_ = p.Close()
			default:
				return
			}
		}
	})
	return err
}

type pending struct {
	conn   *conn
	remote p2p.URL
}

func (p *pending) Remote() p2p.URL                             { return p.remote }
func (p *pending) Handshake(context.Context) (net.Conn, error) { return p.conn, nil }

// Close resets the connection.
func (p *pending) Close() error {
	p.conn.pair.net.breakWhere(func(o *pair) bool { return o == p.conn.pair })
	return nil
}

// An endpoint is one end's address.
type endpoint struct {
	host string
	port uint16
}

func (e endpoint) Network() string { return "p2ptest" }
func (e endpoint) String() string  { return net.JoinHostPort(e.host, strconv.Itoa(int(e.port))) }

func childRand(r *rand.Rand) *rand.Rand {
	return rand.New(rand.NewPCG(r.Uint64(), r.Uint64())) // replayable on purpose
}
