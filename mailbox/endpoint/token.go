package endpoint

import (
	"time"

	"hearsay/internal/box"
	"hearsay/mailbox"
)

// contextToken is the domain of the delivery tokens.
const contextToken = "hearsay mailbox v2 delivery token"

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
	return pair.Derive(contextToken, recipient, weekOf(t))
}

func weekOf(t time.Time) uint64 { return uint64(max(t.Unix(), 0)) / uint64(week/time.Second) }

// TokensAround are the tokens that the recipient registers at t, this week's first,
// since that is the order in which a relay that runs out of room takes them.
func TokensAround(pair *box.Box, recipient box.PublicKey, t time.Time) []mailbox.Token {
	first, now, last := weekOf(t.Add(-lookBack)), weekOf(t), weekOf(t.Add(lookAhead))
	out := make([]mailbox.Token, 0, last-first+1)
	for w := now; w <= last; w++ {
		out = append(out, pair.Derive(contextToken, recipient, w))
	}
	for w := now; w > first; w-- {
		out = append(out, pair.Derive(contextToken, recipient, w-1))
	}
	return out
}
