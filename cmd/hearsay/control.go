package main

import (
	"context"

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
