package mailbox

import (
	"crypto/ed25519"
	"errors"
)

// MaxClaims bounds the proofs of one ClaimTokens: each can cost the relay one
// verification of a signature.
const MaxClaims = 64

// A Signature is an Ed25519 signature.
type Signature [ed25519.SignatureSize]byte

// A Proof says that a client knows what a token was derived from: a token is an
// Ed25519 public key, and only who can derive it has the private one (MB-29). The
// signature names relay and client, so that it is worth nothing at another relay and
// to nobody else, the relay included.
type Proof struct {
	Token     Token     `cbor:"token"`
	Signature Signature `cbor:"signature"`
}

// claimContext begins what a proof signs.
const claimContext = "hearsay mailbox claim v1"

func claimMessage(relay, client ed25519.PublicKey) []byte {
	return append(append([]byte(claimContext), relay...), client...)
}

// TokenOf is the token that belongs to a secret which both ends of a pair derive.
func TokenOf(secret [32]byte) Token {
	return Token(ed25519.NewKeyFromSeed(secret[:]).Public().(ed25519.PublicKey))
}

// Prove makes the proof for the token of secret, at one relay and for one client.
func Prove(secret [32]byte, relay, client ed25519.PublicKey) Proof {
	key := ed25519.NewKeyFromSeed(secret[:])
	return Proof{Token(key.Public().(ed25519.PublicKey)), Signature(ed25519.Sign(key, claimMessage(relay, client)))}
}

// Verify tells whether the proof holds at that relay for that client.
func (p *Proof) Verify(relay, client ed25519.PublicKey) bool {
	return len(relay) == ed25519.PublicKeySize && len(client) == ed25519.PublicKeySize &&
		ed25519.Verify(p.Token[:], claimMessage(relay, client), p.Signature[:])
}

// checkProofs: one to MaxClaims, no token twice.
func checkProofs(proofs []Proof) error {
	if len(proofs) == 0 {
		return ErrMalformed
	}
	if len(proofs) > MaxClaims {
		return errors.Join(ErrTooLarge, errTooManyProofs)
	}
	seen := make(map[Token]bool, len(proofs))
	for i := range proofs {
		if seen[proofs[i].Token] {
			return ErrMalformed
		}
		seen[proofs[i].Token] = true
	}
	return nil
}

var errTooManyProofs = errors.New("mailbox: too many proofs")

// MarshalCBOR writes an array of 64 unsigned integers.
func (s Signature) MarshalCBOR() ([]byte, error) { return octets(s[:]), nil }

// UnmarshalCBOR reads an array of 64 unsigned integers.
func (s *Signature) UnmarshalCBOR(b []byte) error { return readFixed(b, s[:]) }
