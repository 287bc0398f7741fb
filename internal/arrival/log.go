package arrival

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// Errors that callers branch on.
var (
	// ErrNotFound: no such row.
	ErrNotFound = errors.New("arrival: no such row")
	// ErrBusy: the disk is too full for new rows; what was given can be given again.
	ErrBusy = kv.ErrDiskFull

	errKind = errors.New("unknown kind")
)

// maxGenerations bounds the generations that one own row remembers: the newest ones.
// A message that is recreated hourly for a year has 8,760, of which only those in
// retained slots can come back.
const maxGenerations = 1 << 10

// Seq is a position in the order of arrival, from 1.
type Seq uint64

// An ID names an own message (its logical id) or a mailbox message.
type ID [16]byte

// A Kind says what a row stands for.
type Kind uint8

// Kinds.
const (
	Foreign Kind = iota + 1 // somebody's event
	Own                     // a message accepted here
	Mail                    // a message from a mailbox
)

// A Row is one message in the order of arrival.
type Row struct {
	Seq   Seq
	Kind  Kind
	At    int64           // ms: of acceptance for an own message, of arrival for others
	Slot  eventgraph.Slot // of Event; 0 while there is none
	Event eventgraph.ID   // the event, or the newest generation; null while there is none
	ID    ID              // logical id or mailbox message id; of a foreign event that of the message, if a mailbox brought it too
	Hash  [32]byte        // content hash of Event
	// Position is an own message's place in the queue, for as long as it is there.
	Position uint64

	generations []generation // older ones of an own message, oldest first; the aliases of a mailbox message
}

type generation struct {
	event eventgraph.ID
	hash  [32]byte
}

// Time is At as a time.
func (r *Row) Time() time.Time { return time.UnixMilli(r.At) }

// Events are the events that the row stands for, the newest first. Only some of them
// may be in the graph.
func (r *Row) Events() (ids []eventgraph.ID) {
	if !r.Event.IsNull() {
		ids = append(ids, r.Event)
	}
	for _, g := range slices.Backward(r.generations) {
		if !g.event.IsNull() {
			ids = append(ids, g.event)
		}
	}
	return ids
}

// A Log is the durable order of arrival. Its methods may be called from any goroutine;
// those that take a kv.Txn belong to a transaction of the same store.
type Log struct {
	store kv.Store
	now   func() time.Time
	mail  Correspondence // nil: no mailbox brings anything

	mu   sync.Mutex
	wake chan struct{} // closed and replaced when rows may have come
}

// Open opens the log in store. now is the wall clock, nil for time.Now.
func Open(store kv.Store, now func() time.Time) (*Log, error) {
	if now == nil {
		now = time.Now
	}
	l := &Log{store: store, now: now, wake: make(chan struct{})}
	return l, store.View(func(r kv.Reader) error { _, err := readMeta(r); return err })
}

func readMeta(r kv.Reader) (m meta, err error) {
	v, err := r.Get(key(tableMeta))
	if errors.Is(err, kv.ErrNotFound) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	return m, m.decode(v)
}

// readSeq follows an index; 0 where it leads nowhere.
func readSeq(r kv.Reader, k []byte) (Seq, error) {
	v, err := r.Get(k)
	if errors.Is(err, kv.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("arrival: %w: index of %d bytes", kv.ErrCorrupt, len(v))
	}
	return Seq(binary.BigEndian.Uint64(v)), nil
}

func readRow(r kv.Reader, s Seq) (row Row, err error) {
	v, err := r.Get(key(tableRow, be(uint64(s))))
	if errors.Is(err, kv.ErrNotFound) {
		return row, ErrNotFound
	}
	if err != nil {
		return row, err
	}
	row.Seq = s
	return row, row.decode(v)
}

// writes collects the errors of several writes.
type writes struct {
	tx  kv.Txn
	err error
}

func (w *writes) set(k, v []byte) {
	if w.err == nil {
		w.err = w.tx.Set(k, v)
	}
}

