package ircd

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/arrival"
	"hearsay/internal/box"
	"hearsay/internal/privmsg"
)

// fakeGraph keeps the promises of Log that a Server relies on.
type fakeGraph struct {
	mu       sync.Mutex
	arrivals []eventgraph.Arrival
	pruned   int // arrivals that are not yielded any more
	changed  chan struct{}
	fail     error
	read     int
	own      func(eventgraph.ID) (Accepted, bool)
	keys     *Keys
}

func newFakeGraph() *fakeGraph { return &fakeGraph{changed: make(chan struct{})} }

// Read yields own messages with the event, under what own calls them.
func (g *fakeGraph) Read(from arrival.Seq, limit int) (page []Arrival, next arrival.Seq, err error) {
	g.mu.Lock()
	start := max(int(from), g.pruned)
	g.read = max(g.read, start)
	batch, fail := slices.Clone(g.arrivals[start:min(len(g.arrivals), start+limit)]), g.fail
	g.mu.Unlock()
	next = from
	for _, in := range batch {
		next = arrival.Seq(in.Seq)
		a := Arrival{
			Seq: next, Came: in.Time, Own: in.Source == eventgraph.SourceLocal, ID: in.Event.ID().String(),
			Time: earlier(msTime(in.Event.Timestamp), in.Time), Content: in.Event.Content, Event: in.Event.ID(),
		}
		if g.own != nil {
			if acc, ok := g.own(a.Event); ok {
				a.Own, a.ID, a.Time = true, acc.ID, acc.Time
			}
		}
		page = append(page, a)
	}
	if len(batch) == 0 && fail != nil {
		return nil, from, fail
	}
	return page, next, nil
}

func (g *fakeGraph) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// reads is how many arrivals somebody has gone past.
func (g *fakeGraph) reads() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.read
}

func (g *fakeGraph) Last() (arrival.Seq, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pruned == len(g.arrivals) {
		return 0, nil
	}
	return arrival.Seq(len(g.arrivals)), nil
}

func (g *fakeGraph) Complete() bool { return true }

func (g *fakeGraph) insert(content []byte, src eventgraph.Source, at time.Time) eventgraph.Event {
	g.mu.Lock()
	defer g.mu.Unlock()
	seq := len(g.arrivals) + 1
	e := eventgraph.Event{Content: content}
	e.Timestamp = uint64(at.UnixMilli())
	e.ContentHash = eventgraph.HashContent(content)
	binary.BigEndian.PutUint64(e.Parents[0][:], uint64(seq)) // every event is another one
	g.arrivals = append(g.arrivals, eventgraph.Arrival{
		Seq: eventgraph.Seq(seq), Source: src, Time: time.Now(), Event: e,
	})
	close(g.changed)
	g.changed = make(chan struct{})
	return e
}

// hear makes an event of somebody on the network.
func (g *fakeGraph) hear(m privmsg.Message) eventgraph.Event {
	return g.insert(m.AppendTo(nil), eventgraph.SourcePut, time.Now())
}

func (g *fakeGraph) say(channel, nick, text string) eventgraph.Event {
	return g.hear(privmsg.Message{Channel: channel, Nick: nick, Text: text})
}

// contents are all messages in the graph.
func (g *fakeGraph) contents(t testing.TB) (all []privmsg.Message) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.arrivals {
		m, err := privmsg.Decode(a.Event.Content)
		if err != nil {
			t.Error(err)
		}
		all = append(all, m)
	}
	return all
}

// fakeOutbox is a queue: it accepts, and materialises when the test says so.
type fakeOutbox struct {
	graph *fakeGraph
	keys  *Keys
	delay time.Duration // of Accept

	mu      sync.Mutex
	n       int
	queue   []queued
	logical map[eventgraph.ID]Accepted
	err     error // of Accept
	eager   bool  // materialise before Accept returns
}

type queued struct {
	m   Message
	acc Accepted
}

