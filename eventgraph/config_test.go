package eventgraph

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Checklist 10.3, items 16 to 19: invalid configurations are refused before any store
// is created. A rotation that overflows milliseconds (item 17) cannot be written down:
// time.Duration ends before. A window of 0 is the default here; the daemon refuses it
// where it reads its file (item 16 there).
func TestConfigRefused(t *testing.T) {
	ok := DarkIRC()
	with := func(change func(*Params)) Params {
		p := ok
		change(&p)
		return p
	}
	for name, cfg := range map[string]Config{
		"window negative":             {Window: -1},
		"window above limit":          {Window: MaxWindow + 1},
		"content negative":            {MaxContent: -1},
		"content above limit":         {MaxContent: maxMaxContent + 1},
		"no contents":                 {Params: with(func(p *Params) { p.Contents = nil })},
		"contents too long":           {Params: with(func(p *Params) { p.Contents = make([]byte, inlineContent+1) })},
		"rotation negative":           {Params: with(func(p *Params) { p.Rotation = -time.Hour })},
		"rotation of half a second":   {Params: with(func(p *Params) { p.Rotation = 3*time.Minute + time.Second/2 })},
		"rotation below twice drift":  {Params: with(func(p *Params) { p.Rotation = 119 * time.Second })},
		"drift negative":              {Params: with(func(p *Params) { p.Drift = -1 })},
		"drift of half a millisecond": {Params: with(func(p *Params) { p.Drift = time.Millisecond / 2 })},
		"first period overflows":      {Params: with(func(p *Params) { p.Genesis = math.MaxUint64 - 3_600_000 })},
	} {
		dir := filepath.Join(t.TempDir(), "store")
		if _, err := Open(dir, cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: Open: %v, want ErrConfig", name, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a store was created", name)
		}
		if _, err := OpenMemory(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: OpenMemory: %v, want ErrConfig", name, err)
		}
	}
}

func TestConfigAtTheBounds(t *testing.T) {
	for name, cfg := range map[string]Config{
		"zero":              {},
		"window":            {Window: MaxWindow},
		"content":           {MaxContent: maxMaxContent},
		"rotation":          {Params: Params{Genesis: 1, Contents: []byte{1}, Rotation: 2 * time.Minute, Drift: time.Minute}},
		"no rotation":       {Params: Params{Genesis: 1, Contents: []byte{1}}},
		"last first period": {Params: Params{Genesis: math.MaxUint64 - 3_660_000, Contents: []byte{1}, Rotation: time.Hour}},
	} {
		if _, err := cfg.withDefaults(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, err := Config{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if c.Genesis != 1740787200000 || string(c.Contents) != "darkirc-v1" || c.Rotation != time.Hour ||
		c.Drift != time.Minute || c.Window != 24 || c.MaxContent != 64<<10 || c.Now == nil || c.Logger == nil {
		t.Errorf("defaults: %+v", c)
	}
}

// Checklist 10.3, items 20 to 22, and facts page section 1.5.
func TestSlotArithmetic(t *testing.T) {
	p := DarkIRC()
	at := func(ms uint64) time.Time { return Slot(ms).Time() }
	const i, hour = 1740787200000, 3_600_000
	for _, c := range []struct {
		now        uint64
		slot, next Slot
	}{
		{0, i, i}, // a start in the future is the next one itself
		{i - 1, i, i},
		{i, i, i + hour},
		{i + hour - 1, i, i + hour},
		{i + hour, i + hour, i + 2*hour},
		{i + 1000*hour + 17, i + 1000*hour, i + 1001*hour},
	} {
		if got := p.SlotAt(at(c.now)); got != c.slot {
			t.Errorf("SlotAt(%d) = %v, want %v", c.now, got, c.slot)
		}
		if got, ok := p.Next(at(c.now)); got != c.next || !ok {
			t.Errorf("Next(%d) = %v, %v, want %v", c.now, got, ok, c.next)
		}
	}
	if got := p.SlotAt(time.Unix(-1e9, 0)); got != i {
		t.Errorf("before the epoch: %v", got)
	}
	p.Rotation = 0
	if _, ok := p.Next(at(i + 1)); ok || p.SlotAt(at(i+1e12)) != i {
		t.Error("without rotation there is one slot and no next")
	}
	if p.End(i) != math.MaxUint64 {
		t.Error("without rotation the slot ends with time")
	}
}

// Checklist 10.5, items 47 to 49, facts page section 4.1: exact bounds.
func TestSlotBounds(t *testing.T) {
	const hour = 3_600_000
	p := Params{Genesis: 100 * hour, Contents: []byte("x"), Rotation: 6 * time.Hour, Drift: time.Minute}
	now := time.UnixMilli(1) // says nothing where slots rotate
	const s = 106 * hour
	for ts, want := range map[uint64]bool{
		s - 60_001: false, s - 60_000: true, s: true,
		s + 6*hour + 59_999: true, s + 6*hour + 60_000: false,
		0: false, math.MaxUint64: false,
	} {
		if got := p.fits(s, ts, now); got != want {
			t.Errorf("slot %d, timestamp %d: %v, want %v", s, ts, got, want)
		}
	}
	// Bounds depend on the slot named, not on the network's genesis.
	if !p.fits(6*hour, 6*hour+1, now) || !p.fits(30_000, 0, now) {
		t.Error("slots before the first one have bounds too, saturating at 0")
	}
	if p.fits(math.MaxUint64-6*hour, math.MaxUint64, now) {
		t.Error("an upper bound that overflows fits nothing")
	}
	p.Rotation = 0
	now = time.UnixMilli(s + 1e9)
	for ts, want := range map[uint64]bool{
		s - 60_001: false, s - 60_000: true, s + 1e9 + 60_000: true, s + 1e9 + 60_001: false,
	} {
		if got := p.fits(s, ts, now); got != want {
			t.Errorf("no rotation, timestamp %d: %v, want %v", ts, got, want)
		}
	}
}
