package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/arrival"
	"hearsay/internal/config"
	"hearsay/internal/kv"
	"hearsay/internal/readstate"
	"hearsay/internal/sealed"
	"hearsay/ircd"
	"hearsay/outbound"
)

// The custody store holds what this node owes its users: accepted messages that wait,
// and the order in which messages came (spec/storage.md).
const (
	custodyKind   = "custody"
	custodySchema = 1
)

// pruneInterval is how often rows of slots that are no longer retained are removed from
// the arrival log.
const pruneInterval = time.Minute

// A runStore is a store on disk, which Run looks after.
type runStore interface {
	kv.Store
	Run(ctx context.Context) error
}

// custody is the custody store with what lives in it.
type custody struct {
	store    runStore
	arrivals *arrival.Log
	reads    *readstate.Store
	queue    *outbound.Queue
	mail     *mail
}

func custodyDir(cfg *config.Config) string {
	return filepath.Join(config.StoreDir(cfg.Datastore), custodyKind)
}

func custodyOptions(cfg *config.Config, log *slog.Logger) kv.Options {
	return kv.Options{Dir: custodyDir(cfg), Kind: custodyKind, Schema: custodySchema, Sync: true, Logger: log}
}

// openCustody opens the store and checks all of it.
func openCustody(opts kv.Options, cfg *config.Config, log *slog.Logger) (*custody, error) {
	store, err := kv.Open(opts)
	if err != nil {
		return nil, err
	}
	c, err := newCustody(store, cfg, log)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return c, nil
}

// A sealedStore encrypts what the store below it holds.
type sealedStore struct {
	*sealed.Store
	below runStore
}

func (s sealedStore) Run(ctx context.Context) error { return s.below.Run(ctx) }

// protect seals the custody store where the configuration names a key file.
func protect(store runStore, cfg *config.Config) (runStore, error) {
	if cfg.Outbound.KeyFile == "" {
		if err := sealed.CheckPlain(store); err != nil {
			return nil, fmt.Errorf("custody store: %w: outbound.key_file must name its key", err)
		}
		return store, nil
	}
	key, err := sealed.ReadKey(cfg.Outbound.KeyFile)
	if err != nil {
		return nil, err
	}
	s, err := sealed.Wrap(store, key)
	if errors.Is(err, sealed.ErrPlain) {
		err = fmt.Errorf("%w; to seal it: \"hearsay backup\" without key_file in the configuration, move %s and %s away, \"hearsay restore\" with it, "+
			"\"hearsay queue release\"", err, custodyDir(cfg), graphDir(cfg))
	}
	if err != nil {
		return nil, fmt.Errorf("custody store: %w", err)
	}
	return sealedStore{s, store}, nil
}

// newCustody checks what is in store. The caller closes it.
func newCustody(store runStore, cfg *config.Config, log *slog.Logger) (_ *custody, err error) {
	c := &custody{}
	if c.store, err = protect(store, cfg); err != nil {
		return nil, err
	}
	if c.arrivals, err = arrival.Open(c.store, nil); err != nil {
		return nil, err
	}
	if c.mail, err = newMail(c.store, c.arrivals, cfg, log); err != nil {
		return nil, err
	}
	if c.reads, err = readstate.Open(c.store, nil); err != nil {
		return nil, err
	}
	last, err := c.arrivals.Last()
	if err != nil {
		return nil, err
	}
	if err := c.reads.Truncate(last); err != nil {
		return nil, err
	}
	params := graphConfig(cfg, log).Params
	c.queue, err = outbound.Open(c.store, outbound.Config{
		MaxMessages: cfg.Outbound.MaxMessages, MaxBytes: cfg.Outbound.MaxBytes, Logger: log,
		Hooks: outbound.Hooks{
			Enqueued: func(tx kv.Txn, e outbound.Entry) error {
				return c.arrivals.AppendOwn(tx, arrival.ID(e.ID), uint64(e.Position), e.Enqueued, ircd.PlaceOf(e.Payload))
			},
			Generated: func(tx kv.Txn, e outbound.Entry, _ int, g outbound.Generation) error {
				slot := params.SlotAt(eventgraph.Slot(g.Event.Timestamp).Time())
				if err := c.arrivals.OwnGeneration(tx, arrival.ID(e.ID), slot, &g.Event); err != nil {
					return err
				}
				return c.mail.generated(tx, e, &g)
			},
			Cancelled: func(tx kv.Txn, _ outbound.Position, id outbound.LogicalID, _ int) error {
				return errors.Join(c.mail.cancelled(tx, id), c.arrivals.RemoveOwn(tx, arrival.ID(id)))
			},
			Dequeued: func(tx kv.Txn, _ outbound.Position, id outbound.LogicalID) error { return c.mail.dequeued(tx, id) },
		},
	})
	if err != nil {
		return nil, err
	}
	c.mail.held = func() (bool, error) {
		sum, err := c.queue.Summary()
		return sum.Held, err
	}
	return c, nil
}

// prune removes rows of slots that the graph no longer retains, until ctx ends. What is
// still queued stays.
func (c *custody) prune(ctx context.Context, oldest func() eventgraph.Slot) error {
	tick := time.NewTicker(pruneInterval)
	defer tick.Stop()
	for {
		for more := true; more && ctx.Err() == nil; {
			var err error
			more, err = c.arrivals.Prune(oldest(), func(tx kv.Reader, row *arrival.Row) (bool, error) {
				return outbound.Queued(tx, outbound.Position(row.Position))
			})
			if err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
