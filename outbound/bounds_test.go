package outbound

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// TestBounds: each bound, at it and one past it; nothing is evicted (DS-33, DS-42;
// failure cases 16, 52, 53).
func TestBounds(t *testing.T) {
	ctx := t.Context()
	t.Run("messages", func(t *testing.T) {
		q := openQueue(t, kv.OpenMemory(), Config{MaxMessages: 3})
		if _, err := q.Enqueue(ctx, drafts("a", "b", "c", "d")...); !errors.Is(err, ErrFull) {
			t.Errorf("four at once: %v", err)
		}
		if _, err := q.Enqueue(ctx, drafts("a", "b", "c")...); err != nil {
			t.Error(err)
		}
		if _, err := q.Enqueue(ctx, drafts("d")...); !errors.Is(err, ErrFull) {
			t.Errorf("the fourth: %v", err)
		}
		if s, _ := q.Summary(); s.Depth != 3 {
			t.Errorf("%+v", s)
		}
		if err := q.Cancel(ctx, 2); err != nil {
			t.Error(err)
		}
		if es, err := q.Enqueue(ctx, drafts("e")...); err != nil || es[0].Position != 4 {
			t.Errorf("after a cancel: %v %v", es, err)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		q := openQueue(t, kv.OpenMemory(), Config{MaxBytes: 2 * HeadReserve, MaxMessages: 100_000})
		for {
			_, err := q.Enqueue(ctx, Draft{Payload: make(Payload, 8<<10)})
			if errors.Is(err, ErrFull) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		s, _ := q.Summary()
		if s.Bytes > HeadReserve || s.Bytes < HeadReserve-9<<10 {
			t.Errorf("%d bytes of %d taken by enqueues", s.Bytes, HeadReserve)
		}
		// The very last byte fits, one more does not.
		room := HeadReserve - int(s.Bytes)
		row := len(positionKey(tableEntry, 1)) + sealSize + 16 + 8 + 3
		if _, err := q.Enqueue(ctx, Draft{Payload: make(Payload, room-row+1)}); !errors.Is(err, ErrFull) {
			t.Errorf("one byte too many: %v", err)
		}
		if _, err := q.Enqueue(ctx, Draft{Payload: make(Payload, room-row)}); err != nil {
			t.Errorf("the last byte: %v", err)
		}
		if s, _ := q.Summary(); s.Bytes != HeadReserve {
			t.Errorf("%d bytes", s.Bytes)
		}
	})
	t.Run("payload", func(t *testing.T) {
		q := openQueue(t, kv.OpenMemory(), Config{})
		if _, err := q.Enqueue(ctx, Draft{Payload: make(Payload, MaxPayload)}); err != nil {
			t.Error(err)
		}
		if _, err := q.Enqueue(ctx, Draft{Payload: make(Payload, MaxPayload+1)}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%v", err)
		}
	})
	t.Run("batch", func(t *testing.T) {
		q := openQueue(t, kv.OpenMemory(), Config{})
		if _, err := q.Enqueue(ctx, make([]Draft, MaxBatch)...); err != nil {
			t.Error(err)
		}
		if _, err := q.Enqueue(ctx, make([]Draft, MaxBatch+1)...); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%v", err)
		}
		big := make([]Draft, MaxBatchBytes/MaxPayload)
		for i := range big {
			big[i].Payload = make(Payload, MaxPayload)
		}
		if _, err := q.Enqueue(ctx, big...); err != nil {
			t.Error(err)
		}
		if _, err := q.Enqueue(ctx, append(big, Draft{Payload: Payload("x")})...); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%v", err)
		}
		if es, err := q.Enqueue(ctx); es != nil || err != nil {
			t.Errorf("nothing at all: %v %v", es, err)
		}
	})
	t.Run("tombstones", func(t *testing.T) {
		q := openQueue(t, kv.OpenMemory(), Config{MaxMessages: 16})
		if _, err := q.Enqueue(ctx, drafts("head")...); err != nil {
			t.Fatal(err)
		}
		for i := range MaxTombstones {
			es, err := q.Enqueue(ctx, drafts("x")...)
			if err != nil {
				t.Fatalf("%d: %v", i, err)
			}
			if err := q.Cancel(ctx, es[0].Position); err != nil {
				t.Fatalf("%d: %v", i, err)
			}
		}
		if _, err := q.Enqueue(ctx, drafts("x")...); !errors.Is(err, ErrFull) {
			t.Errorf("%v", err)
		}
		if err := q.Cancel(ctx, 1); err != nil { // the head passes them all
			t.Fatal(err)
		}
		if s, _ := q.Summary(); s.Tombstones != 0 || s.Bytes != 0 || s.Cancelled != MaxTombstones+1 {
			t.Errorf("%+v", s)
		}
		if _, err := q.Enqueue(ctx, drafts("x")...); err != nil {
			t.Error(err)
		}
	})
	t.Run("config", func(t *testing.T) {
		for _, c := range []Config{{MaxMessages: -1}, {MaxMessages: 1<<20 + 1}, {MaxBytes: 64<<10 - 1}, {MaxBytes: 1<<34 + 1}} {
			if _, err := Open(kv.OpenMemory(), c); !errors.Is(err, ErrConfig) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		for _, p := range []Policy{{MinPeers: -1}, {Wakeup: 1}, {RetryInitial: 2 * time.Hour}, {RetryRounds: 17}, {Drift: -1}} {
			if _, err := NewHead(p); !errors.Is(err, ErrConfig) {
				t.Errorf("%+v: %v", p, err)
			}
		}
	})
}

// TestCapacityParks: a replacement that cannot be kept parks the head; the old one and the
// rest of the queue stay (DS-42).
func TestCapacityParks(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for range 3 {
			r.enqueue(strings.Repeat("x", 9<<10))
		}
		r.connect(&fakePeer{answer: always(eventgraph.NackTooOld)}, silent())
		synctest.Wait()
		full := r.summary().Bytes
		r.change(func() { r.q.store.maxBytes = uint64(full) }) // not a byte for another generation's row
		sleep(10 * time.Minute)
		h, _ := r.w.Head()
		if h.State != "parked" || h.Reason != "capacity" || h.Generations != 1 || h.Rounds < 3 {
			t.Errorf("%+v", h)
		}
		if s := r.summary(); s.Depth != 3 || s.Bytes != full {
			t.Errorf("%+v, %d bytes before", s, full)
		}
		r.change(func() { r.q.store.maxBytes += 1 << 10 })
		sleep(time.Minute)
		if h, _ := r.w.Head(); h.Generations != 2 {
			t.Errorf("%+v", h)
		}
	})
}

