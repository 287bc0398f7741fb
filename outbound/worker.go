package outbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// The way of a message, and what a crash after each line leaves (spec/delivery.md,
// section 4). Head decides the order; perform, below, is the only place that acts.
//
//	Materialise    nothing is stored or seen; made again with a fresh nonce
//	PutGeneration  COMMIT: event, blob, active pointer, link, schedule, owner
//	Insert         the local graph has it: the first moment anybody can see it
//	Send           peers have it; the generation resumes unchanged until ...
//	SaveRound      COMMIT: the schedule; losing it costs one early round
//	(evidence)     two bits in memory; the next round asks again
//	Dequeue        COMMIT: gone, once; the next head runs

// WorkerConfig configures a Worker. The zero value of each field is the default.
type WorkerConfig struct {
	Policy      Policy
	RateLimiter RateLimiter      // default: none, every blob is empty (DS-78)
	Notify      func(Notice)     // called from Run, must not block (DS-76); default: nobody is told
	Now         func() time.Time // wall clock, data here: slots and due times follow it; default time.Now
	Logger      *slog.Logger     // default: discard
}

// A Worker serves the head of a queue (DS-50). There is one per queue.
type Worker struct {
	q       *Queue
	net     Network
	mat     Materialiser
	limiter RateLimiter
	notify  func(Notice)
	now     func() time.Time
	log     *slog.Logger
	wakeup  time.Duration

	running atomic.Bool
	retry   atomic.Bool // Retry was called

	// Owned by Run's goroutine while it holds the queue's turn.
	head   *Head
	seen   uint64    // of q.moved, when the head was loaded
	nudged time.Time // monotonic: the last retry that Retry caused
	// unswept: rows of removed records may be left.
	unswept bool

	// mu guards the fields below. Whoever holds it sees evidence and the record that
	// it is about together.
	mu      sync.Mutex
	tracked tracked
	snap    snapshot
}

// snapshot is what other goroutines may know of the head.
type snapshot struct {
	head      HeadStatus
	hasHead   bool
	notice    Notice
	hasNotice bool
}

// NewWorker makes the worker of q and starts nothing. From now on Observe and its like
// take evidence for the head that is stored.
func NewWorker(q *Queue, network Network, m Materialiser, cfg WorkerConfig) (*Worker, error) {
	head, err := NewHead(cfg.Policy)
	if err != nil {
		return nil, err
	}
	if q == nil || network == nil || m == nil {
		return nil, fmt.Errorf("%w: queue, network and materialiser are needed", ErrConfig)
	}
	w := &Worker{
		q: q, net: network, mat: m, limiter: cfg.RateLimiter, notify: cfg.Notify, now: cfg.Now, log: cfg.Logger,
		wakeup: head.policy.Wakeup, head: head, seen: q.moved.Load(),
		tracked: tracked{tips: !cfg.Policy.NoTipEvidence},
	}
	if w.now == nil {
		w.now = time.Now
	}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	if err := w.load(); err != nil {
		return nil, err
	}
	return w, nil
}

// Run serves the head until ctx ends or the store fails for good (ST-03). It never
// returns nil. What it was doing when ctx ended resumes as after a crash.
func (w *Worker) Run(ctx context.Context) error {
	if !w.running.CompareAndSwap(false, true) {
		return errors.New("outbound: the worker runs already")
	}
	defer w.running.Store(false)
	w.unswept = true
	first := true
	timer := time.NewTimer(w.wakeup)
	defer timer.Stop()
	for {
		if w.unswept {
			_, err := w.q.sweep(ctx)
			if err != nil && fatal(err) {
				return err
			}
			w.unswept = err != nil // tried again at the next wakeup
		}
		more, wait, err := w.serve(ctx, first)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		first = false
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.q.wake:
		case <-timer.C:
		}
	}
}

// serve takes one turn: until the head has nothing to do, or has been removed (more),
// so that a cancel never waits for a long queue to drain.
func (w *Worker) serve(ctx context.Context, first bool) (more bool, wait time.Duration, err error) {
	if err := w.q.lock(ctx); err != nil {
		return false, 0, err
	}
	defer w.q.unlock()
	if moved := w.q.moved.Load(); first || moved != w.seen || w.head.rec == nil {
		w.seen = moved
		if err := w.load(); err != nil {
			return false, 0, err
		}
	}
	if first {
		w.examine(ctx)
	}
	if gap := time.Since(w.nudged); gap >= wakeGap && w.retry.Swap(false) {
		w.nudged = time.Now()
		w.step(Nudge{})
	} else {
		w.step(Tick{})
	}
	for {
		w.evidence()
		a, ok := w.head.Next()
		if !ok {
			break
		}
		in, err := w.perform(ctx, a)
		if err != nil {
			return false, 0, err
		}
		w.step(in)
		if ctx.Err() != nil {
			return false, 0, ctx.Err()
		}
		if _, ok := a.(Dequeue); ok {
			return true, 0, nil
		}
	}
	return false, w.wait(), nil
}

