package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
	"hearsay/ircd"
)

// direct is an outbox without a queue: what is accepted is an event at once, stored
// here and put to whoever is connected. Peers that come later get it when tips are
// compared.
type direct struct {
	graph *eventgraph.Graph
	keys  *ircd.Keys
}

var _ ircd.Outbox = direct{}

// Accept makes the events of one message. All parts are encrypted before the first
// is stored, so that a missing key refuses the whole. A storage fault in a later
// part leaves the outcome unknown: the earlier ones are out.
func (d direct) Accept(ctx context.Context, parts []ircd.Message) ([]ircd.Accepted, error) {
	contents := make([][]byte, len(parts))
	for i := range parts {
		content, err := d.keys.Materialise(parts[i].AppendTo(nil))
		if err != nil {
			return nil, err
		}
		contents[i] = content
	}
	var accepted []ircd.Accepted
	for i, content := range contents {
		e, err := d.graph.Publish(ctx, content)
		if err != nil {
			class := ircd.ErrStorage
			if i > 0 || errors.Is(err, kv.ErrUnknown) {
				class = ircd.ErrStorageUnknown
			}
			return nil, fmt.Errorf("%w: %w", class, err)
		}
		accepted = append(accepted, ircd.Accepted{ID: e.ID().String(), Time: time.UnixMilli(int64(e.Timestamp))})
	}
	return accepted, nil
}
