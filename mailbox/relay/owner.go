package relay

import (
	"bytes"
	"errors"
	"fmt"

	"lukechampine.com/blake3"

	"hearsay/internal/kv"
)

var opKeyCheck = kv.Op{Name: "relay/key", Class: kv.ClassRelease}

// CheckKey compares the key with the one that the store was made with, and writes down
// whose it is where the store does not say. Under another key no row opens and no token is
// known, while the rows that wait count for 30 days: [ErrKeyFile], and nothing is changed.
func (r *Relay) CheckKey() error {
	check := make([]byte, KeySize)
	blake3.DeriveKey(check, contextCheck, r.cfg.Key[:])
	compare := func(rd kv.Reader) error {
		had, err := rd.Get(key(prefixKeyCheck))
		if err == nil && !bytes.Equal(had, check) {
			return fmt.Errorf("%w: %s is not the one that this store was made with; put that one back from its backup", ErrKeyFile, KeyName)
		}
		return err
	}
	err := r.cfg.Store.View(compare)
	if !errors.Is(err, kv.ErrNotFound) {
		return err
	}
	if err := r.cfg.Store.Update(opKeyCheck, func(tx kv.Txn) error { return tx.Set(key(prefixKeyCheck), check) }); err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	return nil
}
