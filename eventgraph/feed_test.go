package eventgraph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/internal/kv"
)

// Subscribe yields what is stored, then what comes, each once and in order, over a
// restart as well; it ends with its context and leaves no goroutine.
func TestSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := kv.OpenMemory()
		cfg := Config{Params: Params{Genesis: 946684800000, Contents: []byte("x"), Rotation: time.Hour}}
		g, err := OpenStore(st, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if _, err := g.Publish(t.Context(), fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		var last Seq
		ended := make(chan error)
		read := func(g *Graph, from Seq) {
			go func() {
				var failed error
				for a, err := range g.Subscribe(ctx, from) {
					if err != nil {
						failed = err
						break
					}
					if a.Seq != last+1 || a.Slot != g.Current() || !a.Source.Foreign() != (a.Source == SourceLocal) {
						t.Errorf("%+v after %d", a, last)
					}
					got, last = append(got, string(a.Event.Content)), a.Seq
				}
				ended <- failed
			}()
		}
		read(g, 0)
		synctest.Wait()
		if !slices.Equal(got, []string{"0", "1", "2"}) {
			t.Errorf("stored ones: %v", got)
		}
		for i := range 300 {
			if _, err := g.Publish(t.Context(), fmt.Append(nil, 3+i)); err != nil {
				t.Fatal(err)
			}
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if len(got) != 303 || last != 303 {
			t.Errorf("%d arrivals, last %d", len(got), last)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v, want ErrClosed", err)
		}
		g, err = OpenStore(st.Reopen(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Publish(t.Context(), []byte("after the restart")); err != nil {
			t.Fatal(err)
		}
		read(g, last)
		synctest.Wait()
		if len(got) != 304 || got[303] != "after the restart" {
			t.Errorf("%d arrivals after the restart", len(got))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("after the context ended: %v", err)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A subscriber that does not read blocks nobody and grows nothing, and still gets all.
func TestSlowSubscriber(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now})
	if _, err := g.Publish(t.Context(), []byte("first")); err != nil {
		t.Fatal(err)
	}
	n := 0
	for a, err := range g.Subscribe(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; a.Seq != Seq(n) {
			t.Fatalf("arrival %d as number %d", a.Seq, n)
		}
		if n == 1 { // it sleeps while much is going on
			mustInsert(t, g, g.Current(), chain(g.Params(), g.Current(), 2*feedPage)...)
		}
		if n == 2*feedPage+1 {
			break
		}
	}
	if len(g.feed.hints) != 0 {
		t.Error("the subscription is still registered")
	}
}

// Pruned slots leave gaps, and a cursor inside one goes on behind it.
func TestSubscribeAcrossPruning(t *testing.T) {
	c := newClock()
	g := memory(t, Config{Now: c.now, Window: 1})
	for range 3 {
		mustInsert(t, g, g.Current(), chain(g.Params(), g.Current(), 5)...)
		c.add(time.Hour)
	}
	late, err := g.Publish(t.Context(), []byte("late"))
	if err != nil {
		t.Fatal(err)
	}
	runPruner(t, g)
	for _, from := range []Seq{0, 3, 15} {
		for a, err := range g.Subscribe(t.Context(), from) {
			if err != nil || a.Seq != 16 || a.Event.ID() != late.ID() {
				t.Errorf("from %d: %+v, %v", from, a, err)
			}
			break
		}
	}
	// Everything gone: the cursor moves to the end and waits.
	c.add(time.Hour)
	runPruner(t, g)
	page, last, err := g.arrivals(0)
	if len(page) != 0 || last != 16 || err != nil {
		t.Errorf("%d arrivals up to %d, %v", len(page), last, err)
	}
	if _, err := g.Publish(t.Context(), []byte("more")); err != nil || g.Last() != 17 {
		t.Errorf("numbers must go on: %d, %v", g.Last(), err)
	}
}
