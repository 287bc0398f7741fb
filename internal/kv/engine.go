package kv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// closeTimeout bounds how long Close waits for Badger, which retries a flush for
// ever on a disk that is full or broken. What it gives up is in the write-ahead
// log and is replayed by the next Open.
const closeTimeout = 5 * time.Second

// Badger's fixed settings.
const (
	maxLevels = 7
	// memtables is how many full memtables may wait for their flush.
	memtables = 2
	// vlogSize is the length of the mapping of the value log, which stays empty.
	vlogSize = 1 << 20
)

// An engine is one generation directory, open: Badger, the file it currently logs
// to, and the witness. Its methods are called by one goroutine at a time.
type engine struct {
	dir     string
	b       *badger.DB
	witness *witness
	hooks   hooks
	sync    bool
	acl     bool // new files are owner only by themselves

	seq   uint64 // the last commit
	wal   *os.File
	walID int
	alloc int64 // how much of a log is used at most, bytes

	batchSize, batchCount int64 // limits of one commit
}

// openEngine checks and opens a generation. marked reports that a commit of it
// ended with an unknown outcome.
func openEngine(dir string, f format, o *Options) (_ *engine, marked bool, err error) {
	w, marked, err := openWitness(dir)
	if err != nil {
		return nil, false, err
	}
	e := &engine{dir: dir, witness: w, hooks: o.hooks, sync: o.Sync, alloc: f.Memtable * 5 / 4}
	if err := e.open(f, o.Logger); err != nil {
		if e.b != nil {
			err = errors.Join(err, closeBadger(e.b))
		}
		if e.wal != nil {
			err = errors.Join(err, e.wal.Close())
		}
		return nil, false, errors.Join(err, w.close())
	}
	return e, marked, nil
}

func (e *engine) open(f format, log *slog.Logger) (err error) {
	e.acl = inheritOwnerOnly(e.dir)
	if err := closeToOthers(e.dir); err != nil {
		return fmt.Errorf("%w: %w", ErrPermission, err)
	}
	if e.seq, err = checkFiles(e.dir, e.witness.seq); err != nil {
		return err
	}
	if e.b, err = openBadger(e.dir, f, log); err != nil {
		return err
	}
	if got := e.b.MaxVersion(); got != e.seq {
		return fmt.Errorf("%w: Badger ends at commit %d, its files at %d", ErrCorrupt, got, e.seq)
	}
	e.batchSize, e.batchCount = e.b.MaxBatchSize()*9/10, e.b.MaxBatchCount()-8
	e.b.SetDiscardTs(e.seq)
	if err := errors.Join(e.findWAL(), e.tidy()); err != nil {
		return err
	}
	if e.seq == 0 {
		// From here on an empty store is one that lost everything.
		return errors.Join(e.commit(nil), e.syncAll())
	}
	return nil
}

// openBadger opens Badger on checked files.
func openBadger(dir string, f format, log *slog.Logger) (b *badger.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			b, err = nil, fmt.Errorf("%w: %v", ErrCorrupt, r)
		}
	}()
	o := badger.DefaultOptions(dir)
	o.MemTableSize = f.Memtable
	o.BaseTableSize = f.Table
	o.BaseLevelSize = 5 * f.Table
	o.ValueThreshold = f.Threshold
	o.ValueLogFileSize = vlogSize
	o.MaxLevels = maxLevels
	o.NumMemtables = memtables
	o.NumCompactors = 2
	o.NumGoroutines = 1
	o.MetricsEnabled = false
	// Tables are mapped: without compression they are read in place, need no cache
	// of blocks, and their memory is the page cache's.
	o.Compression = options.None
	o.BlockCacheSize = 0
	o.IndexCacheSize = 0
	// Writers are serialised here, and syncs are ours: Badger only logs the error of
	// one of the two it makes.
	o.DetectConflicts = false
	o.SyncWrites = false
	// checkFiles has read every block.
	o.ChecksumVerificationMode = options.NoVerification
	o.Logger = badgerLog{log}
	b, err = badger.OpenManaged(o)
	switch {
	case err == nil:
		return b, nil
	case errors.Is(err, syscall.ENOSPC):
		return nil, fmt.Errorf("%w: %w", ErrDiskFull, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.EIO):
		return nil, fmt.Errorf("kv: %w", err)
	}
	return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// findWAL finds the log that Badger writes to: the one with the highest number.
