package main

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"hearsay/internal/config"
	"hearsay/internal/kv"
	"hearsay/internal/rpc"
	"hearsay/mailbox"
	"hearsay/mailbox/relay"
)

// relayKind is the kind of the relay's store.
const relayKind = "relay"

// defaultRelay is the relay of a file that does not configure one, for the command that
// runs one all the same.
var defaultRelay = config.MailboxRelay{Listen: "0.0.0.0:9610", Claims: true}

func relayConfig(cfg *config.Config) config.MailboxRelay {
	if cfg.Mailbox.Relay != nil {
		return *cfg.Mailbox.Relay
	}
	return defaultRelay
}

// relayDir is where the relay's store and keys lie.
func relayDir(cfg *config.Config) string {
	if dir := relayConfig(cfg).Datastore; dir != "" {
		return dir
	}
	return config.StoreDir(cfg.Datastore)
}

// makeRelayDir makes the relay's directory, which is nobody else's.
func makeRelayDir(cfg *config.Config) (string, error) {
	dir := relayDir(cfg)
	if relayConfig(cfg).Datastore == "" {
		return dir, makeStoreDir(cfg.Datastore)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("mailbox relay: %w", err)
	}
	return dir, nil
}

// relayKeys opens the relay's keys. A store without its key is refused: another key
// would open nothing that is in it (MB-51).
func relayKeys(cfg *config.Config) (relay.Keys, error) {
	dir, err := makeRelayDir(cfg)
	if err != nil {
		return relay.Keys{}, err
	}
	list, err := os.ReadDir(filepath.Join(dir, relay.StoreName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return relay.Keys{}, fmt.Errorf("mailbox relay: %w", err)
	}
	return relay.OpenKeys(dir, len(list) > 0)
}

// A relayService is a mailbox relay with its store and its sockets.
type relayService struct {
	relay  *relay.Relay
	server *relay.Server
	store  *kv.DB
	udp    net.PacketConn
	tcp    net.Listener
}

// openRelay opens everything and runs nothing. The caller calls run, or close.
func openRelay(ctx context.Context, cfg *config.Config, disk *kv.Disk, log *slog.Logger) (_ *relayService, err error) {
	keys, err := relayKeys(cfg)
	if err != nil {
		return nil, err
	}
	s := &relayService{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.store, err = kv.Open(kv.Options{
		Dir: filepath.Join(relayDir(cfg), relay.StoreName), Kind: relayKind, Schema: relay.Schema, Sync: true, Disk: disk, Logger: log,
	}); err != nil {
		return nil, err
	}
	rc := relayConfig(cfg)
	if s.relay, err = relay.New(relaySettings(rc, keys, s.store, log)); err != nil {
		return nil, err
	}
	if err = s.relay.CheckKey(); err != nil {
		return nil, err
	}
	if s.server, err = relay.NewServer(s.relay, keys.Transport); err != nil {
		return nil, err
	}
	// QUIC, and on the same port TLS over TCP for clients behind a proxy (MB-47).
	lc := net.ListenConfig{}
	if s.udp, err = lc.ListenPacket(ctx, "udp", rc.Listen); err != nil {
		return nil, fmt.Errorf("mailbox relay: %w", err)
	}
	if s.tcp, err = lc.Listen(ctx, "tcp", rc.Listen); err != nil {
		return nil, fmt.Errorf("mailbox relay: %w", err)
	}
	return s, nil
}

func relaySettings(rc config.MailboxRelay, keys relay.Keys, store kv.Store, log *slog.Logger) relay.Config {
	c := relay.Config{
		Store: store, Key: keys.Master, Limits: relay.Limits(rc.Limits), Drain: rc.Drain,
		Identity: keys.Transport.Public().(ed25519.PublicKey), NoClaims: !rc.Claims,
		Version: "hearsay-" + release, Contact: rc.Contact, Policy: rc.Policy, Logger: log,
	}
	if seams.relay != nil {
		seams.relay(&c)
	}
	if len(rc.Allow) > 0 {
		c.Allow = func(key []byte) bool { return len(key) == 32 && slices.Contains(rc.Allow, [32]byte(key)) }
	}
	return c
}

// run serves until ctx ends or a part fails. It closes the sockets, not the store.
func (s *relayService) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.store.Run(ctx) })
	g.Go(func() error { return s.relay.Run(ctx) })
	g.Go(func() error { return s.server.ServeQUIC(ctx, s.udp) })
	g.Go(func() error { return s.server.ServeTLS(ctx, s.tcp) })
	return g.Wait()
}

