package main

import (
	"testing"

	"hearsay/ircd"
	"hearsay/outbound"
)

// TestHeadWords: nobody connected, a sync under way, sent without a sign, and done read
// differently, whatever the state of the queue (facts, section 10).
func TestHeadWords(t *testing.T) {
	alone, met := ircd.NetworkState{Needed: 2}, ircd.NetworkState{Connected: 1, Needed: 2}
	syncing, few := ircd.NetworkState{Peers: 2, Connected: 2, Needed: 2}, ircd.NetworkState{Peers: 1, Connected: 1, Needed: 2, Synced: true}
	fine := ircd.NetworkState{Peers: 2, Connected: 2, Needed: 2, Synced: true}
	seen := map[string]string{}
	for _, c := range []struct {
		state  string
		reason outbound.Reason
		net    ircd.NetworkState
		want   string
	}{
		{"waiting", outbound.ReasonNotSynced, alone, "not sent yet: no peer is connected"},
		{"waiting", outbound.ReasonNotSynced, met, "not sent yet: no connected peer takes messages yet"},
		{"waiting", outbound.ReasonNotSynced, syncing, "not sent yet: the recent history is still coming"},
		{"waiting", outbound.ReasonConnections, few, "not sent yet: connected to 1 of 2 peers"},
		{"waiting", outbound.ReasonNone, fine, "about to be sent"},
		{"sent", outbound.ReasonNone, fine, "sent, no sign yet that the network has it"},
		{"sent", outbound.ReasonNoAck, fine, "sent again and again, still no sign that the network has it"},
		{"sent", outbound.ReasonNotSynced, alone, "sent, no sign yet that the network has it, and now no peer is connected"},
		{"parked", outbound.ReasonKey, fine, "held up: the key of its conversation is gone or was changed"},
		{"waiting", outbound.ReasonHeld, fine, "held since the queue was restored from a backup"},
	} {
		got := headWords(c.state, c.reason.String(), c.net)
		if got != c.want {
			t.Errorf("%s, %v: %q", c.state, c.reason, got)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%q is said of %s and of %s", got, c.state, other)
		}
		seen[got] = c.state
	}
	for r := outbound.ReasonBudget; r <= outbound.ReasonHeld; r++ {
		if text := headWords("parked", r.String(), fine); text == "about to be sent" || seen[text] != "" && r != outbound.ReasonKey && r != outbound.ReasonHeld {
			t.Errorf("%v has no words of its own: %q", r, text)
		}
	}
	for _, s := range []outboundStatus{{}, {AckedTotal: 1}, {AckedTotal: 2}, {Depth: 1, AckedTotal: 2}} {
		if got := queueWords(s); seen[got] != "" {
			t.Error(got)
		} else {
			seen[got] = "queue"
		}
	}
}
