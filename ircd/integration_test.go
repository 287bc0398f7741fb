package ircd

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/arrival"
	"hearsay/internal/kv"
	"hearsay/internal/privmsg"
	"hearsay/outbound"
)

// A testNode is a server on a real graph, queue and arrival log, with a network that a
// test plays.
type testNode struct {
	*harness
	custody kv.Store
	graph   *eventgraph.Graph
	queue   *outbound.Queue
	worker  *outbound.Worker
	keys    *Keys
	rows    *arrival.Log
	stop    context.CancelFunc
	ended   chan error

	mu      sync.Mutex // guards what follows
	targets int
	puts    []eventgraph.ID
	answer  bool // a peer says that it has each put
	mails   map[arrival.ID]mailed
}

// reach sets how many peers there are, and whether they answer puts.
func (n *testNode) reach(targets int, answer bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.targets, n.answer = targets, answer
}

func (n *testNode) putCount() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.puts)
}

func (n *testNode) Facts() outbound.Facts {
	p, cur := n.graph.Params(), n.graph.Current()
	n.mu.Lock()
	defer n.mu.Unlock()
	return outbound.Facts{Synced: true, Targets: n.targets, Window: outbound.Window{Slot: cur, End: uint64(p.End(cur))}}
}

func (n *testNode) Insert(ctx context.Context, ev eventgraph.Event) error {
	_, err := n.graph.Insert(ctx, n.graph.Current(), []eventgraph.Event{ev}, eventgraph.SourceLocal)
	return err
}

func (n *testNode) Put(_ context.Context, p outbound.Put) int {
	p.To(7)
	n.mu.Lock()
	n.puts = append(n.puts, p.ID)
	answer := n.answer
	n.mu.Unlock()
	if answer {
		n.worker.Observe(eventgraph.Status{ID: p.ID, Result: eventgraph.HasInserted}, 7)
	}
	return 1
}

func (n *testNode) ForeignDescendant(context.Context, []eventgraph.ID) (id eventgraph.ID, found bool, err error) {
	return id, false, nil
}

func (n *testNode) Oldest() eventgraph.Slot { return n.graph.Slots()[0] }

type mailed struct {
	content []byte
	written time.Time
}

