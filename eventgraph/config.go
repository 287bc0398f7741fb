package eventgraph

import (
	"fmt"
	"log/slog"
	"math"
	"time"
)

// Params are the consensus parameters: every node of a network agrees on them,
// and nothing in the handshake checks it.
type Params struct {
	// Genesis is the timestamp of the very first slot.
	Genesis Slot
	// Contents is the content of each slot's genesis; not empty.
	Contents []byte
	// Rotation is the length of a slot: whole seconds, at least twice Drift; 0 means
	// one slot for ever.
	Rotation time.Duration
	// Drift is the clock tolerance D of slot bounds; whole milliseconds. 0 means a
	// minute.
	Drift time.Duration
}

// DarkIRC is the parameters of the public network.
func DarkIRC() Params {
	return Params{Genesis: 1740787200000, Contents: []byte("darkirc-v1"), Rotation: time.Hour, Drift: time.Minute}
}

// Config configures a Graph. Zero values mean the default that is named.
type Config struct {
	// Params is the network. Zero: DarkIRC().
	Params
	// Window is how many slots are kept, the current one included. Default 24, at
	// most MaxWindow. Without rotation there is one slot, and Window says nothing.
	Window int
	// Archive keeps every slot for ever. Window is then how many recent slots accept
	// events that arrive late.
	Archive bool
	// MaxContent bounds one event's content, in bytes. Default DefaultMaxContent, at
	// most 256 KiB.
	MaxContent int
	// NoSync makes commits not durable: a lost power supply may lose the newest events.
	NoSync bool
	// Now is the wall clock. It is data here: slots follow it. Default time.Now.
	Now func() time.Time
	// Validate is the application's own rule on events, pure and fast: it runs for
	// each event that passes the graph's rules, on any goroutine. What it refuses is
	// ErrInvalid. Default: everything passes.
	Validate func(Event) error
	// Logger hears of lifecycle changes, never of content. Default: discard.
	Logger *slog.Logger
}

// withDefaults validates c and fills it in.
func (c Config) withDefaults() (Config, error) {
	bad := func(format string, a ...any) (Config, error) {
		return Config{}, fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, a...))
	}
	p := &c.Params
	if p.Genesis == 0 && p.Contents == nil && p.Rotation == 0 && p.Drift == 0 {
		*p = DarkIRC()
	}
	if p.Drift == 0 {
		p.Drift = time.Minute
	}
	switch {
	case len(p.Contents) == 0:
		return bad("genesis contents are empty")
	case len(p.Contents) > inlineContent:
		return bad("genesis contents of %d bytes, at most %d", len(p.Contents), inlineContent)
	case p.Drift < time.Millisecond || p.Drift%time.Millisecond != 0:
		return bad("drift %v is not a positive number of whole milliseconds", p.Drift)
	case p.Rotation < 0 || p.Rotation%time.Second != 0:
		return bad("rotation %v is not a number of whole seconds", p.Rotation)
	case p.Rotation > 0 && p.Rotation < 2*p.Drift:
		return bad("rotation %v is less than twice the drift %v", p.Rotation, p.Drift)
	case uint64(p.Genesis) > math.MaxUint64-p.period()-p.drift():
		return bad("the first slot ends after the end of time")
	}
	if c.Window == 0 {
		c.Window = 24
	}
	if c.Window < 1 || c.Window > MaxWindow {
		return bad("window of %d slots, must be 1 to %d", c.Window, MaxWindow)
	}
	if c.MaxContent == 0 {
		c.MaxContent = DefaultMaxContent
	}
	if c.MaxContent < 1 || c.MaxContent > maxMaxContent {
		return bad("largest content of %d bytes, must be 1 to %d", c.MaxContent, maxMaxContent)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
