package sim

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// seed is HEARSAY_SIM_SEED, or the one that the test always runs.
func seed(t *testing.T, fixed uint64) uint64 {
	if s := os.Getenv("HEARSAY_SIM_SEED"); s != "" {
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("HEARSAY_SIM_SEED: %v", err)
		}
		fixed = v
	}
	t.Logf("replay with HEARSAY_SIM_SEED=%d", fixed)
	return fixed
}

func simulate(t *testing.T, cfg Config) {
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		w := New(t, cfg)
		defer w.Close()
		w.Run(t.Context())
	})
	t.Logf("%v simulated in %v", cfg.Duration+cfg.Rest, time.Since(began).Round(time.Millisecond))
}

// Twelve nodes for a week. Heartbeats every minute and tip exchanges every two minutes
// instead of 30 s and 60 s: half the frames, and healing is slower, not different.
func TestSimWeek(t *testing.T) {
	if testing.Short() {
		t.Skip("takes about a minute")
	}
	simulate(t, Config{
		Seed: seed(t, 1), Nodes: 12, Duration: 7 * 24 * time.Hour, Rest: 3 * time.Hour,
		Skew: 10 * time.Second, Gap: 2 * time.Minute, Trouble: 20 * time.Minute, MTBF: 12 * time.Hour,
		Heartbeat: time.Minute, TipInterval: 2 * time.Minute,
	})
}

// Stock peers among ours for three days, clocks within 10 s of each other: whatever goes
// wrong around them, they never strike, close or ban us, and ours converge.
func TestSimMixed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	simulate(t, Config{
		Seed: seed(t, 2), Nodes: 7, Stock: 5, Duration: 3 * 24 * time.Hour, Rest: 3 * time.Hour,
		Skew: 5 * time.Second, Gap: 2 * time.Minute, Trouble: 30 * time.Minute, MTBF: 12 * time.Hour,
		Heartbeat: time.Minute, TipInterval: 2 * time.Minute,
	})
}

// Fifty nodes for a month: HEARSAY_SIM_LONG=1, or the Taskfile's target.
func TestSimMonth(t *testing.T) {
	if os.Getenv("HEARSAY_SIM_LONG") == "" {
		t.Skip("set HEARSAY_SIM_LONG=1: takes about half an hour")
	}
	simulate(t, Config{
		Seed: seed(t, 3), Nodes: 50, Duration: 30 * 24 * time.Hour, Rest: 3 * time.Hour,
		Skew: 10 * time.Second, Gap: 2 * time.Minute, Trouble: 10 * time.Minute, MTBF: 12 * time.Hour,
		Heartbeat: 5 * time.Minute, TipInterval: 5 * time.Minute,
	})
}
