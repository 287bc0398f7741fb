package relay

import (
	"crypto/ed25519"
	"slices"

	"hearsay/mailbox"
)

// claim makes c the owner of the tokens whose derivation it proves, whoever registered
// them, and registers those that nobody has (MB-29). The leases of a former owner that
// hold rows of such a token end now, so that it can neither see nor acknowledge them any
// more. It deletes nothing. A proof is verified only where it matters.
func (s *state) claim(seal *sealer, c client, relay, transportKey ed25519.PublicKey, proofs []mailbox.Proof, allowed bool) Outcome {
	wanted, out := make([]index, 0, len(proofs)), Accepted
	s.clearAway(c)
	for i := range proofs {
		ix := seal.index(proofs[i].Token)
		t := s.token(ix)
		if t.Expires > s.now && t.Client != c {
			if !allowed || !s.mayWork() || !proofs[i].Verify(relay, transportKey) {
				out = RefusedClaim
				continue
			}
			for _, id := range slices.Clone(t.Leases) {
				s.endLease(id)
			}
			s.unregister(ix, t)
		}
		wanted = append(wanted, ix)
	}
	if len(s.register(c, wanted)) != len(wanted) {
		out = RefusedClientQuota
	}
	return out
}
