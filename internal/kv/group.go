package kv

import (
	"errors"
	"fmt"
)

// A call is one Update on its way through a group commit.
type call struct {
	op       Op
	fn       func(Txn) error
	err      error
	panicked any           // what fn panicked with, for the caller to panic with
	wake     chan struct{} // receives once: the result is there, or lead is set
	lead     bool
	settled  bool // the result is there
}

// errExited: a caller's goroutine ended inside its function, which took the
// uncommitted group with it.
var errExited = errors.New("kv: the goroutine that led the commit ended")

// Update implements Store. The first caller to find no leader leads: it runs the
// functions of all who wait, commits what they wrote with one sync, wakes them,
// and hands over to the first of those who came meanwhile.
func (db *DB) Update(op Op, fn func(Txn) error) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.leave()
	c := &call{op: op, fn: fn, wake: make(chan struct{}, 1)}
	db.queueMu.Lock()
	db.queue = append(db.queue, c)
	follow := db.leading
	db.leading = true
	db.queueMu.Unlock()
	if follow {
		<-c.wake
	}
	if !follow || c.lead {
		db.lead()
	}
	if c.panicked != nil {
		panic(c.panicked)
	}
	return c.err
}

// lead runs one group and hands over.
func (db *DB) lead() {
	db.queueMu.Lock()
	n := min(len(db.queue), maxGroup)
	group := db.queue[:n:n]
	db.queue = db.queue[n:]
	db.queueMu.Unlock()
	// Runs also when a function ends the goroutine (t.FailNow in a test).
	defer func() {
		for _, c := range group {
			if !c.settled {
				c.err = errExited
			}
			c.wake <- struct{}{} // nobody receives the leader's own
		}
		db.queueMu.Lock()
		defer db.queueMu.Unlock()
		if len(db.queue) == 0 {
			db.queue, db.leading = nil, false
			return
		}
		db.queue[0].lead = true
		db.queue[0].wake <- struct{}{}
	}()
	db.engineMu.Lock()
	defer db.engineMu.Unlock()
	db.runGroup(group)
}

// runGroup runs the calls on one overlay and commits it, in more than one commit
// if it is too large for one.
func (db *DB) runGroup(group []*call) {
	free, known := db.free()
	base, end := db.snapshot()
	defer func() { end() }()
	o := newOverlay(base)
	var pending []*call // ran well, not committed
	for _, c := range group {
		if err := db.failure(); err != nil {
			c.err, c.settled = err, true
			continue
		}
		if known {
			if err := db.refuse(c.op.Class, free); err != nil {
				c.err, c.settled = err, true
				continue
			}
		}
		o.begin()
		tx := &dbTxn{o: o}
		ok := db.run(c, tx)
		tx.done = true
		if !ok {
			o.rollback()
			continue
		}
		if !db.e.fits(o.size, int64(o.m.Len())) {
			if size, count := o.own(); !db.e.fits(size, count) {
				o.rollback()
				c.err, c.settled = fmt.Errorf("%w: %q writes %d bytes in %d pairs", ErrTooLarge, c.op.Name, size, count), true
				continue
			}
			// c has seen exactly what is committed now, so its writes go on top.
			next := o.split()
			db.settle(pending, o)
			pending = nil
			end()
			next.base, end = db.snapshot()
			o = next
		}
		pending = append(pending, c)
	}
	db.settle(pending, o)
}

// run calls c.fn and reports whether its writes count.
func (db *DB) run(c *call, tx *dbTxn) (ok bool) {
	defer func() {
		if r := recover(); r != nil {
			c.panicked, c.settled, ok = r, true, false
		}
	}()
	c.err = c.fn(tx)
	c.settled = c.err != nil
	return c.err == nil
}

// settle commits o and gives the calls their result.
func (db *DB) settle(calls []*call, o *overlay) {
	if len(calls) == 0 {
		return
	}
	err := db.failure()
	if err == nil {
		err = db.commit(o)
	}
	for _, c := range calls {
		c.err, c.settled = err, true
	}
}

func (db *DB) commit(o *overlay) error {
	if o.m.Len() == 0 {
		return nil
	}
	wal := db.e.walID
	err := db.e.commit(func(set func(key, value []byte, del bool) error) (err error) {
		o.m.Scan(func(k string, w write) bool {
			err = set([]byte(k), w.value, w.del)
			return err == nil
		})
		return err
	})
	if err != nil {
		return db.fail(err)
	}
	db.publish(db.e.seq)
	if db.e.walID != wal {
		db.measure()
	}
	return nil
}

// fits tells whether one commit can have that many bytes and pairs.
func (e *engine) fits(size, count int64) bool { return size <= e.batchSize && count <= e.batchCount }

// refuse says whether the disk is too full for class c. A release is never
// refused; the ballast is given up for it instead.
func (db *DB) refuse(c Class, free int64) error {
	if c == ClassRelease {
		if free < db.need(ClassRelease) && db.ballast.held() > 0 {
			if err := db.ballast.drop(); err != nil {
				db.log.Warn("ballast", "store", db.opts.Kind, "err", err)
			}
		}
		return nil
	}
	if need := db.need(c); free < need {
		return fmt.Errorf("%w: %d bytes free, %d needed", ErrDiskFull, free, need)
	}
	return nil
}
