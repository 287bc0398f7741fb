package ircd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"lukechampine.com/blake3"

	"hearsay/internal/privmsg"
	"hearsay/outbound"
)

// Keys holds the keys of the settings in force. It outlives a Server, so that a queue
// can materialise without one. The zero value holds none; it is safe for concurrent use.
type Keys struct {
	mu      sync.Mutex
	ring    *privmsg.Keyring // nil: none
	name    [16]byte         // of the keys in ring, without giving them away
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
	k.ring, k.name = ring, nameKeys(st, ring)
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

// named is watch with a name for the keys, which is the same at every start with the same
// keys and never zero.
func (k *Keys) named() (ring *privmsg.Keyring, name [16]byte, changed <-chan struct{}) {
	ring, changed = k.watch()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ring == nil {
		return ring, nameKeys(Settings{}, ring), changed
	}
	return k.ring, k.name, changed
}

const keysContext = "hearsay 2026-11-30 name of a keyring v1"

// nameKeys names the keys of settings.
func nameKeys(st Settings, ring *privmsg.Keyring) (name [16]byte) {
	var all []string
	add := func(label string) {
		if kind, spelling, print, ok := ring.Lookup(label); ok && kind != privmsg.Public {
			all = append(all, string(append([]byte{byte(kind)}, print[:]...))+spelling)
		}
	}
	for _, c := range st.Channels {
		add(c.Name)
	}
	for _, c := range st.Contacts {
		add(c.Label)
	}
	slices.Sort(all)
	blake3.DeriveKey(name[:], keysContext, []byte(strings.Join(all, "\x00")))
	return name
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
