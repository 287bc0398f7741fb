package outbound

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// Errors that callers branch on.
var (
	// ErrFull: the bounds on records or bytes are reached. Nothing was written.
	ErrFull = errors.New("outbound: queue is full")
	// ErrTooLarge: a payload or a batch is above its bound. Nothing was written.
	ErrTooLarge = errors.New("outbound: message too large")
	// ErrStorage: the store refuses to write, for want of disk space or because it is
	// closed. Nothing was written.
	ErrStorage = errors.New("outbound: storage refuses the message")
	// ErrUnknown: whether the commit is durable is not known, so neither is whether
	// the message will be sent (ST-03).
	ErrUnknown = errors.New("outbound: outcome unknown")
	// ErrNotFound: no record at that position.
	ErrNotFound = errors.New("outbound: no such record")
	// ErrConfig: the configuration cannot work.
	ErrConfig = errors.New("outbound: invalid configuration")
)

// Config configures a Queue. The zero value of each field is the default.
type Config struct {
	MaxMessages int              // records; default DefaultMaxMessages
	MaxBytes    int64            // bytes of all rows, HeadReserve of it for the head; default DefaultMaxBytes, at least 64 KiB
	Hooks       Hooks            // what else happens in the queue's transactions
	Now         func() time.Time // wall clock, data here: enqueue times; default time.Now
	Logger      *slog.Logger     // default: discard
}

