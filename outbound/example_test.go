package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
	"hearsay/outbound"
)

// network stands for the event graph and two peers that answer at once.
type network struct {
	worker *outbound.Worker
	done   chan string
}

func (n *network) Facts() outbound.Facts {
	return outbound.Facts{Synced: true, Targets: 2, Window: outbound.Window{Slot: 1}}
}

func (n *network) Insert(context.Context, eventgraph.Event) error { return nil }

func (n *network) Put(_ context.Context, p outbound.Put) int {
	for conn := outbound.ConnID(1); conn <= 2; conn++ {
		p.To(conn)
	}
	n.done <- string(p.Event.Content)
	n.worker.Observe(eventgraph.Status{ID: p.ID, Result: eventgraph.HasInserted}, 1)
	return 2
}

func (n *network) ForeignDescendant(context.Context, []eventgraph.ID) (id eventgraph.ID, found bool, err error) {
	return id, false, nil
}

func (n *network) Oldest() eventgraph.Slot { return 0 }

// materialiser makes events; a real one encrypts and takes the graph's tips.
type materialiser struct{}

func (materialiser) Materialise(_ context.Context, e outbound.Entry) (eventgraph.Event, error) {
	return eventgraph.Event{
		Header: eventgraph.Header{
			Timestamp:   uint64(time.Now().UnixMilli()),
			ContentHash: eventgraph.HashContent(e.Payload),
		},
		Content: e.Payload,
	}, nil
}

// Accept messages, and let a worker bring them to the network one after another.
func Example() {
	store := kv.OpenMemory() // kv.Open for a store that survives
	queue, err := outbound.Open(store, outbound.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	net := &network{done: make(chan string, 3)}
	net.worker, err = outbound.NewWorker(queue, net, materialiser{}, outbound.WorkerConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, text := range []string{"first", "second", "third"} {
		entries, err := queue.Enqueue(ctx, outbound.Draft{Payload: outbound.Payload(text)})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("accepted at %v and never printed: %v\n", entries[0].Position, entries[0].Payload)
	}

	ended := make(chan error)
	go func() { ended <- net.worker.Run(ctx) }()
	for range 3 {
		fmt.Println("on the network:", <-net.done)
	}
	cancel()
	fmt.Println(errors.Is(<-ended, context.Canceled))
	// Output:
	// accepted at 1 and never printed: [payload]
	// accepted at 2 and never printed: [payload]
	// accepted at 3 and never printed: [payload]
	// on the network: first
	// on the network: second
	// on the network: third
	// true
}

// A full queue says so; nothing is dropped to make room.
func ExampleQueue_Enqueue() {
	queue, err := outbound.Open(kv.OpenMemory(), outbound.Config{MaxMessages: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	long := []outbound.Draft{{Payload: outbound.Payload("one text, ")}, {Payload: outbound.Payload("split in two")}}
	_, err = queue.Enqueue(ctx, long...)
	fmt.Println(err)
	_, err = queue.Enqueue(ctx, outbound.Draft{Payload: outbound.Payload("one too many")})
	fmt.Println(errors.Is(err, outbound.ErrFull), err)
	// Output:
	// <nil>
	// true outbound: queue is full
}
