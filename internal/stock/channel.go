package stock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"hearsay/p2p"
)

// Reasons for which a channel ends, apart from rules broken by the other side.
var (
	errStopped  = errors.New("stock: stopped")
	errSend     = errors.New("stock: write failed")
	errDone     = errors.New("stock: exchange is over")
	errBlack    = errors.New("stock: black-listed")
	errTimedOut = errors.New("stock: no answer")
)

// closeGrace is how long a frame in hand may take when the channel closes.
const closeGrace = 2 * time.Second

// A channel is one connection.
type channel struct {
	peer    *Peer
	conn    net.Conn
	session Session
	url     p2p.URL // canonical address; for inbound the source address

	ctx   context.Context // ends with the channel
	stop  context.CancelCauseFunc
	write chan struct{} // holds a token while nobody writes

	mu         sync.Mutex // guards everything below; never held while waiting
	table      map[string]*dispatcher
	limit      int // sum of the thresholds
	subs       map[string][]*queue
	sendMeters map[string][]time.Time
	strikes    int
	version    *versionMessage // of the other side
	verack     bool
	pinging    bool // a pong is due
	asked      int  // addresses asked for
	puts       []time.Time
	relays     *queue // events to pass on
	outbox     *queue // shares of broadcasts
	deaf       bool   // the outbox is no longer read
}

// Serve runs one connection on conn until it ends or ctx does. url is the address
// that was dialed, or for Inbound the other end's.
func (p *Peer) Serve(ctx context.Context, conn net.Conn, session Session, url p2p.URL) error {
	c := &channel{
		peer: p, conn: conn, session: session, url: url,
		write: make(chan struct{}, 1),
		table: dispatchers(session), subs: map[string][]*queue{}, sendMeters: map[string][]time.Time{},
		relays: newQueue(), outbox: newQueue(),
	}
	c.write <- struct{}{}
	for command, d := range c.table {
		c.limit += d.threshold
		if !isReply(command) {
			d.queue = newQueue()
		}
	}
	c.ctx, c.stop = context.WithCancelCause(ctx)
	defer c.stop(errStopped)

	p.mu.Lock()
	p.all[c] = true
	p.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(c.readLoop)
	wg.Go(c.closeWhenDone)
	if c.handshake() {
		c.register(&wg)
	}
	<-c.ctx.Done()
	c.unregister()
	wg.Wait()
	return context.Cause(c.ctx)
}

func isReply(command string) bool {
	switch command {
	case cmdEventRep, cmdHeaderRep, cmdTipRep, cmdRangeRep:
		return true
	}
	return false
}

// closeWhenDone closes the connection between frames.
func (c *channel) closeWhenDone() {
	<-c.ctx.Done()
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-c.write:
	case <-timer.C:
	}
	_ = c.conn.Close()
}

// readLoop delivers frames until the connection ends.
func (c *channel) readLoop() {
	r := newFrameReader(c.conn)
	for {
		command, err := r.header(c.session == Outbound)
		if err != nil {
			if !c.fault(err) {
				return
			}
			c.stop(err) // the stream is over, on a refine channel too
			return
		}
		d := c.table[command]
		if d == nil {
			fe := &frameError{RuleUnknownCommand, Ban, Silent, fmt.Errorf("%q", command)}
			if !c.fault(fe) {
				return
			}
			continue // refine: the payload is not skipped
		}
		value, trailing, err := r.payload(d)
		if err != nil {
			if !c.fault(err) {
				return
			}
			if _, ok := errors.AsType[net.Error](err); ok {
				c.stop(errEnd)
				return
			}
			continue
		}
		if trailing > 0 {
			c.violation(RuleTrailing, Silent, "%s with %d bytes too many", command, trailing)
		}
		if !c.deliver(command, d, value) {
			return
		}
	}
}

// fault records a defect of the stream and does what it costs. It is true where
// reading goes on: nothing of it counts on a refine channel.
func (c *channel) fault(err error) bool {
	fe, ok := errors.AsType[*frameError](err)
	if !ok || c.ctx.Err() != nil { // a clean end, or our own closing
		c.stop(err)
		return false
	}
	cost := fe.cost
	if c.session == Refine {
		cost = fe.refine
	}
	c.costs(fe.rule, cost, "%v", fe.err)
	return cost == Silent
}

// costs records a violation and closes or bans.
func (c *channel) costs(rule Rule, cost Cost, format string, args ...any) {
	effective := cost
	if cost == Ban && c.peer.cfg.Relaxed && rule != RuleFlood {
		effective = Close
	}
	c.violation(rule, effective, format, args...)
	if effective == Ban {
		c.peer.ban(c)
	}
	if effective >= Close {
		c.stop(fmt.Errorf("stock: %s", rule))
	}
}

