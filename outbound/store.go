package outbound

import (
	"encoding/binary"
	"errors"
	"fmt"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// The commits of this package. Their names are the crash points of the tests.
var (
	opOpen       = kv.Op{Name: "outbound/open", Class: kv.ClassEnqueue}
	opEnqueue    = kv.Op{Name: "outbound/enqueue", Class: kv.ClassEnqueue}
	opGeneration = kv.Op{Name: "outbound/generation", Class: kv.ClassGeneration}
	opRound      = kv.Op{Name: "outbound/round", Class: kv.ClassGeneration}
	opPark       = kv.Op{Name: "outbound/park", Class: kv.ClassGeneration}
	opDequeue    = kv.Op{Name: "outbound/dequeue", Class: kv.ClassRelease}
	opCancel     = kv.Op{Name: "outbound/cancel", Class: kv.ClassRelease}
	opPurge      = kv.Op{Name: "outbound/purge", Class: kv.ClassRelease}
	opHold       = kv.Op{Name: "outbound/hold", Class: kv.ClassRelease}
	opSweep      = kv.Op{Name: "outbound/sweep", Class: kv.ClassRelease}
)

// Hooks write into neighbouring tables of the same store within the queue's own
// transactions, so that an arrival log or a deposit can never disagree with the queue.
// An error rolls everything back and is returned by the call that caused it. A hook
// may be called for a commit that then fails; it must not keep tx.
type Hooks struct {
	// Enqueued: e has been given its position.
	Enqueued func(tx kv.Txn, e Entry) error
	// Generated: g becomes e's active generation; number counts from 0 (DS-40).
	Generated func(tx kv.Txn, e Entry, number int, g Generation) error
	// Dequeued: evidence came; the record goes (DS-54).
	Dequeued func(tx kv.Txn, p Position, id LogicalID) error
	// Cancelled: a person removes the record; generations were exposed already (DS-84).
	Cancelled func(tx kv.Txn, p Position, id LogicalID, generations int) error
}

// errStale: the record that a commit is about is no longer the head.
var errStale = errors.New("outbound: no longer the head")

// errNoMeta: the store has no meta row: it is new, or damaged.
var errNoMeta = fmt.Errorf("outbound: %w: meta is missing", kv.ErrCorrupt)

// A hookError is a hook's own error: the caller gets it as it is.
type hookError struct{ err error }

func (e *hookError) Error() string { return e.err.Error() }
func (e *hookError) Unwrap() error { return e.err }

// fromHook wraps what a hook returned.
func fromHook(err error) error {
	if err == nil {
		return nil
	}
	return &hookError{err}
}

// errCapacity: the bound leaves no room for what the head needs (DS-42).
var errCapacity = errors.New("outbound: no room for the head")

// store is the named transactions, and nothing smaller (style: half a transition
// cannot be written).
type store struct {
	kv          kv.Store
	maxMessages int
	maxBytes    uint64
	maxOwners   uint32
	hooks       Hooks
}

// txn is one transaction with its meta row. Each commit begins with begin and ends
// with end.
type txn struct {
	kv.Txn
	meta
}

func begin(tx kv.Txn) (*txn, error) {
	m, err := getMeta(tx)
	if err != nil {
		return nil, err
	}
	return &txn{tx, m}, nil
}

func (t *txn) end() error { return t.Set(metaKey(), seal(metaKey(), t.appendTo(nil))) }

// put writes a row that counts toward max_bytes, replacing old bytes of the same key.
func (t *txn) put(key, body []byte, old uint64) error {
	v := seal(key, body)
	t.bytes += rowSize(key, v) - old
	return t.Set(key, v)
}

// drop deletes a counted row, if it is there.
func (t *txn) drop(key []byte) error {
	v, err := t.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	t.bytes -= rowSize(key, v)
	return t.Delete(key)
}

// corrupt turns a row that must be there and is not into corruption (ST-04).
func corrupt(what string, err error) error {
	if errors.Is(err, kv.ErrNotFound) {
		return fmt.Errorf("outbound: %w: %s is missing", kv.ErrCorrupt, what)
	}
	return err
}

func getMeta(r kv.Reader) (meta, error) {
	m, err := get(r, metaKey(), readMeta)
	if errors.Is(err, kv.ErrNotFound) {
		err = errNoMeta
	}
	return m, err
}

// create writes the first meta row, and refuses a store that has rows but no meta.
func (s *store) create() error {
	return s.kv.Update(opOpen, func(tx kv.Txn) error {
		_, err := get(tx, metaKey(), readMeta)
		if !errors.Is(err, kv.ErrNotFound) {
			return err
		}
		err = tx.Scan(kv.Scan{Prefix: []byte{space}, KeysOnly: true}, func(_, _ []byte) error {
			return fmt.Errorf("outbound: %w: rows without a meta row", kv.ErrCorrupt)
		})
		if err != nil {
			return err
		}
		return (&txn{tx, meta{next: 1, head: 1}}).end()
	})
}

// enqueueLimit is the part of the bound that enqueues may fill (DS-42).
func (s *store) enqueueLimit() uint64 { return s.maxBytes - min(HeadReserve, s.maxBytes/2) }

// enqueue gives the entries the next positions, all or none (DS-31, DS-32).
func (s *store) enqueue(entries []Entry) error {
	return s.kv.Update(opEnqueue, func(tx kv.Txn) error {
		t, err := begin(tx)
		if err != nil {
			return err
		}
		if int(t.depth)+len(entries) > s.maxMessages || t.tombstones >= MaxTombstones {
			return ErrFull
		}
		for i := range entries {
			e := &entries[i]
			e.Position = t.next
			row := entryRow{id: e.ID, enqueued: toInstant(e.Enqueued), payload: e.Payload}
			if err := t.put(positionKey(tableEntry, t.next), row.appendTo(nil), 0); err != nil {
				return err
			}
			t.next++
			t.depth++
		}
		if t.bytes > s.enqueueLimit() {
			return ErrFull
		}
		if s.hooks.Enqueued != nil {
			for _, e := range entries {
				if err := fromHook(s.hooks.Enqueued(tx, e)); err != nil {
					return err
				}
			}
		}
		return t.end()
	})
}

// load reads the head: three point reads on a fresh one, whatever came before (ST-05).
// rec is nil for an empty queue.
func load(r kv.Reader) (rec *Record, held bool, err error) {
	m, err := getMeta(r)
	if err != nil {
		return nil, false, err
	}
	if m.head == m.next {
		return nil, m.held, nil
	}
	rec, err = readRecord(r, m.head)
	return rec, m.held, err
}

func readRecord(r kv.Reader, p Position) (*Record, error) {
	row, err := get(r, positionKey(tableEntry, p), readEntry)
	if err != nil {
		return nil, corrupt("head", err)
	}
	rec := &Record{Entry: row.entry(p)}
	rec.retry, err = get(r, positionKey(tableRetry, p), readRetry)
	if errors.Is(err, kv.ErrNotFound) {
		return rec, nil
	}
	if err != nil || rec.retry.generations == 0 {
		return rec, err
	}
	err = r.Scan(kv.Scan{Prefix: positionKey(tableGeneration, p)}, func(k, v []byte) error {
		if len(k) != 14 || binary.BigEndian.Uint32(k[10:]) != uint32(len(rec.Generations)) {
			return fmt.Errorf("outbound: %w: generation rows are not dense", kv.ErrCorrupt)
		}
		var g generationRow
		if err := unseal(k, v, into(&g, readGeneration)); err != nil {
			return err
		}
		rec.Generations = append(rec.Generations, g)
		return nil
	})
	if err != nil {
		return nil, err
	}
	a, err := get(r, positionKey(tableActive, p), readActive)
	if err != nil {
		return nil, corrupt("active generation", err)
	}
	rec.Active = &Generation{Event: a.event, Blob: a.blob}
	if err := rec.valid(); err != nil {
		return nil, err
	}
	rec.Active.Slot = rec.active().slot
	return rec, nil
}

// valid checks the chain: every generation is superseded by the next, the last by
// none, and the last is the active event (DS-38, DS-41).
func (r *Record) valid() error {
	bad := func(what string) error { return fmt.Errorf("outbound: %w: %s", kv.ErrCorrupt, what) }
	n := len(r.Generations)
	if n != int(r.retry.generations) || (n > 0) != (r.Active != nil) {
		return bad("number of generations")
	}
	for i := range r.Generations {
		want := eventgraph.NullID
		if i+1 < n {
			want = r.Generations[i+1].id
		}
		if r.Generations[i].superseded != want {
			return bad("supersession link")
		}
	}
	if n > 0 && r.active().id != r.Active.ID() {
		return bad("active event is not the last generation")
	}
	return nil
}

func (e *entryRow) entry(p Position) Entry {
	return Entry{Position: p, ID: e.id, Enqueued: e.enqueued.time(), Payload: e.payload}
}

// atHead begins a commit about the head at p.
func atHead(tx kv.Txn, p Position) (*txn, error) {
	t, err := begin(tx)
	if err != nil {
		return nil, err
	}
	if t.head != p || t.head == t.next {
		return nil, errStale
	}
	return t, nil
}

// readRetryOf is the head's schedule, and the size of its row; zero where there is none.
func readRetryOf(tx kv.Reader, p Position) (r retryRow, size uint64, err error) {
	key := positionKey(tableRetry, p)
	v, err := tx.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		return r, 0, nil
	}
	if err != nil {
		return r, 0, err
	}
	err = unseal(key, v, into(&r, readRetry))
	return r, rowSize(key, v), err
}