func (w *writes) del(k []byte) {
	if w.err == nil {
		w.err = w.tx.Delete(k)
	}
}

// index makes a row findable under everything that it is known by.
func (w *writes) index(row *Row) {
	s := be(uint64(row.Seq))
	if !row.Event.IsNull() {
		w.set(key(tableEvent, row.Event[:]), s)
		w.set(key(tableHash, row.Hash[:]), s)
		w.set(key(tableSlot, be(uint64(row.Slot)), s), nil)
	}
	switch row.Kind {
	case Own:
		w.set(key(tableOwn, row.ID[:]), s)
	case Mail:
		w.set(key(tableInbox, row.ID[:]), s)
	case Foreign:
	}
}

// append gives row the next number and stores it.
func (w *writes) append(m *meta, row *Row) {
	m.last++
	m.rows++
	row.Seq = m.last
	w.set(key(tableRow, be(uint64(row.Seq))), row.encode())
	w.index(row)
}

// remove takes a row out, with everything that leads to it and to nothing else.
func (w *writes) remove(m *meta, row *Row) {
	mine := func(k []byte) {
		if w.err != nil {
			return
		}
		s, err := readSeq(w.tx, k)
		if err != nil {
			w.err = err
		} else if s == row.Seq {
			w.del(k)
		}
	}
	s := be(uint64(row.Seq))
	w.del(key(tableRow, s))
	mine(key(tableEvent, row.Event[:]))
	mine(key(tableHash, row.Hash[:]))
	for _, g := range row.generations {
		mine(key(tableEvent, g.event[:]))
		mine(key(tableHash, g.hash[:]))
	}
	if !row.Event.IsNull() || row.Slot != 0 {
		w.del(key(tableSlot, be(uint64(row.Slot)), s))
	}
	mine(key(tableOwn, row.ID[:]))
	mine(key(tableInbox, row.ID[:]))
	m.rows--
}

// AppendOwn adds an accepted message, in the transaction that enqueues it at position.
func (l *Log) AppendOwn(tx kv.Txn, id ID, position uint64, accepted time.Time) error {
	m, err := readMeta(tx)
	if err != nil {
		return err
	}
	w := writes{tx: tx}
	w.append(&m, &Row{Kind: Own, At: accepted.UnixMilli(), ID: id, Position: position})
	w.set(key(tableMeta), m.encode())
	return w.err
}

// OwnGeneration says that ev is the newest generation of an own message, in the
// transaction that makes it durable. Its arrival from the graph will be recognised.
func (l *Log) OwnGeneration(tx kv.Txn, id ID, slot eventgraph.Slot, ev *eventgraph.Event) error {
	s, err := readSeq(tx, key(tableOwn, id[:]))
	if err != nil || s == 0 {
		return err
	}
	row, err := readRow(tx, s)
	if err != nil {
		return err
	}
	w := writes{tx: tx}
	if !row.Event.IsNull() {
		w.del(key(tableSlot, be(uint64(row.Slot)), be(uint64(s))))
		if len(row.generations) == maxGenerations {
			w.del(key(tableEvent, row.generations[0].event[:]))
			w.del(key(tableHash, row.generations[0].hash[:]))
			row.generations = slices.Delete(row.generations, 0, 1)
		}
		row.generations = append(row.generations, generation{row.Event, row.Hash})
	}
	row.Event, row.Slot, row.Hash = ev.Header.ID(), slot, ev.ContentHash
	w.set(key(tableRow, be(uint64(s))), row.encode())
	w.index(&row)
	return w.err
}

// RemoveOwn takes a cancelled message out, in the transaction that cancels it. A
// message that was exposed stays: others may have it.
func (l *Log) RemoveOwn(tx kv.Txn, id ID) error {
	s, err := readSeq(tx, key(tableOwn, id[:]))
	if err != nil || s == 0 {
		return err
	}
	row, err := readRow(tx, s)
	if err != nil || !row.Event.IsNull() {
		return err
	}
	m, err := readMeta(tx)
	if err != nil {
		return err
	}
	w := writes{tx: tx}
	w.remove(&m, &row)
	w.set(key(tableMeta), m.encode())
	return w.err
}

