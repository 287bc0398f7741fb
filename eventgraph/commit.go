package eventgraph

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"hearsay/internal/kv"
)

// turns puts the in-memory effects of commits in the order of the commits
// themselves. The store serialises transactions but wakes their callers in any
// order; each transaction takes the next commit number from the store itself (so a
// transaction that is rolled back gives its number back), and its caller waits
// until the commit before it took effect here.
type turns struct {
	commit  atomic.Uint64 // the last commit that took effect
	arrival atomic.Uint64 // the last arrival that took effect

	mu   sync.Mutex
	done map[uint64]chan struct{} // closed when that commit has taken effect
	err  error
	dead chan struct{} // closed once err is set
}

func (t *turns) init(m meta) {
	t.commit.Store(m.commit)
	t.arrival.Store(m.arrival)
	t.done = map[uint64]chan struct{}{}
	t.dead = make(chan struct{})
}

// fail ends everything: from now on nobody gets a turn.
func (t *turns) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
		close(t.dead)
	}
}

// cause is why everything ended, or nil.
func (t *turns) cause() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// wait returns when commit n has taken effect.
func (t *turns) wait(n uint64) error {
	t.mu.Lock()
	if t.commit.Load() >= n {
		t.mu.Unlock()
		return nil
	}
	ch := t.done[n]
	if ch == nil {
		ch = make(chan struct{})
		t.done[n] = ch
	}
	t.mu.Unlock()
	select {
	case <-ch:
		return nil
	case <-t.dead:
		return t.cause()
	}
}

// finish says that m has taken effect, after wait(m.commit-1).
func (t *turns) finish(m meta) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.arrival.Store(m.arrival)
	t.commit.Store(m.commit)
	if ch := t.done[m.commit]; ch != nil {
		close(ch)
		delete(t.done, m.commit)
	}
}

// errNothing rolls back a transaction that turned out to have nothing to write.
var errNothing = errors.New("eventgraph: nothing to commit")

// commit runs fn in a transaction and then, in commit order, effect. fn gets the
// counters, already advanced to this commit, and may advance the arrivals; it must
// be free of effects outside tx and its own results, since it may run again. If fn
// has nothing to write, commit still waits until everything that fn saw has taken
// effect: what it saw is then durable.
//
// An error of fn, of a full disk or of a too large transaction means that nothing
// was written. Any other error leaves the outcome unknown, and the graph refuses
// everything from then on (ST-03).
func (g *Graph) commit(op kv.Op, fn func(tx kv.Txn, m *meta) error, effect func(m meta)) error {
	if err := g.turns.cause(); err != nil {
		return err
	}
	var own error
	var m meta
	err := g.store.Update(op, func(tx kv.Txn) error {
		own = nil
		if m, own = readMeta(tx); own != nil {
			return own
		}
		before := m.commit
		m.commit++
		if own = fn(tx, &m); own != nil {
			if errors.Is(own, errNothing) {
				m.commit = before
			}
			return own
		}
		own = tx.Set(metaKey, m.encode())
		return own
	})
	switch {
	case err == nil:
	case errors.Is(err, kv.ErrTooLarge):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case errors.Is(err, kv.ErrDiskFull):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case errors.Is(err, errNothing):
		return g.turns.wait(m.commit)
	case own != nil, errors.Is(err, kv.ErrClosed):
		return err
	default:
		err = fmt.Errorf("eventgraph: commit %s: %w", op.Name, err)
		if !errors.Is(err, kv.ErrUnknown) {
			err = fmt.Errorf("%w: %w", kv.ErrUnknown, err)
		}
		g.turns.fail(err)
		return err
	}
	if err := g.turns.wait(m.commit - 1); err != nil {
		return err
	}
	effect(m)
	g.turns.finish(m)
	return nil
}

func readMeta(r kv.Reader) (meta, error) {
	b, err := r.Get(metaKey)
	if errors.Is(err, kv.ErrNotFound) {
		return meta{}, corrupt("no counters")
	}
	if err != nil {
		return meta{}, err
	}
	return decodeMeta(b)
}
