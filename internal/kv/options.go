package kv

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Default sizes, in bytes. Two idle stores stay well below the 60 MB that an idle
// node may take: a memtable's arena is only touched as it fills.
const (
	defaultMemtable = 8 << 20
	defaultTable    = 2 << 20
	minMemtable     = 1 << 20
	maxMemtable     = 256 << 20
)

// maxKindLen bounds Options.Kind.
const maxKindLen = 32

// Options say which store to open and how. The zero value of a field means its
// default.
type Options struct {
	// Dir is the store's own directory. Its last component must not be a symlink.
	// It is created, with its parents, readable by the owner only; an existing
	// empty directory is made so; one with content that others may read is refused.
	Dir string

	// Kind says whose store this is ("graph", "custody", "relay"): 1 to 32 lower
	// case letters. A store of another kind is refused with ErrSchema.
	Kind string

	// Schema is the version of the keys and values in the store. A store with
	// another one is refused with ErrSchema.
	Schema uint32

	// Sync makes Update return only after the commit is on the disk. Without it a
	// commit survives the process but not the machine, up to SyncEvery.
	Sync bool

	// SyncEvery is how often Run syncs a store without Sync. Default 1 s.
	SyncEvery time.Duration

	// Memtable is the size of Badger's memtable in bytes, 1 to 256 MiB, default
	// 8 MiB. It bounds one commit (about 15 % of it). Frozen when the store is
	// created: a later value is used only when the store is rewritten.
	Memtable int64

	// Table is the size of Badger's smallest table in bytes, default 2 MiB. Frozen
	// like Memtable.
	Table int64

	// Reserve is the free disk space below which a class of commits is refused.
	Reserve Reserve

	// Ballast is the size of the file that is given up to open and drain on a full
	// disk, in bytes. Default is four memtables; negative is none.
	Ballast int64

	// Disk is shared by the stores of one process on one file system, so that each
	// leaves room for the others' compactions. Nil: the store is alone.
	Disk *Disk

	// Rewrite makes Open copy all live records into new files first, so that
	// nothing of deleted records stays in the store's directory (DS-83).
	Rewrite bool

	// Logger is told about maintenance. Nil means silent. No key or value is logged.
	Logger *slog.Logger

	hooks hooks
}

// A Reserve is free disk space in bytes, by the class that is refused below it.
// What the store's own background work may need at worst is added to each.
// ClassRelease is never refused. Defaults: 16, 8 and 4 memtables.
type Reserve struct {
	Gossip     int64
	Enqueue    int64
	Generation int64
}

// of returns the reserve of class c.
func (r Reserve) of(c Class) int64 {
	switch c {
	case ClassGossip:
		return r.Gossip
	case ClassEnqueue:
		return r.Enqueue
	case ClassGeneration:
		return r.Generation
	case ClassRelease:
	}
	return 0
}

// hooks are the seams of this package's own tests.
type hooks struct {
	// free replaces the file system's count of free bytes.
	free func(dir string) (int64, bool)
	// fault is called at named points and fails the operation that follows.
	fault func(point string) error
}

func (h hooks) at(point string) error {
	if h.fault == nil {
		return nil
	}
	return h.fault(point)
}

func (o *Options) setDefaults() error {
	if o.Dir == "" {
		return errors.New("kv: no directory")
	}
	if o.Kind == "" || len(o.Kind) > maxKindLen || strings.Trim(o.Kind, "abcdefghijklmnopqrstuvwxyz") != "" {
		return fmt.Errorf("kv: kind %q is not 1 to %d lower case letters", o.Kind, maxKindLen)
	}
	if o.Schema == 0 {
		return errors.New("kv: no schema version")
	}
	if o.Memtable == 0 {
		o.Memtable = defaultMemtable
	}
	if o.Table == 0 {
		o.Table = defaultTable
	}
	if o.Memtable < minMemtable || o.Memtable > maxMemtable || o.Table < minMemtable || o.Table > maxMemtable {
		return fmt.Errorf("kv: memtable and table sizes must be %d to %d bytes", minMemtable, maxMemtable)
	}
	if o.SyncEvery == 0 {
		o.SyncEvery = time.Second
	}
	if o.SyncEvery < 0 {
		return errors.New("kv: SyncEvery is negative")
	}
	if o.Reserve.Gossip == 0 {
		o.Reserve.Gossip = 16 * o.Memtable
	}
	if o.Reserve.Enqueue == 0 {
		o.Reserve.Enqueue = 8 * o.Memtable
	}
	if o.Reserve.Generation == 0 {
		o.Reserve.Generation = 4 * o.Memtable
	}
	if r := o.Reserve; r.Gossip < r.Enqueue || r.Enqueue < r.Generation || r.Generation < 0 {
		return errors.New("kv: reserves must not grow from gossip to enqueue to generation")
	}
	switch {
	case o.Ballast == 0:
		o.Ballast = 4 * o.Memtable
	case o.Ballast < 0:
		o.Ballast = 0
	}
	if o.Disk == nil {
		o.Disk = new(Disk)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}
