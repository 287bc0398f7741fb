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
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"hearsay/eventgraph"
	"hearsay/eventgraph/gossip"
	"hearsay/internal/config"
	"hearsay/internal/kv"
	"hearsay/internal/rpc"
	"hearsay/ircd"
	"hearsay/outbound"
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
	// file is what reread reads; "": there is none. defaultFile is where one may be made
	// then; "": nowhere. Both are set before run.
	file, defaultFile string
	editing           sync.Mutex // guards file from then on
	reloading         sync.Mutex // one reload at a time: what was read last is in force

	graph      *eventgraph.Graph
	graphStore kv.Store
	disk       kv.Disk
	relay      *relayService // nil: not a relay
	custody    *custody
	keys       *ircd.Keys
	arrivals   *ircd.ArrivalLog
	network    network
	worker     *outbound.Worker
	faults     func(runStore) runStore // of the custody store, for tests; nil: none
	// lost tells run that a commit's outcome is not known (ST-03); it holds one error.
	lost    chan error
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
func openDaemon(ctx context.Context, cfg *config.Config, log *slog.Logger, reread func() (*config.Config, error)) (*daemon, error) {
	d := newDaemon(cfg, log, reread)
	if err := d.open(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

func newDaemon(cfg *config.Config, log *slog.Logger, reread func() (*config.Config, error)) *daemon {
	return &daemon{
		cfg: cfg, log: log, started: time.Now(), reread: reread, keys: &ircd.Keys{},
		dnet: rpc.NewFeed("dnet.subscribe_events"), lost: make(chan error, 1),
		faults: seams.custody,
	}
}

// open is the rest of openDaemon. With an error everything is closed again.
func (d *daemon) open(ctx context.Context) (err error) {
	cfg, log := d.cfg, d.log
	if err := makeStoreDir(cfg.Datastore); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if err := d.openStores(); err != nil {
		return err
	}
	if cfg.Mailbox.Relay != nil {
		if d.relay, err = openRelay(ctx, cfg, &d.disk, log); err != nil {
			return err
		}
	}
	if d.gossip, err = gossip.New(gossipConfig(cfg, d.graph, log)); err != nil {
		return err
	}
	d.network = network{d.graph, d.gossip, cfg.Slots.Archive}
	if err := d.openIRC(ctx); err != nil {
		return err
	}
	nc, err := nodeConfig(cfg, []p2p.Protocol{d.gossip.Protocol()}, d.observe, log)
	if err != nil {
		return err
	}
	// A darkirc file names a directory that darkirc made.
	if err := os.MkdirAll(filepath.Dir(nc.HostsFile), 0o700); err != nil {
		return fmt.Errorf("hostlist: %w", err)
	}
	if d.node, err = p2p.New(nc); err != nil {
		return err
	}
	rc := rpc.Config{
		Socket: config.ControlSocket(cfg.Datastore), Methods: d.methods(),
		Disabled: cfg.RPC.Disabled, Logger: log,
	}
	if cfg.RPC.Listen != "" && cfg.RPC.Listen != "unix://"+rc.Socket {
		rc.Listen = []string{cfg.RPC.Listen}
	}
	if d.control, err = rpc.Listen(rc); err != nil {
		return err
	}
	if d.metrics, err = openMetrics(cfg.Metrics.Listen, d); err != nil {
		return err
	}
	return nil
}

// openStores opens the stores, which share a disk and leave room for each other.
func (d *daemon) openStores() (err error) {
	disk := &d.disk
	opts := graphOptions(d.cfg, d.log)
	opts.Disk = disk
	store, err := kv.Open(opts)
	if err != nil {
		return err
	}
	if d.graph, err = eventgraph.OpenStore(store, graphConfig(d.cfg, d.log)); err != nil {
		return errors.Join(err, store.Close())
	}
	d.graphStore = store
	opts = custodyOptions(d.cfg, d.log)
	opts.Disk = disk
	custody, err := kv.Open(opts)
	if err != nil {
		return err
	}
	var run runStore = custody
	if d.faults != nil {
		run = d.faults(run)
	}
	if d.custody, err = newCustody(run, d.cfg, d.log); err != nil {
		return errors.Join(err, custody.Close())
	}
	d.custody.mail.graph = d.graph
	d.custody.arrivals.SetCorrespondence(d.custody.mail)
	return d.custody.mail.open(d.custody.store)
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
	d.arrivals = ircd.NewArrivalLog(ircd.ArrivalConfig{
		Log: d.custody.arrivals, Queue: d.custody.queue, Graph: d.graph, Keys: d.keys, Logger: d.log,
		Mail: d.custody.mail.message,
	})
	sender := &ircd.Sender{
		Queue: d.custody.queue, Keys: d.keys, Graph: d.graph,
		Accepted: d.custody.arrivals.Notify, Unknown: d.lose,
	}
	d.irc, err = ircd.New(ircd.Config{
		Listen:       []ircd.Listen{listen},
		Version:      "hearsay-" + release,
		PasswordHash: d.cfg.IRC.Password,
		Settings:     settings,
		Log:          d.arrivals,
		Outbox:       sender,
		Keys:         d.keys,
		Network:      d,
		Reload:       d.reload,
		ReadState:    d.custody.reads,
		Keeps:        keeps(d.cfg.Slots),
		Editor:       d.editor(),

		StatusCommands: d.statusCommands(),
		Logger:         d.log,
	})
	if err != nil {
		return err
	}
	d.worker, err = outbound.NewWorker(d.custody.queue, mailNetwork{d.network, d.custody.mail}, sender, outbound.WorkerConfig{
		Policy: policy(d), Notify: d.irc.Notify, Logger: d.log,
	})
	if err != nil {
		return err
	}
	d.network.observe(d.worker)
	return d.irc.Listen(ctx)
}

// lose ends the daemon.
func (d *daemon) lose(err error) {
	select {
	case d.lost <- err:
	default:
	}
}

// lostPause is how long clients have to be told that an outcome is unknown.
const lostPause = 500 * time.Millisecond

// watchLoss ends with an error after which the process must end (ST-03). Where nothing
// else touches the store, only the one that tried to enqueue knows.
func (d *daemon) watchLoss(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-d.lost:
		return err
	}
}

// close closes what open opened, where run does not do it.
func (d *daemon) close() error {
	var errs []error
	if d.control != nil {
		errs = append(errs, d.control.Close())
	}
	return errors.Join(append(errs, d.closeStores())...)
}

func (d *daemon) closeStores() error {
	var errs []error
	if d.graph != nil {
		errs = append(errs, d.graph.Close())
	}
	if d.custody != nil {
		errs = append(errs, d.custody.store.Close())
	}
	if d.relay != nil {
		errs = append(errs, d.relay.close())
	}
	return errors.Join(errs...)
}

// run runs the node until ctx ends or a part fails. The end comes in the order of
// ST-07: first nobody can ask or say anything any more, then nothing new is made of what
// waits, then the peers are left between frames, then the stores are closed. It returns nil after a clean end.
func (d *daemon) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, d.closeStores()) }()
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
				if errors.Is(err, kv.ErrUnknown) { // clients are to hear of it first
					select {
					case <-sctx.Done():
					case <-time.After(lostPause):
					}
				}
				fail(err)
				return err
			})
		}
		return func() error { cancel(); return g.Wait() }
	}
	stopStore := stage(d.graph.Run, d.custody.store.Run)
	front := []func(context.Context) error{d.irc.Run, d.control.Run, d.watch}
	if d.metrics != nil {
		front = append(front, d.metrics.Run)
	}
	if d.relay != nil {
		front = append(front, d.relay.run)
	}
	stopFront := stage(front...)
	stopQueue := stage(
		d.worker.Run, d.arrivals.Run, d.watchLoss, d.custody.mail.run,
		func(ctx context.Context) error { return d.network.wake(ctx, d.worker) },
		func(ctx context.Context) error {
			return d.custody.prune(ctx, func() eventgraph.Slot { return d.graph.Slots()[0] })
		},
	)
	stopNetwork := stage(d.gossip.Run, d.node.Run)
	d.log.Info("running", "version", release)
	<-ctx.Done()
	d.log.Info("stopping")
	err = errors.Join(stopFront(), stopQueue(), stopNetwork(), stopStore())
	if errors.Is(err, kv.ErrUnknown) {
		err = fmt.Errorf("the disk failed, and what the last commits did is not known before the next start: %w", err)
	}
	return err
}

