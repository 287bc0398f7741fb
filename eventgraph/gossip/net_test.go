package gossip

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// A node is a graph and a Gossip in a bubble, with connections made of fakePeers.
type node struct {
	t      *testing.T
	graph  *eventgraph.Graph
	store  *faultyGraph
	gossip *Gossip
	skew   time.Duration

	mu       sync.Mutex
	receipts []eventgraph.Receipt
	arrivals []eventgraph.Arrival
}

// A faultyGraph is a graph whose Insert may be made to fail or wait.
type faultyGraph struct {
	batches atomic.Int64 // of puts, while insert is set
	*eventgraph.Graph
	insert atomic.Pointer[func() error]
}

func (f *faultyGraph) Insert(ctx context.Context, slot eventgraph.Slot, events []eventgraph.Event, src eventgraph.Source) ([]eventgraph.ID, error) {
	if fn := f.insert.Load(); fn != nil {
		if err := (*fn)(); err != nil {
			return nil, err
		}
	}
	return f.Graph.Insert(ctx, slot, events, src)
}

// InsertValid is hooked for puts only: they come through it, as syncs do.
func (f *faultyGraph) InsertValid(ctx context.Context, slot eventgraph.Slot, events []eventgraph.Event, src eventgraph.Source) ([]eventgraph.ID, []eventgraph.Refusal, error) {
	if fn := f.insert.Load(); fn != nil && src == eventgraph.SourcePut {
		f.batches.Add(1)
		if err := (*fn)(); err != nil {
			return nil, nil, err
		}
	}
	return f.Graph.InsertValid(ctx, slot, events, src)
}

var connIDs atomic.Uint64

// newNode runs a node until the test ends.
func newNode(t *testing.T, change func(*Config, *node)) *node {
	t.Helper()
	n := &node{t: t}
	cfg := Config{}
	if change != nil {
		change(&cfg, n)
	}
	cfg.Now = func() time.Time { return time.Now().Add(n.skew) }
	g, err := eventgraph.OpenMemory(eventgraph.Config{Params: testParams, Now: cfg.Now})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err = cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	n.graph, n.store = g, &faultyGraph{Graph: g}
	n.gossip = newGossip(cfg, n.store)
	g.ObserveReceipts(func(r eventgraph.Receipt) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.receipts = append(n.receipts, r)
	})
	g.OnCommit(func(a eventgraph.Arrival) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.arrivals = append(n.arrivals, a)
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = n.gossip.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// synced is a node that is synced from the start.
func synced(c *Config, _ *node) { c.SkipSync = true }

// publish makes a local event and returns it.
func (n *node) publish(content string) eventgraph.Event {
	n.t.Helper()
	e, err := n.graph.Publish(n.t.Context(), []byte(content))
	if err != nil {
		n.t.Fatal(err)
	}
	return e
}

// insert stores an event as if it had been fetched.
func (n *node) insert(slot eventgraph.Slot, events ...eventgraph.Event) {
	n.t.Helper()
	if _, err := n.graph.Insert(n.t.Context(), slot, events, eventgraph.SourceSync); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) has(id eventgraph.ID) bool {
	_, _, err := n.graph.Find(id)
	return err == nil
}

// statuses lists the results that came for id, in order.
func (n *node) statuses(id eventgraph.ID) (list []eventgraph.Result) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.receipts {
		if r.ID == id {
			list = append(list, r.Result)
		}
	}
	return list
}

// A fakePeer is one end of a connection: what a node's conn sends to, and what
// records what that costs.
type fakePeer struct {
	id       p2p.ConnID
	session  p2p.Session
	features map[string]uint32
	since    time.Time
	ctx      context.Context
	cancel   context.CancelCauseFunc
	out      chan p2p.Message

	banned atomic.Bool
	forced atomic.Bool
	stall  atomic.Bool  // the writer does not take anything
	room   atomic.Int32 // the most that there is for an answer, 0: as much as it likes
}

func newFakePeer(ctx context.Context, session p2p.Session, features map[string]uint32) *fakePeer {
	f := &fakePeer{
		id: p2p.ConnID(connIDs.Add(1)), session: session, features: features,
		since: time.Now(), out: make(chan p2p.Message, 64),
	}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	return f
}

func (f *fakePeer) ID() p2p.ConnID       { return f.id }
func (f *fakePeer) Session() p2p.Session { return f.session }
func (f *fakePeer) Since() time.Time     { return f.since }
func (f *fakePeer) Feature(name string) (uint32, bool) {
	v, ok := f.features[name]
	return v, ok
}

func (f *fakePeer) Send(ctx context.Context, m p2p.Message) error {
	select {
	case f.out <- m:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-f.ctx.Done():
		return context.Cause(f.ctx)
	}
}

