package endpoint

import (
	"time"

	"hearsay/internal/box"
	"hearsay/mailbox"
)

// contextToken is the domain of the secrets that delivery tokens are made of.
const contextToken = "hearsay mailbox v2 delivery token secret"

// Tokens of a contact pair: one a week and direction, derived by both without talking
// (spec/mailbox.md, tokens).
const (
	week = 7 * 24 * time.Hour
	// lookBack and lookAhead are the weeks that a recipient registers: everything
	// that may still wait, and what may come while the recipient is away.
	lookBack  = 30 * 24 * time.Hour
	lookAhead = 60 * 24 * time.Hour
)

// TokensPerContact is the most tokens that a recipient registers for one contact.
const TokensPerContact = int((lookBack+lookAhead)/week) + 2

// TokenAt is the token for messages to the holder of recipient in the week of t.
func TokenAt(pair *box.Box, recipient box.PublicKey, t time.Time) mailbox.Token {
	return mailbox.TokenOf(pair.Derive(contextToken, recipient, weekOf(t)))
}

// A mailbag is the tokens of a contact in the order in which they are registered, with
// the secrets that prove them.
type mailbag struct {
	secrets [][32]byte
	tokens  []mailbox.Token
}

// bagOf derives the tokens that the recipient registers in a week: this week's first,
// since that is the order in which a relay that runs out of room takes them.
func bagOf(pair *box.Box, recipient box.PublicKey, t time.Time) mailbag {
	first, now, last := weekOf(t.Add(-lookBack)), weekOf(t), weekOf(t.Add(lookAhead))
	var bag mailbag
	add := func(w uint64) {
		secret := pair.Derive(contextToken, recipient, w)
		bag.secrets = append(bag.secrets, secret)
		bag.tokens = append(bag.tokens, mailbox.TokenOf(secret))
	}
	for w := now; w <= last; w++ {
		add(w)
	}
	for w := now; w > first; w-- {
		add(w - 1)
	}
	return bag
}

func weekOf(t time.Time) uint64 { return uint64(max(t.Unix(), 0)) / uint64(week/time.Second) }

// TokensAround are the tokens that the recipient registers at t, at most
// TokensPerContact: this week's first, then later ones, then earlier ones.
func TokensAround(pair *box.Box, recipient box.PublicKey, t time.Time) []mailbox.Token {
	return bagOf(pair, recipient, t).tokens
}
