package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/eventgraph/gossip"
	"hearsay/internal/arrival"
	"hearsay/internal/config"
	"hearsay/internal/kv"
	"hearsay/internal/kv/kvtest"
	"hearsay/internal/sealed"
	"hearsay/outbound"
)

// A faultyStore fails one commit by name, on top of a real store.
type faultyStore struct {
	*kvtest.Faulty
	run func(context.Context) error
}

func (f faultyStore) Run(ctx context.Context) error { return f.run(ctx) }

// ST-03, DS-33: a commit whose outcome is not known is told the client as unknown, and
// ends the daemon with an error that says so. The next start serves what the store has.
func TestUnknownOutcome(t *testing.T) {
	for _, applied := range []bool{false, true} {
		cfg := solo(t, "[net]\nlocalnet = true\nactive_profiles = []\n")
		d := newDaemon(cfg, noLog, nil)
		d.faults = func(s runStore) runStore {
			return faultyStore{&kvtest.Faulty{Store: s, Op: "outbound/enqueue", Skip: 1, Applied: applied, Sticky: true}, s.Run}
		}
		if err := d.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- d.run(t.Context()) }()
		alice, err := dialIRC(withTime(t), d.ircAddr().String(), "alice", "")
		if err != nil {
			t.Fatal(err)
		}
		alice.send("CAP REQ :echo-message", "PRIVMSG #c :one", "PRIVMSG #c :two")
		line, err := alice.wait(withTime(t), func(l string) bool { return strings.Contains(l, " 404 ") })
		if err != nil || !strings.Contains(line, " 404 alice #c :[STORAGE_UNKNOWN] ") {
			t.Error(line, err)
		}
		if err := <-done; !errors.Is(err, kv.ErrUnknown) || !strings.HasPrefix(err.Error(), "the disk failed, ") {
			t.Error(err)
		}
		alice.close()
		want := 1
		if applied {
			want = 2
		}
		again := start(t, cfg, nil)
		if s := again.outboundStatus(); s.Depth != want {
			t.Errorf("applied %v: %d messages", applied, s.Depth)
		}
	}
}

// DS-33: a queue at its bound refuses, says so once, and goes on.
func TestQueueFull(t *testing.T) {
	d := start(t, solo(t, "[outbound]\nmax_messages = 2\n"), nil)
	alice, err := dialIRC(withTime(t), d.ircAddr().String(), "alice", "")
	if err != nil {
		t.Fatal(err)
	}
	defer alice.close()
	alice.send("CAP REQ :echo-message", "PRIVMSG #c :one", "PRIVMSG #c :two", "PRIVMSG #c :three")
	if _, err := alice.waitMessage(withTime(t), "alice", "#c", "two"); err != nil {
		t.Fatal(err)
	}
	line, err := alice.wait(withTime(t), func(l string) bool { return strings.Contains(l, "three") || strings.Contains(l, " 404 ") })
	if err != nil || !strings.Contains(line, "[QUEUE_FULL]") {
		t.Error(line, err)
	}
	alice.send("PRIVMSG #c :" + strings.Repeat("x", 8193))
	line, err = alice.wait(withTime(t), func(l string) bool { return strings.Contains(l, "xxx") || strings.Contains(l, " 404 ") })
	if err != nil || !strings.Contains(line, "[MESSAGE_TOO_LONG]") {
		t.Error(line, err)
	}
}

// DS-84: a person looks at the queue and cancels from IRC; what is left keeps its order
// and its places, and no text is shown.
func TestQueueFromIRC(t *testing.T) {
	d := start(t, solo(t, ""), nil)
	alice, err := dialIRC(withTime(t), d.ircAddr().String(), "alice", "")
	if err != nil {
		t.Fatal(err)
	}
	defer alice.close()
	ask := func(words, want string) {
		t.Helper()
		alice.send("PRIVMSG *status :" + words)
		_, err := alice.wait(withTime(t), func(l string) bool {
			if strings.Contains(l, "canary") {
				t.Errorf("%s: %q", words, l)
			}
			return strings.HasPrefix(l, ":*status!") && strings.Contains(l, want)
		})
		if err != nil {
			t.Errorf("%s: no %q: %v", words, want, err)
		}
	}
	next := func(want string) {
		t.Helper()
		line, err := alice.wait(withTime(t), func(l string) bool { return strings.HasPrefix(l, ":*status!") })
		if err != nil || !strings.Contains(line, want) {
			t.Errorf("%q, %v", line, err)
		}
	}
	ask("QUEUE", "Nothing of yours waits")
	ask("QUEUE RELEASE", "The queue is not held")
	for range queueLines + 3 {
		alice.send("PRIVMSG #c :canary")
	}
	ask("queue cancel 2", "position 2 is dropped")
	ask("QUEUE CANCEL 2", "there is no message at position 2")
	ask("QUEUE CANCEL x", "is no position")
	ask("QUEUE DROP", "Usage: QUEUE [LIST|CANCEL position|RELEASE]")
	ask("QUEUE", "22 messages, ")
	next("1: not sent yet: no peer is connected, ")
	for i := 3; i <= queueLines+1; i++ {
		next(fmt.Sprintf("%d: queued, ", i))
	}
	next("and 2 more")
	if err := d.custody.queue.Hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask("QUEUE", "held since it was restored")
	if ask("QUEUE RELEASE", "is released"); d.outboundStatus().Held {
		t.Error("still held")
	}
}