// SendLazy makes nothing before there is room.
func (f *fakePeer) SendLazy(ctx context.Context, command string, atMost int, make func(room int) ([]byte, error)) error {
	if err := f.stalled(ctx); err != nil {
		return err
	}
	room := atMost
	if n := int(f.room.Load()); n > 0 {
		room = min(room, n)
	}
	payload, err := make(room)
	if err == nil && len(payload) > room {
		payload, err = make(len(payload))
	}
	if err == nil && len(payload) > atMost {
		err = p2p.ErrTooLarge
	}
	if err != nil {
		return err
	}
	return f.Send(ctx, p2p.Message{Command: command, Payload: payload})
}

// SendPieces fills them oddly cut.
func (f *fakePeer) SendPieces(ctx context.Context, command string, make func() (p2p.Pieces, error)) error {
	if err := f.stalled(ctx); err != nil {
		return err
	}
	pieces, err := make()
	if err != nil {
		return err
	}
	payload := bytes.Repeat([]byte{0xff}, pieces.Size)
	for at := 0; at < len(payload); {
		n := min(len(payload)-at, 1+at%1000)
		pieces.Fill(payload[at:at+n], at)
		at += n
	}
	return f.Send(ctx, p2p.Message{Command: command, Payload: payload})
}

// stalled waits while the peer does not read.
func (f *fakePeer) stalled(ctx context.Context) error {
	for f.stall.Load() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		case <-time.After(time.Second):
		}
	}
	return nil
}

func (f *fakePeer) Close(cause error) { f.cancel(cause) }

func (f *fakePeer) Ban(force bool, cause error) {
	f.banned.Store(true)
	f.forced.Store(force)
	f.cancel(cause)
}

// attach makes the handler of this end. run runs it until the connection ends, and
// hands what it sends to deliver, in order. read is the reader: it enforces the
// table's bounds as the node does.
func (f *fakePeer) attach(n *node) (run func(running *sync.WaitGroup, deliver func(command string, payload []byte)), read func(command string, payload []byte)) {
	c := n.gossip.newConn(f)
	return func(running *sync.WaitGroup, deliver func(string, []byte)) { f.run(c, running, deliver) }, f.reader(n, c)
}

func (f *fakePeer) run(c *conn, running *sync.WaitGroup, deliver func(command string, payload []byte)) {
	running.Go(func() {
		err := c.Run(f.ctx)
		f.cancel(err)
	})
	running.Go(func() {
		for {
			select {
			case m := <-f.out:
				for f.stall.Load() && f.ctx.Err() == nil {
					select {
					case <-f.ctx.Done():
					case <-time.After(time.Second):
					}
				}
				if f.ctx.Err() == nil {
					deliver(m.Command, m.Payload)
				}
				if m.Written != nil {
					m.Written(context.Cause(f.ctx))
				}
			case <-f.ctx.Done():
				for {
					select {
					case m := <-f.out:
						if m.Written != nil {
							m.Written(context.Cause(f.ctx))
						}
					default:
						return
					}
				}
			}
		}
	})
}

func (f *fakePeer) reader(n *node, c *conn) func(command string, payload []byte) {
	protocol := n.gossip.Protocol()
	return func(command string, payload []byte) {
		if f.ctx.Err() != nil {
			return
		}
		for _, cmd := range protocol.Commands {
			if cmd.Name != command {
				continue
			}
			if len(payload) > c.MaxPayload(command) {
				if len(payload) > cmd.Skip {
					f.cancel(p2p.ErrTooLarge)
					return
				}
				c.Skipped(command, uint64(len(payload)))
				return
			}
			if err := c.Handle(command, payload); err != nil {
				if fault, ok := errors.AsType[*p2p.Fault](err); ok && fault.Ban {
					f.banned.Store(true)
				}
				f.cancel(err)
			}
			return
		}
		f.banned.Store(true)
		f.cancel(p2p.ErrUnknownCommand)
	}
}

// A link is a connection of two nodes.
type link struct {
	a, b    *fakePeer
	latency time.Duration
	drop    atomic.Bool // loses everything: a partition that TCP has not noticed yet
}

func (l *link) close() { l.a.cancel(p2p.ErrDisconnected) }

