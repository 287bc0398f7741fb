package relay

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// The history of a mailbox as an outside observer sees it: what was put in, what a page
// showed, what was acknowledged. Time stands still, so no lease expires.

type lin struct {
	op   byte     // 'd' deposit, 'l' check-in, 'a' acknowledgement
	who  string   // of a check-in or acknowledgement
	text string   // of a deposit
	rows []string // named by an acknowledgement: texts of the page that it is for
	page string   // the lease of it
}

type linOut struct {
	ok   bool
	page string
	rows []string
}

// linState is what the mailbox holds: texts, by the lease that holds them, and who owns a
// live lease.
type linState struct {
	held  map[string]string // text: lease, or ""
	gone  map[string]bool   // acknowledged
	lease map[string]string // collector: the lease that a check-in is answered with
}

func (s linState) clone() linState {
	return linState{maps.Clone(s.held), maps.Clone(s.gone), maps.Clone(s.lease)}
}

func (s linState) equal(o linState) bool {
	return maps.Equal(s.held, o.held) && maps.Equal(s.gone, o.gone) && maps.Equal(s.lease, o.lease)
}

func linModel(rows int) porcupine.Model {
	return porcupine.Model{
		Init:  func() any { return linState{map[string]string{}, map[string]bool{}, map[string]string{}} },
		Equal: func(a, b any) bool { return a.(linState).equal(b.(linState)) },
		Step: func(state, input, output any) (bool, any) {
			s, in, out := state.(linState), input.(lin), output.(linOut)
			switch in.op {
			case 'd':
				_, there := s.held[in.text]
				known := there || s.gone[in.text]
				if want := known || len(s.held) < rows; out.ok != want {
					return false, s
				}
				if out.ok && !known {
					s = s.clone()
					s.held[in.text] = ""
				}
				return true, s
			case 'l':
				if live := s.lease[in.who]; live != "" {
					var want []string
					for t, l := range s.held {
						if l == live {
							want = append(want, t)
						}
					}
					slices.Sort(want)
					return out.page == live && slices.Equal(want, out.rows), s
				}
				free, live := 0, map[string]bool{}
				for _, l := range s.held {
					if l == "" {
						free++
					} else {
						live[l] = true
					}
				}
				for _, l := range s.lease {
					live[l] = true
				}
				full := len(live) >= Profile().TokenLeases
				if out.page == "" {
					return free == 0 || full, s
				}
				if full || len(out.rows) != min(free, linPage) {
					return false, s
				}
				s = s.clone()
				for _, t := range out.rows {
					if l, ok := s.held[t]; !ok || l != "" {
						return false, s
					}
					s.held[t] = out.page
				}
				s.lease[in.who] = out.page
				return true, s
			default:
				if !out.ok {
					return false, s // each is for a lease of its own, and nothing expires
				}
				s = s.clone()
				for _, t := range in.rows {
					if s.held[t] == in.page {
						delete(s.held, t)
						s.gone[t] = true
					}
				}
				if s.lease[in.who] == in.page {
					delete(s.lease, in.who)
				}
				return true, s
			}
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
	}
}

const linPage = 2

// linHistory runs depositors and collectors side by side over a store and returns what they
// saw. rows is the quota of the token, which they race for.
func linHistory(t *testing.T, store kv.Store, rows int, lie func(*linOut)) []porcupine.Operation {
	now := time.Unix(1_800_000_000, 0)
	r, err := New(Config{Store: store, Now: func() time.Time { return now }, Limits: Limits{PageRows: linPage, TokenRows: rows}})
	if err != nil {
		t.Fatal(err)
	}
	handle := func(who string, req mailbox.Request) mailbox.Response {
		resp, err := r.Handle([]byte(who), req)
		if err != nil {
			t.Error(err)
		}
		return resp
	}
	handle("bob", mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{t1}}})
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		history []porcupine.Operation
		clock   atomic.Int64
	)
	record := func(client int, in lin, do func() linOut) linOut {
		begin := clock.Add(1)
		out := do()
		end := clock.Add(1)
		shown := out
		if lie != nil {
			lie(&shown)
		}
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: begin, Output: shown, Return: end})
		return out
	}
	for c := range 3 {
		wg.Go(func() {
			for i := range 5 {
				text := fmt.Sprintf("%d-%d", c%2, i) // the first two depositors say the same
				if c == 2 {
					text = fmt.Sprintf("2-%d", i)
				}
				record(c, lin{op: 'd', text: text}, func() linOut {
					return linOut{ok: handle(fmt.Sprint("alice", c), mailbox.Request{Deposit: &mailbox.Deposit{Envelope: envelope(t1, text)}}).Deposit.Accepted}
				})
			}
		})
	}
	// Two devices of one client, each with a set of its own.
	for c, set := range map[int][]mailbox.Token{3: {t1}, 4: {t1, t2}} {
		wg.Go(func() {
			who := fmt.Sprint("device", c)
			for range 6 {
				var page *mailbox.Page
				out := record(c, lin{op: 'l', who: who}, func() linOut {
					page = handle("bob", mailbox.Request{Lease: &mailbox.Lease{Tokens: set}}).Lease
					if !page.Serving {
						return linOut{}
					}
					list := texts(t, page)
					slices.Sort(list)
					return linOut{page: string(page.LeaseID[:]), rows: list}
				})
				if out.page == "" || len(page.Rows) == 0 {
					continue
				}
				named, all := texts(t, page)[:1], ids(page)[:1]
				if len(page.Rows[0].Envelope)%2 == 0 || len(page.Rows) == 1 {
					named, all = texts(t, page), ids(page)
				}
				record(c, lin{op: 'a', who: who, rows: named, page: out.page}, func() linOut {
					return linOut{ok: handle("bob", mailbox.Request{AckLease: &mailbox.AckLease{LeaseID: page.LeaseID, RowIDs: all}}).AckLease.Accepted}
				})
			}
		})
	}
	wg.Wait()
	if err := Recount(store); err != nil {
		t.Error(err)
	}
	return history
}