// putGeneration makes g the active generation: event, blob, pointer, link, schedule
// and owner in one commit (DS-40). errCapacity and MaxOwners leave everything as it was.
func (s *store) putGeneration(a PutGeneration, oldest eventgraph.Slot) error {
	return s.kv.Update(opGeneration, func(tx kv.Txn) error {
		t, err := atHead(tx, a.Entry.Position)
		if err != nil {
			return err
		}
		retry, old, err := readRetryOf(tx, a.Entry.Position)
		if err != nil {
			return err
		}
		if retry.generations != a.Number {
			return errStale
		}
		if err := t.prune(oldest); err != nil {
			return err
		}
		if t.owners >= s.maxOwners {
			return errCapacity
		}
		id := a.row.id
		if a.Number > 0 {
			key := generationKey(a.Entry.Position, a.Number-1)
			prior, err := get(tx, key, readGeneration)
			if err != nil {
				return corrupt("generation", err)
			}
			prior.superseded = id // same size
			if err := tx.Set(key, seal(key, prior.appendTo(nil))); err != nil {
				return err
			}
		}
		key := generationKey(a.Entry.Position, a.Number)
		if err := t.put(key, a.row.appendTo(nil), 0); err != nil {
			return err
		}
		if err := t.drop(positionKey(tableActive, a.Entry.Position)); err != nil {
			return err
		}
		active := activeRow{event: a.Generation.Event, blob: a.Generation.Blob}
		if err := t.put(positionKey(tableActive, a.Entry.Position), active.appendTo(nil), 0); err != nil {
			return err
		}
		retry = retryRow{
			generations: a.Number + 1, due: a.due,
			genBytes: retry.genBytes + uint64(len(key)+generationRowSize),
		}
		if err := t.put(positionKey(tableRetry, a.Entry.Position), retry.appendTo(nil), old); err != nil {
			return err
		}
		if t.bytes > s.maxBytes {
			return errCapacity
		}
		owner := ownerRow{id: a.Entry.ID, slot: a.row.slot}
		if err := tx.Set(ownerKey(id), seal(ownerKey(id), owner.appendTo(nil))); err != nil {
			return err
		}
		age := ageKey(a.row.slot, id)
		if err := tx.Set(age, seal(age, nil)); err != nil {
			return err
		}
		t.owners++
		if s.hooks.Generated != nil {
			if err := fromHook(s.hooks.Generated(tx, a.Entry, int(a.Number), a.Generation)); err != nil {
				return err
			}
		}
		return t.end()
	})
}

