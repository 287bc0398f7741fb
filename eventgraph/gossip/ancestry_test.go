package gossip

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"hearsay/eventgraph"
)

const testSlot = eventgraph.Slot(946684800000)

// chain makes n events on the slot's genesis, each on the one before.
func chain(n int) []eventgraph.Event {
	genesis := testParams.GenesisOf(testSlot)
	last := genesis.ID()
	var events []eventgraph.Event
	for i := range n {
		e := testEvent(uint64(testSlot)+1000+uint64(i), last)
		e.Layer = uint64(i) + 1
		last = e.ID()
		events = append(events, e)
	}
	return events
}

func ids(events ...eventgraph.Event) (list []eventgraph.ID) {
	for i := range events {
		list = append(list, events[i].ID())
	}
	return list
}

func reply(events ...eventgraph.Event) EventRep {
	return EventRep{Events: events, Blobs: make([][]byte, len(events))}
}

func genesisOnly(id eventgraph.ID) bool {
	g := testParams.GenesisOf(testSlot)
	return id == g.ID()
}

// Checklist 10.1, numbers 1 to 9.
func TestMatchReply_Checklist1to9(t *testing.T) {
	e := chain(4)
	a := func() *ancestry { return newAncestry(testParams, testSlot, ids(e[2], e[3]), genesisOnly) }
	same := func(t *testing.T, a *ancestry) {
		t.Helper()
		if len(a.missing) != 2 || len(a.known) != 0 || a.bytes != 0 {
			t.Error("state has changed")
		}
	}
	refuse := func(name string, asked []eventgraph.ID, rep EventRep) {
		t.Run(name, func(t *testing.T) {
			x := a()
			if err := x.take(asked, rep); !errors.Is(err, errReply) {
				t.Errorf("error %v", err)
			}
			same(t, x)
		})
	}
	both := ids(e[2], e[3])
	refuse("2 6 unrequested", both, reply(e[2], e[0]))
	refuse("3 6 twice", both, reply(e[2], e[2]))
	refuse("4 blobs", both, EventRep{Events: e[2:3]})
	refuse("4 too many blobs", both, EventRep{Events: e[2:3], Blobs: make([][]byte, 2)})
	refuse("5 empty", both, EventRep{})
	refuse("9 nothing asked", nil, reply(e[2]))
	t.Run("1 7 8 partial", func(t *testing.T) {
		x := a()
		if err := x.take(both, reply(e[3])); err != nil {
			t.Fatal(err)
		}
		if _, ok := x.missing[e[2].ID()]; !ok || len(x.missing) != 1 || len(x.known) != 1 {
			t.Errorf("missing %d, known %d", len(x.missing), len(x.known))
		}
		asked, err := x.next()
		if err != nil || !slices.Equal(asked, ids(e[2])) {
			t.Fatalf("asks %v, %v", asked, err)
		}
		if err := x.take(asked, reply(e[3])); !errors.Is(err, errReply) {
			t.Errorf("8: %v", err)
		}
		if err := x.take(asked, reply(e[2])); err != nil {
			t.Fatal(err)
		}
		if asked, _ = x.next(); !slices.Equal(asked, ids(e[1])) {
			t.Errorf("then the parent, not %v", asked)
		}
	})
}

func TestAncestryComplete(t *testing.T) {
	e := chain(6)
	byID := map[eventgraph.ID]eventgraph.Event{}
	for _, x := range e {
		byID[x.ID()] = x
	}
	a := newAncestry(testParams, testSlot, ids(e[5]), genesisOnly)
	for {
		asked, err := a.next()
		if err != nil {
			t.Fatal(err)
		}
		if asked == nil {
			break
		}
		if err := a.take(asked, reply(byID[asked[0]])); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.events(); !slices.Equal(ids(got...), ids(e...)) {
		t.Error("parents must come before children")
	}
}

// Trap 12: at most 128 ids in one request.
func TestAncestrySplits(t *testing.T) {
	var want []eventgraph.ID
	for i := range 300 {
		want = append(want, numbered(i))
	}
	a := newAncestry(testParams, testSlot, want, genesisOnly)
	if asked, _ := a.next(); len(asked) != 128 {
		t.Errorf("asks for %d", len(asked))
	}
}

// Trap 27: an ancestor of another slot ends the walk at once, and so does one whose
// content is not its own (67).
func TestAncestryImpossible(t *testing.T) {
	for name, change := range map[string]func(*eventgraph.Event){
		"other slot": func(e *eventgraph.Event) { e.Timestamp = uint64(testSlot) - 60001 },
		"later slot": func(e *eventgraph.Event) { e.Timestamp = uint64(testSlot) + hourMS + 60000 },
		"genesis":    func(e *eventgraph.Event) { e.Parents = [5]eventgraph.ID{} },
		"content":    func(e *eventgraph.Event) { e.Content = []byte("forged") },
	} {
		e := chain(1)[0]
		change(&e)
		a := newAncestry(testParams, testSlot, ids(e), genesisOnly)
		if err := a.take(ids(e), reply(e)); !errors.Is(err, errAncestor) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Fake ancestries end at their bounds: 1000 rounds, or 1 MiB.
func TestAncestryBounds(t *testing.T) {
	e := chain(maxFetchRounds + 5)
	slices.Reverse(e)
	a := newAncestry(testParams, testSlot, ids(e[0]), genesisOnly)
	for i := range maxFetchRounds {
		asked, err := a.next()
		if err != nil {
			t.Fatalf("round %d: %v", i+1, err)
		}
		if err := a.take(asked, reply(e[i])); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.next(); !errors.Is(err, errTooDeep) {
		t.Errorf("round %d: %v", maxFetchRounds+1, err)
	}

	var big []eventgraph.Event
	for i := range 17 {
		e := testEvent(uint64(testSlot)+1000, numbered(i))
		e.Content = fmt.Appendf(make([]byte, 64<<10-1), "%d", i%10)
		e.ContentHash = eventgraph.HashContent(e.Content)
		big = append(big, e)
	}
	a = newAncestry(testParams, testSlot, ids(big...), genesisOnly)
	if err := a.take(ids(big...), reply(big[:15]...)); err != nil {
		t.Fatal(err)
	}
	before := a.bytes
	if err := a.take(ids(big...), reply(big[15:]...)); !errors.Is(err, errTooMuch) || a.bytes != before {
		t.Errorf("%v with %d bytes", err, a.bytes)
	}
}

// leading keeps what the peer has bodies for.
func TestLeading(t *testing.T) {
	e := chain(5)
	var headers []headed
	for i := range e {
		headers = append(headers, headed{e[i].ID(), &e[i].Header})
	}
	got := leading(headers, ids(e[2]))
	if len(got) != 3 || got[2].id != e[2].ID() {
		t.Errorf("%d headers", len(got))
	}
	if got := leading(headers, []eventgraph.ID{numbered(1)}); len(got) != 0 {
		t.Errorf("%d headers lead to an unknown tip", len(got))
	}
}
