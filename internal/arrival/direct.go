package arrival

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// maxDirect bounds the notes of direct messages that are kept after the graph has
// forgotten them, oldest forgotten first: two for each message.
const maxDirect = 1 << 17

// renewNote is the age from which on a note that is met again is made anew: a message
// may be on its way for longer than it is remembered.
const renewNote = 24 * time.Hour

// An Origin names a direct message by its author and the id that it has at its author's:
// the same over all generations, in the graph and in the mailbox.
type Origin struct {
	From [16]byte // of the pair's key
	ID   ID
}

func (o Origin) key() (k [32]byte) {
	copy(k[:16], o.From[:])
	copy(k[16:], o.ID[:])
	return k
}

// A Correspondence knows what a mailbox can bring. The log itself reads no text.
type Correspondence interface {
	// Direct tells whether an event is a direct message to us, of which a mailbox may
	// bring a copy when the graph has long forgotten it, and which it is. From an author
	// who names none, no two events have the same Origin.
	Direct(ev *eventgraph.Event) (Origin, bool)
	// Author tells who wrote the message of row, by the pair's key; ok is false where that
	// cannot be told any more. Only what they say themselves can be a later generation of
	// it, whatever an alias claims, and whoever sends it.
	Author(r kv.Reader, row *Row) (from [16]byte, ok bool, err error)
}

// SetCorrespondence is called before the log is used, where there are mailboxes.
func (l *Log) SetCorrespondence(c Correspondence) { l.mail = c }

// met notes a direct message that the graph brought, under its origin and its content, and
// tells whether one of the same origin was here before: another generation of it.
func (l *Log) met(w *writes, m *meta, ev *eventgraph.Event) (known bool, err error) {
	if l.mail == nil {
		return false, w.err
	}
	o, direct := l.mail.Direct(ev)
	if !direct {
		return false, w.err
	}
	if known, err = l.note(w, m, o.key()); err != nil {
		return false, err
	}
	_, err = l.note(w, m, ev.ContentHash)
	return known, err
}

// note remembers an origin or a content hash, and tells whether it was remembered before.
func (l *Log) note(w *writes, m *meta, what [32]byte) (known bool, err error) {
	now := max(l.now().UnixMilli(), 0)
	old, err := w.tx.Get(key(tableDirect, what[:]))
	switch {
	case errors.Is(err, kv.ErrNotFound):
		m.direct++
	case err != nil:
		return false, err
	case len(old) != 8:
		return false, fmt.Errorf("arrival: %w: note of %d bytes", kv.ErrCorrupt, len(old))
	case now-int64(binary.BigEndian.Uint64(old)) < renewNote.Milliseconds():
		return true, w.err
	default:
		w.del(key(tableDirectAge, old, what[:]))
		known = true
	}
	when := be(uint64(now))
	w.set(key(tableDirect, what[:]), when)
	w.set(key(tableDirectAge, when, what[:]), nil)
	if m.direct > maxDirect && w.err == nil {
		_, err := forgetDirect(w, m, 1, time.UnixMilli(1<<52))
		return known, err
	}
	return known, w.err
}

// forgetDirect forgets at most limit of those noted before a time.
func forgetDirect(w *writes, m *meta, limit int, before time.Time) (n int, err error) {
	var keys [][]byte
	if err := w.tx.Scan(kv.Scan{Prefix: key(tableDirectAge), KeysOnly: true}, func(k, _ []byte) error {
		if len(k) != 2+8+32 {
			return kv.ErrCorrupt
		}
		if len(keys) == limit || int64(binary.BigEndian.Uint64(k[2:])) >= before.UnixMilli() {
			return kv.ErrStop
		}
		keys = append(keys, append([]byte(nil), k...))
		return nil
	}); err != nil {
		return 0, err
	}
	for _, k := range keys {
		w.del(k)
		w.del(key(tableDirect, k[10:]))
		m.direct--
	}
	return len(keys), w.err
}

// PruneDirect forgets direct messages that came before a time, at most a batch, and tells
// how many. No mailbox brings what is as old.
func (l *Log) PruneDirect(before time.Time) (n int, err error) {
	due := false
	if err := l.store.View(func(r kv.Reader) error {
		return r.Scan(kv.Scan{Prefix: key(tableDirectAge), KeysOnly: true}, func(k, _ []byte) error {
			due = len(k) > 10 && int64(binary.BigEndian.Uint64(k[2:])) < before.UnixMilli()
			return kv.ErrStop
		})
	}); err != nil || !due {
		return 0, err
	}
	err = l.store.Update(opPrune, func(tx kv.Txn) error {
		m, err := readMeta(tx)
		if err != nil {
			return err
		}
		w := writes{tx: tx}
		if n, err = forgetDirect(&w, &m, pruneBatch, before); err != nil {
			return err
		}
		w.set(key(tableMeta), m.encode())
		return w.err
	})
	return n, err
}

func has(r kv.Reader, k []byte) (bool, error) {
	_, err := r.Get(k)
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
