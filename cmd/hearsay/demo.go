package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"hearsay/eventgraph"
	"hearsay/internal/box"
	"hearsay/internal/config"
	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// The demo's cast: as many nodes, in a line, so that what the first says reaches
// the last through the middle one alone.
const demoNodes = 3

// Channels of the demo.
const (
	demoPublic = "#demo"
	demoSecret = "#secret"
)

func newDemo() *cobra.Command {
	var port int
	var script bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "three nodes in one process, to look around",
		Long: "Runs three nodes that talk to each other over QUIC on this machine, each with its own IRC port, in a temporary\n" +
			"datastore that is gone afterwards, until interrupted. Connect IRC clients and see what happens.\n\n" +
			"--script plays a short scene with clients of its own and tells what it saw; the exit code is 0 only if everything\n" +
			"that it promises has happened. It takes free ports unless --irc-port names one.",
		Example: "  hearsay demo\n  hearsay demo --irc-port 7000\n  hearsay demo --script",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if port < 0 || port > 65535-demoNodes+1 {
				return &usageError{cmd.CommandPath(), fmt.Errorf("no such port: %d", port)}
			}
			if script && !cmd.Flags().Changed("irc-port") {
				port = 0
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // its window may be closed
			defer stop()
			context.AfterFunc(ctx, stop)
			if script {
				return runScene(ctx, cmd.OutOrStdout(), port, slog.New(slog.DiscardHandler))
			}
			return runDemo(ctx, cmd.OutOrStdout(), port)
		},
	}
	cmd.Flags().IntVar(&port, "irc-port", 6667, "IRC port of the first node; the others follow (`N`)")
	cmd.Flags().BoolVar(&script, "script", false, "play a scene and say whether it went as promised")
	return cmd
}

// A stage is the demo's running nodes, and a mailbox relay where they all collect.
type stage struct {
	dir   string
	log   *slog.Logger
	relay *relayService
	again func() error // stops the relay and starts it anew, at the same address and over the same store
	nodes []*daemon    // nil: stopped
	stops []context.CancelFunc
	ended []chan error // of each node's run

	run   context.Context //nolint:containedctx // of all nodes: ended by close alone
	stop  context.CancelFunc
	group *errgroup.Group
}

// openStage starts the nodes. ctx does not end them; close does.
func openStage(ctx context.Context, port int, log *slog.Logger) (_ *stage, err error) {
	dir, err := os.MkdirTemp("", "hearsay-demo-")
	if err != nil {
		return nil, err
	}
	// The nodes outlive an interrupt until close, which is the same for every exit.
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	group, run := errgroup.WithContext(run)
	s := &stage{
		dir: dir, log: log, run: run, stop: stop, group: group,
		nodes: make([]*daemon, demoNodes), stops: make([]context.CancelFunc, demoNodes), ended: make([]chan error, demoNodes),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	keys := newDemoKeys()
	if keys.relay, err = s.startRelay(ctx, keys); err != nil {
		return nil, err
	}
	peer := ""
	for i := range demoNodes {
		cfg, problems := config.Parse([]byte(keys.config(i, dir, port, peer)), config.OSEnv())
		if cfg == nil {
			return nil, problems
		}
		err := s.start(ctx, i, cfg)
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("port %d is taken; choose others with --irc-port N", port+i)
		}
		if err != nil {
			return nil, err
		}
		peer = s.address(i)
	}
	return s, nil
}

// startRelay runs a relay at a free port and returns its address.
func (s *stage) startRelay(ctx context.Context, k *demoKeys) (address string, err error) {
	cfg, problems := config.Parse([]byte(k.relayConfig(s.dir)), config.OSEnv())
	if cfg == nil {
		return "", problems
	}
	var stop context.CancelFunc
	var ended chan error
	open := func() error {
		if s.relay, err = openRelay(ctx, cfg, new(kv.Disk), s.log); err != nil {
			return err
		}
		run, cancel := context.WithCancel(s.run)
		relay, done := s.relay, make(chan error, 1)
		stop, ended = cancel, done
		s.group.Go(func() error {
			err := relay.run(run)
			if run.Err() != nil {
				err = nil
			}
			done <- err
			return err
		})
		return nil
	}
	s.again = func() error {
		stop()
		err := errors.Join(<-ended, s.relay.close())
		s.relay = nil
		if err != nil {
			return err
		}
		return open()
	}
	for range 8 { // UDP and TCP of one port must be free
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return "", err
		}
		cfg.Mailbox.Relay.Listen = l.Addr().String()
		if err = l.Close(); err != nil {
			return "", err
		}
		if err = open(); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return "", err
	}
	keypair, err := relayKeys(cfg)
	if err != nil {
		return "", err
	}
	a := mailbox.Address{Scheme: "quic", Host: s.relay.udp.LocalAddr().String(), Key: keypair.Transport.Public().(ed25519.PublicKey)}
	return a.String(), nil
}