// mail is a message of a contact that a mailbox brings.
func (n *testNode) mail(id byte, m privmsg.Message, written time.Time) {
	n.t.Helper()
	content := m.AppendTo(nil)
	n.mu.Lock()
	n.mails[arrival.ID{id}] = mailed{content, written}
	n.mu.Unlock()
	err := n.custody.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error {
		_, err := n.rows.AppendMail(tx, arrival.Origin{ID: arrival.ID{id}}, eventgraph.HashContent(content), PlaceOfMail(n.keys.get(), content, written))
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.rows.Notify()
}

// startNode starts a node on stores that may have a past. The bubble's time goes on.
func startNode(t *testing.T, graph *eventgraph.Graph, custody kv.Store, st Settings, change func(*Config)) *testNode {
	t.Helper()
	n := &testNode{graph: graph, custody: custody, keys: new(Keys), ended: make(chan error, 4), mails: map[arrival.ID]mailed{}}
	rows, err := arrival.Open(custody, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.rows = rows
	n.queue, err = outbound.Open(custody, outbound.Config{Hooks: outbound.Hooks{
		Enqueued: func(tx kv.Txn, e outbound.Entry) error {
			return rows.AppendOwn(tx, arrival.ID(e.ID), uint64(e.Position), e.Enqueued, PlaceOf(e.Payload))
		},
		Generated: func(tx kv.Txn, e outbound.Entry, _ int, g outbound.Generation) error {
			return rows.OwnGeneration(tx, arrival.ID(e.ID), graph.Current(), &g.Event)
		},
		Cancelled: func(tx kv.Txn, _ outbound.Position, id outbound.LogicalID, _ int) error {
			return rows.RemoveOwn(tx, arrival.ID(id))
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	log := NewArrivalLog(ArrivalConfig{Log: rows, Queue: n.queue, Graph: graph, Keys: n.keys, Mail: func(id arrival.ID) ([]byte, time.Time, bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		m, ok := n.mails[id]
		return m.content, m.written, ok
	}})
	sender := &Sender{Queue: n.queue, Keys: n.keys, Graph: graph, Accepted: rows.Notify}
	cfg := Config{Log: log, Outbox: sender, Keys: n.keys, Settings: st}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.worker, err = outbound.NewWorker(n.queue, n, sender, outbound.WorkerConfig{Notify: s.Notify})
	if err != nil {
		t.Fatal(err)
	}
	n.harness = &harness{t: t, server: s, lis: newPipeListener()}
	s.AddListener(n.lis)
	ctx, stop := context.WithCancel(t.Context())
	n.stop = stop
	for _, run := range []func(context.Context) error{s.Run, log.Run, n.worker.Run} {
		go func() { n.ended <- run(ctx) }()
	}
	synctest.Wait()
	return n
}

// end stops the node as a clean end does; the stores stay open.
func (n *testNode) end() {
	n.t.Helper()
	n.stop()
	for range 3 {
		if err := <-n.ended; !errors.Is(err, context.Canceled) {
			n.t.Error(err)
		}
	}
}

func testGraph(t *testing.T) *eventgraph.Graph { return graphOf(t, false) }

func graphOf(t *testing.T, archive bool) *eventgraph.Graph {
	t.Helper()
	params := eventgraph.DarkIRC()
	params.Genesis = eventgraph.Slot(time.Now().Add(-10 * time.Hour).UnixMilli())
	g, err := eventgraph.OpenMemory(eventgraph.Config{Params: params, Archive: archive})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func tag(line, name string) string {
	tags, _, _ := strings.Cut(line, " ")
	for t := range strings.SplitSeq(strings.TrimPrefix(tags, "@"), ";") {
		if v, ok := strings.CutPrefix(t, name+"="); ok {
			return v
		}
	}
	return ""
}

// TestOnRealStores: two nodes, with events carried over as a peer would. A late server
// reads everything from its stores.
func TestOnRealStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, bobs := people(t)
		ours.Contacts[0].Label = "Bob"
		graphs := []*eventgraph.Graph{testGraph(t), testGraph(t)}
		carry := func(from, to *eventgraph.Graph, src eventgraph.Source) {
			t.Helper()
			sub, stop := context.WithCancel(t.Context())
			defer stop()
			for a, err := range from.Subscribe(sub, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if a.Source == eventgraph.SourceLocal {
					if _, err := to.Insert(t.Context(), a.Slot, []eventgraph.Event{a.Event}, src); err != nil {
						t.Fatal(err)
					}
				}
				if a.Seq == from.Last() {
					break
				}
			}
			time.Sleep(time.Second)
		}
		start := func(g *eventgraph.Graph, st Settings) *testNode {
			n := startNode(t, g, kv.OpenMemory(), st, nil)
			n.reach(2, true)
			time.Sleep(time.Minute)
			return n
		}
		one := start(graphs[0], ours)
		a := one.join("alice", "#dev,#secret")
		want(t, a.do("PRIVMSG #dev :hello", "PRIVMSG #secret :psst", "PRIVMSG Bob :direct"))
		carry(graphs[0], graphs[1], eventgraph.SourceSync)

		two := start(graphs[1], bobs)
		b := two.dial()
		b.send("NICK bobby", "USER b 0 * :b", "JOIN #dev,#secret")
		got := b.got()
		wantPart(t, got, ":alice!~net@darkirc PRIVMSG #dev :hello", ":alice!~net@darkirc PRIVMSG #secret :psst", ":us!~net@darkirc PRIVMSG bobby :direct")
		want(t, b.do("PRIVMSG us :reply", "PRIVMSG #dev :hi"))
		carry(graphs[1], graphs[0], eventgraph.SourcePut)
		want(t, a.got(), ":Bob!~net@darkirc PRIVMSG alice :reply", ":bobby!~net@darkirc PRIVMSG #Dev :hi")
		one.end()
		two.end()
		for _, g := range graphs {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestOwnMessages: DS-32, DS-35, DS-36, DS-85. What was accepted is in the history in its
// place over a restart, before it was sent, while it is out, when it was sent again as
// another generation, and when it is acknowledged: once, with the same id and time.
func TestOwnMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, _ := people(t)
		graph, custody := testGraph(t), kv.OpenMemory()
		defer graph.Close()
		n := startNode(t, graph, custody, ours, nil)
		a := n.join("alice", "#dev,#secret", "echo-message", "message-tags", "server-time")
		first := a.do("PRIVMSG #dev :first")
		if len(first) != 1 || len(tag(first[0], "msgid")) != 32 {
			t.Fatalf("%q", first)
		}
		hear(t, graph, "#dev", "rob", "between")
		time.Sleep(time.Second)
		second := a.do("PRIVMSG #dev :second", "PRIVMSG #secret :in private", "PRIVMSG bob :direct")
		if graph.Last() != 1 || n.putCount() != 0 {
			t.Errorf("%d events and %d puts before anybody can take one", graph.Last(), n.putCount())
		}
		check := func(n *testNode, nick string) {
			t.Helper()
			c := n.register(nick, "message-tags", "server-time", "echo-message")
			lines := c.do("JOIN #dev")
			want(t, texts(lines, "PRIVMSG"), "first", "between", "second")
			for _, was := range []string{first[0], second[len(second)-3]} {
				i := find(lines, "msgid="+tag(was, "msgid"))
				if i < 0 || tag(lines[i], "time") != tag(was, "time") {
					t.Errorf("%q is not in %q", was, lines)
				}
			}
			want(t, texts(c.do("JOIN #secret"), "PRIVMSG"), "in private")
		}
		a.got()
		check(n, "same")
		n.end()

		n = startNode(t, graph, custody, ours, nil)
		time.Sleep(time.Second)
		check(n, "queued")
		n.reach(2, false) // out, without an answer
		n.worker.Wake()
		time.Sleep(10 * time.Second) // not in the first moments of a slot (DS-87)
		if n.putCount() != 1 || graph.Last() != 2 {
			t.Errorf("%d puts, %d events", n.putCount(), graph.Last())
		}
		check(n, "out")
		time.Sleep(3 * time.Hour) // other generations of the head
		if s, _ := n.worker.Head(); s.Generations < 2 {
			t.Errorf("%+v", s)
		}
		check(n, "again")
		n.end()
		n = startNode(t, graph, custody, ours, nil)
		n.reach(2, true)
		time.Sleep(30 * time.Minute)
		if s, err := n.queue.Summary(); err != nil || s.Depth != 0 || s.Acked != 4 {
			t.Errorf("%+v, %v", s, err)
		}
		check(n, "acked")
		n.end()
		n = startNode(t, graph, custody, ours, nil)
		time.Sleep(time.Second)
		check(n, "restarted")
		n.end()
	})
}

// hear makes an event of somebody else.
func hear(t *testing.T, g *eventgraph.Graph, channel, nick, text string) {
	t.Helper()
	fake := newFakeGraph()
	content := fake.say(channel, nick, text).Content
	e, err := g.NewEvent(content)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Insert(t.Context(), g.Current(), []eventgraph.Event{e}, eventgraph.SourcePut); err != nil {
		t.Fatal(err)
	}
}

// TestCancelledIsGone: DS-84. A message that was cancelled before it was sent is not in
// the history of clients that come later.
func TestCancelledIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graph := testGraph(t)
		defer graph.Close()
		custody := kv.OpenMemory()
		n := startNode(t, graph, custody, Settings{}, nil)
		a := n.join("alice", "#dev")
		want(t, a.do("PRIVMSG #dev :one", "PRIVMSG #dev :two", "PRIVMSG #dev :three"))
		if err := n.queue.Cancel(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		n.end()
		n = startNode(t, graph, custody, Settings{}, nil)
		time.Sleep(time.Second)
		b := n.register("bob")
		want(t, texts(b.do("JOIN #dev"), "PRIVMSG"), "one", "three")
		n.end()
	})
}

// TestOldArrivals: what is older than a day is not shown unasked (T28), and found by CHATHISTORY
// for as long as the graph has it (decision 0200).
func TestOldArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graph := graphOf(t, true)
		defer graph.Close()
		custody := kv.OpenMemory()
		hear(t, graph, "#dev", "rob", "too old")
		time.Sleep(2 * time.Hour)
		hear(t, graph, "#dev", "rob", "old enough")
		time.Sleep(22*time.Hour + 30*time.Minute)
		n := startNode(t, graph, custody, Settings{}, nil)
		time.Sleep(time.Second)
		rows, err := arrival.Open(custody, nil)
		if err != nil {
			t.Fatal(err)
		}
		if all, err := rows.Read(0, false, 10); err != nil || len(all) != 2 {
			t.Errorf("%d rows, %v", len(all), err)
		}
		want(t, texts(n.register("alice").do("JOIN #dev"), "PRIVMSG"), "old enough")
		bob := n.register("bob", chCaps...)
		bob.got()
		if got := batched(t, bob.do("CHATHISTORY LATEST #dev * 10")); got != "too old old enough" {
			t.Error(got)
		}
		n.end()
		time.Sleep(2 * time.Hour)
		n = startNode(t, graph, custody, Settings{}, nil)
		time.Sleep(time.Second)
		want(t, texts(n.register("alice").do("JOIN #dev"), "PRIVMSG"))
		bob = n.register("bob", chCaps...)
		bob.got()
		if got := batched(t, bob.do("CHATHISTORY LATEST #dev * 10")); got != "too old old enough" {
			t.Error(got)
		}
		n.end()
	})
}

