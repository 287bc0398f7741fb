package kv

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// ballastFile names the file that is given up when the disk is full.
const ballastFile = "ballast"

// A Disk is the free space that the stores of one process share. Badger flushes
// and compacts in the background, into files it maps: on a full disk that is a
// SIGBUS, which ends the process. So every store says how much its background
// work may write at worst, and commits are refused while less than the sum of
// all, and the reserve of their class on top, is free.
type Disk struct {
	mu    sync.Mutex
	needs map[*DB]int64
}

func (d *Disk) set(db *DB, need int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.needs == nil {
		d.needs = make(map[*DB]int64)
	}
	d.needs[db] = need
}

func (d *Disk) remove(db *DB) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.needs, db)
}

func (d *Disk) total() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	var n int64
	for _, v := range d.needs {
		n += v
	}
	return n
}

// A ballast is a file of allocated blocks that can be given back to the disk.
type ballast struct {
	dir  string
	size int64
}

func (b ballast) path() string { return filepath.Join(b.dir, ballastFile) }

// held returns how many bytes giving the ballast up would free.
func (b ballast) held() int64 {
	fi, err := os.Lstat(b.path())
	if err != nil {
		return 0
	}
	return fi.Size()
}

// drop gives the ballast up.
func (b ballast) drop() error {
	if err := os.Remove(b.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// restore writes the ballast if it is not there or has another size.
func (b ballast) restore() error {
	if b.held() == b.size {
		return nil
	}
	if err := b.drop(); err != nil || b.size == 0 {
		return err
	}
	f, err := createOwnerOnly(b.path())
	if err != nil {
		return err
	}
	if err = allocate(f, b.size); err == nil {
		err = f.Truncate(b.size)
	} else if errors.Is(err, errors.ErrUnsupported) {
		_, err = io.CopyN(f, zeros{}, b.size)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, b.drop())
	}
	return nil
}

// zeros reads as zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// dirSize sums the blocks of the files in dir and the lengths of the tables among them.
func dirSize(dir string) (blocks, tables int64) {
	es, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0
	}
	for _, e := range es {
		fi, err := e.Info()
		if err != nil || !fi.Mode().IsRegular() {
			continue // removed meanwhile
		}
		blocks += allocated(fi)
		if filepath.Ext(e.Name()) == ".sst" {
			tables += fi.Size()
		}
	}
	return blocks, tables
}

// closeToOthers takes group and other access from every file in dir.
func closeToOthers(dir string) error {
	es, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range es {
		fi, err := e.Info()
		if err != nil || fi.Mode().Perm()&0o077 == 0 || !fi.Mode().IsRegular() {
			continue
		}
		if err := os.Chmod(filepath.Join(dir, e.Name()), 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