// AppendMail adds a message from a mailbox in the transaction that stages it, unless it
// is known: by its id, or because its event came by the graph (hash is the hash of the
// content that the event has). added tells which.
func (l *Log) AppendMail(tx kv.Txn, id ID, hash [32]byte) (added bool, err error) {
	if s, err := readSeq(tx, key(tableInbox, id[:])); err != nil || s != 0 {
		return false, err
	}
	if s, err := readSeq(tx, key(tableHash, hash[:])); err != nil {
		return false, err
	} else if s != 0 {
		row, err := readRow(tx, s)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return false, err
		}
		if err == nil && row.carries(hash) {
			// Known by the graph: from now on by its id too, so that its later generations are.
			return false, nameRow(tx, s, id)
		}
	}
	if forgotten, err := has(tx, key(tableDirect, hash[:])); err != nil || forgotten {
		return false, err
	}
	m, err := readMeta(tx)
	if err != nil {
		return false, err
	}
	w := writes{tx: tx}
	row := Row{Kind: Mail, At: l.now().UnixMilli(), ID: id, Hash: hash}
	w.append(&m, &row)
	w.set(key(tableHash, hash[:]), be(uint64(row.Seq)))
	w.set(key(tableMeta), m.encode())
	return true, w.err
}

// nameRow makes the row of a foreign event findable under a message id, for as long as
// it is there. A row has one: a second id for the same words needs none.
func nameRow(tx kv.Txn, s Seq, id ID) error {
	row, err := readRow(tx, s)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil || row.Kind != Foreign || row.ID != (ID{}) {
		return err
	}
	row.ID = id
	w := writes{tx: tx}
	w.set(key(tableRow, be(uint64(s))), row.encode())
	w.set(key(tableInbox, id[:]), be(uint64(s)))
	return w.err
}

// AliasMail says that a later generation of a mailbox message has other content; the
// event that has it will be recognised. Where the graph brought that event already, the
// message is known. Otherwise an unknown message id changes nothing.
func (l *Log) AliasMail(tx kv.Txn, id ID, hash [32]byte) error {
	s, err := readSeq(tx, key(tableInbox, id[:]))
	if err != nil {
		return err
	}
	if s == 0 {
		// The graph may have brought the later generation before the mailbox the first.
		if s, err = readSeq(tx, key(tableHash, hash[:])); err != nil || s == 0 {
			return err
		}
		return nameRow(tx, s, id)
	}
	row, err := readRow(tx, s)
	if errors.Is(err, ErrNotFound) {
		return nil // the graph brought it, and has forgotten it
	}
	if err != nil {
		return err
	}
	if row.Hash == hash || len(row.generations) >= maxGenerations ||
		slices.ContainsFunc(row.generations, func(g generation) bool { return g.hash == hash }) {
		return nil
	}
	row.generations = append(row.generations, generation{hash: hash})
	w := writes{tx: tx}
	w.set(key(tableRow, be(uint64(s))), row.encode())
	if other, err := readSeq(tx, key(tableHash, hash[:])); err != nil || other != 0 {
		return errors.Join(err, w.err) // it is here already, as a message of its own
	}
	w.set(key(tableHash, hash[:]), be(uint64(s)))
	return w.err
}

// RemoveMail takes a mailbox message out, when it has been kept for long enough.
func (l *Log) RemoveMail(tx kv.Txn, id ID) error {
	s, err := readSeq(tx, key(tableInbox, id[:]))
	if err != nil || s == 0 {
		return err
	}
	row, err := readRow(tx, s)
	if errors.Is(err, ErrNotFound) {
		return tx.Delete(key(tableInbox, id[:]))
	}
	if err != nil {
		return err
	}
	if row.Kind != Mail {
		return tx.Delete(key(tableInbox, id[:])) // the graph brought it; the row goes with its slot
	}
	m, err := readMeta(tx)
	if err != nil {
		return err
	}
	w := writes{tx: tx}
	w.remove(&m, &row)
	w.set(key(tableMeta), m.encode())
	return w.err
}

