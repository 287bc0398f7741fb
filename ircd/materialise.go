package ircd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
	"hearsay/internal/privmsg"
)

// Keys holds the keys of the settings in force. It outlives a Server, so that a queue
// can materialise without one. The zero value holds none; it is safe for concurrent use.
type Keys struct {
	ring atomic.Pointer[privmsg.Keyring]
}

var noKeys, _ = privmsg.NewKeyring(nil, nil)

// Set replaces the keys by those of validated settings.
func (k *Keys) Set(st Settings) error {
	ring, err := st.keyring()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	k.ring.Store(ring)
	return nil
}

func (k *Keys) get() *privmsg.Keyring {
	if ring := k.ring.Load(); ring != nil {
		return ring
	}
	return noKeys
}

// Materialise makes an event's content of an encoded [Message], with fresh nonces
// (DS-70, DS-74). It returns ErrNoKey if the key that was fixed at acceptance is gone
// or was changed, never anything in clear or under another key (DS-79), and ErrRecord
// for bytes that are no Message.
func (k *Keys) Materialise(record []byte) (content []byte, err error) {
	m, err := DecodeMessage(record)
	if err != nil {
		return nil, err
	}
	return k.materialise(&m)
}

func (k *Keys) materialise(m *Message) ([]byte, error) {
	p, err := k.get().Seal(m.to, m.nick, m.text)
	if errors.Is(err, privmsg.ErrNoKey) {
		return nil, ErrNoKey
	}
	if err != nil {
		return nil, err
	}
	return p.AppendTo(nil), nil
}

// A Publisher makes an event of content and sends it out.
type Publisher interface {
	Publish(ctx context.Context, content []byte) (eventgraph.Event, error)
}

// Direct is an Outbox without a queue: each part is published as it is accepted, its
// logical id is the event's id. A message whose second part fails is out by half, and
// whether anybody heard it is not known; a node for people uses a queue.
type Direct struct {
	Publisher Publisher
	Keys      *Keys
}

var _ Outbox = Direct{}

// Accept publishes parts in order.
func (d Direct) Accept(ctx context.Context, parts []Message) ([]Accepted, error) {
	var all []Accepted
	for i := range parts {
		content, err := d.Keys.materialise(&parts[i])
		if err != nil {
			return nil, err
		}
		e, err := d.Publisher.Publish(ctx, content)
		switch {
		case errors.Is(err, kv.ErrUnknown):
			return nil, fmt.Errorf("%w: %w", ErrStorageUnknown, err)
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrStorage, err)
		}
		all = append(all, Accepted{ID: e.ID().String(), Time: msTime(e.Timestamp)})
	}
	return all, nil
}