// TestNewKeyFindsThePast: a key that comes by a reload, or while the node is down, opens
// what is stored.
func TestNewKeyFindsThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, _ := people(t)
		graph := testGraph(t)
		defer graph.Close()
		custody := kv.OpenMemory()
		for _, text := range []string{"one", "two"} {
			m := seal(t, ours, "#secret", "rob", text)
			e, err := graph.NewEvent(m.AppendTo(nil))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := graph.Insert(t.Context(), graph.Current(), []eventgraph.Event{e}, eventgraph.SourcePut); err != nil {
				t.Fatal(err)
			}
		}
		n := startNode(t, graph, custody, Settings{}, nil)
		time.Sleep(time.Second)
		if _, err := n.server.Apply(t.Context(), ours); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		want(t, texts(n.register("alice").do("JOIN #secret"), "PRIVMSG"), "one", "two")
		n.end()
		n = startNode(t, graph, kv.OpenMemory(), Settings{}, nil) // nothing of it is entered
		n.end()
		n = startNode(t, graph, n.custody, ours, nil)
		time.Sleep(time.Second)
		want(t, texts(n.register("alice").do("JOIN #secret"), "PRIVMSG"), "one", "two")
		n.end()
	})
}

// TestSplitIsOneTransaction: DS-31. A long text becomes several records next to each
// other, all or none.
func TestSplitIsOneTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graph := testGraph(t)
		defer graph.Close()
		n := startNode(t, graph, kv.OpenMemory(), Settings{}, nil)
		a := n.join("alice", "#dev")
		want(t, a.do("PRIVMSG #dev :"+strings.Repeat("x", 8000)))
		items, err := n.queue.List(0, 100)
		if err != nil || len(items) < 2 {
			t.Fatalf("%v, %v", items, err)
		}
		for i, it := range items {
			if it.Position != outbound.Position(i+1) || !it.Enqueued.Equal(items[0].Enqueued) {
				t.Errorf("%+v", it)
			}
		}
		n.end()
	})
}

