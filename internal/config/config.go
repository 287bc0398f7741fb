package config

import (
	"errors"
	"io/fs"
	"time"

	"hearsay/internal/box"
)

// A Config is a file without errors, defaults filled in and paths expanded.
type Config struct {
	Datastore string // directory; ours is StoreDir below it
	Slots     Slots
	IRC       IRC
	Chat      Chat
	Graph     Graph
	Network   Network
	Net       Net
	RPC       RPC
	Outbound  Outbound
	Metrics   Metrics
	Mailbox   Mailbox
	Log       Log
}

// Slots says how much history is synchronised and kept.
type Slots struct {
	Sync     int  // dags_count: slots to synchronise
	Retain   int  // history_retention_dags: slots kept, the current one included
	Archive  bool // archive_mode: keep all of them
	SkipSync bool // skip_dag_sync: synced from the start, without asking anybody
}

// IRC is the listener for IRC clients.
type IRC struct {
	Listen   string // tcp://host:port or tcp+tls://host:port
	TLSCert  string // PEM files, for tcp+tls
	TLSKey   string
	Password string // bcrypt; "" = none
}

// Chat is what a REHASH reloads.
type Chat struct {
	MOTD     string // file; "" = none
	Autojoin []string
	Channels []Channel // in the order of the file
	Contacts []Contact
}

// A Channel is one [channel."#name"] table.
type Channel struct {
	Name   string
	Topic  string
	Secret box.SecretKey // zero: public
}

// A Contact is one [contact."label"] table.
type Contact struct {
	Label  string
	Public box.PublicKey
	Secret box.SecretKey // ours
	// Mailbox holds the addresses of the relays where the contact collects.
	Mailbox []string
}

// Graph is the consensus parameters of the event graph.
type Graph struct {
	Genesis   uint64 // ms since the UNIX epoch
	Contents  string
	Rotation  time.Duration // 0: never
	TimeDrift time.Duration
}

// Network is what the version message says.
type Network struct {
	AppName    string
	AppVersion [3]uint64
}

// RPC is where JSON-RPC is served besides the control socket.
type RPC struct {
	Listen   string   // "" = the control socket alone
	Disabled []string // methods refused everywhere
	Content  []string // methods that may show the content of events
}

// Outbound is the policy of the outbound queue.
type Outbound struct {
	MinConnections int
	Wakeup         time.Duration
	RetryInitial   time.Duration
	RetryRounds    int
	MaxMessages    int
	MaxBytes       int64
	TipEvidence    bool
	KeyFile        string // seals the custody store; "" = not sealed
}

// Metrics is the endpoint for Prometheus.
type Metrics struct {
	Listen string // host:port; "" = off
}

// Log says where the daemon logs, and how much.
type Log struct {
	File    string // "" = standard error
	Verbose int    // 0 = info, 1 and more = debug
}

// Load reads and checks a file. A nil Config comes with an error: either the
// file could not be read, or the error is the Problems themselves.
func Load(path string, env Env) (*Config, Problems, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, nil, err
	}
	cfg, problems := Parse(data, env)
	if cfg == nil {
		return nil, problems, problems
	}
	return cfg, problems, nil
}

// LoadDefault loads env's default file or, where there is none, the generated
// default.
func LoadDefault(env Env) (cfg *Config, path string, problems Problems, err error) {
	path = env.ConfigFile()
	cfg, problems, err = Load(path, env)
	if errors.Is(err, fs.ErrNotExist) {
		cfg, problems = Parse([]byte(defaultText), env)
		return cfg, "", problems, nil
	}
	return cfg, path, problems, err
}

// Parse checks a document. The Config is nil if one of the problems is an error.
func Parse(data []byte, env Env) (*Config, Problems) {
	d := &decoder{env: env}
	root, problem := parseTree(data)
	if problem != nil {
		return nil, Problems{*problem}
	}
	cfg := d.decode(root)
	d.problems.sort()
	if len(d.problems.Errors()) > 0 {
		return nil, d.problems
	}
	return cfg, d.problems
}

// decode reads every table. The order of the calls does not matter.
func (d *decoder) decode(root *table) *Config {
	top := d.section(root, "")
	cfg := &Config{}
	d.readTop(top, cfg)
	d.readChat(top, &cfg.Chat)
	d.readGraph(top.sub("graph"), &cfg.Graph)
	d.readNetwork(top.sub("network"), &cfg.Network)
	d.readNet(top.sub("net"), &cfg.Net)
	d.readRPC(top.sub("rpc"), &cfg.RPC)
	d.readOutbound(top.sub("outbound"), &cfg.Outbound)
	d.readMetrics(top.sub("metrics"), &cfg.Metrics)
	d.readMailbox(top.sub("mailbox"), &cfg.Mailbox)
	d.checkMailContacts(top, cfg)
	top.finish()
	return cfg
}
