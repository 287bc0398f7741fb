package kv

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
	"github.com/tidwall/btree"
)

// A cursor visits pairs in the order of a Scan. Its slices are valid until next.
type cursor interface {
	valid() bool
	key() []byte
	value() (v []byte, deleted bool, err error)
	next()
}

// scan visits tx, with over (nil or a cursor of the same Scan) on top of it.
func scan(tx *badger.Txn, s Scan, over cursor, fn func(key, value []byte) error) error {
	base := newBadgerCursor(tx, s)
	defer base.it.Close()
	return merge(base, over, s, fn)
}

// merge visits base and over in order; where both have a key, over's wins.
func merge(base, over cursor, s Scan, fn func(key, value []byte) error) error {
	for {
		var c cursor
		switch {
		case over == nil || !over.valid():
			if !base.valid() {
				return nil
			}
			c = base
		case !base.valid():
			c = over
		default:
			cmp := bytes.Compare(base.key(), over.key())
			if s.Reverse {
				cmp = -cmp
			}
			if cmp < 0 {
				c = base
				break
			}
			if cmp == 0 {
				base.next()
			}
			c = over
		}
		v, deleted, err := c.value()
		if err != nil {
			return err
		}
		if !deleted {
			if s.KeysOnly {
				v = nil
			}
			if err := fn(c.key(), v); err != nil {
				if errors.Is(err, ErrStop) {
					return nil
				}
				return err
			}
		}
		c.next()
	}
}

// bounds returns where a scan begins; last is set if that is the end of the keys,
// and past is the first key behind the range (nil if there is none).
func (s Scan) bounds() (start, past []byte, last bool) {
	past = successor(s.Prefix)
	start = s.Start
	if !s.Reverse {
		if start == nil || bytes.Compare(start, s.Prefix) < 0 {
			start = s.Prefix
		}
		return start, past, false
	}
	if start == nil || past != nil && bytes.Compare(start, past) >= 0 {
		return past, past, past == nil
	}
	return start, past, false
}

// successor returns the lowest key above all keys with prefix p, nil if there is none.
func successor(p []byte) []byte {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] != 0xff {
			out := bytes.Clone(p[:i+1])
			out[i]++
			return out
		}
	}
	return nil
}

type badgerCursor struct {
	it       *badger.Iterator
	prefix   []byte
	keysOnly bool
	buf      []byte
}

func newBadgerCursor(tx *badger.Txn, s Scan) *badgerCursor {
	o := badger.IteratorOptions{Reverse: s.Reverse}
	if !s.Reverse {
		o.Prefix = s.Prefix // Badger then leaves out tables; backwards it would stop early
	}
	c := &badgerCursor{it: tx.NewIterator(o), prefix: s.Prefix, keysOnly: s.KeysOnly}
	start, past, last := s.bounds()
	if last {
		c.it.Rewind()
	} else {
		c.it.Seek(start)
	}
	if s.Reverse && past != nil {
		for c.it.Valid() && bytes.Compare(c.it.Item().Key(), past) >= 0 {
			c.it.Next()
		}
	}
	c.skipOwn()
	return c
}

func (c *badgerCursor) skipOwn() {
	for c.it.Valid() && bytes.HasPrefix(c.it.Item().Key(), ownPrefix) {
		c.it.Next()
	}
}

func (c *badgerCursor) valid() bool { return c.it.ValidForPrefix(c.prefix) }
func (c *badgerCursor) key() []byte { return c.it.Item().Key() }

func (c *badgerCursor) value() ([]byte, bool, error) {
	if c.keysOnly {
		return nil, false, nil
	}
	var err error
	c.buf, err = c.it.Item().ValueCopy(c.buf[:0])
	if err != nil {
		return nil, false, readError(err)
	}
	if c.buf == nil {
		c.buf = []byte{}
	}
	return c.buf, false, nil
}

func (c *badgerCursor) next() {
	c.it.Next()
	c.skipOwn()
}

// readError turns what Badger says about its files into ErrCorrupt.
func readError(err error) error { return fmt.Errorf("%w: %w", ErrCorrupt, err) }

// A mapCursor visits a private copy of a map.
type mapCursor[V any] struct {
	it      btree.MapIter[string, V]
	ok      bool
	prefix  string
	reverse bool
	of      func(V) (value []byte, deleted bool)
	kbuf    []byte
	vbuf    []byte
}

func newMapCursor[V any](m *btree.Map[string, V], s Scan, of func(V) ([]byte, bool)) *mapCursor[V] {
	c := &mapCursor[V]{it: m.Iter(), prefix: string(s.Prefix), reverse: s.Reverse, of: of}
	start, past, last := s.bounds()
	switch {
	case !s.Reverse:
		c.ok = c.it.Seek(string(start))
	case last:
		c.ok = c.it.Last()
	default:
		if c.it.Seek(string(start)) {
			c.ok = true
			if k := c.it.Key(); k > string(start) || past != nil && k >= string(past) {
				c.ok = c.it.Prev()
			}
		} else {
			c.ok = c.it.Last()
		}
	}
	return c
}

func (c *mapCursor[V]) valid() bool {
	return c.ok && len(c.it.Key()) >= len(c.prefix) && c.it.Key()[:len(c.prefix)] == c.prefix
}

// key and value are copies in buffers that the next pair overwrites: who keeps a
// slice beyond the call notices.
func (c *mapCursor[V]) key() []byte {
	c.kbuf = append(c.kbuf[:0], c.it.Key()...)
	return c.kbuf
}

func (c *mapCursor[V]) value() ([]byte, bool, error) {
	v, deleted := c.of(c.it.Value())
	c.vbuf = append(c.vbuf[:0], v...)
	if c.vbuf == nil {
		c.vbuf = []byte{}
	}
	return c.vbuf, deleted, nil
}

func (c *mapCursor[V]) next() {
	if c.reverse {
		c.ok = c.it.Prev()
	} else {
		c.ok = c.it.Next()
	}
}
