package eventgraph

import (
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
)

// A Conn names one connection of this process to whoever gives the names. It is
// opaque here, ephemeral, and cannot be printed (DS-51).
type Conn uint64

// Format implements fmt.Formatter.
func (Conn) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[conn]") }

// MarshalText implements encoding.TextMarshaler.
func (Conn) MarshalText() ([]byte, error) { return []byte("[conn]"), nil }

// LogValue implements slog.LogValuer.
func (Conn) LogValue() slog.Value { return slog.StringValue("[conn]") }

// A Receipt is a status with the connection it came on.
type Receipt struct {
	Status
	Conn Conn
}

// String leaves the connection out.
func (r Receipt) String() string { return fmt.Sprintf("%v %v", r.ID, r.Result) }

// Format implements fmt.Formatter: fmt cannot be trusted with the fields.
func (r Receipt) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// pipe carries receipts from the network to applications (DS-20 to DS-22). It keeps
// nothing and understands nothing.
type pipe struct {
	mu        sync.RWMutex
	observers []*func(Receipt)
	feeds     map[*receiptFeed]struct{}
	dropped   atomic.Uint64
}

type receiptFeed struct{ ch chan Receipt }

// PublishReceipt hands an inbound status on, unfiltered. Observers have returned when
// it returns; feeds that are full lose it, and that is counted. It never blocks.
func (g *Graph) PublishReceipt(s Status, conn Conn) {
	r := Receipt{s, conn}
	g.pipe.mu.RLock()
	defer g.pipe.mu.RUnlock()
	for _, fn := range g.pipe.observers {
		(*fn)(r)
	}
	for f := range g.pipe.feeds {
		select {
		case f.ch <- r:
		default:
			g.pipe.dropped.Add(1)
		}
	}
}

// ReceiptsDropped counts the receipts that full feeds have lost.
func (g *Graph) ReceiptsDropped() uint64 { return g.pipe.dropped.Load() }

// ObserveReceipts registers fn, called for each status on the goroutine that
// published it, possibly several at a time, until cancel is called. It loses none,
// must not block, and must not register or cancel (DS-22).
func (g *Graph) ObserveReceipts(fn func(Receipt)) (cancel func()) {
	g.pipe.mu.Lock()
	defer g.pipe.mu.Unlock()
	p := &fn
	g.pipe.observers = append(g.pipe.observers, p)
	return func() {
		g.pipe.mu.Lock()
		defer g.pipe.mu.Unlock()
		g.pipe.observers = slices.DeleteFunc(g.pipe.observers, func(o *func(Receipt)) bool { return o == p })
	}
}

// Receipts joins the feed at once and yields statuses until ctx ends. It holds 1024;
// a slower reader loses the ones that came when it was full (DS-21). The sequence can
// be ranged over once, and must be, or ctx ended.
func (g *Graph) Receipts(ctx context.Context) iter.Seq[Receipt] {
	f := &receiptFeed{make(chan Receipt, receiptBuffer)}
	g.pipe.mu.Lock()
	if g.pipe.feeds == nil {
		g.pipe.feeds = map[*receiptFeed]struct{}{}
	}
	g.pipe.feeds[f] = struct{}{}
	g.pipe.mu.Unlock()
	leave := func() {
		g.pipe.mu.Lock()
		defer g.pipe.mu.Unlock()
		delete(g.pipe.feeds, f)
	}
	context.AfterFunc(ctx, leave)
	return func(yield func(Receipt) bool) {
		defer leave()
		for {
			select {
			case <-ctx.Done():
				return
			case r := <-f.ch:
				if !yield(r) {
					return
				}
			}
		}
	}
}
