package arrival

import (
	"encoding/binary"
	"errors"
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

	errKind  = errors.New("unknown kind")
	errFlags = errors.New("unknown flags")
)

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

// writes collects the errors of several writes.
type writes struct {
	tx  kv.Txn
	n   int
	err error
}

func (w *writes) set(k, v []byte) {
	if w.err == nil {
		w.n++
		w.err = w.tx.Set(k, v)
	}
}

func (w *writes) del(k []byte) {
	if w.err == nil {
		w.n++
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
	w.place(m, row)
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
	w.displace(m, row)
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

// AppendOwn adds an accepted message, in the transaction that enqueues it at position. It is
// shown with the time of acceptance, whatever place says.
func (l *Log) AppendOwn(tx kv.Txn, id ID, position uint64, accepted time.Time, place Place) error {
	m, err := readMeta(tx)
	if err != nil {
		return err
	}
	w := writes{tx: tx}
	place.Time = accepted.UnixMilli()
	w.append(&m, &Row{Kind: Own, At: place.Time, ID: id, Position: position, Place: place})
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
	return removeRow(tx, &row)
}

// removeRow takes one row out of the log, with what leads to it.
func removeRow(tx kv.Txn, row *Row) error {
	m, err := readMeta(tx)
	if err != nil {
		return err
	}
	w := writes{tx: tx}
	w.remove(&m, row)
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
