package ircd

import (
	"errors"
	"fmt"
	"sync"

	"hearsay/internal/privmsg"
	"hearsay/outbound"
)

// Keys holds the keys of the settings in force. It outlives a Server, so that a queue
// can materialise without one. The zero value holds none; it is safe for concurrent use.
type Keys struct {
	mu      sync.Mutex
	ring    *privmsg.Keyring // nil: none
	changed chan struct{}    // closed by the next Set; nil: nobody asked
}

var noKeys, _ = privmsg.NewKeyring(nil, nil)

// Set replaces the keys by those of validated settings.
func (k *Keys) Set(st Settings) error {
	ring, err := st.keyring()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ring = ring
	if k.changed != nil {
		close(k.changed)
		k.changed = nil
	}
	return nil
}

func (k *Keys) get() *privmsg.Keyring {
	ring, _ := k.watch()
	return ring
}

// watch returns the keys, which tells one Set from another by its pointer, and a
// channel that is closed when they are replaced.
func (k *Keys) watch() (*privmsg.Keyring, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.changed == nil {
		k.changed = make(chan struct{})
	}
	if k.ring == nil {
		return noKeys, k.changed
	}
	return k.ring, k.changed
}

// Materialise makes an event's content of an encoded [Message], with fresh nonces
// (DS-70, DS-74). It returns ErrNoKey if the key that was fixed at acceptance is gone
// or was changed, never anything in clear or under another key (DS-79), and ErrRecord
// for bytes that are no Message.
func (k *Keys) Materialise(record []byte) (content []byte, err error) {
	return k.MaterialiseAs(outbound.LogicalID{}, record)
}

// MaterialiseAs is Materialise of a message whose generations its recipient can tell for
// one, if it is a direct message: their nonces carry the logical id, under the pair's key
// (decision 0195).
func (k *Keys) MaterialiseAs(id outbound.LogicalID, record []byte) (content []byte, err error) {
	m, err := DecodeMessage(record)
	if err != nil {
		return nil, err
	}
	p, err := k.get().SealAs(id, m.to, m.nick, m.text)
	if errors.Is(err, privmsg.ErrNoKey) {
		return nil, ErrNoKey
	}
	if err != nil {
		return nil, err
	}
	return p.AppendTo(nil), nil
}
