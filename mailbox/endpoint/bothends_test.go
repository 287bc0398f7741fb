package endpoint

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"hearsay/internal/kv"
	"hearsay/internal/kv/kvtest"
	"hearsay/mailbox"
	"hearsay/mailbox/relay"
)

// TestRelayCrashesBetweenEnds (MB-60): every named commit of the relay fails, not applied or applied
// before its answer is lost, at its first, second and third time, and the relay starts anew, while
// two endpoints send, collect and receipt through it; half of the time the next answer is lost on
// the way as well. Each message is shown once, an envelope goes only after the receipt, and nothing
// is left anywhere.
func TestRelayCrashesBetweenEnds(t *testing.T) {
	for _, op := range []string{"relay/deposit", "relay/lease", "relay/ack", "relay/refuse", "relay/sweep", ""} {
		for _, applied := range []bool{false, true} {
			for skip := range 3 {
				for _, lossy := range []bool{false, true} {
					if op == "relay/ack" && skip == 2 && !lossy {
						continue // one page each way
					}
					t.Run(fmt.Sprintf("%s applied=%t skip=%d lossy=%t", op, applied, skip, lossy), func(t *testing.T) {
						relayCrash(t, op, applied, skip, lossy)
					})
				}
			}
		}
	}
}

func relayCrash(t *testing.T, op string, applied bool, skip int, lossy bool) {
	w := newWorld(t)
	disk := kv.OpenMemory()
	defer disk.Close()
	faulty := &kvtest.Faulty{Store: disk, Applied: applied, Skip: skip, Sticky: true}
	restart := func(store kv.Store) {
		r, err := relay.New(relay.Config{Store: store, Now: w.clock.now})
		w.must(err)
		w.relay, w.alice.wire.relay, w.bob.wire.relay = r, r, r
	}
	restart(faulty)
	if lossy {
		for _, s := range []*side{w.alice, w.bob} {
			n := 0
			s.wire.fail = func(mailbox.Request) (bool, bool) { n++; return n%5 == 0, n%3 == 0 }
		}
	}
	w.visit(w.bob)
	w.visit(w.alice)
	for i := range byte(3) {
		w.send(w.alice, i+1, fmt.Sprint(i))
	}
	// A row that nobody can open, so that there is something to refuse.
	junk := mailbox.Envelope{Kind: mailbox.KindSealed, Token: TokenAt(w.bob.contact.Pair, w.bob.contact.Mine, w.clock.now()), Body: []byte("junk")}
	if _, err := w.relay.Handle([]byte("mallory"), mailbox.Request{Deposit: &mailbox.Deposit{Envelope: junk.AppendTo(nil)}}); err != nil {
		t.Fatal(err)
	}
	faulty.Op = op
	crashes := 0
	check := func() {
		if faulty.Failed() && crashes == 0 {
			crashes++
			restart(disk)
		}
		if shown, c := len(w.bob.log(t)), w.counts(w.alice); int(c.Deposits) < 3-shown {
			t.Fatalf("%d envelopes are kept, %d messages were shown", c.Deposits, shown)
		}
	}
	for range 40 {
		w.must(w.deposit(w.alice))
		check()
		w.visit(w.bob)
		check()
		w.must(w.deposit(w.bob))
		check()
		w.visit(w.alice)
		if _, err := w.relay.Sweep(); err != nil && faulty.Op == "" {
			t.Fatal(err)
		}
		check()
		w.clock.t = w.clock.t.Add(time.Hour)
	}
	if op != "" && crashes == 0 {
		t.Fatal("nothing crashed")
	}
	if got := w.bob.log(t); !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("bob sees %q", got)
	}
	if a, b := w.counts(w.alice), w.counts(w.bob); a.Deposits != 0 || b.Deposits != 0 {
		t.Errorf("left: %+v, %+v", a, b)
	}
	w.clock.t = w.clock.t.Add(time.Hour)
	for more := true; more; {
		var err error
		more, err = w.relay.Sweep()
		w.must(err)
	}
	if st, err := w.relay.Stats(); err != nil || st.Rows != 1 || st.Leases != 0 {
		t.Errorf("the relay holds %d rows, the junk alone was not named; %v", st.Rows, err)
	}
}

// visit is a pass whose failures are the relay's.
func (w *world) visit(s *side) {
	w.Helper()
	w.must(s.Endpoint.visit(context.Background(), theRelay))
	delete(s.notBefore, theRelay)
}