// wait is the time to the next look: due times are exact, and wall time is read again
// after a wakeup at the latest, since it may have jumped or the machine slept.
func (w *Worker) wait() time.Duration {
	d := w.wakeup
	now := w.now()
	if at := w.head.Wake(now, w.net.Facts()); !at.IsZero() {
		d = min(d, at.Sub(now))
	}
	if w.retry.Load() {
		d = min(d, wakeGap)
	}
	return max(d, 0)
}

// step feeds the head and publishes what others may know of it.
func (w *Worker) step(in Input) {
	now, facts := w.now(), w.net.Facts()
	parked := w.head.park
	w.head.Step(now, facts, in)
	if p := w.head.park; p != parked {
		w.log.Debug("head of the queue", "parked", p.String())
		if p != ReasonNone {
			w.q.count.parked.Add(1)
		}
	}
	var s snapshot
	s.head, s.hasHead = w.head.Status(now, facts)
	s.notice, s.hasNotice = w.head.Blocked(now, facts)
	w.mu.Lock()
	w.snap = s
	w.mu.Unlock()
}

// load reads the head's record from the store and follows it.
func (w *Worker) load() error {
	rec, held, err := w.q.store.head()
	if err != nil {
		return err
	}
	w.step(Loaded{rec, held})
	w.follow()
	return nil
}

// follow makes statuses count for the head's generations, and only for them.
func (w *Worker) follow() {
	ids, active := w.head.generations()
	var pos Position
	if w.head.rec != nil {
		pos = w.head.rec.Entry.Position
	}
	w.mu.Lock()
	w.tracked.follow(pos, ids, active)
	w.mu.Unlock()
}

// evidence feeds what has been observed. Both bits stay set as long as they concern
// the head, so a failed commit loses none.
func (w *Worker) evidence() {
	w.mu.Lock()
	acked, tooOld := w.tracked.acked, w.tracked.tooOld
	w.mu.Unlock()
	if acked != eventgraph.NullID && !w.head.acked {
		w.step(Acked{acked})
	}
	if tooOld != eventgraph.NullID && !w.head.life.tooOld {
		w.step(TooOld{tooOld})
	}
}

// examine looks for evidence that was stored while nobody observed (DS-52).
func (w *Worker) examine(ctx context.Context) {
	if w.head.rec == nil {
		return
	}
	var ids []eventgraph.ID
	oldest := w.net.Oldest()
	for _, g := range w.head.rec.Generations {
		if g.slot >= oldest {
			ids = append(ids, g.id)
		}
	}
	if len(ids) == 0 {
		return
	}
	id, found, err := w.net.ForeignDescendant(ctx, ids)
	if err != nil {
		w.log.Warn("stored descendants were not examined", "err", err)
	}
	if found {
		w.mu.Lock()
		if w.tracked.gens[id] {
			w.tracked.ack(id)
		}
		w.mu.Unlock()
	}
}

// perform does one action and says what came of it. An error ends Run.
func (w *Worker) perform(ctx context.Context, a Action) (Input, error) {
	switch a := a.(type) {
	case Tell:
		if w.notify != nil {
			w.notify(a.Notice)
		}
		return Done{}, nil
	case Materialise:
		return w.materialise(ctx, a.Entry), nil
	case PutGeneration:
		if err := w.q.store.putGeneration(a, w.net.Oldest()); err != nil {
			return w.failed(err)
		}
		w.q.count.generations.Add(1)
		if a.Number > 0 {
			w.q.count.replacements.Add(1)
		}
		w.follow() // before anybody can answer
		return Done{}, nil
	case Insert:
		err := w.net.Insert(ctx, a.Generation.Event)
		if err != nil && !errors.Is(err, ErrSlotClosed) {
			return w.failed(err)
		}
		return Done{}, nil
	case Send:
		return PutDone{w.send(ctx, a)}, nil
	case SaveRound:
		return w.saved(w.q.store.saveRetry(opRound, a.Position, a.retry))
	case SavePark:
		return w.saved(w.q.store.saveRetry(opPark, a.Position, a.retry))
	case Dequeue:
		w.unswept = w.unswept || len(w.head.rec.Generations) > dequeueGenerations
		next, held, err := w.q.store.dequeue(a.Position)
		if err != nil {
			return w.failed(err)
		}
		w.q.count.acked.Add(1)
		return w.loaded(Loaded{next, held}), nil
	}
	panic(fmt.Sprintf("outbound: invariant: unknown action %T", a))
}

// loaded clears the old record's evidence before the new one's can come.
func (w *Worker) loaded(l Loaded) Input {
	var pos Position
	var ids []eventgraph.ID
	var active eventgraph.ID
	if l.Record != nil {
		pos = l.Record.Entry.Position
		if l.Record.Active != nil {
			for _, g := range l.Record.Generations {
				ids = append(ids, g.id)
			}
			active = l.Record.active().id
		}
	}
	w.mu.Lock()
	w.tracked.follow(pos, ids, active)
	w.mu.Unlock()
	return l
}