// close closes the store, and sockets that run did not close.
func (s *relayService) close() error {
	if s.udp != nil {
		_ = s.udp.Close() // closed by run already, or never used
	}
	if s.tcp != nil {
		_ = s.tcp.Close()
	}
	if s.store == nil {
		return nil
	}
	return s.store.Close()
}

// relayStatus is the object "relay" of the status: aggregates alone (MB-54, decision
// 0157).
type relayStatus struct {
	Draining      bool              `json:"draining"`
	Rows          uint64            `json:"rows"`
	Bytes         uint64            `json:"bytes"`
	CapacityRows  uint64            `json:"capacity_rows"`
	CapacityBytes uint64            `json:"capacity_bytes"`
	Registrations uint64            `json:"registrations"`
	Leases        uint64            `json:"leases"`
	OldestLeaseS  int64             `json:"oldest_lease_s"`
	Requests      uint64            `json:"requests_total"`
	Refused       map[string]uint64 `json:"refused"` // refused deposits by reason, since the start
	ExpiredRows   uint64            `json:"expired_rows"`
	ExpiredLeases uint64            `json:"expired_leases"`
	StoreBytes    int64             `json:"store_bytes"`
	Schema        int               `json:"schema"`
}

// status reads the counters; nil if the store cannot be read.
func (s *relayService) status() *relayStatus {
	if s == nil {
		return nil
	}
	st, err := s.relay.Stats()
	if err != nil {
		return nil
	}
	out := &relayStatus{
		Draining: st.Draining, Rows: st.Rows, Bytes: st.Bytes, CapacityRows: st.CapacityRows, CapacityBytes: st.CapacityBytes,
		Registrations: st.Registrations, Leases: st.Leases, OldestLeaseS: int64(st.OldestLease / time.Second),
		Refused: map[string]uint64{}, ExpiredRows: st.ExpiredRows, ExpiredLeases: st.ExpiredLeases,
		StoreBytes: s.store.Size(), Schema: st.Schema,
	}
	for name, outcomes := range st.Requests {
		for outcome, n := range outcomes {
			out.Requests += n
			if name == "deposit" && outcome != relay.Accepted.String() {
				out.Refused[outcome] += n
			}
		}
	}
	return out
}

// metrics registers the relay's numbers (MB-31): none of anybody's mail.
func (s *relayService) metrics(r *prometheus.Registry) {
	if s != nil {
		r.MustRegister(relayCollector{s})
	}
}

// relayCollector reads the counters once for each scrape.
type relayCollector struct{ s *relayService }

func relayDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("hearsay_relay_"+name, help, labels, nil)
}

var (
	relayGauges = []struct {
		desc *prometheus.Desc
		read func(*relay.Stats) float64
	}{
		{relayDesc("rows", "Envelopes that wait."), func(s *relay.Stats) float64 { return float64(s.Rows) }},
		{relayDesc("bytes", "Their bytes."), func(s *relay.Stats) float64 { return float64(s.Bytes) }},
		{relayDesc("capacity_rows", "Envelopes that may wait."), func(s *relay.Stats) float64 { return float64(s.CapacityRows) }},
		{relayDesc("capacity_bytes", "Their bytes."), func(s *relay.Stats) float64 { return float64(s.CapacityBytes) }},
		{relayDesc("registrations", "Registered tokens."), func(s *relay.Stats) float64 { return float64(s.Registrations) }},
		{relayDesc("leases", "Live leases."), func(s *relay.Stats) float64 { return float64(s.Leases) }},
		{relayDesc("oldest_lease_seconds", "Age of the oldest live lease."), func(s *relay.Stats) float64 { return s.OldestLease.Seconds() }},
		{relayDesc("request_windows", "Clients whose requests are counted."), func(s *relay.Stats) float64 { return float64(s.RequestWindows) }},
		{relayDesc("remembered", "Acknowledged envelopes that are still recognised."), func(s *relay.Stats) float64 { return float64(s.Remembered) }},
		{relayDesc("schema", "Version of the store's layout."), func(s *relay.Stats) float64 { return float64(s.Schema) }},
		{relayDesc("draining", "1 while no new deposits are taken."), func(s *relay.Stats) float64 {
			if s.Draining {
				return 1
			}
			return 0
		}},
	}
	relayRequests = relayDesc("requests_total", "Requests since the start.", "request", "outcome")
	relayExpired  = relayDesc("expired_total", "What expired since the start.", "what")
	relayStore    = relayDesc("store_bytes", "Size of the store.")
	relayFree     = relayDesc("disk_free_bytes", "Free bytes of the store's disk.")
	relayReserve  = relayDesc("disk_reserve_bytes", "Deposits are refused while less than this is free.")
)

