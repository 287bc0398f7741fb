package stock

import (
	"math/rand/v2"
	"sync"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// A Session is the kind of a connection as its own side sees it (p2p 4.1).
type Session uint8

// Sessions.
const (
	Inbound  Session = 0x01
	Outbound Session = 0x02
	Manual   Session = 0x04
	Seed     Session = 0x08
	Refine   Session = 0x10
	Direct   Session = 0x20
)

// carriesGraph tells whether the event graph is spoken on such connections.
func (s Session) carriesGraph() bool { return s&(Inbound|Outbound|Manual|Direct) != 0 }

func (s Session) String() string {
	switch s {
	case Inbound:
		return "inbound"
	case Outbound:
		return "outbound"
	case Manual:
		return "manual"
	case Seed:
		return "seed"
	case Refine:
		return "refine"
	case Direct:
		return "direct"
	}
	return "no session"
}

// Config configures a [Peer]. Zero values mean the default that is named.
type Config struct {
	Name   string            // in records
	Params eventgraph.Params // default eventgraph.DarkIRC()
	// Now is the peer's wall clock; default time.Now.
	Now func() time.Time
	// SkipSync: synced from the start, and for ever (darkirc's skip_dag_sync). The
	// first node of a network needs it.
	SkipSync bool
	// Window is how many slots are kept, Slots how many are synced; default 24 each.
	Window, Slots int

	// Transport dials Peers, as Session (default Manual), and listens on Listen.
	Transport p2p.Transport
	Listen    []p2p.URL
	Peers     []p2p.URL
	Session   Session
	External  []p2p.URL // own addresses, announced
	// Schemes is what getaddr asks for; default tcp+tls.
	Schemes []string
	// Relaxed is the ban policy of seed nodes.
	Relaxed bool
	// Localnet: private addresses are banned too. Default off, as in darkirc: the
	// bans are recorded and the connection ends, but it can come back.
	Localnet bool
	// MaxInbound live connections per listener; default 8.
	MaxInbound int

	// Timeouts of the profile; defaults 15 s, 10 s, 30 s.
	ConnectTimeout, HandshakeTimeout, Heartbeat time.Duration

	// Seeded randomness for nonces and picks.
	Seed uint64
}

func (c Config) withDefaults() Config {
	if c.Params.Genesis == 0 && c.Params.Contents == nil {
		c.Params = eventgraph.DarkIRC()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	setDefault(&c.Window, 24)
	setDefault(&c.Slots, 24)
	setDefault(&c.Session, Manual)
	setDefault(&c.MaxInbound, 8)
	setDefault(&c.ConnectTimeout, 15*time.Second)
	setDefault(&c.HandshakeTimeout, 10*time.Second)
	setDefault(&c.Heartbeat, 30*time.Second)
	if c.Schemes == nil {
		c.Schemes = []string{"tcp+tls"}
	}
	return c
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// A Peer is one stock node.
type Peer struct {
	cfg Config

	mu       sync.Mutex // guards everything below; never held while waiting
	rand     *rand.Rand
	graph    graph
	synced   bool
	channels map[*channel]bool // registered: the handshake is done, and not seed or refine
	all      map[*channel]bool // every live one
	black    map[string]bool   // URL text, or URL text without port
	hosts    map[p2p.URL]uint64
	changed  chan struct{} // closed and replaced when channels, synced or the current slot change
	jobs     int           // broadcasts under way
	record   Record
}

// New makes a peer with its slots. It starts nothing.
func New(cfg Config) *Peer {
	cfg = cfg.withDefaults()
	p := &Peer{
		cfg:      cfg,
		rand:     rand.New(rand.NewPCG(cfg.Seed, 0x73746f636b)), // replayable on purpose
		channels: map[*channel]bool{}, all: map[*channel]bool{},
		black: map[string]bool{}, hosts: map[p2p.URL]uint64{},
		changed: make(chan struct{}),
		synced:  cfg.SkipSync,
	}
	p.graph.open(cfg.Params, cfg.Window, p.nowMS())
	return p
}

func (p *Peer) nowMS() uint64 { return uint64(p.cfg.Now().UnixMilli()) } // after 1970

// notify tells waiters that something changed. p.mu is held.
func (p *Peer) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Synced tells whether the peer considers itself synced.
func (p *Peer) Synced() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.synced
}

// Conns is the number of connected peers as the protocols count them: no seed or
// refine connections.
func (p *Peer) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.channels)
}

// Known lists the addresses learned.
func (p *Peer) Known() []p2p.URL {
	p.mu.Lock()
	defer p.mu.Unlock()
	var us []p2p.URL
	for u := range p.hosts {
		us = append(us, u)
	}
	return us
}

// Current is the slot that the peer's rotation timer has opened last.
func (p *Peer) Current() eventgraph.Slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return eventgraph.Slot(p.graph.current)
}

// Events lists a slot's events in display order, without the genesis.
func (p *Peer) Events(slot eventgraph.Slot) []eventgraph.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.graph.slots[uint64(slot)]
	if s == nil {
		return nil
	}
	var es []eventgraph.Event
	for _, c := range s.index {
		if e, ok := s.bodies[c.id]; ok && !e.GenesisShaped() {
			es = append(es, e)
		}
	}
	return es
}

// Has tells whether an event's body is stored, in whatever slot.
func (p *Peer) Has(id eventgraph.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.graph.slots {
		if _, ok := s.bodies[id]; ok {
			return true
		}
	}
	return false
}

// AllEvents lists the events of every loaded slot, by id.
func (p *Peer) AllEvents() map[eventgraph.ID]eventgraph.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := map[eventgraph.ID]eventgraph.Event{}
	for _, s := range p.graph.slots {
		for id, e := range s.bodies {
			if !e.GenesisShaped() {
				m[id] = e
			}
		}
	}
	return m
}

// Static lists the events of the static DAG, without the genesis.
func (p *Peer) Static() []eventgraph.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	var es []eventgraph.Event
	for _, e := range p.graph.static {
		if !e.GenesisShaped() {
			es = append(es, e)
		}
	}
	return es
}
