package gossip

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// A conn is the protocol on one connection. Its reader (Handle) only decodes and
// queues; five goroutines under Run work: puts in, puts out, relays, requests of the
// peer, comparisons with the peer.
type conn struct {
	g       *Gossip
	p       peer
	id      p2p.ConnID
	session p2p.Session

	telling     chan struct{} // closed once the peer said something that only a full peer says
	tellOnce    sync.Once
	capable     atomic.Bool // announced FeatureStatus; set when Run starts
	running     atomic.Bool // between the handshake and the end
	since       time.Time   // when Run started; valid while running
	warned      atomic.Bool // an undecodable status was told of (DS-03)
	strikes     atomic.Int32
	silent      atomic.Int32 // parent fetches in a row without any answer
	chunk       atomic.Int32 // ids per EventReq while syncing: shrinks where answers do not come
	requests    *requestQueue
	req         *requester
	in          *inbox
	out         *outbox
	relays      *relayQueue
	walked      map[eventgraph.Slot]walked // owner: runCompare
	relayMu     sync.Mutex                 // orders relays; guards the two below
	limiter     limiter
	relaying    bool // runRelays has one in hand or in the queue: others wait behind it
	known       knownSet
	flightMu    sync.Mutex
	flight      map[eventgraph.ID]chan struct{} // puts of this connection in work; closed when done
	fetchTurn   chan struct{}                   // one fetch of ancestors at a time
	flood       window                          // owner: runPuts
	staticFlood window                          // owner: runPuts
}

func (g *Gossip) newConn(p peer) *conn {
	l := &g.cfg.Limits
	c := &conn{
		g: g, p: p, id: p.ID(), session: p.Session(),
		telling:     make(chan struct{}),
		requests:    newRequestQueue(),
		req:         newRequester(g.cfg.RequestTimeout),
		in:          newInbox(),
		relays:      newRelayQueue(l.RelayQueue),
		flight:      make(map[eventgraph.ID]chan struct{}),
		fetchTurn:   make(chan struct{}, 1),
		walked:      make(map[eventgraph.Slot]walked),
		limiter:     limiter{free: l.RelayFree, step: l.RelayStep, span: l.RelaySpan},
		flood:       window{limit: l.FloodPuts, span: l.FloodSpan},
		staticFlood: window{limit: l.FloodPuts, span: l.FloodSpan},
	}
	c.out = newOutbox(window{limit: l.PacePuts, span: l.PaceSpan})
	c.chunk.Store(MaxEventReqIDs)
	return c
}

var (
	_ p2p.Handler = (*conn)(nil)
	_ p2p.Limiter = (*conn)(nil)
	_ p2p.Skipper = (*conn)(nil)
)

// Handle implements [p2p.Handler].
func (c *conn) Handle(name string, payload []byte) error {
	cmd, ok := c.g.commands[name]
	if !ok {
		return errors.New("gossip: command that was never registered")
	}
	if cmd.isRequest && c.requests.full(len(payload)) {
		c.g.stats.droppedRequests.Add(1)
		return nil
	}
	message, err := decode(name, payload)
	if err != nil {
		return c.bad(cmd, err)
	}
	if name != CmdEventPutStatus {
		c.tell() // no seed and no probe speaks this
	}
	if cmd.isReply {
		if !c.req.deliver(cmd.reply, message) {
			c.g.stats.strays.Add(1)
		}
		return nil
	}
	switch m := message.(type) {
	case EventPut:
		c.offer(put{event: m.Event, static: name == CmdStaticPut, arrived: c.g.cfg.Now()})
	case eventgraph.Status:
		c.tell()
		c.status(m)
	case HeaderPut:
		// Reserved.
	default:
		if !c.requests.push(request{name, payload}) {
			c.g.stats.droppedRequests.Add(1)
		}
	}
	return nil
}

// decode reads the payload of any of the twelve messages.
func decode(name string, payload []byte) (any, error) {
	switch name {
	case CmdEventPut, CmdStaticPut:
		return DecodeEventPut(payload)
	case CmdEventReq:
		return DecodeEventReq(payload)
	case CmdEventRep:
		return DecodeEventRep(payload)
	case CmdHeaderPut:
		return DecodeHeaderPut(payload)
	case CmdHeaderReq:
		return DecodeHeaderReq(payload)
	case CmdHeaderRep:
		return DecodeHeaderRep(payload)
	case CmdTipReq:
		return DecodeTipReq(payload)
	case CmdTipRep:
		return DecodeTipRep(payload)
	case CmdRangeReq:
		return DecodeRangeReq(payload)
	case CmdRangeRep:
		return DecodeRangeRep(payload)
	case CmdEventPutStatus:
		return DecodeStatus(payload)
	}
	panic("gossip: no decoder for a command of the table")
}