// TestKeyFixedAtAcceptance: DS-79. Without the key the head parks, and goes nowhere in
// clear; with the key again it goes out.
func TestKeyFixedAtAcceptance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, bobs := people(t)
		graph := testGraph(t)
		defer graph.Close()
		n := startNode(t, graph, kv.OpenMemory(), ours, nil)
		a := n.join("alice", "#secret")
		want(t, a.do("PRIVMSG #secret :hush"))
		other := ours
		other.Channels = []Channel{{Name: "#secret", Secret: ours.Contacts[0].Secret}}
		_ = bobs
		if _, err := n.server.Apply(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		n.reach(2, true)
		time.Sleep(2 * time.Minute)
		if s, _ := n.worker.Head(); s.State != "parked" || s.Reason != "key" || graph.Last() != 0 {
			t.Errorf("%+v, %d events", s, graph.Last())
		}
		wantPart(t, a.got(), "the key of the oldest one's conversation is gone or was changed")
		spelt := ours // names fold, and no name is on the wire
		spelt.Channels = []Channel{{Name: "#SECRET", Secret: ours.Channels[0].Secret}}
		if _, err := n.server.Apply(t.Context(), spelt); err != nil {
			t.Fatal(err)
		}
		n.worker.Retry()
		time.Sleep(2 * time.Second)
		if s, err := n.queue.Summary(); err != nil || s.Depth != 0 || graph.Last() != 1 {
			t.Errorf("%+v, %v, %d events", s, err, graph.Last())
		}
		n.end()
	})
}

