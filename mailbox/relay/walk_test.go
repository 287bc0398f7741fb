package relay

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// jumps are what a clock does in a walk: it goes on, and it is set forward and back.
var jumps = []time.Duration{
	time.Second, 30 * time.Second, 61 * time.Second, 2 * time.Minute, time.Hour, 26 * time.Hour, 29 * 24 * time.Hour,
	-time.Second, -90 * time.Second, -2 * time.Hour, -40 * 24 * time.Hour, 2 * 365 * 24 * time.Hour, -2 * 365 * 24 * time.Hour,
}

// storedRow is a row with what its token and its lease say of it.
type storedRow struct {
	row
	Pass uint8
	Held bool
}

// storedRows are all rows.
func storedRows(t testing.TB, store kv.Store) map[mailbox.RowID]storedRow {
	out := map[mailbox.RowID]storedRow{}
	held, back := map[uint64]bool{}, map[index]passes{}
	err := store.View(func(rd kv.Reader) error {
		if err := rd.Scan(kv.Scan{Prefix: []byte{prefixLease}}, func(_, v []byte) error {
			var l lease
			err := l.decode(v)
			for _, w := range l.Rows {
				if !w.Gone {
					held[w.Seq] = true
				}
			}
			return err
		}); err != nil {
			return err
		}
		if err := rd.Scan(kv.Scan{Prefix: []byte{prefixPasses}}, func(k, v []byte) error {
			return into(back, index(k[1:]), v)
		}); err != nil {
			return err
		}
		return rd.Scan(kv.Scan{Prefix: []byte{prefixRow}}, func(k, v []byte) error {
			var w storedRow
			_, err := w.setValue(v)
			err = errors.Join(err, w.setKey(k))
			list := back[w.Index]
			w.Pass, w.Held = list.of(w.Seq), held[w.Seq]
			out[w.ID] = w
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// FuzzWalk (MB-13, MB-37, MB-38, MB-39): any sequence of requests, restarts, sweeps and jumps of
// the clock. After each step every counter equals a recount; a row is gone only if it was
// named in an accepted acknowledgement, or its time was over. At the end, with the clock
// back where it began, everything that is left is collected within one lease and one window:
// whatever the clock did blocks nobody for longer.
func FuzzWalk(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18})
	f.Add([]byte{10, 0, 1, 71, 11, 0, 72, 20, 1, 2, 3, 4, 5})
	f.Add([]byte{10, 10, 81, 0, 10, 91, 10, 20, 81, 30, 40, 0})
	f.Add([]byte{1, 71, 1, 11, 21, 31, 82, 1, 41, 51, 1, 61, 0})
	f.Fuzz(func(t *testing.T, program []byte) {
		r := newRig(t, Limits{PageRows: 3, TokenRows: 5, ClientRows: 9, ClientRequests: 20, RelayRequests: 50, PenaltyRows: 1, DedupRows: 3, RateRows: 4, Registrations: 4, ClientTokens: 2, ClientLeases: 2})
		r.cfg.Identity = identityOf("relay")
		start := r.now
		secrets := [][32]byte{{1}, {2}, {3}}
		var tokens []mailbox.Token
		for _, s := range secrets {
			tokens = append(tokens, mailbox.TokenOf(s))
		}
		who := []string{string(identityOf("bob")), string(identityOf("eve")), string(identityOf("carol"))}
		var pages []*mailbox.Page
		if len(program) > 60 {
			program = program[:60]
		}
		for step, b := range program {
			before := storedRows(t, r.store)
			named := map[mailbox.RowID]bool{}
			n, name := int(b/10), who[int(b)%3]
			token := tokens[n%3]
			switch b % 10 {
			case 0, 1:
				r.put(name, token, fmt.Sprint(step))
			case 2:
				r.put(name, token, "the same")
			case 3, 4:
				if p := r.lease(name, tokens[:1+n%3]...); p.Serving {
					pages = append(pages, p)
				}
			case 5:
				if len(pages) == 0 {
					continue
				}
				p := pages[n%len(pages)]
				list := ids(p)[:len(p.Rows)*(n%3)/2]
				if r.ackRows(name, p.LeaseID, list...) {
					for _, id := range list {
						named[id] = true
					}
				}
			case 6:
				if len(pages) > 0 {
					p := pages[n%len(pages)]
					r.do(name, mailbox.Request{RefuseRows: &mailbox.RefuseRows{LeaseID: p.LeaseID, RowIDs: ids(p), Reason: mailbox.RefuseReason(1 + n%3)}})
				}
			case 7:
				var p []mailbox.Proof
				for _, s := range secrets[:1+n%3] {
					p = append(p, mailbox.Prove(s, identityOf("relay"), []byte(name)))
				}
				r.do(name, mailbox.Request{ClaimTokens: &mailbox.ClaimTokens{Proofs: p}})
			case 8:
				r.pass(jumps[n%len(jumps)])
			case 9:
				if n%2 == 0 {
					r.open(r.limits)
					r.cfg.Identity = identityOf("relay")
				}
				if _, err := r.Sweep(); err != nil {
					t.Fatal(err)
				}
				r.checkInvariants()
			}
			after := storedRows(t, r.store)
			for id, w := range before {
				if _, ok := after[id]; !ok && !named[id] && w.Expires > seconds(r.now) {
					t.Fatalf("step %d (%d): an accepted row is gone", step, b)
				}
			}
			for id := range named {
				if w, ok := after[id]; ok && !w.Held {
					t.Fatalf("step %d (%d): an acknowledged row is back", step, b)
				}
			}
		}
		// The clock comes back; two minutes later everything can be collected.
		r.now = start
		r.limits.ClientTokens, r.limits.Registrations = 4096, 4096
		r.limits.ClientRequests, r.limits.RelayRequests = 1000, 1000
		for range 2 {
			for more := true; more; {
				var err error
				if more, err = r.Sweep(); err != nil {
					t.Fatal(err)
				}
			}
			r.pass(leaseTTL + time.Second)
		}
		bob := who[0]
		for _, s := range secrets {
			if !r.do(bob, mailbox.Request{ClaimTokens: &mailbox.ClaimTokens{Proofs: []mailbox.Proof{mailbox.Prove(s, identityOf("relay"), []byte(bob))}}}).ClaimTokens.Accepted {
				t.Fatal("a claim is refused: the clock's jump still counts")
			}
		}
		for range 20 {
			p := r.lease(bob, tokens...)
			if !p.Serving {
				break
			}
			if !r.ackRows(bob, p.LeaseID, ids(p)...) {
				t.Fatal("an acknowledgement is refused: the clock's jump still counts")
			}
		}
		for id, w := range storedRows(t, r.store) {
			if w.Expires > seconds(r.now) && !w.Held {
				t.Fatalf("a row stays behind: pass %d, %v", w.Pass, id)
			}
			if w.Expires > seconds(r.now) {
				t.Fatal("a row is held by a lease of the future")
			}
		}
	})
}

// TestClockCameBack (MB-37, MB-50): a lease, a mark, a window, an envelope and a registration
// made while the clock ran two years ahead: after it is set back the first three are over,
// the others last as long as if they were made now.
func TestClockCameBack(t *testing.T) {
	const ahead = 2 * 365 * 24 * time.Hour
	r := newRig(t, Limits{ClientRequests: 8})
	r.pass(ahead)
	r.lease("eve", t1)
	r.lease("bob", t2)
	r.put("alice", t2, "a")
	held := r.lease("bob", t2)
	r.ackRows("bob", held.LeaseID)
	r.put("alice", t2, "acked")
	r.pass(-ahead)
	if _, err := r.Sweep(); err != nil {
		t.Fatal(err)
	}
	r.checkInvariants()
	if r.ackRows("bob", held.LeaseID, ids(held)...) {
		t.Error("a lease of the future is alive")
	}
	if p := r.lease("bob", t2); len(p.Rows) != 2 {
		t.Errorf("%d rows are available", len(p.Rows))
	}
	for _, w := range storedRows(t, r.store) {
		if life := time.Duration(w.Expires-seconds(r.now)) * time.Second; life > 30*24*time.Hour {
			t.Errorf("an envelope lasts %v", life)
		}
	}
	r.pass(31 * 24 * time.Hour)
	for range 3 {
		if _, err := r.Sweep(); err != nil {
			t.Fatal(err)
		}
	}
	if st, _ := r.Stats(); st.Rows != 0 || st.Leases != 0 {
		t.Errorf("left over after 31 days: %+v", st)
	}
	r.pass(30 * 24 * time.Hour)
	r.lease("carol", t1)
	if p := r.put("alice", t1, "for carol"); !p {
		t.Error("no deposit")
	}
	if p := r.lease("carol", t1); !p.Serving {
		t.Error("eve owns a token for longer than a registration lasts")
	}
}
