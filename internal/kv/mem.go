package kv

import (
	"fmt"
	"sync"

	"github.com/tidwall/btree"
)

// A Mem is a Store in memory: the same behaviour as a DB, as far as a caller can
// see, without durability, disk or goroutines. Snapshots share structure, so a
// View or a commit costs what it touches.
type Mem struct {
	// commits serialises Updates.
	commits sync.Mutex

	// mu guards what follows.
	mu     sync.Mutex
	m      *btree.Map[string, []byte]
	size   int64
	closed bool
}

var _ Store = (*Mem)(nil)

// OpenMemory returns an empty store.
func OpenMemory() *Mem { return &Mem{m: new(btree.Map[string, []byte])} }

// Reopen returns a store with what was committed to m, which it closes: a restart.
func (m *Mem) Reopen() *Mem {
	_ = m.Close() // always nil
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Mem{m: m.m.Copy(), size: m.size}
}

// snapshot returns a private copy of the last committed state.
func (m *Mem) snapshot() (*btree.Map[string, []byte], int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, 0, ErrClosed
	}
	return m.m.Copy(), m.size, nil
}

// View implements Store.
func (m *Mem) View(fn func(Reader) error) error {
	s, _, err := m.snapshot()
	if err != nil {
		return err
	}
	return fn(memReader{s})
}

// Update implements Store.
func (m *Mem) Update(op Op, fn func(Txn) error) error {
	m.commits.Lock()
	defer m.commits.Unlock()
	s, size, err := m.snapshot()
	if err != nil {
		return err
	}
	tx := &memTxn{memReader: memReader{s}, size: size, wrote: make(map[string]int64)}
	defer func() { tx.done = true }()
	if err := fn(tx); err != nil {
		return err
	}
	if tx.bytes > memCommitSize || len(tx.wrote) > memCommitCount {
		return fmt.Errorf("%w: %q writes %d bytes in %d pairs", ErrTooLarge, op.Name, tx.bytes, len(tx.wrote))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.m, m.size = tx.m, tx.size
	return nil
}

// Size implements Store: the bytes of all keys and values.
func (m *Mem) Size() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.size
}

// Close implements Store.
func (m *Mem) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

type memReader struct{ m *btree.Map[string, []byte] }

func (r memReader) Get(key []byte) ([]byte, error) {
	v, ok := r.m.Get(string(key))
	if !ok {
		return nil, ErrNotFound
	}
	return append([]byte{}, v...), nil
}

func (r memReader) Scan(s Scan, fn func(key, value []byte) error) error {
	c := newMapCursor(r.m, s, func(v []byte) ([]byte, bool) { return v, false })
	return merge(c, nil, s, fn)
}

type memTxn struct {
	memReader
	size  int64            // of the store
	wrote map[string]int64 // what each pair costs the commit
	bytes int64            // sum of wrote
	done  bool
}

func (t *memTxn) cost(key string, n int64) {
	t.bytes += n - t.wrote[key]
	t.wrote[key] = n
}

func (t *memTxn) Set(key, value []byte) error {
	if t.done {
		return errTxnDone
	}
	if err := checkPair(key, value); err != nil {
		return err
	}
	k := string(key)
	old, had := t.m.Set(k, append([]byte{}, value...))
	if had {
		t.size -= int64(len(k) + len(old))
	}
	t.size += int64(len(k) + len(value))
	t.cost(k, int64(len(k)+len(value))+entryOverhead)
	return nil
}

func (t *memTxn) Delete(key []byte) error {
	if t.done {
		return errTxnDone
	}
	if err := checkKey(key); err != nil {
		return err
	}
	k := string(key)
	if old, had := t.m.Delete(k); had {
		t.size -= int64(len(k) + len(old))
	}
	t.cost(k, int64(len(k))+entryOverhead)
	return nil
}

func (t *memTxn) Get(key []byte) ([]byte, error) {
	if t.done {
		return nil, errTxnDone
	}
	return t.memReader.Get(key)
}

func (t *memTxn) Scan(s Scan, fn func(key, value []byte) error) error {
	if t.done {
		return errTxnDone
	}
	// fn may write: the scan sees the writes before it began.
	return memReader{t.m.Copy()}.Scan(s, fn)
}