// deliver meters a message and hands it on. It is false where reading ends.
func (c *channel) deliver(command string, d *dispatcher, value any) bool {
	now := c.peer.cfg.Now()
	c.observe(command, value)
	c.peer.count(func(n *Counts) { n.Received++ })
	c.mu.Lock()
	m := message{value: value, delay: meterAdd(&d.meter, d.threshold, now)}
	subs := c.subs[command]
	for _, q := range subs {
		q.put(m)
	}
	if d.queue != nil {
		d.queue.put(m)
	}
	sum := 0
	for _, d := range c.table {
		d.meter = meterTrim(d.meter, now)
		sum += len(d.meter)
	}
	c.mu.Unlock()
	if isReply(command) && len(subs) == 0 {
		c.violation(RuleUnsolicited, Silent, "%s", command)
	}
	if sum > c.limit {
		cost := Ban
		if c.session == Refine {
			cost = Silent
		}
		c.costs(RuleMetering, cost, "%d", sum)
		return cost == Silent
	}
	return true
}

// observe notes what upstream takes without a word, but should not be sent.
func (c *channel) observe(command string, value any) {
	c.mu.Lock()
	early := c.version == nil || !c.verack
	second := false
	switch command {
	case cmdVersion:
		early, second = false, c.version != nil
		if !second {
			c.version, _ = value.(*versionMessage)
		}
	case cmdVerack:
		early, second = false, c.verack
		c.verack = true
	}
	pong := command == cmdPong && !c.pinging
	if command == cmdPong {
		c.pinging = false
	}
	asked := c.asked
	c.mu.Unlock()

	if early {
		c.violation(RuleEarly, Silent, "%s", command)
	}
	if second {
		c.violation(RuleSecondHandshake, Silent, "%s", command)
	}
	if pong {
		c.violation(RulePong, Silent, "unsolicited")
	}
	switch m := value.(type) {
	case *versionMessage:
		c.noteURLs(m.notCanonical)
	case *addrMessage:
		c.noteURLs(m.notCanonical)
		if n := len(m.entries); n > 2*asked+10 {
			c.violation(RuleAddrMany, Silent, "%d", n)
		}
	}
	if command == cmdHeaderPut {
		c.violation(RuleHeaderPut, Silent, "")
	}
}

func (c *channel) noteURLs(texts []string) {
	for _, s := range texts {
		c.violation(RuleURL, Silent, "%s", s)
	}
}

// send writes one frame, slowed down as upstream slows itself down.
func (c *channel) send(command string, payload []byte) error {
	c.mu.Lock()
	meter := c.sendMeters[command]
	delay := 2 * meterAdd(&meter, c.table[command].threshold, c.peer.cfg.Now())
	c.sendMeters[command] = meter
	c.mu.Unlock()
	if !c.sleep(delay) {
		return errStopped
	}
	select {
	case <-c.write:
	case <-c.ctx.Done():
		return errStopped
	}
	defer func() { c.write <- struct{}{} }()
	if c.ctx.Err() != nil {
		return errStopped
	}
	if _, err := c.conn.Write(AppendFrame(nil, command, payload)); err != nil {
		c.stop(errSend)
		return errSend
	}
	c.peer.count(func(n *Counts) { n.Sent++ })
	return nil
}

// sleep is false if the channel ends first.
func (c *channel) sleep(d time.Duration) bool {
	if d <= 0 {
		return c.ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// next takes a message off a queue and spends its delay. timeout 0 waits for ever.
func (c *channel) next(q *queue, timeout time.Duration) (any, error) {
	var expired <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		expired = timer.C
	}
	for {
		c.mu.Lock()
		m, ok := q.take()
		c.mu.Unlock()
		if ok {
			if !c.sleep(m.delay) {
				return nil, errStopped
			}
			return m.value, nil
		}
		select {
		case <-q.ready:
		case <-expired:
			return nil, errTimedOut
		case <-c.ctx.Done():
			return nil, errStopped
		}
	}
}

// nextOf is next for the command's only subscriber.
func (c *channel) nextOf(command string, timeout time.Duration) (any, error) {
	return c.next(c.table[command].queue, timeout)
}

// request sends and takes the next reply of that type as the answer.
func (c *channel) request(command string, payload []byte, reply string, timeout time.Duration) (any, error) {
	q := newQueue()
	c.mu.Lock()
	c.subs[reply] = append(c.subs[reply], q)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.subs[reply] = slices.DeleteFunc(c.subs[reply], func(o *queue) bool { return o == q })
		c.mu.Unlock()
	}()
	if err := c.send(command, payload); err != nil {
		return nil, err
	}
	return c.next(q, timeout)
}

// strike counts one. It is false where that was the fifth, which ends the handler.
func (c *channel) strike(rule Rule, format string, args ...any) bool {
	c.violation(rule, Strike, format, args...)
	c.peer.mu.Lock()
	c.peer.record.strikes++
	c.peer.mu.Unlock()
	c.mu.Lock()
	c.strikes++
	n := c.strikes
	c.mu.Unlock()
	if n >= 5 {
		c.costs(RuleFifthStrike, Close, "%d", n)
		return false
	}
	return true
}