// saveRetry overwrites the schedule; what only putGeneration changes stays.
func (s *store) saveRetry(op kv.Op, p Position, r retryRow) error {
	return s.kv.Update(op, func(tx kv.Txn) error {
		t, err := atHead(tx, p)
		if err != nil {
			return err
		}
		stored, old, err := readRetryOf(tx, p)
		if err != nil {
			return err
		}
		r.generations, r.genBytes = stored.generations, stored.genBytes
		if err := t.put(positionKey(tableRetry, p), r.appendTo(nil), old); err != nil {
			return err
		}
		return t.end()
	})
}

// dequeue removes the head for good and returns the next one (DS-43, DS-54).
func (s *store) dequeue(p Position) (next *Record, held bool, err error) {
	err = s.kv.Update(opDequeue, func(tx kv.Txn) error {
		t, err := atHead(tx, p)
		if err != nil {
			return err
		}
		row, err := get(tx, positionKey(tableEntry, p), readEntry)
		if err != nil {
			return corrupt("head", err)
		}
		if err := t.removeHead(); err != nil {
			return err
		}
		t.acked++
		if s.hooks.Dequeued != nil {
			if err := fromHook(s.hooks.Dequeued(tx, p, row.id)); err != nil {
				return err
			}
		}
		if err := t.end(); err != nil {
			return err
		}
		next, held, err = load(tx)
		return err
	})
	return next, held, err
}

// removeHead deletes the head's rows and moves the head pointer on, over tombstones.
func (t *txn) removeHead() error {
	p := t.head
	retry, _, err := readRetryOf(t, p)
	if err != nil {
		return err
	}
	for _, table := range []byte{tableEntry, tableRetry, tableActive} {
		if err := t.drop(positionKey(table, p)); err != nil {
			return err
		}
	}
	t.bytes -= retry.genBytes
	for n := range min(retry.generations, dequeueGenerations) {
		if err := t.Delete(generationKey(p, n)); err != nil {
			return err
		}
	}
	t.depth--
	for t.head++; t.head < t.next; t.head++ {
		key := positionKey(tableTombstone, t.head)
		if _, err := get(t, key, readEmpty); errors.Is(err, kv.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		if err := t.drop(key); err != nil {
			return err
		}
		t.tombstones--
	}
	return nil
}

// head reads the head's record; nil for an empty queue.
func (s *store) head() (rec *Record, held bool, err error) {
	err = s.kv.View(func(r kv.Reader) error {
		rec, held, err = load(r)
		return err
	})
	return rec, held, err
}