// TestLinearizable: deposits, check-ins and acknowledgements that overlap are as if they had
// happened one after the other, each between its call and its answer (MB-04, MB-10, MB-11,
// MB-13); they race for the last free rows of the token's quota (MB-05).
func TestLinearizable(t *testing.T) {
	n := 6
	if testing.Short() {
		n = 2
	}
	for i := range n {
		store := kv.OpenMemory()
		history := linHistory(t, store, 3+i%2*20, nil)
		if res := porcupine.CheckOperationsTimeout(linModel(3+i%2*20), history, 30*time.Second); res != porcupine.Ok {
			t.Fatalf("history %d: %s", i, res)
		}
		_ = store.Close()
	}
}

// TestLinearizableFindsLies: a history in which one answer is not what happened is refused.
func TestLinearizableFindsLies(t *testing.T) {
	for name, lie := range map[string]func(*linOut){
		"a row disappears from a page": func(o *linOut) {
			if len(o.rows) > 1 {
				o.rows = o.rows[:1]
			}
		},
		"a row is of another page": func(o *linOut) {
			if len(o.rows) > 0 {
				o.rows = append(slices.Clone(o.rows[1:]), strings.Repeat("x", 9))
			}
		},
	} {
		var told atomic.Bool
		tell := func(o *linOut) {
			before := slices.Clone(o.rows)
			if lie(o); !slices.Equal(before, o.rows) {
				told.Store(true)
			}
		}
		// The collectors may be done before anything comes: then nobody lied.
		for attempt := 0; !told.Load(); attempt++ {
			if attempt == 1000 {
				t.Fatalf("%s: nobody lied", name)
			}
			store := kv.OpenMemory()
			history := linHistory(t, store, 20, tell)
			res := porcupine.CheckOperationsTimeout(linModel(20), history, 30*time.Second)
			if told.Load() == (res == porcupine.Ok) {
				t.Errorf("%s: %t told, %s", name, told.Load(), res)
			}
			_ = store.Close()
		}
	}
}

// TestQuotaRaces (MB-05): many depositors at once at the last free row, and at the last free
// byte: exactly as many are accepted as there is room for, and each accepted one is there.
func TestQuotaRaces(t *testing.T) {
	size := len(envelope(t1, "00"))
	for name, limits := range map[string]Limits{
		"token rows":  {TokenRows: 7},
		"relay rows":  {RelayRows: 7},
		"token bytes": {TokenBytes: 7*size + size - 1},
		"relay bytes": {RelayBytes: 7 * size},
	} {
		store := kv.OpenMemory()
		r, err := New(Config{Store: store, Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Handle([]byte("bob"), mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{t1}}}); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var accepted atomic.Int64
		for i := range 20 {
			wg.Go(func() {
				resp, err := r.Handle(fmt.Append(nil, i), mailbox.Request{Deposit: &mailbox.Deposit{Envelope: envelope(t1, fmt.Sprintf("%02d", i))}})
				if err != nil {
					t.Error(err)
				} else if resp.Deposit.Accepted {
					accepted.Add(1)
				}
			})
		}
		wg.Wait()
		st, err := r.Stats()
		if err != nil || accepted.Load() != 7 || st.Rows != 7 {
			t.Errorf("%s: %d accepted, %d rows, %v", name, accepted.Load(), st.Rows, err)
		}
		if err := Recount(store); err != nil {
			t.Error(name, err)
		}
		_ = store.Close()
	}
}
