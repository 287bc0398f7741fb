// Package kvtest holds what tests of storing packages share: the suite that every
// kv.Store passes, and a store whose commits fail by name.
package kvtest

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"hearsay/internal/kv"
)

// ErrInjected is how an injected failure ends. It is a kv.ErrUnknown too, as that
// is what a failing commit of a real store is.
var ErrInjected = fmt.Errorf("%w: injected", kv.ErrUnknown)

// A Faulty wraps a store and fails the commit named Op once: before it is applied
// or, if Applied, after. In both cases the function of the commit has run.
type Faulty struct {
	kv.Store

	// Op names the commit; empty: none fails.
	Op string
	// Applied says whether the failing commit takes effect.
	Applied bool
	// Skip lets that many commits named Op pass first.
	Skip int
	// Err is returned instead of ErrInjected.
	Err error
	// Sticky makes everything after the failure fail alike, as a real store does
	// until it is opened again.
	Sticky bool

	mu     sync.Mutex
	failed bool
	seen   []string
}

var _ kv.Store = (*Faulty)(nil)

var errRollBack = errors.New("kvtest: roll back")

// Update implements kv.Store.
func (f *Faulty) Update(op kv.Op, fn func(kv.Txn) error) error {
	fail, err := f.hit(op.Name)
	switch {
	case err != nil:
		return err
	case !fail:
		return f.Store.Update(op, fn)
	case f.Applied:
		if err := f.Store.Update(op, fn); err != nil {
			return err
		}
	default:
		err := f.Store.Update(op, func(tx kv.Txn) error {
			if err := fn(tx); err != nil {
				return err
			}
			return errRollBack
		})
		if !errors.Is(err, errRollBack) {
			return err
		}
	}
	return f.err()
}

// View implements kv.Store.
func (f *Faulty) View(fn func(kv.Reader) error) error {
	f.mu.Lock()
	dead := f.failed && f.Sticky
	f.mu.Unlock()
	if dead {
		return f.err()
	}
	return f.Store.View(fn)
}

// Failed reports whether the failure has happened.
func (f *Faulty) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// Seen returns the names of all commits so far, each once, sorted.
func (f *Faulty) Seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}

func (f *Faulty) hit(name string) (fail bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i, ok := slices.BinarySearch(f.seen, name); !ok {
		f.seen = slices.Insert(f.seen, i, name)
	}
	switch {
	case f.failed && f.Sticky:
		return false, f.err()
	case f.failed || name != f.Op || name == "":
		return false, nil
	case f.Skip > 0:
		f.Skip--
		return false, nil
	}
	f.failed = true
	return true, nil
}

func (f *Faulty) err() error {
	if f.Err != nil {
		return f.Err
	}
	return ErrInjected
}