// blockable asks the worker, as a node does.
type blockable struct {
	fakeNetwork
	worker func() *outbound.Worker
}

func (b *blockable) Blocked() (outbound.Notice, bool) { return b.worker().Blocked() }

// TestBlockedHead: DS-57, DS-76. Clients are told after 30 s, hourly at most, with "1 of
// 2", also when they connect later; one line clears it; nothing claims a failure.
func TestBlockedHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graph := testGraph(t)
		defer graph.Close()
		var n *testNode
		net := &blockable{worker: func() *outbound.Worker { return n.worker }}
		net.set(NetworkState{Peers: 2, Needed: 2, Synced: true})
		n = startNode(t, graph, kv.OpenMemory(), Settings{}, func(c *Config) { c.Network = net })
		n.reach(1, true)
		a, std := n.join("alice", "#dev"), n.register("std", "standard-replies")
		a.got()
		want(t, a.do("PRIVMSG #dev :one"))
		time.Sleep(29 * time.Second)
		want(t, a.got())
		time.Sleep(3 * time.Second)
		const text = "Your messages are kept and not sent yet: connected to 1 of 2 peers"
		want(t, a.got(), ":irc.hearsay NOTICE alice :"+text)
		want(t, std.got(), ":irc.hearsay NOTE * QUEUE_BLOCKED :"+text)
		late := n.dial()
		wantPart(t, late.do("NICK late", "USER l 0 * :l"), ":irc.hearsay NOTICE late :"+text)
		for range 59 { // an hour, with signs of life
			time.Sleep(time.Minute)
			a.send("PING x")
			std.send("PING x")
			late.send("PING x")
		}
		wantNone(t, a.got(), "kept")
		std.got()
		time.Sleep(90 * time.Second)
		if got := a.got(); count(got, text) != 1 {
			t.Errorf("%q", got)
		}
		std.got()
		n.reach(2, true)
		n.worker.Wake()
		time.Sleep(2 * time.Second)
		want(t, a.got(), ":irc.hearsay NOTICE alice :Your messages are going out again")
		want(t, std.got(), ":irc.hearsay NOTE * QUEUE_MOVING :Your messages are going out again")
		n.end()
	})
}

// TestEveryReasonHasWords: DS-75, DS-76. No notice claims a failure or is longer than a
// line.
func TestEveryReasonHasWords(t *testing.T) {
	seen := map[string]bool{}
	for r := outbound.ReasonBudget; r <= outbound.ReasonNoAck; r++ {
		text := noticeText(outbound.Notice{Reason: r, Have: 1, Want: 2})
		if seen[text] || len(text) > 400 || strings.Contains(text, "fail") {
			t.Errorf("%v: %q", r, text)
		}
		seen[text] = true
	}
	// No peer and a sync under way are two things.
	alone := noticeText(outbound.Notice{Reason: outbound.ReasonNotSynced, Want: 2})
	if seen[alone] || !strings.Contains(alone, "no peer is connected") {
		t.Error(alone)
	}
}

// TestSenderRefusals: DS-33. Every refusal of the queue has its code, and nothing is
// accepted.
func TestSenderRefusals(t *testing.T) {
	custody := kv.OpenMemory()
	q, err := outbound.Open(custody, outbound.Config{MaxMessages: 1})
	if err != nil {
		t.Fatal(err)
	}
	var unknown error
	s := &Sender{Queue: q, Keys: new(Keys), Unknown: func(err error) { unknown = err }}
	m := func(n int) []Message {
		return make([]Message, n)
	}
	acc, err := s.Accept(t.Context(), m(1))
	if err != nil || len(acc) != 1 {
		t.Fatal(acc, err)
	}
	if id, err := hex.DecodeString(acc[0].ID); err != nil || len(id) != 16 {
		t.Errorf("id %q", acc[0].ID)
	}
	if _, err := s.Accept(t.Context(), m(1)); !errors.Is(err, ErrQueueFull) {
		t.Error(err)
	}
	if _, err := s.Accept(t.Context(), m(outbound.MaxBatch+1)); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	if err := custody.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Accept(t.Context(), m(1)); !errors.Is(err, ErrStorage) || unknown != nil {
		t.Error(err, unknown)
	}
}
