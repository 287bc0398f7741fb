package ircd

import (
	"context"
	"errors"
	"fmt"

	"hearsay/eventgraph"
	"hearsay/outbound"
)

// A Sender puts accepted messages into the outbound queue, and makes events of them
// when their turn comes. It is the only way from a line of IRC to the network (DS-34).
type Sender struct {
	Queue *outbound.Queue
	Keys  *Keys
	// Graph makes events on fresh tips; it stores nothing.
	Graph interface {
		NewEvent(content []byte) (eventgraph.Event, error)
	}
	// Accepted is called after each acceptance; nil: nobody wants to know.
	Accepted func()
	// Unknown is called when the outcome of a commit is not known (ST-03), before the
	// client is told so: the process must end soon. nil: nobody wants to know.
	Unknown func(error)
}

var (
	_ Outbox                = (*Sender)(nil)
	_ outbound.Materialiser = (*Sender)(nil)
)

// Accept enqueues the parts in one transaction (DS-31).
func (s *Sender) Accept(ctx context.Context, parts []Message) ([]Accepted, error) {
	drafts := make([]outbound.Draft, len(parts))
	for i := range parts {
		drafts[i].Payload = parts[i].AppendTo(nil)
	}
	entries, err := s.Queue.Enqueue(ctx, drafts...)
	if err != nil {
		class := ErrStorage
		switch {
		case errors.Is(err, outbound.ErrFull):
			class = ErrQueueFull
		case errors.Is(err, outbound.ErrTooLarge):
			class = ErrTooLong
		case errors.Is(err, outbound.ErrUnknown):
			class = ErrStorageUnknown
			if s.Unknown != nil {
				s.Unknown(err)
			}
		}
		return nil, fmt.Errorf("%w: %w", class, err)
	}
	accepted := make([]Accepted, len(entries))
	for i, e := range entries {
		accepted[i] = Accepted{ID: e.ID.String(), Time: e.Enqueued}
	}
	if s.Accepted != nil {
		s.Accepted()
	}
	return accepted, nil
}

// Materialise makes an event as it was fixed at acceptance: a fresh nonce, then fresh
// tips and time (DS-70, DS-74). Without the very key it parks the head (DS-79).
func (s *Sender) Materialise(_ context.Context, e outbound.Entry) (eventgraph.Event, error) {
	content, err := s.Keys.MaterialiseAs(e.ID, e.Payload)
	if errors.Is(err, ErrNoKey) {
		return eventgraph.Event{}, &outbound.Refusal{Reason: outbound.ReasonKey, Err: err}
	}
	if err != nil {
		return eventgraph.Event{}, err
	}
	return s.Graph.NewEvent(content)
}
