package endpoint

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// slowStore takes its time for each commit.
type slowStore struct {
	kv.Store
	takes time.Duration
}

func (s slowStore) Update(op kv.Op, fn func(kv.Txn) error) error {
	time.Sleep(s.takes)
	return s.Store.Update(op, fn)
}

// TestSlowDisk (MB-12, MB-27): a disk on which a whole page cannot be staged within a pass: what was staged is
// acknowledged in that pass, so that the mail comes to an end.
func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.must(w.collect(w.bob))
		const n = 100
		for i := range n {
			w.send(w.alice, byte(i), fmt.Sprint("message ", i))
		}
		w.must(w.deposit(w.alice))
		slow := *w.bob.Endpoint
		slow.store = slowStore{w.bob.store, 200 * time.Millisecond}
		slow.cfg.Relay = func(RelayID, Role) Requester {
			return requester(func(ctx context.Context, req mailbox.Request) (mailbox.Response, error) {
				if ctx.Err() != nil {
					return mailbox.Response{}, ErrUnavailable
				}
				return w.bob.wire.Do(ctx, req)
			})
		}
		for range 6 {
			if err := slow.visit(t.Context(), theRelay); err != nil {
				t.Fatal(err)
			}
			w.clock.t = w.clock.t.Add(3 * time.Minute)
		}
		st, err := w.relay.Stats()
		w.must(err)
		if got := len(w.bob.log(t)); got != n || st.Rows != 0 {
			t.Errorf("%d of %d messages after six passes, %d rows left", got, n, st.Rows)
		}
	})
}

// TestReceiptsAreBounded (MB-34): a contact who writes, and at whose relay receipts are refused, costs one
// envelope and a bounded number of owed ids, and takes no room from what we write; when the
// relay takes them, they go out.
func TestReceiptsAreBounded(t *testing.T) {
	w := newWorld(t)
	refuse := true
	w.bob.wire.fail = func(req mailbox.Request) (before, after bool) { return req.Deposit != nil && refuse, false }
	owe := func(n int) {
		w.must(w.bob.store.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error {
			x, err := begin(tx)
			if err != nil {
				return err
			}
			for i := range n {
				x.owe(w.bob.contact.ID, theRelay, MessageID{1, byte(i), byte(i >> 8)})
			}
			return x.end()
		}))
	}
	owes := func() (n int) {
		w.must(w.bob.store.View(func(r kv.Reader) error {
			return r.Scan(kv.Scan{Prefix: key(tableReceipt), KeysOnly: true}, func(_, _ []byte) error { n++; return nil })
		}))
		return n
	}
	owe(1)
	w.must(w.deposit(w.bob))
	for _, c := range []struct{ owed, left int }{{maxOwed, maxOwed}, {maxOwed + 1, maxOwed}, {maxOwed + 1000, maxOwed}} {
		owe(c.owed)
		w.must(w.deposit(w.bob))
		if got := owes(); got != c.left {
			t.Errorf("of %d owed %d are kept, want %d", c.owed, got, c.left)
		}
		if n := w.counts(w.bob).Deposits; n != 1 {
			t.Errorf("%d envelopes of receipts, want one", n)
		}
	}
	refuse = false
	w.must(w.collect(w.alice))
	for range maxOwed/MaxReceiptIDs + 1 {
		w.clock.t = w.clock.t.Add(retryCap)
		w.must(w.deposit(w.bob))
		select {
		case <-w.bob.wake:
		case <-time.After(time.Minute):
			t.Fatal("nobody is woken for the rest")
		}
	}
	if c := w.counts(w.bob); owes() != 0 || c.Deposits != 0 {
		t.Errorf("%d owed, %d on their way", owes(), c.Deposits)
	}
}
