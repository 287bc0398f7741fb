package outbound

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// fakeNet is a Network that accuses: it fails the test when anything is shown that is
// not durable, not the head's, out of order, or not the same bytes as before.
type fakeNet struct {
	t     testing.TB
	store kv.Store // what is durable
	now   func() time.Time

	rotation time.Duration
	oldest   eventgraph.Slot
	after    eventgraph.ID // a generation with a stored foreign descendant

	mu       sync.Mutex
	synced   bool
	peers    []*fakePeer
	inserted map[eventgraph.ID]bool
	insert   error // what Insert returns, once
	puts     []putLog
	order    []Position // of first exposures
	bytes    map[eventgraph.ID][]byte
	observe  func(eventgraph.Status, ConnID)
	before   func(what string) // called before Insert and Put
}

type fakePeer struct {
	conn  ConnID
	stock bool
	// answer is called for each put; zero is silence.
	answer func(Put) eventgraph.Result
}

type putLog struct {
	at      time.Time
	id      eventgraph.ID
	pos     Position
	written int
	stock   bool
}

func (n *fakeNet) Facts() Facts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return Facts{Synced: n.synced, Targets: len(n.peers), Window: testWindow(n.now(), n.rotation)}
}

func (n *fakeNet) Oldest() eventgraph.Slot { return n.oldest }

func (n *fakeNet) ForeignDescendant(_ context.Context, ids []eventgraph.ID) (eventgraph.ID, bool, error) {
	for _, id := range ids {
		if id == n.after {
			return id, true, nil
		}
	}
	return eventgraph.ID{}, false, nil
}

func (n *fakeNet) Insert(_ context.Context, ev eventgraph.Event) error {
	if n.before != nil {
		n.before("insert")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.insert; err != nil {
		n.insert = nil
		return err
	}
	n.visible(ev)
	n.inserted[ev.Header.ID()] = true
	return nil
}

// visible accuses (DS-35, DS-37, DS-40, DS-64).
func (n *fakeNet) visible(ev eventgraph.Event) Position {
	n.t.Helper()
	id, raw := ev.Header.ID(), ev.AppendTo(nil)
	rec, held, err := (&store{kv: n.store}).head()
	switch {
	case err != nil:
		n.t.Errorf("store: %v", err)
		return 0
	case rec == nil || rec.Active == nil || rec.Active.ID() != id:
		n.t.Errorf("DS-40: shown before it is durable, or not the head's")
		return 0
	case held:
		n.t.Errorf("ST-06: shown while held")
	case !bytes.Equal(rec.Active.Event.AppendTo(nil), raw):
		n.t.Errorf("DS-37: not the stored bytes")
	}
	if old, ok := n.bytes[id]; ok && !bytes.Equal(old, raw) {
		n.t.Errorf("DS-73: other bytes than before")
	}
	n.bytes[id] = raw
	pos := rec.Entry.Position
	if k := len(n.order); k == 0 || n.order[k-1] != pos {
		if k > 0 && n.order[k-1] > pos {
			n.t.Errorf("DS-64: %v after %v", pos, n.order[k-1])
		}
		n.order = append(n.order, pos)
	}
	return pos
}

func (n *fakeNet) Put(_ context.Context, p Put) int {
	if n.before != nil {
		n.before("put")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	log := putLog{at: n.now(), id: p.ID, stock: p.ToStock, pos: n.visible(p.Event)}
	if !n.synced || len(n.peers) == 0 {
		n.t.Errorf("DS-57: put through a closed gate")
	}
	if !n.inserted[p.ID] && testWindow(n.now(), n.rotation).contains(p.Event.Timestamp) {
		n.t.Errorf("put before the local graph has it")
	}
	for _, peer := range n.peers {
		if peer.stock && !p.ToStock {
			continue
		}
		log.written++
		p.To(peer.conn)
		if peer.answer == nil {
			continue
		}
		if r := peer.answer(p); r != 0 {
			go n.observe(eventgraph.Status{ID: p.ID, Result: r}, peer.conn)
		}
	}
	n.puts = append(n.puts, log)
	return log.written
}

func (n *fakeNet) log() []putLog {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]putLog(nil), n.puts...)
}

// fakeMat makes events of the payload and a counter, which stands for the nonce.
type fakeMat struct {
	now    func() time.Time
	mu     sync.Mutex
	made   uint64
	refuse error // returned as long as it is set
	during func()
}

func (m *fakeMat) Materialise(_ context.Context, e Entry) (eventgraph.Event, error) {
	m.mu.Lock()
	refuse, during := m.refuse, m.during
	m.made++
	nonce := m.made
	m.mu.Unlock()
	if during != nil {
		during()
	}
	if refuse != nil {
		return eventgraph.Event{}, refuse
	}
	content := binary.BigEndian.AppendUint64(append([]byte(nil), e.Payload...), nonce)
	return eventgraph.Event{
		Header: eventgraph.Header{
			Timestamp: uint64(m.now().UnixMilli()), Layer: 1, Parents: [eventgraph.NumParents]eventgraph.ID{{1}},
			ContentHash: eventgraph.HashContent(content),
		},
		Content: content,
	}, nil
}

func (m *fakeMat) set(refuse error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse = refuse
}

