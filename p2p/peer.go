package p2p

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// A ConnID names one connection of this process. It is ephemeral: never stored,
// never logged (DS-51). It prints as "[conn]"; the number is for viewers that ask for it.
type ConnID uint64

// String hides the number.
func (ConnID) String() string { return "[conn]" }

// Format hides the number from every verb.
func (ConnID) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[conn]") }

// MarshalText hides the number from encoders.
func (ConnID) MarshalText() ([]byte, error) { return []byte("[conn]"), nil }

// LogValue hides the number from logs.
func (ConnID) LogValue() slog.Value { return slog.StringValue("[conn]") }

// PeerVersion is what the peer said in its version message, and when it came.
type PeerVersion struct {
	AppName             string
	Major, Minor, Patch uint64
	Timestamp           time.Time // the peer's clock, seconds
	Received            time.Time // ours
	Features            map[string]uint32
}

// A Message is one frame to send.
type Message struct {
	Command string
	Payload []byte // not changed after the call
	// Written, if set, is called once: with nil when the whole frame went to the
	// transport, else with the reason why it did not. From the writer; must not block.
	Written func(error)
}

// A Peer is one connection. Three goroutines serve it beside one per handler: the
// session's, which waits for its end, the reader and the writer.
type Peer struct {
	node    *Node
	id      ConnID
	session Session
	url     URL // canonical: what lists and bans know
	route   URL // what was dialed, zero for inbound
	profile Profile
	conn    net.Conn
	routes  map[string]*route
	queue   *sendQueue
	shake   *handshake
	frames  *frameReader
	ask     chan struct{} // holds one token: peer discovery wants a getaddr sent

	ctx    context.Context // ends with the connection
	cancel context.CancelCauseFunc

	meters *meterBank // the reader's
	busy   busyClock  // whether the reader waits for the peer, or for us

	mu      sync.Mutex
	pacer   *sendPacer
	version PeerVersion
	since   time.Time
	ended   bool
	cut     bool      // ended without the frame in hand
	closeBy time.Time // valid once ended: the last moment of reads and writes
	getaddr int       // getaddr messages sent and not yet answered
}

// A route says where a command's payloads go.
type route struct {
	Command
	handler Handler // nil: a base message, or one that is dropped
	base    bool
}

// newPeer makes a peer with its handlers attached, before anything is read.
func (n *Node) newPeer(ctx context.Context, l link) *Peer {
	p := &Peer{
		node: n, id: ConnID(n.nextID.Add(1)), session: l.session, url: l.url, route: l.route,
		profile: n.cfg.profile(l.url.Scheme()), conn: l.conn, routes: make(map[string]*route),
		meters: newMeterBank(), pacer: newSendPacer(), ask: make(chan struct{}, 1),
	}
	// The connection outlives ctx by the time that an orderly end takes.
	p.ctx, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	pools := &n.pools[0]
	if l.session == SessionInbound {
		pools = &n.pools[1]
	}
	p.queue = newSendQueue(pools.send, func() { p.end(ErrSlowPeer, endCut) })
	p.shake = newHandshake()
	p.frames = &frameReader{
		br: bufio.NewReaderSize(l.conn, 4096), magic: n.cfg.Magic, timeout: p.profile.Heartbeat,
		lookup: p.lookup, setDeadline: p.setReadDeadline, inFrame: p.busy.set,
		pool: pools.read, holder: &poolHolder{evict: func() { p.end(ErrStalled, endCut) }},
	}
	for _, c := range baseCommands {
		p.register(&route{Command: c, base: true})
	}
	return p
}

func (p *Peer) register(r *route) {
	p.routes[r.Name] = r
	p.meters.register(r.Name, r.Meter)
}

// attach makes the handlers of p. On a seed connection, commands of ours that are not
// spoken there are dropped: a seed that is also an ordinary node cannot know.
func (p *Peer) attach(protocols []Protocol) (handlers []Handler) {
	for _, proto := range protocols {
		if proto.Mask&p.session == 0 {
			if p.session == SessionSeed {
				for _, c := range proto.Commands {
					if p.routes[c.Name] == nil {
						p.register(&route{Command: Command{Name: c.Name, Skip: max(c.MaxPayload, c.Skip)}})
					}
				}
			}
			continue
		}
		h := proto.Attach(p)
		handlers = append(handlers, h)
		for _, c := range proto.Commands {
			if r := p.routes[c.Name]; r != nil { // a base message's
				r.handler = h
				continue
			}
			p.register(&route{Command: c, handler: h})
		}
	}
	return handlers
}

// lookup is the frame reader's question about a command.
func (p *Peer) lookup(command []byte) (string, frameBounds, bool) {
	r := p.routes[string(command)]
	if r == nil {
		return "", frameBounds{}, false
	}
	b := frameBounds{max: uint64(r.MaxPayload), skip: uint64(r.Skip), over: offenceAppOversize}
	if r.base {
		b.over = offenceOversize
	} else if l, ok := r.handler.(Limiter); ok {
		b.max = uint64(max(l.MaxPayload(r.Name), 0))
	}
	return r.Name, b, true
}

// ID names the connection while it lives.
func (p *Peer) ID() ConnID { return p.id }

// Session says how the connection came about.
func (p *Peer) Session() Session { return p.session }

// Transport is the scheme of the peer's address.
func (p *Peer) Transport() string { return p.url.Scheme() }

// Version is what the peer said about itself. It is valid from the first call of a
// handler on.
func (p *Peer) Version() PeerVersion {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version
}

