package eventgraph_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"time"

	"hearsay/eventgraph"
)

// A fixed clock, so that the output is the same every time. Programs leave
// Config.Now out.
func exampleNow() time.Time { return time.Date(2026, 7, 23, 18, 4, 0, 0, time.UTC) }

// The smallest use: make a graph, publish, read history.
func Example() {
	g, err := eventgraph.OpenMemory(eventgraph.Config{Now: exampleNow})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()

	ctx := context.Background()
	for _, text := range []string{"first", "second"} {
		if _, err := g.Publish(ctx, []byte(text)); err != nil {
			log.Fatal(err)
		}
	}
	page, err := g.Page(g.Current(), eventgraph.Newest, true, 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range page.Events {
		fmt.Printf("layer %d: %s\n", e.Layer, e.Content)
	}
	// Unordered output:
	// layer 1: first
	// layer 2: second
}

// An application that is no chat: stations publish readings, and anybody can keep the
// running mean. Content that is no reading is refused by Config.Validate, so it is
// neither stored nor passed on. The cursor, kept beside the result, makes it exact
// over restarts.
func Example_sensors() {
	type reading struct {
		station uint16
		milli   int32 // thousandths of a degree
	}
	encode := func(r reading) []byte {
		b := binary.BigEndian.AppendUint16(nil, r.station)
		return binary.BigEndian.AppendUint32(b, uint32(r.milli))
	}
	decode := func(b []byte) (reading, error) {
		if len(b) != 6 {
			return reading{}, errors.New("not a reading")
		}
		return reading{binary.BigEndian.Uint16(b), int32(binary.BigEndian.Uint32(b[2:]))}, nil
	}

	g, err := eventgraph.OpenMemory(eventgraph.Config{
		Params: eventgraph.Params{ // a network of its own, with a slot a day
			Genesis: 1767225600000, Contents: []byte("sensors-v1"), Rotation: 24 * time.Hour,
		},
		MaxContent: 6,
		Validate: func(e eventgraph.Event) error {
			_, err := decode(e.Content)
			return err
		},
		Now: exampleNow,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i, milli := range []int32{21500, 21700, 22000} {
		if _, err := g.Publish(ctx, encode(reading{uint16(i), milli})); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := g.Publish(ctx, []byte("spam")); errors.Is(err, eventgraph.ErrInvalid) {
		fmt.Println("refused:", err)
	}

	// What a real program keeps on disk, and hands to Subscribe when it starts again.
	var state struct {
		cursor eventgraph.Seq
		sum, n int32
	}
	for a, err := range g.Subscribe(ctx, state.cursor) {
		if err != nil {
			log.Fatal(err)
		}
		r, err := decode(a.Event.Content)
		if err != nil {
			log.Fatal(err)
		}
		state.sum, state.n, state.cursor = state.sum+r.milli, state.n+1, a.Seq
		fmt.Printf("station %d: mean %.2f°\n", r.station, float64(state.sum)/float64(state.n)/1000)
		if state.cursor == g.Last() {
			break // a real program goes on waiting
		}
	}
	// Output:
	// refused: eventgraph: invalid event: not a reading
	// station 0: mean 21.50°
	// station 1: mean 21.60°
	// station 2: mean 21.73°
}

// Does one event rest on another? An answer in a conversation does, and so it shows
// that its author had what was answered.
func ExampleGraph_Descends() {
	g, err := eventgraph.OpenMemory(eventgraph.Config{Now: exampleNow})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	question, err := g.Publish(context.Background(), []byte("anybody here?"))
	if err != nil {
		log.Fatal(err)
	}
	answer, err := g.Publish(context.Background(), []byte("yes"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Descends(answer.ID(), question.ID()))
	fmt.Println(g.Descends(question.ID(), answer.ID()))
	// Output:
	// true <nil>
	// false <nil>
}

// Statuses that peers send pass through unfiltered. An observer sees each of them, on
// the goroutine that received it.
func ExampleGraph_ObserveReceipts() {
	g, err := eventgraph.OpenMemory(eventgraph.Config{Now: exampleNow})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	mine, err := g.NewEvent([]byte("to be put"))
	if err != nil {
		log.Fatal(err)
	}
	stop := g.ObserveReceipts(func(r eventgraph.Receipt) {
		if r.ID == mine.ID() && r.Result.Has() {
			fmt.Println("a peer claims to have it:", r.Result)
		}
	})
	defer stop()
	// What eventgraph/gossip does with an inbound EventPutStatus:
	g.PublishReceipt(eventgraph.Status{ID: mine.ID(), Result: eventgraph.HasInserted}, 1)
	// Output:
	// a peer claims to have it: has(inserted)
}