// rig is a queue with its worker over a memory store.
type rig struct {
	t       testing.TB
	mem     *kv.Mem
	store   kv.Store // mem, or a wrapper
	now     func() time.Time
	cfg     Config
	wcfg    WorkerConfig
	net     *fakeNet
	mat     *fakeMat
	q       *Queue
	w       *Worker
	mu      sync.Mutex
	notices []Notice
	stop    func() error
}

func newRig(t testing.TB, opts ...func(*rig)) *rig {
	r := &rig{t: t, mem: kv.OpenMemory(), now: time.Now}
	for _, o := range opts {
		o(r)
	}
	if r.store == nil {
		r.store = r.mem
	}
	r.mat = &fakeMat{now: r.clock}
	r.net = &fakeNet{
		t: t, now: r.clock, synced: true,
		inserted: map[eventgraph.ID]bool{}, bytes: map[eventgraph.ID][]byte{},
	}
	r.open()
	return r
}

func (r *rig) clock() time.Time { return r.now() }

func (r *rig) open() {
	r.t.Helper()
	r.net.store = r.mem
	r.cfg.Now, r.wcfg.Now = r.clock, r.clock
	r.wcfg.Notify = func(n Notice) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.notices = append(r.notices, n)
	}
	var err error
	if r.q, err = Open(r.store, r.cfg); err != nil {
		r.t.Fatal(err)
	}
	if r.w, err = NewWorker(r.q, r.net, r.mat, r.wcfg); err != nil {
		r.t.Fatal(err)
	}
	r.net.observe = r.w.Observe
}

// run starts the worker; stop or crash ends it.
func (r *rig) run() {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	w := r.w
	go func() { done <- w.Run(ctx) }()
	r.stop = func() error { cancel(); return <-done }
}

// crash ends the process: only what is committed remains, and connections are new.
func (r *rig) crash() {
	r.t.Helper()
	if err := r.stop(); !errors.Is(err, context.Canceled) {
		r.t.Fatalf("Run returned %v", err)
	}
	r.mem = r.mem.Reopen()
	r.store = r.mem
	r.net.mu.Lock()
	r.net.inserted = map[eventgraph.ID]bool{}
	for _, p := range r.net.peers {
		p.conn += 1000
	}
	r.net.mu.Unlock()
	r.open()
}

func (r *rig) enqueue(texts ...string) []Entry {
	r.t.Helper()
	var drafts []Draft
	for _, s := range texts {
		drafts = append(drafts, Draft{Payload: Payload(s)})
	}
	es, err := r.q.Enqueue(r.t.Context(), drafts...)
	if err != nil {
		r.t.Fatal(err)
	}
	return es
}

func (r *rig) connect(peers ...*fakePeer) {
	r.net.mu.Lock()
	for _, p := range peers {
		if p.conn == 0 {
			p.conn = ConnID(len(r.net.peers) + 1)
		}
		r.net.peers = append(r.net.peers, p)
	}
	r.net.mu.Unlock()
	r.w.Wake()
}

func (r *rig) disconnect() {
	r.net.mu.Lock()
	r.net.peers = nil
	r.net.mu.Unlock()
	r.w.Wake()
}

func (r *rig) summary() Summary {
	r.t.Helper()
	s, err := r.q.Summary()
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// invariants reads the whole store.
func (r *rig) invariants() {
	r.t.Helper()
	if err := r.mem.View(check); err != nil {
		r.t.Error(err)
	}
}

// dump is every row of the store.
func (r *rig) dump() string {
	r.t.Helper()
	var b bytes.Buffer
	err := r.mem.View(func(rd kv.Reader) error {
		return rd.Scan(kv.Scan{}, func(k, v []byte) error {
			b.Write(k)
			b.WriteByte('=')
			b.Write(v)
			b.WriteByte('\n')
			return nil
		})
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return b.String()
}

func always(res eventgraph.Result) func(Put) eventgraph.Result {
	return func(Put) eventgraph.Result { return res }
}

// holder answers as a node of ours: inserted at first, then had it.
func holder() *fakePeer {
	seen := map[eventgraph.ID]bool{}
	return &fakePeer{answer: func(p Put) eventgraph.Result {
		if seen[p.ID] {
			return eventgraph.HasAlready
		}
		seen[p.ID] = true
		return eventgraph.HasInserted
	}}
}

func silent() *fakePeer { return &fakePeer{} }

func stock() *fakePeer { return &fakePeer{stock: true} }

// bubble runs a test in fake time with a rig whose worker runs.
func bubble(t *testing.T, fn func(t *testing.T, r *rig), opts ...func(*rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, opts...)
		r.run()
		defer func() {
			if err := r.stop(); !errors.Is(err, context.Canceled) {
				t.Errorf("Run returned %v", err)
			}
			r.invariants()
		}()
		synctest.Wait()
		fn(t, r)
	})
}

// sleep lets time pass in a bubble, and whatever it starts finish.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// count is the number of attempts to make an event.
func (m *fakeMat) count() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.made
}

// change alters what the worker uses, in its turn.
func (r *rig) change(fn func()) {
	if err := r.q.lock(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	fn()
	r.q.unlock()
}

// told is the notices so far.
func (r *rig) told() []Notice {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Notice(nil), r.notices...)
}
