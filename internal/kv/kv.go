package kv

import "errors"

// Errors that callers branch on.
var (
	// ErrNotFound: no such key.
	ErrNotFound = errors.New("kv: not found")
	// ErrStop ends a Scan early without an error.
	ErrStop = errors.New("kv: stop")
	// ErrDiskFull: the disk's free space is below the reserve of the commit's
	// class (ST-02). Nothing was written.
	ErrDiskFull = errors.New("kv: not enough disk space")
	// ErrUnknown: a commit failed after it was handed to the disk. Whether it is
	// durable is not known; the store refuses everything from then on and the
	// process must end (ST-03).
	ErrUnknown = errors.New("kv: commit outcome unknown")
	// ErrCorrupt: the store's files do not read back (ST-04).
	ErrCorrupt = errors.New("kv: store is corrupt")
	// ErrLocked: another process has the store open.
	ErrLocked = errors.New("kv: store is in use by another process")
	// ErrSchema: the store was written by a newer or an unknown program.
	ErrSchema = errors.New("kv: unknown store format")
	// ErrPermission: a store path is a symlink, is not owned by us or can be read by others.
	ErrPermission = errors.New("kv: unsafe store path")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("kv: store is closed")
	// ErrTooLarge: a key, a value or one commit is larger than the store can apply
	// atomically. Nothing was written.
	ErrTooLarge = errors.New("kv: commit too large")
	// ErrKey: a key is empty or in the store's own space ("!kv!", "!badger!").
	ErrKey = errors.New("kv: invalid key")
)

// A Class says how early a commit is refused while the disk fills up (ST-02).
type Class uint8

// Classes, from the first to be refused to the one that never is.
const (
	ClassGossip     Class = iota // other people's events
	ClassEnqueue                 // newly accepted messages and deposits
	ClassGeneration              // what an accepted message needs to go out
	ClassRelease                 // dequeues, acknowledgements, pruning: frees space in the end
)

// An Op names a commit. The name is the crash point of that commit in fault
// tests, so it must be constant and unique in its store.
type Op struct {
	Name  string
	Class Class
}

// A Scan selects keys in byte order.
type Scan struct {
	Prefix   []byte // only keys with this prefix
	Start    []byte // first key to visit, inclusive (the highest one if Reverse); nil = the end of the range
	Reverse  bool
	KeysOnly bool // values are nil
}

// A Reader sees one consistent state of the store.
type Reader interface {
	// Get returns a copy of the value, or ErrNotFound.
	Get(key []byte) ([]byte, error)
	// Scan calls fn for each selected pair. The slices are valid during the call
	// only. fn ends the scan with ErrStop (Scan then returns nil) or any other
	// error (Scan returns it).
	Scan(s Scan, fn func(key, value []byte) error) error
}

// A Txn is a Reader that sees its own writes. Key and value are copied.
type Txn interface {
	Reader
	Set(key, value []byte) error
	Delete(key []byte) error
}

// A Store is safe for concurrent use.
type Store interface {
	// View runs fn on a snapshot.
	View(fn func(Reader) error) error
	// Update runs fn and commits what it wrote, atomically and (for a store that
	// syncs) durably, before it returns. Updates are serialised: fn sees the
	// effect of every earlier one and never meets a conflict. Concurrent calls
	// share one sync (group commit). An error from fn rolls back fn's writes and
	// is returned as it is; fn must not keep tx, and may run on another
	// goroutine than the caller's.
	Update(op Op, fn func(tx Txn) error) error
	// Size is the approximate number of bytes the store takes on disk (or in memory).
	Size() int64
	Close() error
}
