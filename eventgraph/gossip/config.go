package gossip

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"hearsay/eventgraph"
)

// ErrConfig is a setting that makes no sense; the wrapped text says which.
var ErrConfig = errors.New("gossip: invalid configuration")

var errNoGraph = fmt.Errorf("%w: no graph", ErrConfig)

// Config configures a Gossip. Zero values mean the default that is named.
type Config struct {
	// Graph is the store that is kept in step with the peers. Required.
	Graph *eventgraph.Graph
	// MaxContent is the Graph's bound on one event's content. Default
	// eventgraph.DefaultMaxContent.
	MaxContent int
	// Now is the wall clock. It is data here: slots and freshness follow it, and it
	// must be the Graph's. Timers are time's own. Default time.Now.
	Now func() time.Time
	// Logger hears of strikes, bans and the state of the sync; never of an address, an
	// id or a content. Default: discard.
	Logger *slog.Logger

	// SkipSync marks this node as synced from the start and for ever: the first node of
	// a private network.
	SkipSync bool
	// FastMode fetches only headers of all slots but the current one.
	FastMode bool
	// NoStatus neither sends nor takes statuses, like a node that never heard of them.
	NoStatus bool
	// ManualPut leaves the sending of local events to [Gossip.Put]. Otherwise they go to
	// all peers as soon as they are stored.
	ManualPut bool

	// RequestTimeout is how long an answer is waited for. Default 15 s, the network's
	// over clear connections; over Tor and I2P it is 65 s.
	RequestTimeout time.Duration
	// SyncSlots is how many slots are compared with peers, the current one included.
	// Default 24 (dags_count); more than the graph keeps makes no difference.
	SyncSlots int
	// TipInterval is how often the current slot is compared with each peer. Default 60 s.
	TipInterval time.Duration
	// Limits bounds the traffic of puts.
	Limits Limits
}

// Limits are the settings of put traffic whose defaults are the network's. A zero
// field is its default; they are there to be raised in private networks and benchmarks.
type Limits struct {
	// FloodPuts new puts within FloodSpan from one peer ban it when there is one more.
	// Default 200 in 60 s.
	FloodPuts int
	FloodSpan time.Duration
	// PacePuts is the most puts that one peer is sent within PaceSpan, own and relayed
	// together (DS-86). Default 180 in 60 s.
	PacePuts int
	PaceSpan time.Duration
	// RelayFree events from one peer within RelaySpan are relayed at once; each further
	// one waits RelayStep longer. Default 6, 10 s and 250 ms. A RelayFree of
	// NoRelayLimit or more turns the limit off.
	RelayFree int
	RelaySpan time.Duration
	RelayStep time.Duration
	// RelayQueue events from one peer wait to be relayed; the oldest go. Default 256.
	RelayQueue int
}

// NoRelayLimit as Limits.RelayFree relays everything at once.
const NoRelayLimit = 1 << 16

// withDefaults validates c and fills it in.
func (c Config) withDefaults() (Config, error) {
	bad := func(format string, a ...any) (Config, error) {
		return Config{}, fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, a...))
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	for _, f := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{
		{"RequestTimeout", &c.RequestTimeout, 15 * time.Second},
		{"TipInterval", &c.TipInterval, time.Minute},
		{"FloodSpan", &c.Limits.FloodSpan, time.Minute},
		{"PaceSpan", &c.Limits.PaceSpan, time.Minute},
		{"RelaySpan", &c.Limits.RelaySpan, 10 * time.Second},
		{"RelayStep", &c.Limits.RelayStep, 250 * time.Millisecond},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < 0 {
			return bad("%s is %v", f.name, *f.v)
		}
	}
	for _, f := range []struct {
		name string
		v    *int
		def  int
	}{
		{"MaxContent", &c.MaxContent, eventgraph.DefaultMaxContent},
		{"SyncSlots", &c.SyncSlots, 24},
		{"FloodPuts", &c.Limits.FloodPuts, 200},
		{"PacePuts", &c.Limits.PacePuts, 180},
		{"RelayFree", &c.Limits.RelayFree, 6},
		{"RelayQueue", &c.Limits.RelayQueue, 256},
	} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < 1 {
			return bad("%s is %d", f.name, *f.v)
		}
	}
	return c, nil
}