func (e *engine) findWAL() error {
	es, err := os.ReadDir(e.dir)
	if err != nil {
		return fmt.Errorf("kv: %w", err)
	}
	id := -1
	for _, f := range es {
		name, ok := strings.CutSuffix(f.Name(), walSuffix)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(name)
		if err != nil {
			return fmt.Errorf("%w: log with the name %q", ErrCorrupt, f.Name())
		}
		id = max(id, n)
	}
	if id < 0 {
		return fmt.Errorf("%w: no log", ErrCorrupt)
	}
	return e.useWAL(id)
}

// useWAL makes log id the one that is synced, and its blocks and its name exist.
func (e *engine) useWAL(id int) error {
	f, err := os.OpenFile(filepath.Join(e.dir, walName(id)), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("kv: %w", err)
	}
	if e.wal != nil {
		_ = e.wal.Close() // every commit in it was synced, or is Badger's to flush
	}
	e.wal, e.walID = f, id
	// A failure costs nothing yet: the reserve has room for it.
	_ = allocate(f, e.alloc)
	return syncDir(e.dir)
}

// followWAL notices that Badger went on to the next log. It numbers them without
// gaps and a commit is never split over two.
func (e *engine) followWAL() (moved bool, err error) {
	for {
		next := e.walID + 1
		if _, err := os.Lstat(filepath.Join(e.dir, walName(next))); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return moved, nil
			}
			return moved, err
		}
		if err := e.useWAL(next); err != nil {
			return moved, err
		}
		moved = true
	}
}

// tidy keeps the files to ourselves where the file system does not.
func (e *engine) tidy() error {
	if e.acl {
		return nil
	}
	return closeToOthers(e.dir)
}

// commit applies writes as the next commit. On return it is durable if the store
// syncs. Any error is an unknown outcome: the commit may or may not be found by
// the next Open.
func (e *engine) commit(writes func(set func(key, value []byte, del bool) error) error) error {
	tx := e.b.NewTransactionAt(e.seq, true)
	defer tx.Discard()
	if writes != nil {
		err := writes(func(key, value []byte, del bool) error {
			if del {
				return tx.Delete(key)
			}
			return tx.Set(key, value)
		})
		if err != nil {
			return err
		}
	}
	seq := e.seq + 1
	if err := tx.Set(seqKey, binary.BigEndian.AppendUint64(nil, seq)); err != nil {
		return err
	}
	if err := e.hooks.at("apply"); err != nil {
		return err
	}
	if err := tx.CommitAt(seq, nil); err != nil {
		return err
	}
	moved, err := e.followWAL()
	if err != nil {
		return err
	}
	if moved {
		if err := e.tidy(); err != nil {
			return err
		}
	}
	if e.sync {
		if err := e.hooks.at("sync"); err != nil {
			return err
		}
		if err := dataSync(e.wal); err != nil {
			return err
		}
		if err := e.witness.set(seq); err != nil {
			return err
		}
	}
	e.seq = seq
	return nil
}

// syncAll makes every commit so far durable, for a store that does not sync each.
func (e *engine) syncAll() error {
	if e.witness.seq == e.seq {
		return nil
	}
	if err := e.hooks.at("sync"); err != nil {
		return err
	}
	es, err := os.ReadDir(e.dir)
	if err != nil {
		return err
	}
	// Logs before the current one may still wait for their flush. One that is gone
	// was flushed to a table, which Badger syncs.
	for _, f := range es {
		if !strings.HasSuffix(f.Name(), walSuffix) {
			continue
		}
		w, err := os.OpenFile(filepath.Join(e.dir, f.Name()), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := errors.Join(dataSync(w), w.Close()); err != nil {
			return err
		}
	}
	return e.witness.set(e.seq)
}

// close ends Badger. A failed engine is not synced first.
func (e *engine) close(failed bool) error {
	var errs []error
	if !failed {
		errs = append(errs, e.syncAll())
	}
	errs = append(errs, closeBadger(e.b), e.wal.Close(), e.tidy(), e.witness.close())
	return errors.Join(errs...)
}

func closeBadger(b *badger.DB) error {
	done := make(chan error, 1)
	go func() { done <- b.Close() }()
	t := time.NewTimer(closeTimeout)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return fmt.Errorf("kv: the store did not close within %v", closeTimeout)
	}
}

// badgerLog passes on that Badger said something, never its arguments: they
// contain keys.
type badgerLog struct{ log *slog.Logger }

func (l badgerLog) Errorf(format string, _ ...any) {
	l.log.Warn("badger", "says", strings.TrimSpace(format))
}

func (l badgerLog) Warningf(format string, _ ...any) {
	l.log.Warn("badger", "says", strings.TrimSpace(format))
}
func (badgerLog) Infof(string, ...any)  {}
func (badgerLog) Debugf(string, ...any) {}

func allocated(fi os.FileInfo) int64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return fi.Size()
}
