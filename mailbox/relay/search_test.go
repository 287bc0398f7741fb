package relay

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"hearsay/mailbox"
)

// The search of the lease machine: two collectors that share an identity (one
// person's two devices) with overlapping sets of tokens, a stranger, three
// envelopes, time passing at every point, every page and acknowledgement that was
// ever seen replayed. After each step the invariants of doc.go hold, and an oracle
// that knows only what was said on the wire agrees with what is left (MB-10 to
// MB-16, MB-38).

// world is a state of the search.
type world struct {
	store *mapStore
	rnd   counter
	now   time.Duration
	// oracle
	present map[string]bool          // accepted, and neither acknowledged nor expired
	pages   map[string]*mailbox.Page // every page ever seen, by who saw it and the lease
	held    map[string]heldBy        // text: the live lease that holds it
	trace   []string
}

type heldBy struct {
	lease mailbox.LeaseID
	until time.Duration
}

func (w *world) clone() *world {
	return &world{w.store.clone(), w.rnd, w.now, maps.Clone(w.present), maps.Clone(w.pages), maps.Clone(w.held), slices.Clone(w.trace)}
}

// fingerprint merges states that differ only in how they were reached.
func (w *world) fingerprint() [32]byte {
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(w.store.m)) {
		v := w.store.m[k]
		switch k[0] {
		case prefixWindow, prefixWindowAge:
			continue // request windows have tests of their own, and no limit is near here
		case prefixTotals:
			var t totals
			if t.decode([]byte(v)) == nil {
				t.WindowStart, t.WindowCount = 0, 0
				v = string(t.encode())
			}
		}
		fmt.Fprintf(h, "%d %x %x\n", len(k), k, v)
	}
	fmt.Fprintln(h, w.now, slices.Sorted(maps.Keys(w.pages)))
	return [32]byte(h.Sum(nil))
}

const leaseTTL = 120 * time.Second

var searchStart = time.Unix(1_800_000_000, 0)

var sets = map[string][]mailbox.Token{"phone": {t1}, "laptop": {t1, t2}, "eve": {t1, t2}}

// identity: phone and laptop are one client of the relay.
var identity = map[string]string{"phone": "bob", "laptop": "bob", "eve": "eve", "alice": "alice"}

// step is an action of somebody; it returns what contradicts the oracle.
type step struct {
	name string
	do   func(*world, *Relay) error
}

func call(r *Relay, who string, req mailbox.Request) (mailbox.Response, error) {
	return r.Handle([]byte(identity[who]), req)
}

func steps(w *world) (out []step) {
	for _, who := range []string{"phone", "laptop", "eve"} {
		out = append(out, step{who + " checks in", func(w *world, r *Relay) error {
			resp, err := call(r, who, mailbox.Request{Lease: &mailbox.Lease{Tokens: sets[who]}})
			if err != nil {
				return err
			}
			p := resp.Lease
			if !p.Serving {
				return nil
			}
			if who == "eve" {
				return fmt.Errorf("a stranger was served")
			}
			if len(p.Rows) == 0 {
				// A lease whose rows all expired may come back empty; it must be one that was seen.
				if w.pages[who+string(p.LeaseID[:])] == nil {
					return fmt.Errorf("a new lease without rows")
				}
				return nil
			}
			for _, row := range p.Rows {
				e, err := mailbox.ParseEnvelope(row.Envelope)
				if err != nil {
					return err
				}
				text := string(e.Body)
				if !w.present[text] {
					return fmt.Errorf("%s was offered again after it was gone", text)
				}
				if h, ok := w.held[text]; ok && h.lease != p.LeaseID && h.until > w.now {
					return fmt.Errorf("%s is in two live leases", text)
				}
				w.held[text] = heldBy{p.LeaseID, time.Duration(p.ExpiresAt-uint64(searchStart.Unix())) * time.Second}
			}
			w.pages[who+string(p.LeaseID[:])] = p
			return nil
		}})
	}
	for _, k := range slices.Sorted(maps.Keys(w.pages)) {
		p := w.pages[k]
		for _, who := range []string{"phone", "eve"} {
			for n, named := range [][]mailbox.RowID{rowsOf(p), rowsOf(p)[:1], nil} {
				out = append(out, step{fmt.Sprintf("%s acknowledges %x, way %d", who, p.LeaseID[8:], n), func(w *world, r *Relay) error {
					resp, err := call(r, who, mailbox.Request{AckLease: &mailbox.AckLease{LeaseID: p.LeaseID, RowIDs: named}})
					if err != nil {
						return err
					}
					alive := w.now < time.Duration(p.ExpiresAt-uint64(searchStart.Unix()))*time.Second
					if want := who != "eve" && alive; resp.AckLease.Accepted != want {
						return fmt.Errorf("accepted: %t, want %t", resp.AckLease.Accepted, want)
					}
					if !resp.AckLease.Accepted {
						return nil
					}
					for _, row := range p.Rows {
						e, _ := mailbox.ParseEnvelope(row.Envelope)
						if text := string(e.Body); slices.Contains(named, row.RowID) && w.held[text].lease == p.LeaseID {
							delete(w.present, text)
						}
					}
					return nil
				}})
			}
		}
	}
	out = append(out, step{"time passes", func(w *world, _ *Relay) error { w.now += leaseTTL / 2; return nil }})
	out = append(out, step{"a sweep", func(_ *world, r *Relay) error { _, err := r.Sweep(); return err }})
	return out
}

