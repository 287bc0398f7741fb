package eventgraph

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// DS-20 and DS-22: every status goes to every observer and feed, unfiltered, with its
// connection.
func TestReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := OpenMemory(Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		ctx, cancel := context.WithCancel(t.Context())
		feed := g.Receipts(ctx)
		var observed, fed []Receipt
		stop := g.ObserveReceipts(func(r Receipt) { observed = append(observed, r) })
		other := 0
		g.ObserveReceipts(func(Receipt) { other++ })
		want := []Receipt{
			{Status{ID{1}, HasInserted}, 7},
			{Status{ID{1}, HasInserted}, 7}, // twice is twice
			{Status{ID{2}, NackBusy}, 8},
			{Status{ID{3}, Result(99)}, 0}, // nothing is understood here
		}
		for _, r := range want {
			g.PublishReceipt(r.Status, r.Conn)
		}
		done := make(chan struct{})
		go func() {
			for r := range feed {
				fed = append(fed, r)
			}
			close(done)
		}()
		synctest.Wait()
		for i, r := range want {
			if observed[i] != r || fed[i] != r {
				t.Errorf("receipt %d: observed %v, fed %v, want %v", i, observed[i], fed[i], r)
			}
		}
		stop()
		g.PublishReceipt(Status{}, 1)
		synctest.Wait()
		if len(observed) != len(want) || len(fed) != len(want)+1 || other != len(want)+1 {
			t.Errorf("%d observed, %d fed, %d by the other", len(observed), len(fed), other)
		}
		cancel()
		<-done
		synctest.Wait()
		if len(g.pipe.feeds) != 0 {
			t.Error("the feed is still registered")
		}
		if g.ReceiptsDropped() != 0 {
			t.Errorf("%d dropped", g.ReceiptsDropped())
		}
	})
}

// DS-21: a slow feed neither blocks nor grows; what it loses is counted, and observers
// lose nothing (DS-22).
func TestReceiptsDropped(t *testing.T) {
	g := memory(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	feed := g.Receipts(ctx)
	var mu sync.Mutex
	observed := 0
	g.ObserveReceipts(func(Receipt) {
		mu.Lock()
		defer mu.Unlock()
		observed++
	})
	var wg sync.WaitGroup
	const writers, each = 4, receiptBuffer
	for range writers {
		wg.Go(func() {
			for range each {
				g.PublishReceipt(Status{ID{1}, HasAlready}, 1)
			}
		})
	}
	wg.Wait()
	if observed != writers*each {
		t.Errorf("observed %d, want %d", observed, writers*each)
	}
	if got := g.ReceiptsDropped(); got != (writers-1)*each {
		t.Errorf("%d dropped, want %d", got, (writers-1)*each)
	}
	n := 0
	for range feed {
		if n++; n == receiptBuffer {
			cancel()
		}
	}
	if n != receiptBuffer {
		t.Errorf("%d in the feed, want %d", n, receiptBuffer)
	}
	g.PublishReceipt(Status{}, 1) // nobody there
	if got := g.ReceiptsDropped(); got != (writers-1)*each {
		t.Errorf("%d dropped without a feed", got)
	}
}

// DS-51: connections cannot be printed.
func TestConnIsPrivate(t *testing.T) {
	const secret = 0x5ec4e7
	c := Conn(secret)
	r := Receipt{Status{ID{1}, HasInserted}, c}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%d", "%x", "%X", "%o", "%b", "%s", "%q", "%U"} {
		fmt.Fprintf(&out, verb+" "+verb+" "+verb+"\n", c, r, &r)
		fmt.Fprintf(&out, verb+"\n", []Conn{c})
	}
	for _, v := range []any{c, r, &r, map[Conn]int{c: 1}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
	}
	for _, f := range []string{"%d", "%x", "%X", "%o", "%b", "%U"} {
		if s := fmt.Sprintf(f, secret); strings.Contains(out.String(), s) {
			t.Errorf("the connection appears as %s in:\n%s", s, out.String())
		}
	}
}

func TestResultNames(t *testing.T) {
	seen := map[string]bool{}
	for r := HasInserted; r <= NackBusy; r++ {
		if seen[r.String()] || r.String() == Result(0).String() {
			t.Errorf("%d has no name of its own: %v", r, r)
		}
		seen[r.String()] = true
		if r.Has() != (r == HasInserted || r == HasAlready) {
			t.Errorf("%v: Has is %v", r, r.Has())
		}
	}
}
