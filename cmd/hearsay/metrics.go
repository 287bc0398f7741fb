package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"hearsay/eventgraph"
	"hearsay/outbound"
)

// maxScrapes bounds the connections of the metrics endpoint.
const maxScrapes = 8

// A metricsServer serves aggregate numbers to Prometheus: no label comes from a
// peer, a user or a message (DS-44).
type metricsServer struct {
	listener net.Listener
	handler  http.Handler
}

// openMetrics listens on address; without one it returns nil.
func openMetrics(address string, d *daemon) (*metricsServer, error) {
	if address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return &metricsServer{listener: l, handler: promhttp.HandlerFor(d.registry(), promhttp.HandlerOpts{})}, nil
}

// Run serves until ctx ends.
func (m *metricsServer) Run(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.handler)
	srv := &http.Server{
		Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog:    log.New(io.Discard, "", 0), // its lines hold addresses
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	err := srv.Serve(netutil.LimitListener(m.listener, maxScrapes))
	if errors.Is(err, http.ErrServerClosed) {
		return ctx.Err()
	}
	return fmt.Errorf("metrics: %w", err)
}

// registry is made per daemon, so that several fit into a process.
func (d *daemon) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gauge := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "hearsay_" + name, Help: help}, value))
	}
	counter := func(name, help string, value func() uint64) {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "hearsay_" + name, Help: help}, func() float64 { return float64(value()) }))
	}
	gauge("synced", "1 while the current slot is complete as far as the peers know.", func() float64 {
		if d.gossip.Synced() {
			return 1
		}
		return 0
	})
	gauge("peers", "Connections that carry events.", func() float64 { return float64(len(d.node.Peers())) })
	gauge("put_targets", "Connections that can take a message now.", func() float64 { return float64(d.gossip.PutTargets()) })
	gauge("clock_skew_seconds", "Median of the peers' clocks minus ours; 0 below three peers.", func() float64 {
		skew, _ := d.skew()
		return skew.Seconds()
	})
	gauge("events", "Events with their bodies.", func() float64 { return float64(d.graph.Stats().Events) })
	gauge("header_only_events", "Events of which the body is missing.", func() float64 { return float64(d.graph.Stats().HeaderOnly) })
	gauge("tips", "Tips of the current slot.", func() float64 { return float64(d.graph.Stats().Tips) })
	gauge("store_bytes", "Size of the event store.", func() float64 { return float64(d.graph.Stats().StoreBytes) })
	counter("frames_received_total", "Frames from peers.", func() uint64 { return d.node.Stats().FramesIn })
	counter("frames_sent_total", "Frames to peers.", func() uint64 { return d.node.Stats().FramesOut })
	counter("received_bytes_total", "Bytes from peers.", func() uint64 { return d.node.Stats().BytesIn })
	counter("sent_bytes_total", "Bytes to peers.", func() uint64 { return d.node.Stats().BytesOut })
	counter("bans_total", "Addresses black-listed.", func() uint64 { return d.node.Stats().Bans })
	counter("receipts_dropped_total", "Statuses that a full feed lost.", d.graph.ReceiptsDropped)
	d.queueMetrics(gauge, counter)
	d.custody.mail.metrics(gauge)
	d.relay.metrics(r)

	statuses := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hearsay_statuses_total", Help: "Statuses that peers sent, by result.",
	}, []string{"result"})
	r.MustRegister(statuses)
	for result := eventgraph.HasInserted; result <= eventgraph.NackBusy; result++ {
		statuses.WithLabelValues(result.String())
	}
	d.graph.ObserveReceipts(func(rc eventgraph.Receipt) { statuses.WithLabelValues(rc.Result.String()).Inc() })
	return r
}

// queueMetrics are the queue's numbers: none of any message (DS-44).
func (d *daemon) queueMetrics(gauge func(name, help string, value func() float64), counter func(name, help string, value func() uint64)) {
	sum := func(read func(outbound.Summary) float64) func() float64 {
		return func() float64 {
			s, err := d.custody.queue.Summary()
			if err != nil {
				return -1
			}
			return read(s)
		}
	}
	gauge("queue_depth", "Accepted messages that wait for evidence.", sum(func(s outbound.Summary) float64 { return float64(s.Depth) }))
	gauge("queue_bytes", "Bytes of the queue's bound in use.", sum(func(s outbound.Summary) float64 { return float64(s.Bytes) }))
	gauge("queue_held", "1 while a restored queue waits to be confirmed.", sum(func(s outbound.Summary) float64 {
		if s.Held {
			return 1
		}
		return 0
	}))
	gauge("custody_bytes", "Size of the custody store.", func() float64 { return float64(d.custody.store.Size()) })
	for _, c := range []struct {
		name, help string
		read       func(outbound.Counters) uint64
	}{
		{"queue_accepted_total", "Messages enqueued.", func(c outbound.Counters) uint64 { return c.Accepted }},
		{"queue_refused_total", "Enqueues refused.", func(c outbound.Counters) uint64 { return c.Refused }},
		{"queue_acked_total", "Messages removed by evidence.", func(c outbound.Counters) uint64 { return c.Acked }},
		{"queue_generations_total", "Events made of messages.", func(c outbound.Counters) uint64 { return c.Generations }},
		{"queue_replacements_total", "Of these, not the first of their message.", func(c outbound.Counters) uint64 { return c.Replacements }},
		{"queue_sends_total", "Puts handed to peers, first ones and repeated ones.", func(c outbound.Counters) uint64 { return c.Sends }},
		{"queue_empty_sends_total", "Of these, written to nobody.", func(c outbound.Counters) uint64 { return c.EmptySends }},
		{"queue_parked_total", "Times that the head was parked.", func(c outbound.Counters) uint64 { return c.Parked }},
		{"queue_failures_total", "Commits that failed.", func(c outbound.Counters) uint64 { return c.Failures }},
	} {
		counter(c.name, c.help, func() uint64 { return c.read(d.custody.queue.Counters()) })
	}
}