// reload re-reads the configuration and applies what can change without a restart.
func (d *daemon) reload(ctx context.Context) (ircd.Summary, error) {
	if d.reread == nil {
		return ircd.Summary{}, errors.New("there is no configuration file to read")
	}
	d.reloading.Lock()
	defer d.reloading.Unlock()
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
	if err := d.custody.mail.setContacts(d.custody.store, cfg.Chat.Contacts); err != nil {
		return ircd.Summary{}, err
	}
	d.worker.Retry() // a key may have come back
	stuck, err := d.stuck()
	if err != nil {
		return ircd.Summary{}, err
	}
	changed = append(changed, stuck...)
	sum := ircd.Summary{Changed: changed, NeedsRestart: changedSections(d.cfg, cfg)}
	d.log.Info("configuration reloaded", "changes", len(sum.Changed), "need_restart", strings.Join(sum.NeedsRestart, "; "))
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
		Peers:     d.gossip.PutTargets(),
		Needed:    d.cfg.Outbound.MinConnections,
		Synced:    d.gossip.Synced(),
		Connected: len(d.node.Peers()),
	}
}

// Troubles are what clients are told besides.
func (d *daemon) Troubles() []string {
	all := append(d.notes.list(), d.custody.mail.troubles()...)
	for i, text := range all {
		all[i] = sentence(text)
	}
	return all
}

// Blocked is what a client that connects now is told of the queue (DS-76).
func (d *daemon) Blocked() (outbound.Notice, bool) { return d.worker.Blocked() }

var (
	_ ircd.Troubled  = (*daemon)(nil)
	_ ircd.Blockable = (*daemon)(nil)
)

// ircAddr is the address of the IRC listener, with its real port.
func (d *daemon) ircAddr() net.Addr { return d.irc.Addrs()[0] }