// The custody store sealed with a key file: no text on the disk, everything works as
// before, and neither no key nor another key opens it. A backup of a plain one is how it
// gets sealed.
func TestSealedCustody(t *testing.T) {
	const text = "canary, waiting"
	dir := t.TempDir()
	keys := []string{filepath.Join(dir, "one"), filepath.Join(dir, "two")}
	for _, k := range keys {
		if err := sealed.NewKeyFile(k); err != nil {
			t.Fatal(err)
		}
	}
	cfg := solo(t, "")
	enqueue := func() {
		t.Helper()
		c, err := openCustodyOf(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.queue.Enqueue(t.Context(), outbound.Draft{Payload: outbound.Payload(text)})
		if err := errors.Join(err, c.store.Close()); err != nil {
			t.Fatal(err)
		}
	}
	enqueue()
	graph, err := kv.Open(graphOptions(cfg, noLog))
	if err != nil {
		t.Fatal(err)
	}
	g, err := eventgraph.OpenStore(graph, graphConfig(cfg, noLog))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Outbound.KeyFile = keys[0]
	_, err = openCustodyOf(cfg)
	if !errors.Is(err, sealed.ErrPlain) || !strings.Contains(err.Error(), `"hearsay backup" without key_file`) {
		t.Error(err)
	}
	away := []string{custodyDir(cfg), graphDir(cfg)} // what the error says has to be moved
	for _, name := range away {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
	cfg.Outbound.KeyFile = ""
	file := filepath.Join(dir, "b")
	if code, out, stderr := cli(t, "", "backup", "--plaintext", "--datastore", cfg.Datastore, file); code != 0 {
		t.Fatal(out, stderr)
	}

	for _, name := range away {
		if err := os.Rename(name, filepath.Join(dir, filepath.Base(name))); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Outbound.KeyFile = keys[0]
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if n, err := restore(t.Context(), cfg, in); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	enqueue()
	if found, err := filesWith(cfg.Datastore, text); err != nil || len(found) > 0 {
		t.Error(found, err)
	}
	cfg.Outbound.KeyFile = keys[1]
	if _, err := openCustodyOf(cfg); !errors.Is(err, sealed.ErrKey) {
		t.Error(err)
	}
	cfg.Outbound.KeyFile = ""
	if _, err := openCustodyOf(cfg); !errors.Is(err, sealed.ErrSealed) {
		t.Error(err)
	}
	cfg.Outbound.KeyFile = keys[0]
	d := start(t, cfg, nil)
	if s := d.outboundStatus(); s.Depth != 2 || !s.Held {
		t.Errorf("%+v", s)
	}
}

// netUnder is what a worker sees of a graph without peers.
func netUnder(t *testing.T, cfg eventgraph.Config) network {
	t.Helper()
	g, err := eventgraph.OpenMemory(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	gs, err := gossip.New(gossip.Config{Graph: g, SkipSync: true, ManualPut: true})
	if err != nil {
		t.Fatal(err)
	}
	return network{g, gs, cfg.Archive}
}

func darkirc() eventgraph.Config { return eventgraph.Config{Params: eventgraph.DarkIRC()} }

// DS-19, DS-52: what the worker is told of the graph: the slot, an insertion that is
// local and idempotent, a closed slot, and evidence that was stored before.
func TestNetwork(t *testing.T) {
	cfg := darkirc()
	now := time.UnixMilli(int64(cfg.Genesis)).Add(1000*time.Hour + 30*time.Minute)
	cfg.Now = func() time.Time { return now }
	n := netUnder(t, cfg)
	ctx := t.Context()
	f := n.Facts()
	if !f.Synced || f.Targets != 0 || f.Window.Slot != n.graph.Current() || f.Window.End != uint64(n.graph.Current())+3_600_000 {
		t.Errorf("%+v", f)
	}
	ev, err := n.graph.NewEvent([]byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := n.Insert(ctx, ev); err != nil {
			t.Fatal(err)
		}
	}
	if a, err := n.graph.Arrival(ev.ID()); err != nil || a.Source != eventgraph.SourceLocal || n.graph.Last() != 1 {
		t.Error(a.Source, err)
	}
	find := func() bool {
		t.Helper()
		id, found, err := n.ForeignDescendant(ctx, []eventgraph.ID{{1}, ev.ID()})
		if err != nil || found && id != ev.ID() {
			t.Error(id, err)
		}
		return found
	}
	local, err := n.graph.Publish(ctx, []byte("b")) // of this node: no evidence (DS-53)
	if err != nil || find() {
		t.Error("our own event counts", err)
	}
	child, err := n.graph.NewEvent([]byte("c")) // rests on it by way of ours
	if err != nil || child.Parents[0] != local.ID() {
		t.Fatal(child.Parents, err)
	}
	if _, err := n.graph.Insert(ctx, n.graph.Current(), []eventgraph.Event{child}, eventgraph.SourceSync); err != nil || !find() {
		t.Error("a foreign event does not count", err)
	}
	now = now.Add(time.Hour)
	late, err := n.graph.NewEvent([]byte("d"))
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	if err := n.Insert(ctx, late); !errors.Is(err, outbound.ErrSlotClosed) {
		t.Error(err)
	}
	if got := n.Put(ctx, outbound.Put{ID: late.ID(), Event: late, To: func(outbound.ConnID) { t.Error("put to nobody") }}); got != 0 {
		t.Error(got)
	}
	if got := n.Oldest(); got != n.graph.Slots()[0] {
		t.Error(got)
	}
}

// DS-85: an archive remembers own generations for a bounded time; a graph that never
// rotates has one slot.
func TestNetworkWithoutEnd(t *testing.T) {
	cfg := darkirc()
	now := time.UnixMilli(int64(cfg.Genesis)).Add(30 * time.Minute)
	cfg.Now, cfg.Archive = func() time.Time { return now }, true
	n := netUnder(t, cfg)
	if _, err := n.graph.Publish(t.Context(), []byte("a")); err != nil {
		t.Fatal(err)
	}
	now = now.Add(24 * 80 * time.Hour)
	if got := n.Oldest(); got != cfg.Genesis {
		t.Error("too early:", got)
	}
	now = now.Add(24 * 80 * time.Hour)
	if got, want := n.Oldest(), uint64(n.graph.Current())-uint64(archiveHorizon.Milliseconds()); uint64(got) != want {
		t.Error(got, want)
	}
	cfg = darkirc()
	cfg.Rotation = 0
	n = netUnder(t, cfg)
	if f := n.Facts(); f.Window != (outbound.Window{Slot: cfg.Genesis}) || n.Oldest() != cfg.Genesis {
		t.Errorf("%+v", f)
	}
}

// DS-44, DS-83: nothing of a waiting message is in what a person is shown of the queue,
// and a purge leaves nothing of it in the datastore. Restored again, it is held, whoever
// asks.
func TestPurgeErases(t *testing.T) {
	cfg := solo(t, "")
	c, err := openCustodyOf(cfg)
	if err != nil {
		t.Fatal(err)
	}
	const text = "canary, waiting"
	for range 3000 { // more than one of the store's files
		if _, err := c.queue.Enqueue(t.Context(), outbound.Draft{Payload: outbound.Payload(text + strings.Repeat("!", 1000))}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.queue.Cancel(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if err := c.store.Close(); err != nil {
		t.Fatal(err)
	}
	if found, err := filesWith(cfg.Datastore, text); err != nil || len(found) == 0 {
		t.Fatal("the search finds nothing:", err)
	}
	n, err := purge(t.Context(), cfg)
	if err != nil || n != 2999 {
		t.Fatal(n, err)
	}
	if found, err := filesWith(cfg.Datastore, text); err != nil || len(found) > 0 {
		t.Error(found, err)
	}
	if c, err = openCustodyOf(cfg); err != nil {
		t.Fatal(err)
	}
	defer c.store.Close()
	if s, err := c.queue.Summary(); err != nil || s.Depth != 0 || s.Held {
		t.Errorf("%+v, %v", s, err)
	}
	if rows, err := c.arrivals.Read(0, false, 10); err != nil || len(rows) != 0 {
		t.Error(rows, err)
	}
	e, err := c.queue.Enqueue(t.Context(), outbound.Draft{Payload: outbound.Payload("x")})
	if err != nil || e[0].Position != 3001 {
		t.Error("positions are given twice:", e, err) // ST-04
	}
}

func openCustodyOf(cfg *config.Config) (*custody, error) {
	if err := makeStoreDir(cfg.Datastore); err != nil {
		return nil, err
	}
	return openCustody(custodyOptions(cfg, noLog), cfg, noLog)
}

// ST-06, DS-41: an old backup is restored; what was acknowledged since does not go out
// again before the user has had a look, over restarts too.
func TestRestoredQueueIsHeld(t *testing.T) {
	cfg := solo(t, "")
	c, err := openCustodyOf(cfg)
	if err != nil {
		t.Fatal(err)
	}
	graph, err := kv.Open(graphOptions(cfg, noLog))
	if err != nil {
		t.Fatal(err)
	}
	g, err := eventgraph.OpenStore(graph, graphConfig(cfg, noLog))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.queue.Enqueue(t.Context(), outbound.Draft{Payload: outbound.Payload("one")}, outbound.Draft{Payload: outbound.Payload("two")}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "b")
	if err := (&backupRequest{File: file, Plaintext: true}).write(c.store, graph); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if err := errors.Join(g.Close(), c.store.Close()); err != nil {
		t.Fatal(err)
	}
	other := solo(t, "")
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if n, err := restore(t.Context(), other, in); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	entries, err := os.ReadDir(config.StoreDir(other.Datastore))
	if err != nil || len(entries) != 2 {
		t.Error("something is left:", entries, err)
	}
	for range 2 {
		d := newDaemon(other, noLog, nil)
		if err := d.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.run(ctx) }()
		if err := until(withTime(t), "not held", func() bool {
			s := d.outboundStatus()
			return s.Held && s.Head != nil && s.Head.Reason == "held" && s.Head.State == "waiting"
		}); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A restore that fails leaves nothing behind, so that it can be tried again.
func TestRestoreFails(t *testing.T) {
	cfg := solo(t, "")
	bad := snapshotMagic + `{"version":"x","stores":[{"kind":"custody","schema":1},{"kind":"graph","schema":1}]}` + "\n\x01a\x01b\x00\x00"
	if _, err := restore(t.Context(), cfg, strings.NewReader(bad)); !errors.Is(err, errSnapshot) {
		t.Error(err)
	}
	newer := snapshotMagic + `{"version":"9.9","stores":[{"kind":"custody","schema":99},{"kind":"graph","schema":1}]}` + "\n"
	if _, err := restore(t.Context(), cfg, strings.NewReader(newer)); err == nil || !strings.Contains(err.Error(), "version 9.9") {
		t.Error(err)
	}
	relay := snapshotMagic + `{"version":"x","stores":[{"kind":"custody","schema":1},{"kind":"relay","schema":1}]}` + "\n"
	if _, err := restore(t.Context(), cfg, strings.NewReader(relay)); !errors.Is(err, errSnapshot) {
		t.Error(err)
	}
	entries, err := os.ReadDir(config.StoreDir(cfg.Datastore))
	if err != nil || len(entries) != 0 {
		t.Error("something is left:", entries, err)
	}
}

// DS-85: rows of slots that are gone go, what is queued stays.
func TestPruneArrivals(t *testing.T) {
	cfg := solo(t, "")
	c, err := openCustodyOf(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.store.Close()
	e, err := c.queue.Enqueue(t.Context(), outbound.Draft{Payload: outbound.Payload("x")})
	if err != nil {
		t.Fatal(err)
	}
	err = c.store.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error { // as if it was out long ago
		return c.arrivals.OwnGeneration(tx, arrival.ID(e[0].ID), 1000, &eventgraph.Event{Content: []byte("x")})
	})
	if err != nil {
		t.Fatal(err)
	}
	foreign := eventgraph.Arrival{Seq: 1, Slot: 1000, Event: eventgraph.Event{Content: []byte("y")}}
	if err := c.arrivals.Ingest([]eventgraph.Arrival{foreign}, func(*eventgraph.Arrival) (arrival.Place, bool) { return arrival.Place{}, true }); err != nil {
		t.Fatal(err)
	}
	rows := func() int {
		rows, err := c.arrivals.Read(0, false, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.prune(ctx, func() eventgraph.Slot { return 2000 }) }()
	if err := until(withTime(t), "not pruned", func() bool { return rows() == 1 }); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if rows() != 1 {
		t.Error("a queued message went")
	}
}
