package config

import (
	"net"
	"strconv"
	"strings"
	"time"
)

// Bounds of our own keys. They keep arithmetic on times and sizes far from
// overflow; within them the user is free.
const (
	maxDrift     = 24 * time.Hour
	maxRotation  = 366 * 24 * time.Hour
	maxRetry     = time.Hour
	maxRetryCap  = 30 * 24 * time.Hour
	maxRounds    = 16
	maxMessages  = 1 << 20
	minQueueSize = 2 << 20 // 1 MiB of it is the head's reserve (DS-42)
	maxQueueSize = 1 << 34
	maxGenesis   = 1 << 53 // ms; beyond what JSON readers can tell apart
)

func (d *decoder) readGraph(s *section, g *Graph) {
	*g = Graph{Genesis: 1740787200000, Contents: "darkirc-v1", Rotation: time.Hour, TimeDrift: time.Minute}
	if v, ok := s.get("genesis", kindInt); ok {
		if v.num < 0 || v.num > maxGenesis {
			s.errorf(v.line, "genesis", "must be milliseconds since 1970")
		}
		g.Genesis = uint64(max(v.num, 0))
	}
	if s.str("genesis_contents", &g.Contents) && (g.Contents == "" || len(g.Contents) > 1024) {
		s.errorf(s.line("genesis_contents"), "genesis_contents", "must have 1 to 1024 bytes")
	}
	s.duration("rotation", &g.Rotation, 0, maxRotation)
	s.duration("time_drift", &g.TimeDrift, time.Millisecond, maxDrift)
	switch {
	case g.Rotation == 0:
	case g.Rotation%time.Second != 0:
		s.errorf(s.line("rotation"), "rotation", "must be whole seconds, or \"0s\" for never")
	case g.Rotation < 2*g.TimeDrift:
		name := "rotation"
		if !s.has(name) {
			name = "time_drift"
		}
		s.errorf(s.line(name), name, "rotation (%s) must be \"0s\" or at least twice time_drift (%s)", g.Rotation, g.TimeDrift)
	}
	if g.TimeDrift%time.Millisecond != 0 {
		s.errorf(s.line("time_drift"), "time_drift", "must be whole milliseconds")
	}
	s.finish()
}

func (d *decoder) readNetwork(s *section, n *Network) {
	*n = Network{AppName: "darkirc", AppVersion: [3]uint64{0, 5, 1}}
	if s.str("app_name", &n.AppName) && (n.AppName == "" || len(n.AppName) > 64) {
		s.errorf(s.line("app_name"), "app_name", "must have 1 to 64 bytes")
	}
	if v, ok := s.get("app_version", kindString); ok {
		parts := strings.Split(v.str, ".")
		good := len(parts) == len(n.AppVersion)
		for i := 0; good && i < len(parts); i++ {
			num, err := strconv.ParseUint(parts[i], 10, 64)
			good = err == nil
			n.AppVersion[i] = num
		}
		if !good {
			s.errorf(v.line, "app_version", "must be three numbers such as \"0.5.1\"")
		}
	}
	s.finish()
}

func (d *decoder) readOutbound(s *section, o *Outbound) {
	*o = Outbound{
		MinConnections: 2, Wakeup: 30 * time.Second, RetryInitial: 30 * time.Second, RetryRounds: 5,
		MaxMessages: 4096, MaxBytes: 16 << 20, TipEvidence: true,
	}
	s.num("min_connections", &o.MinConnections, 1, 1000)
	s.duration("wakeup", &o.Wakeup, time.Second, time.Hour)
	s.duration("retry_initial", &o.RetryInitial, time.Second, maxRetry)
	s.num("retry_rounds", &o.RetryRounds, 1, maxRounds)
	if o.RetryInitial > maxRetryCap>>o.RetryRounds { // shifted down: the other way overflows
		s.errorf(s.line("retry_rounds"), "retry_rounds", "retry_initial doubled %d times is longer than %s", o.RetryRounds, maxRetryCap)
	}
	s.num("max_messages", &o.MaxMessages, 1, maxMessages)
	s.bytes("max_bytes", &o.MaxBytes, minQueueSize, maxQueueSize)
	s.flag("tip_evidence", &o.TipEvidence)
	s.filePath("key_file", &o.KeyFile)
	s.finish()
}

func (d *decoder) readMetrics(s *section, m *Metrics) {
	if s.str("listen", &m.Listen) && m.Listen != "" {
		host, port, err := net.SplitHostPort(m.Listen)
		if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
			s.errorf(s.line("listen"), "listen", "must be host:port, such as \"127.0.0.1:9606\"")
		} else if !isLoopback(host) {
			s.warnf(s.line("listen"), "listen", "everybody who can reach this address sees how much traffic this node has")
		}
	}
	s.finish()
}

func (d *decoder) readRPC(s *section, r *RPC) {
	if s.str("rpc_listen", &r.Listen) {
		if text := checkRPCListen(r.Listen); text != "" {
			s.errorf(s.line("rpc_listen"), "rpc_listen", "%s", text)
		}
		if path, ok := strings.CutPrefix(r.Listen, "unix://"); ok {
			r.Listen = "unix://" + d.env.Expand(path)
		}
	}
	for _, it := range s.items("rpc_disabled_methods") {
		r.Disabled = append(r.Disabled, it.text)
	}
	for _, it := range s.items("rpc_content_methods") {
		if it.text != "eventgraph.get_info" {
			s.errorf(it.line, "rpc_content_methods", "only \"eventgraph.get_info\" can show the content of events, not %q", it.text)
		}
		r.Content = append(r.Content, it.text)
	}
	s.finish()
}
