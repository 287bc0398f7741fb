package outbound

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

func openQueue(t testing.TB, s kv.Store, cfg Config) *Queue {
	t.Helper()
	q, err := Open(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func drafts(texts ...string) (d []Draft) {
	for _, s := range texts {
		d = append(d, Draft{Payload: Payload(s)})
	}
	return d
}

// TestConcurrentEnqueues: sixteen clients get one dense total order, batches stay
// together, and a restart keeps it (DS-31; failure case 34).
func TestConcurrentEnqueues(t *testing.T) {
	mem := kv.OpenMemory()
	q := openQueue(t, mem, Config{})
	var wg sync.WaitGroup
	for c := range 16 {
		wg.Go(func() {
			for i := range 10 {
				var d []Draft
				for k := range 1 + i%3 {
					d = append(d, Draft{Payload: fmt.Appendf(nil, "%d %d %d", c, i, k)})
				}
				es, err := q.Enqueue(t.Context(), d...)
				if err != nil {
					t.Error(err)
					return
				}
				for k, e := range es {
					if e.Position != es[0].Position+Position(k) {
						t.Errorf("a batch at %v and %v", es[0].Position, e.Position)
					}
				}
			}
		})
	}
	wg.Wait()
	read := func(s kv.Store) (all string) {
		err := s.View(func(r kv.Reader) error {
			if err := check(r); err != nil {
				return err
			}
			m, err := getMeta(r)
			for p := m.head; p < m.next && err == nil; p++ {
				var e entryRow
				e, err = get(r, positionKey(tableEntry, p), readEntry)
				all += string(e.payload) + "\n"
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := read(mem)
	if n := strings.Count(before, "\n"); n != 16*19 {
		t.Errorf("%d records", n)
	}
	if read(mem.Reopen()) != before {
		t.Error("another order after a restart")
	}
}

// TestErrors: what the client is told (DS-33, ST-03).
func TestErrors(t *testing.T) {
	mem := kv.OpenMemory()
	s := &failing{Store: mem}
	hook := errors.New("the arrival log is full")
	var fail error
	q := openQueue(t, s, Config{Hooks: Hooks{Enqueued: func(kv.Txn, Entry) error { return fail }}})
	s.err = kv.ErrUnknown
	if _, err := q.Enqueue(t.Context(), drafts("a")...); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	s.err = errors.New("anything")
	if _, err := q.Enqueue(t.Context(), drafts("a")...); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	s.err = nil
	fail = hook
	if _, err := q.Enqueue(t.Context(), drafts("a")...); !errors.Is(err, hook) || errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	if s, _ := q.Summary(); s.Depth != 0 {
		t.Errorf("a hook's error left %+v", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Enqueue(ctx, drafts("a")...); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	_ = mem.Close()
	if _, err := q.Enqueue(t.Context(), drafts("a")...); !errors.Is(err, ErrStorage) {
		t.Errorf("%v", err)
	}
}

type failing struct {
	kv.Store
	err error
}

func (f *failing) Update(op kv.Op, fn func(kv.Txn) error) error {
	if f.err != nil {
		return f.err
	}
	return f.Store.Update(op, fn)
}

// TestHooksShareTheTransaction: rows of a neighbouring table appear and vanish with the
// queue's own, all or none (issue: the arrival log; DS-31, DS-84).
func TestHooksShareTheTransaction(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		es := r.enqueue("a", "b", "c")
		boom := errors.New("no")
		old := r.q.store.hooks.Enqueued
		r.change(func() {
			r.q.store.hooks.Enqueued = func(tx kv.Txn, e Entry) error {
				if string(e.Payload) == "e" {
					return boom
				}
				return old(tx, e)
			}
		})
		if _, err := r.q.Enqueue(t.Context(), drafts("d", "e")...); !errors.Is(err, boom) {
			t.Errorf("%v", err)
		}
		if err := r.q.Cancel(t.Context(), es[1].Position); err != nil {
			t.Fatal(err)
		}
		r.connect(silent(), silent())
		synctest.Wait()
		r.w.Observe(eventgraph.Status{ID: r.net.log()[0].id, Result: eventgraph.HasInserted}, 1)
		synctest.Wait()
		got := map[string]string{}
		err := r.mem.View(func(rd kv.Reader) error {
			return rd.Scan(kv.Scan{Prefix: []byte("log/")}, func(k, v []byte) error {
				got[string(k[4:])] = string(v)
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{es[0].ID.String(): "queued sent1 acked", es[2].ID.String(): "queued sent1"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the log has %v, want %v", got, want)
		}
	}, func(r *rig) {
		row := func(id LogicalID) []byte { return []byte("log/" + id.String()) }
		add := func(tx kv.Txn, id LogicalID, what string) error {
			v, err := tx.Get(row(id))
			if err != nil {
				return err
			}
			return tx.Set(row(id), append(v, what...))
		}
		r.cfg.Hooks = Hooks{
			Enqueued: func(tx kv.Txn, e Entry) error { return tx.Set(row(e.ID), []byte("queued")) },
			Generated: func(tx kv.Txn, e Entry, n int, g Generation) error {
				if w := testWindow(r.clock(), 0); g.Slot != w.Slot || !bytes.Contains(g.Event.Content, e.Payload) {
					t.Errorf("generation of slot %d", g.Slot)
				}
				return add(tx, e.ID, fmt.Sprint(" sent", n+1))
			},
			Dequeued:  func(tx kv.Txn, _ Position, id LogicalID) error { return add(tx, id, " acked") },
			Cancelled: func(tx kv.Txn, _ Position, id LogicalID, _ int) error { return tx.Delete(row(id)) },
		}
	})
}

// TestCorruption: every flipped byte of every row, every missing row, is an error and never
// an empty queue (ST-04; failure case 45).
func TestCorruption(t *testing.T) {
	var rows [][2][]byte
	bubble(t, func(t *testing.T, r *rig) {
		r.connect(&fakePeer{answer: always(eventgraph.NackTooOld)}, silent())
		r.enqueue("a", "b", "c")
		sleep(2 * time.Minute) // two generations
		if err := r.q.Cancel(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		err := r.mem.View(func(rd kv.Reader) error {
			return rd.Scan(kv.Scan{}, func(k, v []byte) error {
				rows = append(rows, [2][]byte{bytes.Clone(k), bytes.Clone(v)})
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	if len(rows) < 10 {
		t.Fatalf("%d rows", len(rows))
	}
	fill := func(change func(i int, k, v []byte) (key, value []byte)) kv.Store {
		mem := kv.OpenMemory()
		err := mem.Update(kv.Op{Name: "fill"}, func(tx kv.Txn) error {
			for i, row := range rows {
				if k, v := change(i, bytes.Clone(row[0]), bytes.Clone(row[1])); k != nil {
					if err := tx.Set(k, v); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return mem
	}
	if _, err := Open(fill(func(_ int, k, v []byte) ([]byte, []byte) { return k, v }), Config{}); err != nil {
		t.Fatalf("unchanged: %v", err)
	}
	for j, row := range rows {
		for b := range row[1] {
			s := fill(func(i int, k, v []byte) ([]byte, []byte) {
				if i == j {
					v[b] ^= 0x40
				}
				return k, v
			})
			if _, err := Open(s, Config{}); !errors.Is(err, kv.ErrCorrupt) && row[0][1] != tableAge {
				t.Fatalf("row %q, byte %d: %v", row[0], b, err)
			}
		}
		s := fill(func(i int, k, v []byte) ([]byte, []byte) {
			if i == j {
				return nil, nil
			}
			return k, v
		})
		if _, err := Open(s, Config{}); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("row %q missing: %v", row[0], err)
		}
		// The same row under another position.
		s = fill(func(i int, k, v []byte) ([]byte, []byte) {
			if i == j {
				k[len(k)-1] ^= 0x08
			}
			return k, v
		})
		if _, err := Open(s, Config{}); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("row %q moved: %v", row[0], err)
		}
	}
}

// TestCounters: after many random operations and restarts the counters are what a recount
// gives, and the bounds held (DS-42; failure cases 46, 52, 53).
func TestCounters(t *testing.T) {
	mem := kv.OpenMemory()
	cfg := Config{MaxMessages: 20, MaxBytes: 64 << 10}
	q := openQueue(t, mem, cfg)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 3000 {
		switch rng.IntN(6) {
		case 0, 1:
			_, err := q.Enqueue(t.Context(), Draft{Payload: make(Payload, rng.IntN(3000))}, Draft{Payload: make(Payload, rng.IntN(3000))})
			if err != nil && !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
		case 2:
			s, _ := q.Summary()
			err := q.Cancel(t.Context(), Position(rng.Uint64N(s.Acked+s.Cancelled+30)))
			if err != nil && !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
		case 3:
			rec, _, err := q.store.head()
			if err != nil {
				t.Fatal(err)
			}
			if rec == nil {
				continue
			}
			ev := testEvent(rec.Entry.Position, i, 5000)
			err = q.store.putGeneration(PutGeneration{
				Entry: rec.Entry, Number: uint32(len(rec.Generations)),
				Generation: Generation{Event: ev, Blob: make([]byte, rng.IntN(500))},
				row:        generationRow{id: ev.Header.ID(), slot: eventgraph.Slot(i / 100)},
			}, eventgraph.Slot(max(0, i/100-3)))
			if err != nil && !errors.Is(err, errCapacity) {
				t.Fatal(err)
			}
		case 4:
			rec, _, err := q.store.head()
			if err != nil {
				t.Fatal(err)
			}
			if rec != nil {
				if _, _, err := q.store.dequeue(rec.Entry.Position); err != nil {
					t.Fatal(err)
				}
			}
		case 5:
			mem = mem.Reopen()
			q = openQueue(t, mem, cfg) // checks everything
		}
		if s, err := q.Summary(); err != nil || s.Depth > 20 || s.Bytes > 64<<10 {
			t.Fatalf("%+v %v", s, err)
		}
	}
	s, _ := q.Summary()
	if s.Acked < 100 || s.Cancelled < 20 || s.Owners < 5 || s.Owners > 200 {
		t.Errorf("%+v", s)
	}
}

// TestOwners: known after the record is gone, forgotten with the slot (DS-85).
func TestOwners(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.change(func() { r.net.rotation = time.Hour })
		sleep(10 * time.Minute)
		r.connect(holder(), holder())
		e := r.enqueue("a")[0]
		sleep(time.Second)
		id := r.net.log()[0].id
		r.crash()
		r.run()
		if owner, ok, err := r.q.Owner(id); owner != e.ID || !ok || err != nil {
			t.Errorf("%v %v %v", owner, ok, err)
		}
		if _, ok, err := r.q.Owner(eventgraph.ID{1}); ok || err != nil {
			t.Errorf("a stranger's event is ours: %v", err)
		}
		sleep(24 * time.Hour)
		r.change(func() { r.net.oldest = testWindow(time.Now().Add(-23*time.Hour), time.Hour).Slot })
		r.enqueue("b")
		sleep(time.Second)
		if _, ok, _ := r.q.Owner(id); ok {
			t.Error("known beyond the retained slots")
		}
		if s := r.summary(); s.Owners != 1 {
			t.Errorf("%+v", s)
		}
		// At the bound the head parks, and goes on when there is room.
		r.change(func() { r.q.store.maxOwners = 1 })
		r.enqueue("c")
		sleep(time.Second)
		if h, _ := r.w.Head(); h.Reason != "capacity" {
			t.Errorf("%+v", h)
		}
		r.change(func() { r.net.oldest = testWindow(time.Now().Add(2*time.Hour), time.Hour).Slot })
		sleep(time.Minute)
		if s := r.summary(); s.Depth != 0 || s.Owners != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestList shows positions, ages, sizes and states, and tombstones (DS-83).
func TestList(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.connect(silent(), silent())
		r.enqueue("aaaa", "bb", "c")
		synctest.Wait()
		if err := r.q.Cancel(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		items, err := r.q.List(0, 10)
		if err != nil || len(items) != 3 {
			t.Fatalf("%v %v", items, err)
		}
		for i, want := range []string{"head", "cancelled", "queued"} {
			if items[i].State != want || items[i].Position != Position(i+1) {
				t.Errorf("%+v", items[i])
			}
		}
		total := 0
		for _, it := range items {
			total += it.Size
		}
		if s := r.summary(); int64(total)+int64(len(positionKey(0, 0))+sealSize) != s.Bytes {
			t.Errorf("sizes add up to %d of %d", total, s.Bytes)
		}
		if items[0].Generations != 1 || time.Since(items[0].Enqueued) != 0 {
			t.Errorf("%+v", items[0])
		}
		if items, err := r.q.List(3, 1); err != nil || len(items) != 1 || items[0].Position != 3 {
			t.Errorf("%v %v", items, err)
		}
	})
}

// TestPurge erases every record and keeps the position (DS-83).
func TestPurge(t *testing.T) {
	mem := kv.OpenMemory()
	q := openQueue(t, mem, Config{})
	for range 3 {
		if _, err := q.Enqueue(t.Context(), make([]Draft, MaxBatch)...); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.Enqueue(t.Context(), drafts("the secret text")...); err != nil {
		t.Fatal(err)
	}
	n, err := q.Purge(t.Context())
	if n != 3*MaxBatch+1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	r := &rig{t: t, mem: mem}
	if d := r.dump(); strings.Contains(d, "secret") || strings.Count(d, "=") > 2 {
		t.Error("something is left")
	}
	es, err := q.Enqueue(t.Context(), drafts("x")...)
	if err != nil || es[0].Position != Position(3*MaxBatch+2) {
		t.Errorf("%v %v", es, err)
	}
}

// TestHeadLookup: after 100,000 acknowledgements finding the head reads what it reads in a
// new queue (ST-05).
func TestHeadLookup(t *testing.T) {
	reads := func(acked int) (gets, scans int) {
		mem := kv.OpenMemory()
		q := openQueue(t, mem, Config{})
		for acked > 0 {
			n := min(acked, MaxBatch)
			if _, err := q.Enqueue(t.Context(), make([]Draft, n)...); err != nil {
				t.Fatal(err)
			}
			for range n {
				rec, _, err := q.store.head()
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := q.store.dequeue(rec.Entry.Position); err != nil {
					t.Fatal(err)
				}
			}
			acked -= n
		}
		if _, err := q.Enqueue(t.Context(), drafts("x")...); err != nil {
			t.Fatal(err)
		}
		c := &countingStore{Store: mem}
		q.store.kv = c
		rec, _, err := q.store.head()
		if err != nil || string(rec.Entry.Payload) != "x" {
			t.Fatal(err)
		}
		return c.gets, c.scans
	}
	gets, scans := reads(0)
	gets2, scans2 := reads(100_000)
	if gets != gets2 || scans != 0 || scans2 != 0 || gets > 3 {
		t.Errorf("%d gets and %d scans, then %d and %d", gets, scans, gets2, scans2)
	}
}

type countingStore struct {
	kv.Store
	gets, scans int
}

type countingReader struct {
	kv.Reader
	c *countingStore
}

func (c *countingStore) View(fn func(kv.Reader) error) error {
	return c.Store.View(func(r kv.Reader) error { return fn(countingReader{r, c}) })
}

func (r countingReader) Get(k []byte) ([]byte, error) { r.c.gets++; return r.Reader.Get(k) }

func (r countingReader) Scan(s kv.Scan, fn func(k, v []byte) error) error {
	r.c.scans++
	return r.Reader.Scan(s, fn)
}

// TestManyGenerations: more rows than one commit may delete are swept after the dequeue
// (DS-43: no recreation cap).
func TestManyGenerations(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.connect(&fakePeer{answer: always(eventgraph.NackTooOld)}, silent())
		r.enqueue("x")
		sleep((dequeueGenerations+10)*90*time.Second + 10*time.Second)
		h, _ := r.w.Head()
		if h.Generations < dequeueGenerations+5 {
			t.Fatalf("%+v", h)
		}
		r.invariants()
		r.crash() // and with all of them known again
		r.run()
		synctest.Wait()
		r.connect(holder())
		sleep(2 * time.Minute)
		if s := r.summary(); s.Depth != 0 || s.Bytes != 0 {
			t.Errorf("%+v", s)
		}
		sleep(time.Minute)
		if n, err := r.q.sweep(t.Context()); n != 0 || err != nil {
			t.Errorf("%d rows left, %v", n, err)
		}
	})
}

// TestTextIsNeverPrinted: no verb, encoder or logger shows text, content or connection
// (DS-44, DS-51).
func TestTextIsNeverPrinted(t *testing.T) {
	const secret = "wherethetreasureis"
	ev := eventgraph.Event{Content: []byte(secret)}
	gen := Generation{Event: ev, Blob: []byte(secret)}
	entry := Entry{Position: 1, Payload: Payload(secret)}
	rec := &Record{Entry: entry, Active: &gen}
	for _, v := range []any{
		Payload(secret),
		Draft{Payload: Payload(secret)},
		entry, &entry,
		[]Entry{entry},
		gen, &gen, rec,
		Materialise{entry},
		PutGeneration{Entry: entry, Generation: gen},
		Insert{1, &gen},
		Send{Generation: &gen},
		Materialised{Event: ev, Blob: []byte(secret)},
		Loaded{Record: rec},
		Failed{Record: rec},
		ConnID(0x5ec4e7),
		Item{},
		Summary{},
		HeadStatus{},
		Notice{},
	} {
		var out strings.Builder
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%o", "%c", "%U"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
		for _, leak := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), "119 104 101 114", "5ec4e7", "6210791"} {
			if strings.Contains(out.String(), leak) {
				t.Errorf("%T prints %q:\n%s", v, leak, out.String())
			}
		}
		b, err := json.Marshal(v)
		if _, action := v.(Action); !action && (err != nil || bytes.Contains(b, []byte(secret))) {
			t.Errorf("%T as JSON: %v", v, err)
		}
	}
}

// TestLogsHoldNothing: a whole life at debug level without a word of the text (DS-44).
func TestLogsHoldNothing(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	bubble(t, func(t *testing.T, r *rig) {
		r.mat.set(&Refusal{Reason: ReasonKey, Err: errors.New("no key")})
		r.enqueue("canarytext", "canarytext")
		r.connect(holder(), holder())
		sleep(time.Minute)
		if err := r.q.Cancel(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		r.mat.set(nil)
		r.change(func() { r.net.insert = errors.New("graph is full") })
		sleep(2 * time.Minute)
	}, func(r *rig) { r.cfg.Logger, r.wcfg.Logger = log, log })
	if out.Len() == 0 || strings.Contains(out.String(), "canary") {
		t.Errorf("log: %s", out.String())
	}
	if !strings.Contains(out.String(), "cancelled") {
		t.Error("DS-84: a cancel is logged")
	}
}
