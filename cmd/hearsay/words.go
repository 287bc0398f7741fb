package main

import (
	"fmt"
	"strings"

	"hearsay/ircd"
	"hearsay/outbound"
)

// What a person is told about the way of a message: each of "nobody is connected", "the
// history is still coming", "sent, but nothing shows that the network has it" and "the
// network has it" in words that fit no other.

// networkState is the network as IRC clients are told of it.
func (s p2pStatus) networkState(synced bool) ircd.NetworkState {
	return ircd.NetworkState{Peers: s.CanSend, Connected: s.Connected, Needed: s.MinConnections, Synced: synced}
}

// gateWords say why nothing can be sent now; "" where something can.
func gateWords(n ircd.NetworkState) string {
	switch {
	case n.Peers == 0 && n.Connected > 0:
		return "no connected peer takes messages yet"
	case n.Peers == 0:
		return "no peer is connected"
	case !n.Synced:
		return "the recent history is still coming"
	case n.Peers < n.Needed:
		return fmt.Sprintf("connected to %d of %d peers", n.Peers, n.Needed)
	}
	return ""
}

// parkedWords are those of DS-75, DS-79 and DS-42, by the reason's name.
var parkedWords = map[string]string{
	outbound.ReasonHeld.String():       "held since the queue was restored from a backup",
	outbound.ReasonKey.String():        "held up: the key of its conversation is gone or was changed",
	outbound.ReasonBudget.String():     "held up: the rate limit of this epoch is used up",
	outbound.ReasonIdentity.String():   "held up: there is no identity for the rate limit",
	outbound.ReasonStorage.String():    "held up: the disk is full or refuses to write",
	outbound.ReasonCapacity.String():   "held up: the queue has no room left for what sending needs",
	outbound.ReasonProcessing.String(): "held up: it could not be made into an event; trying on",
}

// headWords say how far the oldest message that waits has got.
func headWords(state, reason string, n ircd.NetworkState) string {
	if text, ok := parkedWords[reason]; ok {
		return text
	}
	gate := gateWords(n)
	switch {
	case state == "sent" && gate != "":
		return "sent, no sign yet that the network has it, and now " + gate
	case state == "sent" && reason == outbound.ReasonNoAck.String():
		return "sent again and again, still no sign that the network has it"
	case state == "sent":
		return "sent, no sign yet that the network has it"
	case gate != "":
		return "not sent yet: " + gate
	}
	return "about to be sent"
}

// queueWords say how far the messages of this node have got.
func queueWords(s outboundStatus) string {
	switch {
	case s.Depth == 0 && s.AckedTotal == 0:
		return "nothing of yours waits, and nothing was sent from here yet"
	case s.Depth == 0 && s.AckedTotal == 1:
		return "nothing of yours waits: the network has the one message that was sent from here"
	case s.Depth == 0:
		return fmt.Sprintf("nothing of yours waits: the network has all %d messages that were sent from here", s.AckedTotal)
	}
	return fmt.Sprintf("%s waiting (%d bytes), %d acknowledged so far", count(s.Depth, "message"), s.Bytes, s.AckedTotal)
}

// sentence begins words with a capital letter.
func sentence(words string) string { return strings.ToUpper(words[:1]) + words[1:] }

// QueueLine is what "*status" says of the queue.
func (d *daemon) QueueLine() (string, error) {
	sum, err := d.custody.queue.Summary()
	if err != nil {
		return "", err
	}
	s := d.outboundStatus()
	text := sentence(queueWords(outboundStatus{Depth: sum.Depth, Bytes: sum.Bytes, AckedTotal: sum.Acked}))
	if s.Head != nil {
		text += "; the oldest is " + headWords(s.Head.State, s.Head.Reason, d.State())
	}
	return text, nil
}

var _ ircd.Queueing = (*daemon)(nil)