// connect joins two nodes: a dials b.
func connect(t *testing.T, a, b *node) *link {
	t.Helper()
	l := &link{latency: 10 * time.Millisecond}
	ctx, cancel := context.WithCancelCause(t.Context())
	features := func(n *node) map[string]uint32 { return n.gossip.Features() }
	l.a = newFakePeer(ctx, p2p.SessionOutbound, features(b))
	l.b = newFakePeer(ctx, p2p.SessionInbound, features(a))
	// One end takes the other with it.
	context.AfterFunc(l.a.ctx, func() { l.b.cancel(p2p.ErrDisconnected) })
	context.AfterFunc(l.b.ctx, func() { l.a.cancel(p2p.ErrDisconnected) })
	var running sync.WaitGroup
	type frame struct {
		command string
		payload []byte
		at      time.Time
	}
	pipe := func(to *fakePeer, read func(string, []byte)) func(string, []byte) {
		ch := make(chan frame, 1024)
		running.Go(func() {
			for {
				select {
				case f := <-ch:
					time.Sleep(time.Until(f.at))
					read(f.command, f.payload)
				case <-to.ctx.Done():
					return
				}
			}
		})
		return func(command string, payload []byte) {
			if l.drop.Load() {
				return
			}
			select {
			case ch <- frame{command, payload, time.Now().Add(l.latency)}:
			case <-to.ctx.Done():
			}
		}
	}
	runA, readA := l.a.attach(a)
	runB, readB := l.b.attach(b)
	toA, toB := pipe(l.a, readA), pipe(l.b, readB)
	runA(&running, toB)
	runB(&running, toA)
	t.Cleanup(func() {
		cancel(p2p.ErrShutdown)
		running.Wait()
	})
	return l
}

// A puppet is a peer whose every word the test says.
type puppet struct {
	*fakePeer
	t    *testing.T
	n    *node
	say  func(command string, payload []byte)
	mu   sync.Mutex
	got  []p2p.Message
	hear func(command string, payload []byte) // called for each message, before it is recorded
}

// newPuppet connects a puppet to n. hear, which may be nil, answers.
func newPuppet(t *testing.T, n *node, session p2p.Session, capable bool, hear func(p *puppet, command string, payload []byte)) *puppet {
	t.Helper()
	features := map[string]uint32{}
	if capable {
		features[FeatureStatus] = 1
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	p := &puppet{t: t, n: n, fakePeer: newFakePeer(ctx, session, features)}
	if hear != nil {
		p.hear = func(command string, payload []byte) { hear(p, command, payload) }
	}
	var running sync.WaitGroup
	run, read := p.attach(n)
	p.say = read
	run(&running, func(command string, payload []byte) {
		p.mu.Lock()
		p.got = append(p.got, p2p.Message{Command: command, Payload: payload})
		p.mu.Unlock()
		if p.hear != nil {
			p.hear(command, payload)
		}
	})
	t.Cleanup(func() {
		cancel(p2p.ErrShutdown)
		running.Wait()
	})
	synctest.Wait()
	return p
}

// put pushes events.
func (p *puppet) put(events ...eventgraph.Event) {
	for _, e := range events {
		p.say(CmdEventPut, EventPut{Event: e}.AppendTo(nil))
	}
	synctest.Wait()
}

// count is how many messages came.
func (p *puppet) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.got)
}

// heard lists what came of one command, decoded.
func heard[M any](p *puppet, command string) (list []M) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.got {
		if m.Command != command {
			continue
		}
		v, err := decode(m.Command, m.Payload)
		if err != nil {
			p.t.Errorf("%s does not decode: %v", command, err)
			continue
		}
		list = append(list, v.(M))
	}
	return list
}

// answers lists the results told for id.
func (p *puppet) answers(id eventgraph.ID) (list []eventgraph.Result) {
	for _, s := range heard[eventgraph.Status](p, CmdEventPutStatus) {
		if s.ID == id {
			list = append(list, s.Result)
		}
	}
	return list
}

// wantAnswer fails unless exactly the given results were told for id.
func (p *puppet) wantAnswer(e eventgraph.Event, want ...eventgraph.Result) {
	p.t.Helper()
	got := p.answers(e.ID())
	if !slices.Equal(got, want) {
		p.t.Errorf("told %v, want %v", got, want)
	}
}

// wantStrikes fails unless the node has counted so many strikes, in all.
func (n *node) wantStrikes(want int64) {
	n.t.Helper()
	if got := n.gossip.stats.strikes.Load(); got != want {
		n.t.Errorf("%d strikes, want %d", got, want)
	}
}

// child makes an event on top of parents, stamped now by the bubble's clock.
func (n *node) child(content string, parents ...eventgraph.Event) eventgraph.Event {
	now := uint64(time.Now().UnixMilli())
	slot := testParams.SlotAt(time.Now())
	e := eventgraph.Event{Content: []byte(content)}
	e.Timestamp, e.ContentHash, e.Layer = now, eventgraph.HashContent(e.Content), 1
	if len(parents) == 0 {
		genesis := testParams.GenesisOf(slot)
		e.Parents[0] = genesis.ID()
	}
	for i, p := range parents {
		e.Parents[i] = p.ID()
		e.Layer = max(e.Layer, p.Layer+1)
	}
	return e
}

// bubble runs fn in fake time, a minute and more after a slot's start.
func bubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(10 * time.Minute)
		fn(t)
	})
}

// rest lets d pass, and everything that happens then come to rest.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
