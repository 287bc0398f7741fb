package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"hearsay/eventgraph"
	"hearsay/eventgraph/gossip"
	"hearsay/internal/config"
	"hearsay/internal/rpc"
	"hearsay/ircd"
	"hearsay/p2p"
)

// A daemon is one node with all its parts. Several fit into a process.
type daemon struct {
	cfg     *config.Config
	log     *slog.Logger
	started time.Time
	// reread loads the configuration again, for a REHASH; nil: there is nothing to
	// load.
	reread func() (*config.Config, error)

	graph   *eventgraph.Graph
	keys    *ircd.Keys
	irc     *ircd.Server
	gossip  *gossip.Gossip
	node    *p2p.Node
	control *rpc.Server
	metrics *metricsServer // nil: off
	dnet    *rpc.Feed
	notes   notes
}

// openDaemon opens stores and listeners in the order in which failing early costs
// least: the store's lock first, which refuses a second daemon, then the IRC port.
// Nothing runs yet. The caller calls run, which closes everything.
func openDaemon(ctx context.Context, cfg *config.Config, log *slog.Logger, reread func() (*config.Config, error)) (_ *daemon, err error) {
	d := &daemon{cfg: cfg, log: log, started: time.Now(), reread: reread, keys: &ircd.Keys{}, dnet: rpc.NewFeed("dnet.subscribe_events")}
	if err := makeStoreDir(cfg.Datastore); err != nil {
		return nil, err
	}
	if d.graph, err = eventgraph.Open(graphDir(cfg), graphConfig(cfg, log)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if err := d.openIRC(ctx); err != nil {
		return nil, err
	}
	if d.gossip, err = gossip.New(gossipConfig(cfg, d.graph, log)); err != nil {
		return nil, err
	}
	nc, err := nodeConfig(cfg, []p2p.Protocol{d.gossip.Protocol()}, d.observe, log)
	if err != nil {
		return nil, err
	}
	// A darkirc file names a directory that darkirc made.
	if err := os.MkdirAll(filepath.Dir(nc.HostsFile), 0o700); err != nil {
		return nil, fmt.Errorf("hostlist: %w", err)
	}
	if d.node, err = p2p.New(nc); err != nil {
		return nil, err
	}
	rc := rpc.Config{
		Socket: config.ControlSocket(cfg.Datastore), Methods: d.methods(),
		Disabled: cfg.RPC.Disabled, Logger: log,
	}
	if cfg.RPC.Listen != "" && cfg.RPC.Listen != "unix://"+rc.Socket {
		rc.Listen = []string{cfg.RPC.Listen}
	}
	if d.control, err = rpc.Listen(rc); err != nil {
		return nil, err
	}
	if d.metrics, err = openMetrics(cfg.Metrics.Listen, d); err != nil {
		return nil, err
	}
	return d, nil
}

// makeStoreDir makes the directory of our own files, which is nobody else's.
func makeStoreDir(datastore string) error {
	if err := os.MkdirAll(datastore, 0o700); err != nil {
		return fmt.Errorf("datastore: %w", err)
	}
	dir := config.StoreDir(datastore)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("datastore: %w", err)
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("datastore: %w", err)
	case !info.IsDir():
		return fmt.Errorf("datastore: %s is no directory", dir)
	}
	return nil
}

func (d *daemon) openIRC(ctx context.Context) error {
	settings, err := ircSettings(d.cfg.Chat)
	if err != nil {
		d.log.Warn("the message of the day cannot be read", "err", err)
	}
	listen, err := ircListen(d.cfg.IRC)
	if err != nil {
		return err
	}
	d.irc, err = ircd.New(ircd.Config{
		Listen:       []ircd.Listen{listen},
		Version:      "hearsay-" + release,
		PasswordHash: d.cfg.IRC.Password,
		Settings:     settings,
		Graph:        d.graph,
		Outbox:       direct{d.graph, d.keys},
		Keys:         d.keys,
		Network:      d,
		Reload:       d.reload,
		Logger:       d.log,
	})
	if err != nil {
		return err
	}
	return d.irc.Listen(ctx)
}

// close closes what open opened, where run does not do it.
func (d *daemon) close() error {
	var errs []error
	if d.control != nil {
		errs = append(errs, d.control.Close())
	}
	return errors.Join(append(errs, d.graph.Close())...)
}

// run runs the node until ctx ends or a part fails. The end comes in the order of
// ST-07: first nobody can ask or say anything any more, then the peers are left
// between frames, then the stores are closed. It returns nil after a clean end.
func (d *daemon) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, d.graph.Close()) }()
	// A failing part ends all.
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	stage := func(parts ...func(context.Context) error) (stop func() error) {
		sctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		g, gctx := errgroup.WithContext(sctx)
		for _, part := range parts {
			g.Go(func() error {
				err := part(gctx)
				if sctx.Err() != nil { // asked to
					return nil
				}
				if err == nil {
					err = errors.New("a part of the daemon ended by itself")
				}
				fail(err)
				return err
			})
		}
		return func() error { cancel(); return g.Wait() }
	}
	stopStore := stage(d.graph.Run)
	front := []func(context.Context) error{d.irc.Run, d.control.Run, d.watch}
	if d.metrics != nil {
		front = append(front, d.metrics.Run)
	}
	stopFront := stage(front...)
	stopNetwork := stage(d.gossip.Run, d.node.Run)
	d.log.Info("running", "version", release)
	<-ctx.Done()
	d.log.Info("stopping")
	return errors.Join(stopFront(), stopNetwork(), stopStore())
}

// reload re-reads the configuration and applies what can change without a restart.
func (d *daemon) reload(ctx context.Context) (ircd.Summary, error) {
	if d.reread == nil {
		return ircd.Summary{}, errors.New("there is no configuration file to read")
	}
	cfg, err := d.reread()
	if err != nil {
		return ircd.Summary{}, err
	}
	settings, err := ircSettings(cfg.Chat)
	if err != nil {
		return ircd.Summary{}, err
	}
	changed, err := d.irc.Apply(ctx, settings)
	if err != nil {
		return ircd.Summary{}, err
	}
	sum := ircd.Summary{Changed: changed, NeedsRestart: changedSections(d.cfg, cfg)}
	d.log.Info("configuration reloaded", "changes", len(sum.Changed), "need_restart", len(sum.NeedsRestart))
	return sum, nil
}

// observe hands p2p's events to upstream's viewers, if any looks.
func (d *daemon) observe(e p2p.Event) {
	if d.dnet.On() {
		d.dnet.Publish(netEvent(e))
	}
}

// State is what IRC clients are told about the network.
func (d *daemon) State() ircd.NetworkState {
	return ircd.NetworkState{
		Peers:  d.gossip.PutTargets(),
		Needed: d.cfg.Outbound.MinConnections,
		Synced: d.gossip.Synced(),
	}
}

// Troubles are what clients are told besides.
func (d *daemon) Troubles() []string { return d.notes.list() }

var _ ircd.Troubled = (*daemon)(nil)

// ircAddr is the address of the IRC listener, with its real port.
func (d *daemon) ircAddr() net.Addr { return d.irc.Addrs()[0] }
