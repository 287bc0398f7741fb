package kv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// maintenanceEvery is how often Run looks after modes, ballast and reserve.
const maintenanceEvery = time.Minute

// maxReclaim is the size of a store, in bytes, above which it is left to Badger's
// own compactions: rewriting all of it would hold up commits and a stop.
const maxReclaim = 256 << 20

// A DB is a Store on disk. The process that has one open owns its directory.
type DB struct {
	dir     string
	opts    Options
	log     *slog.Logger
	ballast ballast
	lock    *os.File
	calls   sync.WaitGroup // Views and Updates that have not returned

	// mu guards what follows.
	mu      sync.Mutex
	closed  bool
	failed  error          // sticky, ErrUnknown
	visible uint64         // the last commit that Views see
	readers map[uint64]int // running Views by the commit they see

	// queueMu guards the calls that wait for their group commit.
	queueMu sync.Mutex
	queue   []*call
	leading bool // somebody leads

	// engineMu is held by who writes: the leader, or Run. It guards e, apart from
	// its Badger, which may be read at any time.
	engineMu  sync.Mutex
	e         *engine
	flattened int // the log that was current at the last reclaim
}

var _ Store = (*DB)(nil)

// Open opens the store in o.Dir, creating it if the directory is absent or empty.
// It starts no goroutine that outlives Close.
//
// Errors: ErrPermission, ErrLocked, ErrSchema, ErrCorrupt, ErrDiskFull. A store
// whose last commit ended in ErrUnknown is copied into new files first (ST-03).
func Open(o Options) (*DB, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	db := &DB{dir: o.Dir, opts: o, log: o.Logger, ballast: ballast{o.Dir, o.Ballast}, readers: make(map[uint64]int), flattened: -1}
	if err := db.open(); err != nil {
		if errors.Is(err, syscall.ENOSPC) && !errors.Is(err, ErrDiskFull) {
			err = fmt.Errorf("%w: %w", ErrDiskFull, err)
		}
		return nil, err
	}
	return db, nil
}

func (db *DB) open() (err error) {
	if db.lock, err = claimDir(db.dir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.lock.Close())
		}
	}()
	if err := db.makeRoom(); err != nil {
		return err
	}
	f, err := openFormat(&db.opts)
	if err != nil {
		return err
	}
	e, marked, err := openEngine(generationDir(db.dir, f.Generation), f, &db.opts)
	if err != nil {
		return err
	}
	if marked || db.opts.Rewrite {
		if e, err = db.rewrite(e, f, marked); err != nil {
			return err
		}
	}
	db.e, db.visible = e, e.seq
	db.maintain()
	return nil
}

// makeRoom gives up the ballast if there is not enough space to open. What opening
// writes is a new log, and one table at a time of the logs that are there.
func (db *DB) makeRoom() error {
	need := 3 * db.opts.Memtable
	free, ok := db.free()
	if !ok || free >= need {
		return nil
	}
	held := db.ballast.held()
	if held == 0 {
		return fmt.Errorf("%w: opening needs %d bytes, %d are free", ErrDiskFull, need, free)
	}
	db.log.Warn("disk is full, ballast given up", "store", db.opts.Kind, "bytes", held)
	if err := db.ballast.drop(); err != nil {
		return fmt.Errorf("kv: ballast: %w", err)
	}
	return db.makeRoom()
}

func (db *DB) free() (int64, bool) {
	if db.opts.hooks.free != nil {
		return db.opts.hooks.free(db.dir)
	}
	return freeBytes(db.dir)
}

// Room returns the free bytes of the store's disk and how many must stay free for
// commits of class c, for metrics; ok is false where the system does not say.
func (db *DB) Room(c Class) (free, need int64, ok bool) {
	free, ok = db.free()
	return free, db.need(c), ok
}

// enter begins a call; leave ends it.
func (db *DB) enter() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return ErrClosed
	}
	if db.failed != nil {
		return db.failed
	}
	db.calls.Add(1)
	return nil
}

func (db *DB) leave() { db.calls.Done() }

// View implements Store. Views run side by side and beside Updates.
func (db *DB) View(fn func(Reader) error) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.leave()
	tx, end := db.snapshot()
	defer end()
	return fn(reader{tx})
}