// Describe implements prometheus.Collector.
func (c relayCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range relayGauges {
		ch <- g.desc
	}
	for _, d := range []*prometheus.Desc{relayRequests, relayExpired, relayStore, relayFree, relayReserve} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c relayCollector) Collect(ch chan<- prometheus.Metric) {
	st, err := c.s.relay.Stats()
	if err != nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	for _, g := range relayGauges {
		gauge(g.desc, g.read(&st))
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for name, outcomes := range st.Requests {
		for outcome, n := range outcomes {
			counter(relayRequests, n, name, outcome)
		}
	}
	counter(relayExpired, st.ExpiredRows, "rows")
	counter(relayExpired, st.ExpiredLeases, "leases")
	counter(relayExpired, st.ExpiredRegistrations, "registrations")
	gauge(relayStore, float64(c.s.store.Size()))
	if free, reserve, ok := c.s.store.Room(kv.ClassEnqueue); ok {
		gauge(relayFree, float64(free))
		gauge(relayReserve, float64(reserve))
	}
}

// runRelay is the relay by itself, without chat: with its own control socket, so that
// "hearsay status" works, and the metrics of the file.
func runRelay(ctx context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	started := time.Now()
	s, err := openRelay(ctx, cfg, new(kv.Disk), log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := makeStoreDir(cfg.Datastore); err != nil {
		return err
	}
	control, err := rpc.Listen(rpc.Config{
		Socket: config.ControlSocket(cfg.Datastore), Logger: log,
		Methods: map[string]rpc.Method{"hearsay.status": {Call: func(context.Context, json.RawMessage) (any, error) {
			return statusReport{
				Version: release, UptimeS: int64(time.Since(started) / time.Second),
				P2P: p2pStatus{Connections: []connectionStatus{}}, Relay: s.status(), Troubles: []string{},
			}, nil
		}}},
	})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.run(ctx) })
	g.Go(func() error { return control.Run(ctx) })
	if address := cfg.Metrics.Listen; address != "" {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return errors.Join(fmt.Errorf("metrics: %w", err), control.Close())
		}
		r := prometheus.NewRegistry()
		r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		s.metrics(r)
		m := &metricsServer{listener: l, handler: promhttp.HandlerFor(r, promhttp.HandlerOpts{})}
		g.Go(func() error { return m.Run(ctx) })
	}
	log.Info("mailbox relay is running", "version", release)
	err = g.Wait()
	log.Info("stopping")
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// relayAddress is what a relay's users put into their configuration.
func relayAddress(cfg *config.Config) (mailbox.Address, error) {
	keys, err := relayKeys(cfg)
	if err != nil {
		return mailbox.Address{}, err
	}
	rc := relayConfig(cfg)
	host := rc.External
	if host == "" {
		host = rc.Listen
	}
	if name, port, err := net.SplitHostPort(host); err == nil && (name == "" || strings.Contains(name, "%")) {
		host = net.JoinHostPort("0.0.0.0", port) // of this machine alone; whoever asks is told to set external
	}
	a := mailbox.Address{Scheme: "quic", Host: host, Key: keys.Transport.Public().(ed25519.PublicKey)}
	return a, a.Check()
}