// TestDiskClasses: a filling disk refuses enqueues first and dequeues never (ST-02).
func TestDiskClasses(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		full := r.store.(*fullStore)
		r.enqueue("a", "b")
		r.connect(silent(), silent())
		synctest.Wait()
		r.change(func() { full.class = kv.ClassGeneration + 1 })
		if _, err := r.q.Enqueue(t.Context(), drafts("c")...); !errors.Is(err, ErrStorage) || errors.Is(err, ErrUnknown) {
			t.Errorf("%v", err)
		}
		r.w.Observe(eventgraph.Status{ID: r.net.log()[0].id, Result: eventgraph.HasInserted}, 1)
		synctest.Wait()
		if s := r.summary(); s.Depth != 1 || s.Acked != 1 {
			t.Errorf("%+v", s)
		}
		if h, _ := r.w.Head(); h.Position != 2 || h.State != "parked" || h.Reason != "storage" {
			t.Errorf("%+v", h)
		}
		r.change(func() { full.class = 0 })
		sleep(31 * time.Second)
		if h, _ := r.w.Head(); h.State != "sent" {
			t.Errorf("%+v", h)
		}
	}, func(r *rig) { r.store = &fullStore{Store: r.mem} })
}

// fullStore refuses every class below class.
type fullStore struct {
	kv.Store
	class kv.Class
}

func (f *fullStore) Update(op kv.Op, fn func(kv.Txn) error) error {
	if op.Class < f.class {
		return kv.ErrDiskFull
	}
	return f.Store.Update(op, fn)
}