// snapshot starts a read at the last visible commit and keeps Badger from
// dropping what it sees.
func (db *DB) snapshot() (*badger.Txn, func()) {
	db.mu.Lock()
	seq := db.visible
	db.readers[seq]++
	db.mu.Unlock()
	tx := db.e.b.NewTransactionAt(seq, false)
	return tx, func() {
		tx.Discard()
		db.mu.Lock()
		defer db.mu.Unlock()
		if db.readers[seq]--; db.readers[seq] == 0 {
			delete(db.readers, seq)
		}
	}
}

// publish makes commit seq visible and lets Badger drop what nobody reads.
func (db *DB) publish(seq uint64) {
	db.mu.Lock()
	db.visible = seq
	for r := range db.readers {
		seq = min(seq, r)
	}
	db.mu.Unlock()
	db.e.b.SetDiscardTs(seq)
}

// fail makes the store refuse everything and marks it for the next Open.
func (db *DB) fail(cause error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.failed == nil {
		db.failed = fmt.Errorf("%w: %w", ErrUnknown, cause)
		if err := db.e.witness.mark(); err != nil {
			db.failed = errors.Join(db.failed, err)
		}
	}
	return db.failed
}

func (db *DB) failure() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.failed
}

// Size implements Store: the blocks of the store's files, the ballast left out.
func (db *DB) Size() int64 {
	blocks, _ := dirSize(db.e.dir)
	return blocks
}

// Run looks after the store until ctx ends: it syncs a store without Sync, keeps
// the reserve current, restores the ballast. It returns ctx.Err, or ErrUnknown.
func (db *DB) Run(ctx context.Context) error {
	every := maintenanceEvery
	if !db.opts.Sync {
		every = db.opts.SyncEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var since time.Duration
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := db.syncNow(); err != nil {
			return err
		}
		if since += every; since >= maintenanceEvery {
			since = 0
			db.engineMu.Lock()
			db.maintain()
			db.engineMu.Unlock()
		}
	}
}

func (db *DB) syncNow() error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.leave()
	db.engineMu.Lock()
	defer db.engineMu.Unlock()
	if err := db.e.syncAll(); err != nil {
		return db.fail(err)
	}
	return nil
}

// maintain updates what the store may need of the disk, frees what it can if that
// is little, and looks after the ballast. Its failures are for the next time.
func (db *DB) maintain() {
	db.measure()
	err := errors.Join(db.e.tidy(), db.reclaim())
	if free, ok := db.free(); ok && free >= db.need(ClassEnqueue)+db.opts.Ballast {
		err = errors.Join(err, db.ballast.restore())
	}
	if err != nil {
		db.log.Warn("store maintenance", "store", db.opts.Kind, "err", err)
	}
}

// reclaim compacts everything when gossip is refused: deleted records take space
// until a compaction reaches them, and a store that only releases does not fill
// the tables that would start one. It needs the space that measure counts.
func (db *DB) reclaim() error {
	free, ok := db.free()
	if !ok || free >= db.need(ClassGossip) || free < db.need(ClassRelease) || db.flattened == db.e.walID {
		return nil
	}
	if _, tables := dirSize(db.e.dir); tables == 0 || tables > maxReclaim {
		return nil
	}
	db.log.Info("compacting, disk is nearly full", "store", db.opts.Kind)
	db.flattened = db.e.walID // once per table
	err := db.e.b.Flatten(1)
	db.measure()
	return err
}

// measure says how much Badger may write before the next measurement: the next
// log, tables of the memtables that are full or filling, and compactions, which at
// worst hold every table twice.
func (db *DB) measure() {
	_, tables := dirSize(db.e.dir)
	db.opts.Disk.set(db, tables+db.e.alloc*(memtables+2))
}

// need returns the free space below which class c is refused.
func (db *DB) need(c Class) int64 { return db.opts.Disk.total() + db.opts.Reserve.of(c) }

// Close waits for running calls, flushes, and gives the directory free. Calls
// that come later get ErrClosed.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil
	}
	db.closed = true
	db.mu.Unlock()
	db.calls.Wait()
	db.engineMu.Lock()
	defer db.engineMu.Unlock()
	db.opts.Disk.remove(db)
	err := db.e.close(db.failure() != nil)
	return errors.Join(err, db.lock.Close())
}

// A reader is the Reader of a View.
type reader struct{ tx *badger.Txn }

func (r reader) Get(key []byte) ([]byte, error) { return get(r.tx, key) }

func (r reader) Scan(s Scan, fn func(key, value []byte) error) error { return scan(r.tx, s, nil, fn) }
