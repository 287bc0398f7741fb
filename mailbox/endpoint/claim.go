package endpoint

import (
	"context"
	"errors"
	"slices"
	"time"

	"hearsay/mailbox"
)

// A Prover is a Requester that can prove tokens for itself at its relay; a *Client is
// one.
type Prover interface {
	Prove(secret [32]byte) mailbox.Proof
}

// claimInterval is how often the tokens of a relay are proven. Who knows a token but not
// what it is derived from, such as the operator of another relay, could register it first
// and keep its owner out until the registration expires (MB-29).
const claimInterval = 24 * time.Hour

// claiming is how far the round of claims at a relay is.
type claiming struct {
	next int       // into the tokens, while a round is under way
	due  time.Time // monotonic: when the next round begins
}

// bag derives a contact's tokens once a week.
func (e *Endpoint) bag(c Contact, now time.Time) mailbag {
	k := bagKey{c.ID, c.Mine}
	if b, ok := e.bags[k]; ok && b.day == dayOf(now) {
		return b.mailbag
	}
	if len(e.bags) >= mailbox.MaxTokens { // contacts came and went
		clear(e.bags)
	}
	b := bagOf(c.Pair, c.Mine, now)
	e.bags[k] = dailyBag{dayOf(now), b}
	return b
}

func dayOf(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }

// claim proves one batch of the tokens that are collected at a relay, until all were
// proven since the last round began. A relay without the extension is asked nothing.
func (e *Endpoint) claim(ctx context.Context, relay RelayID, who Requester) error {
	prover, ok := who.(Prover)
	c := e.claims[relay]
	if !ok || time.Now().Before(c.due) {
		return nil
	}
	var secrets [][32]byte
	own := slices.Contains(e.cfg.Own, relay)
	for _, contact := range e.cfg.Contacts() {
		if own || slices.Contains(contact.Relays, relay) {
			secrets = append(secrets, e.bag(contact, e.now()).secrets...)
		}
	}
	batch := secrets[min(c.next, len(secrets)):min(c.next+mailbox.MaxClaims, len(secrets))]
	var proofs []mailbox.Proof
	for _, s := range batch {
		proofs = append(proofs, prover.Prove(s))
	}
	if len(proofs) > 0 {
		_, err := who.Do(ctx, mailbox.Request{ClaimTokens: &mailbox.ClaimTokens{Proofs: proofs}})
		if err != nil && !errors.Is(err, ErrUnsupported) {
			return err
		}
	}
	if c.next += mailbox.MaxClaims; c.next >= len(secrets) {
		c = claiming{due: time.Now().Add(e.around(claimInterval))}
	}
	e.claims[relay] = c
	return nil
}
