package relay

import (
	"errors"
	"testing"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// TestCheckKey (MB-51): a store is served with the key that it was made with only, one from before
// stores knew theirs included.
func TestCheckKey(t *testing.T) {
	store := kv.OpenMemory()
	defer store.Close()
	open := func(k byte) *Relay {
		r, err := New(Config{Store: store, Key: [KeySize]byte{k}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if _, err := open(1).Handle([]byte("a"), mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{{1}}}}); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		key byte
		ok  bool
	}{{1, true}, {2, false}, {1, true}} {
		if err := open(c.key).CheckKey(); (err == nil) != c.ok || !c.ok && !errors.Is(err, ErrKeyFile) {
			t.Errorf("start %d: %v", i, err)
		}
	}
	if err := Recount(store); err != nil {
		t.Error(err)
	}
}
