package kv

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// rewrite copies what is live in the open generation old into a new one, makes it
// durable, and switches to it by the format record. It closes old. After a commit
// with an unknown outcome this is what makes the store's state known again: pages
// that the kernel failed to write count as clean, so only what is written anew can
// be synced (ST-03). It is also how deleted records leave the directory (DS-83).
func (db *DB) rewrite(old *engine, f format, failed bool) (e *engine, err error) {
	closeOld := func() error {
		if old == nil {
			return nil
		}
		o := old
		old = nil
		return o.close(failed)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("kv: rewriting the store: %w", errors.Join(err, closeOld()))
		}
	}()
	blocks, _ := dirSize(old.dir)
	if free, ok := db.free(); ok && free < blocks+2*db.opts.Memtable {
		if err := db.ballast.drop(); err != nil {
			return nil, err
		}
		if free, _ = db.free(); free < blocks+2*db.opts.Memtable {
			return nil, fmt.Errorf("%w: a copy needs %d bytes, %d are free", ErrDiskFull, blocks, free)
		}
	}
	db.log.Warn("copying the store into new files", "store", db.opts.Kind, "outcome_unknown", failed)
	nf := newFormat(&db.opts, f.Generation+1)
	// What is already stored must fit the new sizes.
	nf.Memtable = max(nf.Memtable, f.Memtable)
	nf.Threshold = max(nf.Threshold, f.Threshold)
	dir, err := createGeneration(db.dir, nf.Generation)
	if err != nil {
		return nil, err
	}
	if err := db.copyLive(old, dir, nf); err != nil {
		return nil, err
	}
	if err := db.opts.hooks.at("rewrite:switch"); err != nil {
		return nil, err
	}
	if err := errors.Join(syncDir(dir), writeFormat(db.dir, nf)); err != nil {
		return nil, err
	}
	gone := old.dir
	if err := closeOld(); err != nil {
		// Its files are not needed any more; a disk that fails to close them is told
		// by the next sync.
		db.log.Warn("closing the old files", "store", db.opts.Kind, "err", err)
	}
	if err := db.opts.hooks.at("rewrite:remove"); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(gone); err != nil {
		return nil, err
	}
	e, _, err = openEngine(dir, nf, &db.opts)
	return e, err
}

// copyLive fills the new generation in dir and closes it, synced.
func (db *DB) copyLive(old *engine, dir string, nf format) (err error) {
	o := db.opts
	o.Sync = false // one sync at the end
	e, _, err := openEngine(dir, nf, &o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close(err != nil)) }()
	tx := old.b.NewTransactionAt(old.seq, false)
	defer tx.Discard()
	var batch []pair
	var size int64
	flush := func() error {
		if err := o.hooks.at("rewrite:batch"); err != nil {
			return err
		}
		err := e.commit(func(set func(key, value []byte, del bool) error) error {
			for _, p := range batch {
				if err := set(p.key, p.value, false); err != nil {
					return err
				}
			}
			return nil
		})
		batch, size = nil, 0
		e.b.SetDiscardTs(e.seq)
		return err
	}
	err = scan(tx, Scan{}, nil, func(k, v []byte) error {
		n := int64(len(k)+len(v)) + entryOverhead
		if len(batch) > 0 && !e.fits(size+n, int64(len(batch))+1) {
			if err := flush(); err != nil {
				return err
			}
		}
		batch, size = append(batch, pair{slices.Clone(k), slices.Clone(v)}), size+n
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

type pair struct{ key, value []byte }