func (o *fakeOutbox) Accept(ctx context.Context, parts []Message) ([]Accepted, error) {
	o.mu.Lock()
	err := o.err
	var all []Accepted
	if err == nil {
		for _, m := range parts {
			// An outbox keeps bytes.
			back, derr := DecodeMessage(m.AppendTo(nil))
			if derr != nil {
				panic(derr)
			}
			o.n++
			acc := Accepted{ID: fmt.Sprintf("logical%d", o.n), Time: time.Now()}
			o.queue = append(o.queue, queued{back, acc})
			all = append(all, acc)
		}
	}
	eager := o.eager
	o.mu.Unlock()
	if eager {
		o.materialise(nil)
	}
	if o.delay > 0 {
		select {
		case <-time.After(o.delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return all, err
}

func (o *fakeOutbox) Logical(id eventgraph.ID) (Accepted, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	acc, ok := o.logical[id]
	return acc, ok
}

// materialise makes a generation of everything in the queue, and keeps the queue.
func (o *fakeOutbox) materialise(t testing.TB) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range o.queue {
		content, err := o.keys.Materialise(q.m.AppendTo(nil))
		if err != nil {
			if t == nil {
				panic(err)
			}
			t.Error(err)
			continue
		}
		// Known before it is visible (DS-71).
		o.graph.mu.Lock()
		e := eventgraph.Event{Content: content}
		e.Timestamp = uint64(time.Now().UnixMilli())
		e.ContentHash = eventgraph.HashContent(content)
		binary.BigEndian.PutUint64(e.Parents[0][:], uint64(len(o.graph.arrivals)+1))
		o.graph.mu.Unlock()
		o.logical[e.ID()] = q.acc
		o.graph.insert(content, eventgraph.SourceLocal, time.Now())
	}
}

type fakeNetwork struct {
	mu sync.Mutex
	st NetworkState
}

func (n *fakeNetwork) State() NetworkState {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.st
}

func (n *fakeNetwork) set(st NetworkState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.st = st
}

// pipeListener is a listener without a network.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// harness is a running server in a bubble of fake time.
type harness struct {
	t      *testing.T
	server *Server
	graph  *fakeGraph
	outbox *fakeOutbox
	lis    *pipeListener
	cancel context.CancelFunc
}

// serve runs a server in a bubble, which fails on every goroutine that is left. change
// may set up the configuration and the graph's past.
func serve(t *testing.T, change func(*Config, *fakeGraph), test func(h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGraph()
		keys := new(Keys)
		o := &fakeOutbox{graph: g, keys: keys, logical: map[eventgraph.ID]Accepted{}}
		g.own, g.keys = o.Logical, keys
		cfg := Config{Log: g, Outbox: o, Keys: keys}
		if change != nil {
			change(&cfg, g)
		}
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		h := &harness{t: t, server: s, graph: g, outbox: o, lis: newPipeListener()}
		s.AddListener(h.lis)
		ctx, cancel := context.WithCancel(t.Context())
		h.cancel = cancel
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		synctest.Wait()
		test(h)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// testClient is a black box on the other side of a connection.
type testClient struct {
	t    testing.TB
	conn net.Conn
	name string

	mu     sync.Mutex
	lines  []string
	closed bool
}

func (h *harness) dial() *testClient {
	h.t.Helper()
	mine, theirs := net.Pipe()
	h.lis.conns <- theirs
	c := &testClient{t: h.t, conn: mine}
	go func() {
		r := bufio.NewReader(mine)
		for {
			l, err := r.ReadString('\n')
			c.mu.Lock()
			if l != "" && !errors.Is(err, io.ErrClosedPipe) { // half a line, where the test closed the connection
				c.check(l)
				c.lines = append(c.lines, strings.TrimSuffix(l, "\r\n"))
			}
			c.closed = err != nil
			c.mu.Unlock()
			if err != nil {
				mine.Close()
				return
			}
		}
	}()
	synctest.Wait()
	return c
}

// check is what holds for every line that a server sends.
func (c *testClient) check(l string) {
	body := l
	if strings.HasPrefix(l, "@") {
		_, body, _ = strings.Cut(l, " ")
		if len(l)-len(body) > 8191 { // IRCv3 message-tags
			c.t.Errorf("%d bytes of tags", len(l)-len(body))
		}
	}
	switch {
	case !strings.HasSuffix(l, "\r\n"), strings.ContainsAny(strings.TrimSuffix(l, "\r\n"), "\r\n\x00"):
		c.t.Errorf("not one line: %q", l)
	case len(body) > 512:
		c.t.Errorf("line of %d bytes: %q", len(body), l)
	case strings.ToValidUTF8(l, "?") != l:
		c.t.Errorf("not UTF-8: %q", l)
	}
	words := strings.Fields(body)
	if head, _, _ := strings.Cut(strings.TrimPrefix(body, ":"), " :"); len(strings.Fields(head)) > 15 {
		c.t.Errorf("%d words: %q", len(words), l)
	}
}

// send writes lines.
func (c *testClient) send(lines ...string) {
	for _, l := range lines {
		if _, err := c.conn.Write([]byte(l + "\r\n")); err != nil {
			c.t.Logf("%s: %v", c.name, err)
			return
		}
	}
}

// got waits until nothing moves any more and returns what came since.
func (c *testClient) got() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := c.lines
	c.lines = nil
	return lines
}

// do sends lines and returns the answer.
func (c *testClient) do(lines ...string) []string {
	c.t.Helper()
	c.send(lines...)
	return c.got()
}

func (c *testClient) isClosed() bool {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// register connects a client with capabilities, and forgets the welcome.
func (h *harness) register(nick string, caps ...string) *testClient {
	h.t.Helper()
	c := h.dial()
	c.name = nick
	c.send("CAP LS 302")
	if len(caps) > 0 {
		c.send("CAP REQ :" + strings.Join(caps, " "))
	}
	c.send("NICK "+nick, "USER "+nick+" 0 * :Real "+nick, "CAP END")
	if lines := c.got(); !has(lines, " 001 "+nick+" ") {
		h.t.Fatalf("%s did not register: %q", nick, lines)
	}
	return c
}

// join registers a client and joins channels.
func (h *harness) join(nick, channels string, caps ...string) *testClient {
	h.t.Helper()
	c := h.register(nick, caps...)
	if lines := c.do("JOIN " + channels); !has(lines, " 366 ") {
		h.t.Fatalf("%s did not join: %q", nick, lines)
	}
	return c
}

func has(lines []string, part string) bool { return find(lines, part) >= 0 }

func find(lines []string, part string) int {
	return slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, part) })
}

func count(lines []string, part string) (n int) {
	for _, l := range lines {
		if strings.Contains(l, part) {
			n++
		}
	}
	return n
}

// want checks that lines are exactly these.
func want(t testing.TB, lines []string, exact ...string) {
	t.Helper()
	if !slices.Equal(lines, exact) {
		t.Errorf("got  %q\nwant %q", lines, exact)
	}
}

// wantPart checks that one line contains part.
func wantPart(t testing.TB, lines []string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !has(lines, p) {
			t.Errorf("no line with %q in %q", p, lines)
		}
	}
}

