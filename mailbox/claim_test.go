package mailbox

import (
	"crypto/ed25519"
	"errors"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestClaims (MB-29): the request at its bound and past it, what it refuses, and what a proof
// is worth where.
func TestClaims(t *testing.T) {
	relay := ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey)
	client := ed25519.NewKeyFromSeed(append(make([]byte, 31), 1)).Public().(ed25519.PublicKey)
	proofs := func(n int) (out []Proof) {
		for i := range n {
			out = append(out, Prove([32]byte{byte(i), 7}, relay, client))
		}
		return out
	}
	for n, want := range map[int]error{0: ErrMalformed, 1: nil, MaxClaims: nil, MaxClaims + 1: ErrTooLarge} {
		req := Request{ClaimTokens: &ClaimTokens{Proofs: proofs(n)}}
		b, err := req.Encode()
		if !errors.Is(err, want) {
			t.Errorf("%d proofs: %v", n, err)
		}
		if err != nil {
			continue
		}
		if got, err := DecodeRequest(b); err != nil || !cmp.Equal(got.ClaimTokens.Proofs, req.ClaimTokens.Proofs) || !got.Extension() {
			t.Errorf("%d proofs decode differently: %v", n, err)
		}
	}
	twice := Request{ClaimTokens: &ClaimTokens{Proofs: append(proofs(1), proofs(1)...)}}
	if _, err := twice.Encode(); !errors.Is(err, ErrMalformed) {
		t.Errorf("the same token twice: %v", err)
	}
	p := Prove([32]byte{7}, relay, client)
	if p.Token != TokenOf([32]byte{7}) || !p.Verify(relay, client) {
		t.Error("a proof does not hold")
	}
	if p.Verify(client, relay) || p.Verify(relay, relay) || p.Verify(nil, client) || p.Verify(relay, nil) {
		t.Error("a proof holds elsewhere")
	}
	p.Signature[0] ^= 1
	if p.Verify(relay, client) {
		t.Error("an altered proof holds")
	}
}

// TestNothingIsAllocatedBeforeTheBound (MB-20): a message past its bound costs an error; one that
// promises more than it has costs no more than its own bytes.
func TestNothingIsAllocatedBeforeTheBound(t *testing.T) {
	large := make([]byte, MaxResponse+1)
	promise := append([]byte("\xa1\x67Deposit\xa1\x68envelope"), 0x9a, 0x00, 0x02, 0x00, 0x00) // 131,072 bytes follow, it says
	for name, f := range map[string]func() error{
		"large request":  func() error { _, err := DecodeRequest(large[:MaxRequest+1]); return err },
		"large response": func() error { _, err := DecodeResponse(large); return err },
		"empty promise":  func() error { _, err := DecodeRequest(promise); return err },
	} {
		const n = 200
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			if f() == nil {
				t.Fatalf("%s: decoded", name)
			}
		}
		runtime.ReadMemStats(&after)
		if per := (after.TotalAlloc - before.TotalAlloc) / n; per > 8192 {
			t.Errorf("%s allocates %d bytes", name, per)
		}
	}
}