// materialise asks the application for an event and the rate limit for its proof, in
// this order (DS-70).
func (w *Worker) materialise(ctx context.Context, e Entry) Input {
	ev, err := w.mat.Materialise(ctx, e)
	if err != nil {
		return refused(err)
	}
	var blob []byte
	if w.limiter != nil {
		if blob, err = w.limiter.Prove(ctx, ev); err != nil {
			return refused(err)
		}
	}
	if ev.Size() > MaxEvent || len(blob) > MaxBlob {
		return Refused{Reason: ReasonProcessing}
	}
	return Materialised{Event: ev, Blob: blob}
}

// refused maps an error to a parking reason: ReasonProcessing unless it says more.
func refused(err error) Input {
	r := Refused{Reason: ReasonProcessing}
	if ref, ok := errors.AsType[*Refusal](err); ok && ref.Reason != ReasonNone && ref.Reason.stored() {
		r.Reason, r.RetryAt = ref.Reason, toInstant(ref.RetryAt)
	}
	return r
}

// send puts the exact generation; its statuses count from each connection's own
// moment on.
func (w *Worker) send(ctx context.Context, a Send) (written int) {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	id := a.Generation.ID()
	written = w.net.Put(ctx, Put{
		ID: id, Event: a.Generation.Event, Blob: a.Generation.Blob, ToStock: a.ToStock,
		To: func(c ConnID) {
			w.mu.Lock()
			w.tracked.put(id, c)
			w.mu.Unlock()
		},
	})
	w.q.count.sends.Add(1)
	if written == 0 {
		w.q.count.emptySends.Add(1)
	}
	return written
}

// saved: a schedule that could not be stored lives on in memory.
func (w *Worker) saved(err error) (Input, error) {
	if err != nil {
		if fatal(err) {
			return nil, err
		}
		w.q.count.failures.Add(1)
		w.log.Warn("schedule was not stored", "err", err)
	}
	return Done{}, nil
}

// failed reads again what the store has, since a commit that failed may have been
// applied, and parks the head. A store that cannot go on ends Run (ST-03).
func (w *Worker) failed(err error) (Input, error) {
	if fatal(err) {
		return nil, err
	}
	w.q.count.failures.Add(1)
	reason := ReasonStorage
	if errors.Is(err, errCapacity) || errors.Is(err, kv.ErrTooLarge) {
		reason = ReasonCapacity
	}
	w.log.Warn("head of the queue was not moved", "err", err)
	rec, held, err := w.q.store.head()
	if err != nil {
		return nil, err
	}
	w.loaded(Loaded{rec, held})
	return Failed{Reason: reason, Record: rec, Held: held}, nil
}

// fatal tells whether the store is lost to this process.
func fatal(err error) bool {
	return errors.Is(err, kv.ErrUnknown) || errors.Is(err, kv.ErrClosed) || errors.Is(err, kv.ErrCorrupt) ||
		errors.Is(err, context.Canceled)
}

// Observe takes a status that a peer sent (DS-22). It does not block, may be called
// from any goroutine, and loses nothing that concerns the head.
func (w *Worker) Observe(s eventgraph.Status, conn ConnID) {
	w.mu.Lock()
	look := w.tracked.status(s, conn)
	w.mu.Unlock()
	if look {
		w.q.hint()
	}
}

// ObserveTips takes the ids of a TipRep of the ordinary healing exchange, from a peer
// that did not announce the feature; those of other peers must not be given (DS-65). It
// does not block.
func (w *Worker) ObserveTips(ids []eventgraph.ID) {
	look := false
	w.mu.Lock()
	for _, id := range ids {
		look = w.tracked.tip(id) || look
	}
	w.mu.Unlock()
	if look {
		w.q.hint()
	}
}

// Arrived takes an event that the graph has committed, in commit order (DS-52). It does
// not block.
func (w *Worker) Arrived(id eventgraph.ID, parents []eventgraph.ID, src eventgraph.Source) {
	w.mu.Lock()
	look := w.tracked.arrival(id, parents, src)
	w.mu.Unlock()
	if look {
		w.q.hint()
	}
}

// Wake says that Network's facts may have changed: synced, targets, slot, pacing.
func (w *Worker) Wake() { w.q.hint() }

// Retry says that what a parked head waits for may have come: a key, an identity, disk
// space. It is heeded at most once a second (DS-77).
func (w *Worker) Retry() {
	w.retry.Store(true)
	w.q.hint()
}

// Head describes the head as it was at the last step; ok is false for an empty queue.
func (w *Worker) Head() (s HeadStatus, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.snap.head, w.snap.hasHead
}

// Blocked is what a user who connects now is told of a blocked head (DS-76).
func (w *Worker) Blocked() (n Notice, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.snap.notice, w.snap.hasNotice
}