// bad makes a bad payload cost what the table says.
func (c *conn) bad(cmd command, err error) error {
	price := cmd.malformed
	if errors.Is(err, ErrTooMany) {
		price = cmd.tooMany
	}
	switch price {
	case costStrike:
		c.tell()
		c.strike()
		return nil
	case costIgnore:
		c.req.fail(cmd.reply, errTooLong)
		return nil
	case costWarn:
		c.g.stats.badStatuses.Add(1)
		if !c.warned.Swap(true) {
			c.g.cfg.Logger.Warn("a peer sends statuses that do not decode; they are dropped")
		}
		return nil
	default:
		return badPayload(c.session, err)
	}
}

// Skipped implements [p2p.Skipper]: payloads above their bound that were not read.
func (c *conn) Skipped(name string, _ uint64) {
	c.tell()
	c.g.stats.skipped.Add(1)
	if cmd := c.g.commands[name]; cmd.isReply {
		c.req.fail(cmd.reply, errTooLong)
	}
}

// MaxPayload implements [p2p.Limiter]: replies are read only when asked for.
func (c *conn) MaxPayload(name string) int {
	cmd := c.g.commands[name]
	if !cmd.isReply {
		return cmd.max
	}
	return max(1, c.req.limit(cmd.reply))
}

// Run implements [p2p.Handler].
func (c *conn) Run(ctx context.Context) error {
	if v, ok := c.p.Feature(FeatureStatus); ok && v >= FeatureStatusVersion {
		c.capable.Store(true)
		c.tell() // only full sessions announce it
	}
	c.since = c.p.Since()
	c.running.Store(true)
	c.g.add(c)
	defer c.g.remove(c)

	group, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{
		c.runPuts, c.runOutbox, c.runRelays, c.runServe, c.runCompare,
	} {
		group.Go(func() error { return run(ctx) })
	}
	return group.Wait()
}

// tell notes that the peer is a full one, so that commands may be sent to it.
func (c *conn) tell() { c.tellOnce.Do(func() { close(c.telling) }) }

// takesPuts tells whether commands may be sent to the peer (p2p facts, trap 5): at
// once where we dialed; an inbound one might still be a seed or refine probe.
func (c *conn) takesPuts() bool {
	if !c.running.Load() {
		return false
	}
	if c.session != p2p.SessionInbound {
		return true
	}
	select {
	case <-c.telling:
		return true
	default:
		return time.Since(c.since) >= readyAfter
	}
}

// ready waits until commands may be sent to the peer.
func (c *conn) ready(ctx context.Context) error {
	if c.session != p2p.SessionInbound {
		return nil
	}
	timer := time.NewTimer(readyAfter - time.Since(c.since))
	defer timer.Stop()
	select {
	case <-c.telling:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// strike counts one fault; the fifth closes (facts page, section 4.9). It returns
// false where the connection was closed, so that nothing more is sent (DS-17).
func (c *conn) strike() bool {
	c.g.stats.strikes.Add(1)
	if n := c.strikes.Add(1); n < maxStrikes {
		c.g.cfg.Logger.Debug("a peer broke a rule", "strikes", n)
		return true
	}
	c.g.stats.struckOut.Add(1)
	c.g.cfg.Logger.Info("a peer is disconnected after five strikes")
	c.p.Close(ErrStrikes)
	return false
}

// status publishes a status as it came (DS-20).
func (c *conn) status(s eventgraph.Status) {
	c.g.stats.statusesIn.Add(1)
	if s.Result.Has() {
		c.known.add(s.ID)
	}
	c.g.graph.PublishReceipt(s, eventgraph.Conn(c.id))
}

// answer ends a put: the strike if it earned one, then the status, if the peer
// takes statuses and the connection lives (DS-05, DS-17, DS-80).
func (c *conn) answer(ctx context.Context, id eventgraph.ID, o outcome) error {
	c.g.stats.outcome(o.result)
	if o.strike && !c.strike() {
		return ErrStrikes
	}
	if o.result == 0 || c.g.cfg.NoStatus || !c.capable.Load() {
		return nil
	}
	c.g.stats.statusesOut.Add(1)
	return c.p.Send(ctx, p2p.Message{
		Command: CmdEventPutStatus,
		Payload: AppendStatus(make([]byte, 0, statusSize), eventgraph.Status{ID: id, Result: o.result}),
	})
}