func (c *Config) validate() error {
	if c.MaxMessages == 0 {
		c.MaxMessages = DefaultMaxMessages
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxMessages < 1 || c.MaxMessages > 1<<20 {
		return fmt.Errorf("%w: MaxMessages %d is not between 1 and %d", ErrConfig, c.MaxMessages, 1<<20)
	}
	if c.MaxBytes < 64<<10 || c.MaxBytes > 1<<34 {
		return fmt.Errorf("%w: MaxBytes %d is not between 64 KiB and 16 GiB", ErrConfig, c.MaxBytes)
	}
	return nil
}

// A Queue is the durable FIFO. Its methods may be called from any goroutine.
type Queue struct {
	store store
	now   func() time.Time
	log   *slog.Logger
	count counters

	// turn is held by whoever removes records or advances the head: a worker for one
	// list of actions, or Cancel and its like for one commit (DS-56). A channel, since
	// waiting for it must end with a context.
	turn chan struct{}
	// wake tells the worker that the head may have changed. It is a hint: the worker
	// reads the store, so one pending wake is enough.
	wake chan struct{}
	// moved counts commits other than the worker's own that may have changed the head.
	moved atomic.Uint64
}

// Open opens the queue in store, or makes it there, and checks all of it: damage is
// kv.ErrCorrupt. It starts nothing.
func Open(s kv.Store, cfg Config) (*Queue, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	q := &Queue{
		store: store{kv: s, maxMessages: cfg.MaxMessages, maxBytes: uint64(cfg.MaxBytes), maxOwners: MaxOwners, hooks: cfg.Hooks},
		now:   cfg.Now,
		log:   cfg.Logger,
		turn:  make(chan struct{}, 1),
		wake:  make(chan struct{}, 1),
	}
	err := s.View(check)
	if errors.Is(err, errNoMeta) {
		if err := q.store.create(); err != nil {
			return nil, err
		}
		err = s.View(check)
	}
	if err != nil {
		return nil, err
	}
	return q, nil
}

// Enqueue accepts the drafts in their order, next to each other, all or none. When it
// returns nil they are durable (DS-31, DS-32). Errors: ErrFull, ErrTooLarge, ErrStorage,
// ErrUnknown, ctx's before anything was done, or a hook's.
func (q *Queue) Enqueue(ctx context.Context, drafts ...Draft) ([]Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(drafts) == 0 {
		return nil, nil
	}
	if len(drafts) > MaxBatch {
		return nil, fmt.Errorf("%w: %d messages at once", ErrTooLarge, len(drafts))
	}
	at := toInstant(q.now()).time()
	entries := make([]Entry, len(drafts))
	total := 0
	for i, d := range drafts {
		total += len(d.Payload)
		if len(d.Payload) > MaxPayload || total > MaxBatchBytes {
			return nil, fmt.Errorf("%w: payload of %d bytes, %d at once", ErrTooLarge, len(d.Payload), total)
		}
		if d.ID == (LogicalID{}) {
			rand.Read(d.ID[:]) // never fails
		}
		entries[i] = Entry{ID: d.ID, Enqueued: at, Payload: append(Payload(nil), d.Payload...)}
	}
	if err := q.store.enqueue(entries); err != nil {
		q.count.refused.Add(1)
		return nil, commitError("enqueue", err)
	}
	q.count.accepted.Add(uint64(len(entries)))
	q.hint()
	return entries, nil
}

// hint wakes the worker.
func (q *Queue) hint() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// commitError says what a failed commit means for the caller: what was refused before
// it was handed to the disk was not written; everything else is unknown (ST-03).
func commitError(op string, err error) error {
	var hook *hookError
	switch {
	case errors.Is(err, kv.ErrDiskFull), errors.Is(err, kv.ErrClosed), errors.Is(err, kv.ErrTooLarge):
		return fmt.Errorf("%w: %s: %w", ErrStorage, op, err)
	case errors.Is(err, ErrFull), errors.Is(err, ErrNotFound), errors.Is(err, errStale), errors.Is(err, errCapacity):
	case errors.As(err, &hook):
		return hook.err
	default:
		return fmt.Errorf("%w: %s: %w", ErrUnknown, op, err)
	}
	return err
}

func (q *Queue) lock(ctx context.Context) error {
	select {
	case q.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *Queue) unlock() { <-q.turn }

// remove runs a commit that may remove records, in its turn.
func (q *Queue) remove(ctx context.Context, op string, commit func() error) error {
	if err := q.lock(ctx); err != nil {
		return err
	}
	defer q.unlock()
	q.moved.Add(1) // also where the outcome is unknown
	if err := commit(); err != nil {
		return commitError(op, err)
	}
	q.hint()
	return nil
}

// Cancel removes the record at p, for a person (DS-84). When it returns nil, nothing
// of it is made or put any more; what is out cannot be recalled. It waits for the
// worker's turn to end.
func (q *Queue) Cancel(ctx context.Context, p Position) error {
	err := q.remove(ctx, "cancel", func() error { return q.store.cancel(p) })
	if err == nil {
		q.log.Info("queued message cancelled by a person", "position", p.String())
	}
	return err
}

// Purge cancels all records and tells how many there were (DS-83). Rewriting the
// files, so that no bytes of them remain, is the store's matter.
func (q *Queue) Purge(ctx context.Context) (n int, err error) {
	err = q.remove(ctx, "purge", func() error {
		for {
			k, err := q.store.purge(MaxBatch)
			n += k
			if err != nil || k == 0 {
				return err
			}
		}
	})
	if err == nil {
		_, err = q.sweep(ctx)
	}
	return n, err
}

// Hold stops all sending until Release: for a restored queue, whose records may have
// been acknowledged since the backup (ST-06). It is durable.
func (q *Queue) Hold(ctx context.Context) error {
	return q.remove(ctx, "hold", func() error { return q.store.hold(true) })
}

// Release confirms a held queue.
func (q *Queue) Release(ctx context.Context) error {
	return q.remove(ctx, "release", func() error { return q.store.hold(false) })
}

// sweep deletes what is left of removed records.
func (q *Queue) sweep(ctx context.Context) (n int, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		k, err := q.store.sweep(sweepRows)
		n += k
		if err != nil || k == 0 {
			return n, err
		}
	}
}

// Owner tells whose a generation is, as long as a retained slot can hold it, also
// after its record is gone (DS-85).
func (q *Queue) Owner(id eventgraph.ID) (owner LogicalID, ok bool, err error) {
	err = q.store.kv.View(func(r kv.Reader) error {
		row, err := get(r, ownerKey(id), readOwner)
		if errors.Is(err, kv.ErrNotFound) {
			return nil
		}
		owner, ok = row.id, err == nil
		return err
	})
	return owner, ok, err
}

// Summary counts what the store holds: one point read.
func (q *Queue) Summary() (s Summary, err error) {
	err = q.store.kv.View(func(r kv.Reader) error {
		m, err := getMeta(r)
		s = Summary{
			Depth: int(m.depth), Tombstones: int(m.tombstones), Bytes: int64(m.bytes),
			Acked: m.acked, Cancelled: m.cancelled, Owners: int(m.owners), Held: m.held,
		}
		return err
	})
	return s, err
}

// List describes retained records from position on, at most limit, tombstones
// included; never text (DS-83).
func (q *Queue) List(from Position, limit int) (items []Item, err error) {
	err = q.store.kv.View(func(r kv.Reader) error {
		items = nil
		m, err := getMeta(r)
		if err != nil {
			return err
		}
		for p := max(from, m.head); p < m.next && len(items) < limit; p++ {
			key := positionKey(tableEntry, p)
			v, err := r.Get(key)
			if errors.Is(err, kv.ErrNotFound) {
				items = append(items, Item{Position: p, State: "cancelled"})
				continue
			}
			if err != nil {
				return err
			}
			var e entryRow
			if err := unseal(key, v, into(&e, readEntry)); err != nil {
				return err
			}
			it := Item{Position: p, Enqueued: e.enqueued.time(), Size: len(key) + len(v), State: "queued"}
			if p == m.head {
				if err := it.head(r, p); err != nil {
					return err
				}
			}
			items = append(items, it)
		}
		return nil
	})
	return items, err
}

// head adds what only the head has.
func (it *Item) head(r kv.Reader, p Position) error {
	it.State = "head"
	retry, size, err := readRetryOf(r, p)
	if err != nil {
		return err
	}
	it.Generations = int(retry.generations)
	it.Size += int(size + retry.genBytes)
	key := positionKey(tableActive, p)
	v, err := r.Get(key)
	if err == nil {
		it.Size += int(rowSize(key, v))
	} else if !errors.Is(err, kv.ErrNotFound) {
		return err
	}
	return nil
}