// address is where node i takes connections of peers.
func (s *stage) address(i int) string {
	return strings.TrimSuffix(s.nodes[i].node.ListenAddrs()[0].String(), "/")
}

// start runs node i. It returns when the node listens, or with ctx.
func (s *stage) start(ctx context.Context, i int, cfg *config.Config) error {
	d, err := openDaemon(ctx, cfg, s.log, nil)
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(s.run)
	ended := make(chan error, 1)
	s.nodes[i], s.stops[i], s.ended[i] = d, stop, ended
	s.group.Go(func() error {
		err := d.run(run)
		ended <- err
		return err
	})
	select {
	case <-d.node.Listening():
		return nil
	case <-s.run.Done():
		return context.Cause(s.run)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// halt stops node i alone and says how to run it again, at the same addresses.
func (s *stage) halt(i int) (again *config.Config, err error) {
	c := *s.nodes[i].cfg
	c.Net.Inbound = []string{s.address(i)}
	c.IRC.Listen = "tcp://" + s.nodes[i].ircAddr().String()
	s.stops[i]()
	err = <-s.ended[i]
	s.nodes[i] = nil
	return &c, err
}

// close stops the nodes and removes what they stored.
func (s *stage) close() error {
	s.stop()
	err := s.group.Wait()
	if s.relay != nil {
		err = errors.Join(err, s.relay.close())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// demoKeys are fresh for every demo.
type demoKeys struct {
	magic   [4]byte
	channel box.SecretKey
	nodes   [demoNodes]box.SecretKey
	relay   string // its address
}

func newDemoKeys() *demoKeys {
	k := &demoKeys{channel: box.GenerateSecret()}
	_, _ = rand.Read(k.magic[:]) // never fails; a network of its own
	for i := range k.nodes {
		k.nodes[i] = box.GenerateSecret()
	}
	return k
}

// relayConfig is the file of the relay.
func (k *demoKeys) relayConfig(dir string) string {
	return fmt.Sprintf("datastore = %q\n[net]\nactive_profiles = []\nmagic_bytes = [%d, %d, %d, %d]\n[mailbox.relay]\n",
		filepath.Join(dir, "relay"), k.magic[0], k.magic[1], k.magic[2], k.magic[3])
}

// config is the file of node i, which is a peer of the node before it.
func (k *demoKeys) config(i int, dir string, port int, peer string) string {
	var b strings.Builder
	ircPort, peers := 0, ""
	if port > 0 {
		ircPort = port + i
	}
	if peer != "" {
		peers = fmt.Sprintf("%q", peer)
	}
	printf(&b, `irc_listen = "tcp://127.0.0.1:%d"
datastore = %q
autojoin = [%q]
skip_dag_sync = %t

[outbound]
min_connections = 1
wakeup = "1s"
retry_initial = "2s"

[net]
magic_bytes = [%d, %d, %d, %d]
localnet = true
active_profiles = ["quic"]
outbound_connections = 0

[net.profiles."quic"]
inbound = ["quic://127.0.0.1:0"]
peers = [%s]
outbound_connect_timeout = 5

[mailbox]
relays = [%q]
interval = "1s"

[channel.%q]
topic = "Say something; the other nodes hear it"

[channel.%q]
secret = %q
topic = "Only who has the secret can read this"
`, ircPort, filepath.Join(dir, demoName(i)), demoPublic, i == 0, k.magic[0], k.magic[1], k.magic[2], k.magic[3], peers,
		k.relay, demoPublic, demoSecret, k.channel.Base58())
	for j := range k.nodes {
		if j != i {
			printf(&b, "\n[contact.%q]\ndm_chacha_public = %q\nmy_dm_chacha_secret = %q\nmailbox = [%q]\n",
				demoName(j), k.nodes[j].Public().Base58(), k.nodes[i].Base58(), k.relay)
		}
	}
	return b.String()
}

// demoName is what a node is called, as a contact of the others too.
func demoName(i int) string { return fmt.Sprintf("node%d", i+1) }

// runDemo runs the nodes until ctx ends, and tells what they do.
func runDemo(ctx context.Context, out io.Writer, port int) (err error) {
	s, err := openStage(ctx, port, slog.New(slog.DiscardHandler))
	if errors.Is(err, context.Canceled) {
		return nil // interrupted before it had begun
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	printf(out, "Three nodes are running in a line: node1 - node2 - node3. Connect an IRC client to each:\n\n")
	for i, d := range s.nodes {
		printf(out, "  %s   irssi -c 127.0.0.1 -p %d -n %s    or in WeeChat: /server add %s %s -notls\n",
			demoName(i), d.ircAddr().(*net.TCPAddr).Port, []string{"alice", "bob", "carol"}[i], demoName(i), strings.Replace(d.ircAddr().String(), ":", "/", 1))
	}
	printf(out, "\nYou are in %s at once; /join %s is encrypted; \"/msg node3 hi\" from node1 is a direct message.\n"+
		"Below is what the nodes do with what you say. Ctrl-C ends the demo.\n\n", demoPublic, demoSecret)

	tell := newTeller(out)
	g, gctx := errgroup.WithContext(ctx)
	for i, d := range s.nodes {
		defer tell.receipts(i, d)()
		g.Go(func() error { return tell.arrivals(gctx, i, d) })
		g.Go(func() error { return tell.peers(gctx, i, d) })
		g.Go(func() error { return tell.queue(gctx, i, d) })
	}
	g.Go(func() error { // a node that fails ends the demo
		done := make(chan error, 1)
		go func() { done <- s.group.Wait() }()
		select {
		case err := <-done:
			return err
		case <-gctx.Done():
			return nil
		}
	})
	if err := g.Wait(); ctx.Err() == nil {
		return err
	}
	printf(out, "\nstopping\n")
	return nil
}

// A teller writes one line per happening, from several goroutines.
type teller struct {
	mu  sync.Mutex
	out io.Writer
}

func newTeller(out io.Writer) *teller { return &teller{out: out} }

func (t *teller) line(node int, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	printf(t.out, "%s  %s  %s\n", time.Now().Format(time.TimeOnly), demoName(node), fmt.Sprintf(format, args...))
}

// arrivals tells of every event that the node stores, until ctx ends.
func (t *teller) arrivals(ctx context.Context, node int, d *daemon) error {
	for a, err := range d.graph.Subscribe(ctx, d.graph.Last()) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		how := map[eventgraph.Source]string{
			eventgraph.SourceLocal: "made and sent", eventgraph.SourcePut: "got from a peer and passed on",
			eventgraph.SourceParent: "fetched, because another event rests on it,", eventgraph.SourceSync: "fetched from a peer",
		}[a.Source]
		t.line(node, "%s event %s (layer %d, %d bytes)", how, shortID(a.Event.ID().String()), a.Event.Layer, len(a.Event.Content))
	}
	return nil
}

// receipts tells of every status that peers send to the node, until cancelled.
func (t *teller) receipts(node int, d *daemon) (cancel func()) {
	return d.graph.ObserveReceipts(func(r eventgraph.Receipt) {
		t.line(node, "receipt: a peer says %s of event %s", r.Result, shortID(r.ID.String()))
	})
}

// queue tells what becomes of the messages that the node accepted, until ctx ends.
func (t *teller) queue(ctx context.Context, node int, d *daemon) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last := d.outboundStatus()
	for {
		now := d.outboundStatus()
		if n := int(now.AckedTotal - last.AckedTotal); n > 0 {
			t.line(node, "queue: %s acknowledged and removed, %d left", count(n, "message"), now.Depth)
		}
		if h := now.Head; h != nil && (last.Head == nil || *h != *last.Head) {
			reason := ""
			if h.Reason != "" {
				reason = " (" + h.Reason + ")"
			}
			t.line(node, "queue: %s, the first one is %s%s, %s", count(now.Depth, "message"), h.State, reason, count(h.Rounds, "repetition"))
		}
		last = now
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// peers tells when the number of connections changes, until ctx ends.
func (t *teller) peers(ctx context.Context, node int, d *daemon) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := 0
	for {
		if n := len(d.node.Peers()); n != last {
			last = n
			t.line(node, "connected to %s", count(n, "peer"))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
