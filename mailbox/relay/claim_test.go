package relay

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"testing"
	"time"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// identityOf makes the transport key of a name.
func identityOf(name string) ed25519.PublicKey {
	var seed [32]byte
	copy(seed[:], name)
	return ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)
}

// claimRig is a rig whose clients are named by real keys, since proofs are made for them.
func claimRig(t *testing.T) *rig {
	r := newRig(t, Limits{})
	r.cfg.Identity = identityOf("relay")
	return r
}

func (r *rig) claim(who string, proofs ...mailbox.Proof) bool {
	r.Helper()
	return r.do(string(identityOf(who)), mailbox.Request{ClaimTokens: &mailbox.ClaimTokens{Proofs: proofs}}).ClaimTokens.Accepted
}

// TestClaim (MB-29): who registered a token first keeps it, until somebody proves its
// derivation secret; the former owner's leases end there and then; the operator may
// switch it off.
func TestClaim(t *testing.T) {
	secret := [32]byte{7}
	token := mailbox.TokenOf(secret)
	bob, eve := string(identityOf("bob")), string(identityOf("eve"))
	proof := mailbox.Prove(secret, identityOf("relay"), identityOf("bob"))

	r := claimRig(t)
	r.lease(eve, token) // she saw the token at another relay and was faster
	r.put("alice", token, "for bob")
	stolen := r.lease(eve, token)
	if len(stolen.Rows) != 1 || r.lease(bob, token).Serving {
		t.Fatal("a registration does not belong to its first client")
	}
	wrong := map[string]mailbox.Proof{
		"no signature":          {Token: token},
		"of another secret":     {Token: token, Signature: mailbox.Prove([32]byte{8}, identityOf("relay"), identityOf("bob")).Signature},
		"for another relay":     mailbox.Prove(secret, identityOf("other relay"), identityOf("bob")),
		"for another client":    mailbox.Prove(secret, identityOf("relay"), identityOf("carol")),
		"of the relay's making": mailbox.Prove([32]byte{}, identityOf("relay"), identityOf("bob")),
	}
	wrong["of the relay's making"] = mailbox.Proof{Token: token, Signature: wrong["of the relay's making"].Signature}
	for name, p := range wrong {
		if r.claim("bob", p) || r.lease(bob, token).Serving {
			t.Errorf("a proof %s was taken", name)
		}
	}
	r.cfg.NoClaims = true
	if r.claim("bob", proof) {
		t.Error("a claim was served although the operator switched it off")
	}
	if r.do(bob, mailbox.Request{Info: &mailbox.Info{}}).Info.Claims {
		t.Error("claims are published although they are off")
	}
	r.cfg.NoClaims = false
	for range 2 { // a repeat changes nothing
		if !r.claim("bob", proof) {
			t.Fatal("a proof was refused")
		}
	}
	if r.ackRows(eve, stolen.LeaseID, ids(stolen)...) {
		t.Error("the former owner acknowledged after the claim")
	}
	if got := texts(t, r.lease(bob, token)); !slices.Equal(got, []string{"for bob"}) {
		t.Errorf("bob collects %q", got)
	}
	if r.lease(eve, token).Serving {
		t.Error("the former owner is still served")
	}
	// A proof also registers what nobody has, and within the quota only.
	free := [32]byte{9}
	if !r.claim("bob", mailbox.Prove(free, identityOf("relay"), identityOf("bob"))) || !r.put("alice", mailbox.TokenOf(free), "x") {
		t.Error("a free token was not registered")
	}
	r.limits.ClientTokens = 2
	if r.claim("bob", mailbox.Prove([32]byte{10}, identityOf("relay"), identityOf("bob"))) {
		t.Error("a claim past the quota was accepted")
	}
}

// TestClaimIsBounded (MB-21, MB-29): a claim on tokens whose rows are in many leases
// writes no more than a store takes in one commit; what is left out is claimed again.
func TestClaimIsBounded(t *testing.T) {
	r := newRig(t, Limits{ClientTokens: 4096})
	r.cfg.Identity = identityOf("relay")
	store := kv.OpenMemory()
	defer store.Close()
	r.store = store
	r.cfg.Store = store
	var proofs []mailbox.Proof
	for i := range mailbox.MaxClaims {
		secret := [32]byte{byte(i), 1}
		proofs = append(proofs, mailbox.Prove(secret, identityOf("relay"), identityOf("bob")))
		thief := fmt.Sprintf("thief %d", i/4)
		token := mailbox.TokenOf(secret)
		must := func(req mailbox.Request) mailbox.Response {
			resp, err := r.Handle([]byte(thief), req)
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		tokens := []mailbox.Token{token} // and others: the end of a lease writes something for each
		for k := range 127 {
			tokens = append(tokens, mailbox.Token{byte(i), byte(k), 2})
		}
		must(mailbox.Request{Lease: &mailbox.Lease{Tokens: tokens}})
		for _, token := range tokens {
			must(mailbox.Request{Deposit: &mailbox.Deposit{Envelope: envelope(token, "x")}})
		}
		if p := must(mailbox.Request{Lease: &mailbox.Lease{Tokens: tokens}}).Lease; len(p.Rows) != 128 {
			t.Fatalf("a lease of %d rows", len(p.Rows))
		}
		r.pass(30 * time.Second / mailbox.MaxClaims) // all leases live; a new request window now and then
		r.Relay.limits.RelayRequests = 1 << 20
	}
	r.checkInvariants()
	rounds := 0
	for ; rounds < 40; rounds++ {
		if r.claim("bob", proofs...) {
			break
		}
	}
	if rounds == 0 || rounds >= 40 {
		t.Errorf("all tokens were claimed after %d rounds", rounds)
	}
}
