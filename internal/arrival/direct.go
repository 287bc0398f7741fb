package arrival

import (
	"encoding/binary"
	"errors"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// maxDirect bounds the direct messages that are remembered after the graph has forgotten
// them, oldest forgotten first.
const maxDirect = 1 << 16

// A Correspondence knows what a mailbox can bring. The log itself reads no text.
type Correspondence interface {
	// Direct tells whether an event is a direct message to us, of which a mailbox may
	// bring a copy when the graph has long forgotten it.
	Direct(ev *eventgraph.Event) bool
	// Sibling tells whether an event is from who wrote the message of row: only then can
	// it be a later generation of it, whatever an alias claims.
	Sibling(r kv.Reader, row *Row, ev *eventgraph.Event) (bool, error)
}

// SetCorrespondence is called before the log is used, where there are mailboxes.
func (l *Log) SetCorrespondence(c Correspondence) { l.mail = c }

// rememberDirect notes the content of a direct message that the graph brought.
func (l *Log) rememberDirect(w *writes, m *meta, ev *eventgraph.Event) error {
	if l.mail == nil || !l.mail.Direct(ev) {
		return w.err
	}
	known, err := has(w.tx, key(tableDirect, ev.ContentHash[:]))
	if err != nil || known {
		return err
	}
	when := be(uint64(max(l.now().UnixMilli(), 0)))
	w.set(key(tableDirect, ev.ContentHash[:]), when)
	w.set(key(tableDirectAge, when, ev.ContentHash[:]), nil)
	if m.direct++; m.direct > maxDirect && w.err == nil {
		_, err := forgetDirect(w, m, 1, time.UnixMilli(1<<52))
		return err
	}
	return w.err
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

// carries tells whether one of the row's own events has a content, and not only an alias
// of it.
func (r *Row) carries(hash [32]byte) bool {
	if r.Hash == hash {
		return true
	}
	for _, g := range r.generations {
		if g.hash == hash && !g.event.IsNull() {
			return true
		}
	}
	return false
}