func wantNone(t testing.TB, lines []string, part string) {
	t.Helper()
	if i := find(lines, part); i >= 0 {
		t.Errorf("unwanted line %q", lines[i])
	}
}

// texts are the free texts of all lines with command.
func texts(lines []string, command string) (all []string) {
	for _, l := range lines {
		if strings.HasPrefix(l, "@") {
			_, l, _ = strings.Cut(l, " ")
		}
		if head, text, ok := strings.Cut(l, " :"); ok && strings.Contains(head, " "+command+" ") {
			all = append(all, text)
		}
	}
	return all
}

func secretKey(t testing.TB, s string) box.SecretKey {
	t.Helper()
	k, err := box.ParseSecret(s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// people are two keyrings' worth of settings: ours, and those of Bob, who is on the
// network.
func people(t testing.TB) (ours, bobs Settings) {
	a := secretKey(t, "4wBqpZM9xaSheZzJSMawUKKwhdpChKbZ5eu5ky4Vigw")
	b := secretKey(t, "3ELeRTTg5W5hAYaEFznzFV1jknNFkjHqS8ytwvQEQP1Z")
	c := secretKey(t, "Bwdhe48rKsqFwGUquQSSGZZS5NQP1szrdJUhyDE77Br6")
	ours = Settings{
		Channels: []Channel{{Name: "#secret", Secret: c}, {Name: "#Dev", Topic: "about dev"}},
		Contacts: []Contact{{Label: "Bob", Public: b.Public(), Secret: a}},
	}
	bobs = Settings{
		Channels: []Channel{{Name: "#secret", Secret: c}},
		Contacts: []Contact{{Label: "us", Public: a.Public(), Secret: b}},
	}
	return ours, bobs
}

// seal makes a message as somebody with settings st would.
func seal(t testing.TB, st Settings, name, nick, text string) privmsg.Message {
	t.Helper()
	ring, err := st.keyring()
	if err != nil {
		t.Fatal(err)
	}
	kind, spelling, print, ok := ring.Lookup(name)
	if !ok {
		t.Fatalf("%s is nothing", name)
	}
	m, err := ring.Seal(privmsg.Sealed{Kind: kind, Name: spelling, Fingerprint: print}, nick, text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