// Cursor is the place in the graph's arrivals up to which the log has them.
func (l *Log) Cursor() (c eventgraph.Seq, err error) {
	err = l.store.View(func(r kv.Reader) error {
		m, err := readMeta(r)
		c = m.graph
		return err
	})
	return c, err
}

var (
	opIngest = kv.Op{Name: "arrival/ingest", Class: kv.ClassGossip}
	opPrune  = kv.Op{Name: "arrival/prune", Class: kv.ClassRelease}
)

// MaxIngest bounds the arrivals of one Ingest.
const MaxIngest = 512

// errNothing rolls back a transaction that turned out to have nothing to write.
var errNothing = errors.New("arrival: nothing to commit")

// Ingest adds arrivals of the graph, in their order, each once however often it is
// given, and moves the graph's cursor past them in the same transaction. Generations of
// own messages and events that a mailbox brought first are recognised and add nothing.
// shown decides whether an event is a message at all: what is not is passed over, and
// can be given again when it is. Where nothing is new, nothing is written.
func (l *Log) Ingest(arrivals []eventgraph.Arrival, shown func(*eventgraph.Arrival) bool) error {
	if len(arrivals) > MaxIngest {
		return fmt.Errorf("arrival: %d arrivals at once, at most %d", len(arrivals), MaxIngest)
	}
	fresh := make([]*eventgraph.Arrival, 0, len(arrivals))
	var last eventgraph.Seq
	for i := range arrivals {
		if last = max(last, arrivals[i].Seq); shown(&arrivals[i]) {
			fresh = append(fresh, &arrivals[i])
		}
	}
	err := l.store.Update(opIngest, func(tx kv.Txn) error {
		m, err := readMeta(tx)
		if err != nil {
			return err
		}
		before := m
		m.graph = max(m.graph, last)
		w := writes{tx: tx}
		changed := false
		for _, a := range fresh {
			id := a.Event.Header.ID()
			known, err := readSeq(tx, key(tableEvent, id[:]))
			if err != nil {
				return err
			}
			if known != 0 {
				continue
			}
			changed = true
			if err := l.rememberDirect(&w, &m, &a.Event); err != nil {
				return err
			}
			if mailed, err := l.mailed(&w, &a.Event, id); err != nil {
				return err
			} else if mailed {
				continue
			}
			w.append(&m, &Row{Kind: Foreign, At: a.Time.UnixMilli(), Slot: a.Slot, Event: id, Hash: a.Event.ContentHash})
		}
		if !changed && m == before {
			return errNothing
		}
		w.set(key(tableMeta), m.encode())
		return w.err
	})
	if errors.Is(err, errNothing) {
		return nil
	}
	l.Notify()
	return err
}

// mailed recognises an event whose content a mailbox brought first.
func (l *Log) mailed(w *writes, ev *eventgraph.Event, id eventgraph.ID) (bool, error) {
	s, err := readSeq(w.tx, key(tableHash, ev.ContentHash[:]))
	if err != nil || s == 0 {
		return false, err
	}
	row, err := readRow(w.tx, s)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	alias := func(g generation) bool { return g.hash == ev.ContentHash }
	if row.Kind == Own || row.Kind == Foreign && !slices.ContainsFunc(row.generations, alias) {
		return false, nil // the same words said twice are two messages
	}
	if !row.carries(ev.ContentHash) && l.mail != nil {
		if same, err := l.mail.Sibling(w.tx, &row, ev); err != nil || !same {
			return false, err // nobody can pass off what somebody else says as known
		}
	}
	if len(row.generations) < maxGenerations {
		row.generations = append(row.generations, generation{id, ev.ContentHash}) // so that it goes with the row
		w.set(key(tableEvent, id[:]), be(uint64(s)))
		w.set(key(tableRow, be(uint64(s))), row.encode())
	}
	return true, w.err
}

