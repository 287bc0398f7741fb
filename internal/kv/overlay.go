package kv

import (
	"errors"

	"github.com/dgraph-io/badger/v4"
	"github.com/tidwall/btree"
)

// A write is the pending state of a key.
type write struct {
	value []byte
	del   bool
}

// An overlay is the writes of a group commit on top of the last durable state.
// One Badger transaction cannot roll back part of itself; the overlay can: it
// remembers what each call replaced.
type overlay struct {
	base  *badger.Txn
	m     *btree.Map[string, write]
	size  int64 // bytes of m as a commit counts them
	undo  []undo
	since map[string]struct{} // keys in undo
}

type undo struct {
	key  string
	old  write
	had  bool
	size int64 // overlay size before
}

func newOverlay(base *badger.Txn) *overlay {
	return &overlay{base: base, m: new(btree.Map[string, write]), since: make(map[string]struct{})}
}

func writeSize(key string, w write) int64 { return int64(len(key)+len(w.value)) + entryOverhead }

// begin starts a call whose writes can be rolled back.
func (o *overlay) begin() {
	o.undo = o.undo[:0]
	clear(o.since)
}

// rollback forgets the writes since begin.
func (o *overlay) rollback() {
	for i := len(o.undo) - 1; i >= 0; i-- {
		u := o.undo[i]
		if u.had {
			o.m.Set(u.key, u.old)
		} else {
			o.m.Delete(u.key)
		}
		o.size = u.size
	}
	o.begin()
}

// split takes the writes since begin out of o into an overlay of their own.
func (o *overlay) split() *overlay {
	n := newOverlay(nil)
	for k := range o.since {
		w, _ := o.m.Get(k)
		n.m.Set(k, w)
		n.size += writeSize(k, w)
	}
	o.rollback()
	return n
}

// own returns the size and number of the writes since begin.
func (o *overlay) own() (size, count int64) {
	for k := range o.since {
		w, _ := o.m.Get(k)
		size += writeSize(k, w)
	}
	return size, int64(len(o.since))
}

func (o *overlay) put(key []byte, w write) {
	k := string(key)
	old, had := o.m.Set(k, w)
	if _, ok := o.since[k]; !ok {
		o.since[k] = struct{}{}
		o.undo = append(o.undo, undo{key: k, old: old, had: had, size: o.size})
	}
	if had {
		o.size -= writeSize(k, old)
	}
	o.size += writeSize(k, w)
}

// A dbTxn is the Txn of one call.
type dbTxn struct {
	o    *overlay
	done bool
}

var errTxnDone = errors.New("kv: transaction used after its function returned")

func (t *dbTxn) Set(key, value []byte) error {
	if t.done {
		return errTxnDone
	}
	if err := checkPair(key, value); err != nil {
		return err
	}
	t.o.put(key, write{value: append([]byte{}, value...)})
	return nil
}

func (t *dbTxn) Delete(key []byte) error {
	if t.done {
		return errTxnDone
	}
	if err := checkKey(key); err != nil {
		return err
	}
	t.o.put(key, write{del: true})
	return nil
}

func (t *dbTxn) Get(key []byte) ([]byte, error) {
	if t.done {
		return nil, errTxnDone
	}
	if w, ok := t.o.m.Get(string(key)); ok {
		if w.del {
			return nil, ErrNotFound
		}
		return append([]byte{}, w.value...), nil
	}
	return get(t.o.base, key)
}

func (t *dbTxn) Scan(s Scan, fn func(key, value []byte) error) error {
	if t.done {
		return errTxnDone
	}
	var over cursor
	if t.o.m.Len() > 0 {
		// The scan sees the writes before it began; fn may write meanwhile.
		over = newMapCursor(t.o.m.Copy(), s, func(w write) ([]byte, bool) { return w.value, w.del })
	}
	return scan(t.o.base, s, over, fn)
}

// get reads a key of a Badger transaction.
func get(tx *badger.Txn, key []byte) ([]byte, error) {
	if checkKey(key) != nil {
		return nil, ErrNotFound // such a key cannot have been set
	}
	item, err := tx.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, readError(err)
	}
	v, err := item.ValueCopy(make([]byte, 0, item.ValueSize()))
	if err != nil {
		return nil, readError(err)
	}
	return v, nil
}
