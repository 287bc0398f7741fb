package main

import (
	"context"
	"errors"

	"hearsay/internal/config"
	"hearsay/internal/rpc"
)

// withDaemon connects to the control socket of the daemon that w names.
func withDaemon(ctx context.Context, w where, fn func(ctx context.Context, c *rpc.Client) error) error {
	datastore := w.datastore
	if datastore == "" { // else the file says nothing that is needed
		cfg, _, _, err := w.load()
		if err != nil {
			return err
		}
		datastore = cfg.Datastore
	}
	c, err := rpc.Dial(config.ControlSocket(datastore))
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // nothing more is expected from it
	return fn(ctx, c)
}

// askOr asks the running daemon or, where none runs, does the thing itself with the
// configuration that a daemon would run on, and its path.
func askOr(ctx context.Context, w where, ask func(ctx context.Context, c *rpc.Client) error, do func(cfg *config.Config, path string) error) error {
	err := withDaemon(ctx, w, func(ctx context.Context, c *rpc.Client) error { return untold(ask(ctx, c)) })
	if !errors.Is(err, rpc.ErrNotRunning) {
		return err
	}
	cfg, path, _, err := w.load()
	if err != nil {
		return err
	}
	return do(cfg, path)
}