// Notify wakes subscribers; call it after a transaction that used the log.
func (l *Log) Notify() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.wake)
	l.wake = make(chan struct{})
}

// Changed returns a channel that is closed when rows may have come after this call.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wake
}

// Read lists at most limit rows: after from in order of arrival, or, backward, before
// from, the newest first. From 0 backward starts at the end.
func (l *Log) Read(from Seq, backward bool, limit int) (rows []Row, err error) {
	err = l.store.View(func(r kv.Reader) error {
		rows = nil
		s := kv.Scan{Prefix: key(tableRow), Reverse: backward}
		switch {
		case !backward:
			s.Start = key(tableRow, be(uint64(from)+1))
		case from == 1:
			return nil
		case from > 1:
			s.Start = key(tableRow, be(uint64(from)-1))
		}
		return r.Scan(s, func(k, v []byte) error {
			if len(rows) >= limit {
				return kv.ErrStop
			}
			row := Row{Seq: Seq(binary.BigEndian.Uint64(k[2:]))}
			if err := row.decode(v); err != nil {
				return err
			}
			rows = append(rows, row)
			return nil
		})
	})
	return rows, err
}

// Last is the highest number given so far.
func (l *Log) Last() (s Seq, err error) {
	err = l.store.View(func(r kv.Reader) error {
		m, err := readMeta(r)
		s = m.last
		return err
	})
	return s, err
}

// ByEvent finds the row of an event or of a generation, ByID that of an own or a
// mailbox message: ErrNotFound where there is none.
func (l *Log) ByEvent(id eventgraph.ID) (Row, error) { return l.find(key(tableEvent, id[:])) }

// ByID finds the row of an own message or, failing that, of a mailbox message.
func (l *Log) ByID(id ID) (Row, error) {
	row, err := l.find(key(tableOwn, id[:]))
	if errors.Is(err, ErrNotFound) {
		return l.find(key(tableInbox, id[:]))
	}
	return row, err
}

func (l *Log) find(k []byte) (row Row, err error) {
	err = l.store.View(func(r kv.Reader) error {
		s, err := readSeq(r, k)
		if err != nil {
			return err
		}
		if s == 0 {
			return ErrNotFound
		}
		row, err = readRow(r, s)
		return err
	})
	return row, err
}

// pruneBatch bounds one transaction of Prune.
const pruneBatch = 256

// Prune removes at most a batch of rows whose newest event lies in a slot before
// oldest, and tells whether more may be left. An own message that is still queued stays:
// keep says so. Where nothing is due, nothing is written.
func (l *Log) Prune(oldest eventgraph.Slot, keep func(tx kv.Reader, row *Row) (bool, error)) (more bool, err error) {
	err = l.store.Update(opPrune, func(tx kv.Txn) error {
		more = false
		var due []Seq
		if err := tx.Scan(kv.Scan{Prefix: key(tableSlot), KeysOnly: true}, func(k, _ []byte) error {
			if len(k) != 18 {
				return fmt.Errorf("arrival: %w: slot key of %d bytes", kv.ErrCorrupt, len(k))
			}
			if eventgraph.Slot(binary.BigEndian.Uint64(k[2:])) >= oldest {
				return kv.ErrStop
			}
			if len(due) == pruneBatch {
				more = true
				return kv.ErrStop
			}
			due = append(due, Seq(binary.BigEndian.Uint64(k[10:])))
			return nil
		}); err != nil {
			return err
		}
		m, err := readMeta(tx)
		if err != nil {
			return err
		}
		w, removed := writes{tx: tx}, 0
		for _, s := range due {
			row, err := readRow(tx, s)
			if err != nil {
				return err
			}
			if row.Kind == Own {
				stay, err := keep(tx, &row)
				if err != nil {
					return err
				}
				if stay {
					continue
				}
			}
			w.remove(&m, &row)
			removed++
		}
		more = more && removed > 0
		if removed == 0 {
			return errNothing
		}
		w.set(key(tableMeta), m.encode())
		return w.err
	})
	if errors.Is(err, errNothing) {
		err = nil
	}
	return more, err
}