// Feature is the value that the peer announced for name.
func (p *Peer) Feature(name string) (uint32, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.version.Features[name] // the map does not change once set
	return v, ok
}

// Since is when the handshake finished, by the monotonic clock; zero before.
func (p *Peer) Since() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since
}

// Context ends with the connection; its cause says why.
func (p *Peer) Context() context.Context { return p.ctx }

// Format keeps addresses out of whatever prints a Peer.
func (p *Peer) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[peer]") }

// LogValue is Format for logs.
func (p *Peer) LogValue() slog.Value { return slog.StringValue("[peer]") }

// Send queues m, waiting for room in the peer's bounded queue, and first for what the
// command's meter asks for. It returns nil once m is queued, else the cause of ctx or
// of the connection's end; Message.Written is called only after nil.
func (p *Peer) Send(ctx context.Context, m Message) error {
	r := p.routes[m.Command]
	if r == nil || r.base {
		return fmt.Errorf("%w: %q", ErrUnknownCommand, m.Command)
	}
	if err := p.pace(ctx, r); err != nil {
		return err
	}
	q := p.queued(m)
	err := p.queue.push(ctx, q, false)
	if !errors.Is(err, errQueueFull) {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })()
	return p.queue.push(ctx, q, true)
}

// TrySend queues m or, if the queue is full, drops the peer with ErrSlowPeer and
// returns that. Where the command's meter asks for a delay, it returns ErrPaced and
// the peer stays.
func (p *Peer) TrySend(m Message) error {
	r := p.routes[m.Command]
	if r == nil || r.base {
		return fmt.Errorf("%w: %q", ErrUnknownCommand, m.Command)
	}
	if r.Meter.Threshold > 0 {
		p.mu.Lock()
		ok := p.pacer.ready(r.Name, r.Meter, time.Now())
		p.mu.Unlock()
		if !ok {
			return ErrPaced
		}
	}
	err := p.queue.push(p.ctx, p.queued(m), false)
	if errors.Is(err, errQueueFull) {
		p.end(ErrSlowPeer, endCut)
		return ErrSlowPeer
	}
	return err
}

func (p *Peer) queued(m Message) queued {
	return queued{Message: m, size: headerSize(m.Command, len(m.Payload)) + len(m.Payload)}
}

// pace sleeps what the meter of r asks for.
func (p *Peer) pace(ctx context.Context, r *route) error {
	if r.Meter.Threshold == 0 {
		return nil
	}
	p.mu.Lock()
	d := p.pacer.delay(r.Name, r.Meter, r.base, time.Now())
	p.mu.Unlock()
	return p.sleep(ctx, d)
}

// sleep waits for d, or for the end of ctx or of the connection.
func (p *Peer) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

// sendBase queues a base message, after the delay that the network's meters ask for.
func (p *Peer) sendBase(ctx context.Context, command string, payload []byte) error {
	if err := p.pace(ctx, p.routes[command]); err != nil {
		return err
	}
	return p.sendControl(Message{Command: command, Payload: payload})
}

// sendControl queues a base message at once.
func (p *Peer) sendControl(m Message) error {
	err := p.queue.pushControl(p.queued(m))
	if errors.Is(err, errQueueFull) {
		p.end(ErrSlowPeer, endCut)
		return ErrSlowPeer
	}
	return err
}

// An endMode says how a connection ends.
type endMode uint8

const (
	endFlush endMode = iota // what is queued still goes out, then as endFrame (ST-07)
	endFrame                // the frame in hand goes out whole, then the stream is closed
	endCut                  // at once: the peer does not read, or is gone
)

// end closes the connection. The first cause stays; a later endCut hurries.
func (p *Peer) end(cause error, mode endMode) {
	p.mu.Lock()
	first := !p.ended
	if first || mode == endCut && !p.cut {
		p.ended = true
		p.cut = mode == endCut
		p.closeBy = time.Now()
		if !p.cut {
			p.closeBy = p.closeBy.Add(closeGrace)
		}
		_ = p.conn.SetDeadline(p.closeBy) // a dead connection's error shows in reads and writes
	}
	p.mu.Unlock()
	if first {
		p.cancel(cause)
	}
	p.queue.close(cause, mode == endFlush)
}

// setReadDeadline and setWriteDeadline give way to the end's deadline.
func (p *Peer) setReadDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		t = p.closeBy
	}
	return p.conn.SetReadDeadline(t)
}

func (p *Peer) setWriteDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		t = p.closeBy
	}
	return p.conn.SetWriteDeadline(t)
}

// Close ends the connection between frames, with a cause. What is queued is dropped.
func (p *Peer) Close(cause error) {
	if cause == nil {
		cause = ErrDone
	}
	p.end(cause, endFrame)
}

// Ban black-lists the peer's address as the network does, and closes. force:
// under every ban policy.
func (p *Peer) Ban(force bool, cause error) {
	if cause == nil {
		cause = ErrDone
	}
	if force || p.node.cfg.BanPolicy == BanStrict {
		if p.node.hosts.ban(p.url, p.session == SessionInbound, p.node.cfg.Now()) {
			p.node.stats.bans.Add(1)
		}
	}
	p.end(cause, endFrame)
}

// A busyClock tells the pinger whether the reader is inside a frame or a handler.
type busyClock struct {
	mu   sync.Mutex
	busy bool
}

func (b *busyClock) set(busy bool) {
	b.mu.Lock()
	b.busy = busy
	b.mu.Unlock()
}

func (b *busyClock) get() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.busy
}