func rowsOf(p *mailbox.Page) (out []mailbox.RowID) {
	for _, row := range p.Rows {
		out = append(out, row.RowID)
	}
	return out
}

func (w *world) relay(limits Limits) (*Relay, error) {
	return New(Config{
		Store: w.store, Key: [32]byte{1}, Limits: limits, Random: &w.rnd,
		Now: func() time.Time { return searchStart.Add(w.now) },
	})
}

// search visits every state within depth steps, and returns their number.
func search(depth int, limits Limits, sabotage func(*world)) (int, error) {
	w := &world{store: newMapStore(), present: map[string]bool{}, pages: map[string]*mailbox.Page{}, held: map[string]heldBy{}}
	r, err := w.relay(limits)
	if err != nil {
		return 0, err
	}
	if _, err := call(r, "phone", mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{t1, t2}}}); err != nil {
		return 0, err
	}
	for _, d := range []struct {
		text  string
		token mailbox.Token
	}{{"one", t1}, {"two", t1}, {"three", t2}} {
		resp, err := call(r, "alice", mailbox.Request{Deposit: &mailbox.Deposit{Envelope: envelope(d.token, d.text)}})
		if err != nil || !resp.Deposit.Accepted {
			return 0, fmt.Errorf("deposit: %w", err)
		}
		w.present[d.text] = true
	}
	seen := map[[32]byte]bool{w.fingerprint(): true}
	level := []*world{w}
	for range depth {
		var next []*world
		for _, w := range level {
			for _, st := range steps(w) {
				n := w.clone()
				n.trace = append(n.trace, st.name)
				r, err := n.relay(limits)
				if err != nil {
					return 0, err
				}
				err = st.do(n, r)
				if sabotage != nil {
					sabotage(n)
				}
				if err == nil {
					err = Recount(n.store)
				}
				if err == nil {
					err = n.complete()
				}
				if err != nil {
					return len(seen), fmt.Errorf("after %q: %w", n.trace, err)
				}
				if f := n.fingerprint(); !seen[f] {
					seen[f] = true
					next = append(next, n)
				}
			}
		}
		level = next
	}
	return len(seen), nil
}

// complete: what is present by the oracle is in the store, and nothing else.
func (w *world) complete() error {
	n := 0
	for k := range w.store.m {
		if k[0] == prefixRow {
			n++
		}
	}
	if n != len(w.present) {
		return fmt.Errorf("%d rows, %d envelopes are owed", n, len(w.present))
	}
	return nil
}

// TestLeaseSearch explores the machine exhaustively to a depth.
func TestLeaseSearch(t *testing.T) {
	depth := 7
	if testing.Short() {
		depth = 5
	}
	n, err := search(depth, Limits{PageRows: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states", n)
	if n < 500 {
		t.Errorf("only %d states: the search is not what it says", n)
	}
}

// TestLeaseSearchFindsFaults plants faults that the search must find.
func TestLeaseSearchFindsFaults(t *testing.T) {
	for name, fault := range map[string]func(*world){
		"a leased row is deleted": func(w *world) {
			for k, v := range w.store.m {
				var l lease
				if k[0] != prefixLease || l.decode([]byte(v)) != nil {
					continue
				}
				for i := range l.Rows {
					if !l.Rows[i].Gone {
						delete(w.store.m, string(l.Rows[i].key()))
						return
					}
				}
			}
		},
		"a lease forgets its rows": func(w *world) {
			for k, v := range w.store.m {
				var l lease
				if k[0] == prefixLease && l.decode([]byte(v)) == nil && !l.Done {
					for i := range l.Rows {
						l.Rows[i].Gone = true
					}
					w.store.m[k] = string(l.encode())
				}
			}
		},
	} {
		if _, err := search(4, Limits{PageRows: 2}, fault); err == nil {
			t.Errorf("%s: not found", name)
		}
	}
}
