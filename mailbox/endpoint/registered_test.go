package endpoint

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/internal/kv"
	"hearsay/mailbox"
	"hearsay/mailbox/relay"
)

// TestFailedRegistrationShows (MB-07, mailbox-wire 2): a relay that takes only some of the tokens is
// found out by what it says it has registered, at the first check-in and each hour until it
// has all; one that has all is asked once a day.
func TestFailedRegistrationShows(t *testing.T) {
	for _, c := range []struct {
		room, hours int
		want        []string
	}{
		{4096, 20, []string{"14 of 14"}},
		{13, 3, []string{"13 of 14", "13 of 14"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			store := kv.OpenMemory()
			defer store.Close()
			r, err := relay.New(relay.Config{Store: store, Now: w.clock.now, Limits: relay.Limits{ClientTokens: c.room}})
			w.must(err)
			w.bob.wire.relay = r
			var got []string
			w.bob.cfg.Registered = func(id RelayID, have, want int) {
				if id != theRelay {
					t.Error("another relay")
				}
				got = append(got, fmt.Sprint(have, " of ", want))
			}
			for range c.hours * 6 { // in steps of ten minutes
				w.must(w.collect(w.bob))
				time.Sleep(10 * time.Minute)
				w.clock.t = w.clock.t.Add(10 * time.Minute)
			}
			if len(got) < len(c.want) || !slices.Equal(got[:len(c.want)], c.want) || c.room > 14 && len(got) > 2 || len(got) > 2*c.hours {
				t.Errorf("room for %d: %q", c.room, got)
			}
		})
	}
}

// TestRegisteredOfTheBase: a relay without the extension is asked for mail all the same; one
// that fails is a relay that fails.
func TestRegisteredOfTheBase(t *testing.T) {
	w := newWorld(t)
	w.bob.cfg.Registered = func(RelayID, int, int) { t.Error("nobody said anything") }
	w.must(w.bob.pass(t.Context(), theRelay, noInfo{w.bob.wire, ErrUnsupported}))
	w.bob.asked = map[RelayID]time.Time{}
	if err := w.bob.pass(t.Context(), theRelay, noInfo{w.bob.wire, ErrUnavailable}); err == nil {
		t.Error("a relay that does not answer is taken for one that does")
	}
}

// noInfo fails where it is asked what it has registered.
type noInfo struct {
	*wire
	err error
}

func (n noInfo) Do(ctx context.Context, req mailbox.Request) (mailbox.Response, error) {
	if req.Info != nil {
		return mailbox.Response{}, n.err
	}
	return n.wire.Do(ctx, req)
}
