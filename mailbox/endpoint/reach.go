package endpoint

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net"

	"lukechampine.com/blake3"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// ErrDirect: the relay would see this machine's address, and the configuration, whose
// profiles all hide it, does not allow that (MB-47).
var ErrDirect = errors.New("endpoint: the relay could only be reached directly; use a tcp+tls:// address, or allow_direct = true")

// Reach says how relays may be reached (MB-47).
type Reach struct {
	// Proxied: only tor or socks profiles are active, so that nobody may learn our address.
	Proxied bool
	// AllowDirect permits it all the same.
	AllowDirect bool
	// Proxy dials through the proxy; nil if there is none.
	Proxy func(ctx context.Context, network, address string) (net.Conn, error)
}

// Check tells whether a relay may be reached, and whether through the proxy. QUIC does
// not go through a SOCKS proxy. The error is ErrDirect.
func (r Reach) Check(a mailbox.Address) (proxied bool, err error) {
	switch {
	case r.Proxied && r.Proxy != nil && a.Scheme == "tcp+tls":
		return true, nil
	case r.Proxied && !r.AllowDirect:
		return false, ErrDirect
	}
	return false, nil
}

// Client makes a client for a relay that may be reached.
func (r Reach) Client(a mailbox.Address, key ed25519.PrivateKey) (*Client, error) {
	proxied, err := r.Check(a)
	if err != nil {
		return nil, err
	}
	if proxied {
		return NewClient(a, key, r.Proxy)
	}
	return NewClient(a, key, nil)
}

// contextClient is the domain of a node's transport identities.
const contextClient = "hearsay mailbox v2 client identity"

// A Seed is what a node's identities at relays are made of. It lies in the custody
// store, so that a backup keeps it: a relay ties registrations to them.
type Seed [32]byte

// ClientKey is the node's identity at one relay in one role: another for each, so that
// relays cannot link what a node sends with what it collects, nor with each other.
func (s Seed) ClientKey(relay ed25519.PublicKey, role Role) ed25519.PrivateKey {
	material := append(append(append([]byte(nil), s[:]...), relay...), byte(role))
	var out [ed25519.SeedSize]byte
	blake3.DeriveKey(out[:], contextClient, material)
	return ed25519.NewKeyFromSeed(out[:])
}

var opSeed = kv.Op{Name: "endpoint/seed", Class: kv.ClassRelease}

// OpenSeed reads the seed of a custody store, or makes it.
func OpenSeed(store kv.Store) (s Seed, err error) {
	err = store.Update(opSeed, func(tx kv.Txn) error {
		v, err := tx.Get(key(tableSeed))
		if errors.Is(err, kv.ErrNotFound) {
			_, _ = rand.Read(s[:]) // never fails
			return tx.Set(key(tableSeed), seal(s[:]))
		}
		if err != nil {
			return err
		}
		return unseal(v, "seed", func(r *reader) { copy(s[:], r.Take(len(s))) })
	})
	return s, err
}
