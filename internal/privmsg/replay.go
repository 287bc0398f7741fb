package privmsg

import "hearsay/internal/box"

// Replays remembers which event first carried a sealed text. Nothing ties a sealed
// text to its event, so anybody who saw one can put it into new events (facts 2.4,
// T24); the text's nonce gives that away.
//
// Only the nonce of the text field counts. The text is what cannot be forged, so
// each is shown once. If the other two fields counted, a third party could hold an
// honest message back by sending parts of it ahead in an event of its own.
//
// Replays is bounded by [MaxReplays], oldest out first, and has one owner: the
// goroutine that opens messages. The zero value is ready.
type Replays struct {
	first map[box.Nonce][32]byte
	order []box.Nonce // ring of the keys of first
	next  int
}

// First tells whether event id is the first to carry nonce. Asking again for the
// same event gives the same answer.
func (r *Replays) First(nonce box.Nonce, id [32]byte) bool {
	if was, ok := r.first[nonce]; ok {
		return was == id
	}
	if r.first == nil {
		r.first = make(map[box.Nonce][32]byte)
	}
	if len(r.order) < MaxReplays {
		r.order = append(r.order, nonce)
	} else {
		delete(r.first, r.order[r.next])
		r.order[r.next] = nonce
		r.next = (r.next + 1) % MaxReplays
	}
	r.first[nonce] = id
	return true
}

// Len is the number of nonces remembered.
func (r *Replays) Len() int { return len(r.first) }
