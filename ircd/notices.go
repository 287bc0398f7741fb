package ircd

import (
	"fmt"

	"hearsay/outbound"
)

// maxNotices bounds the notices that wait for the next tick, maxReloaded the lines about
// reloads.
const (
	maxNotices  = 16
	maxReloaded = 64
)

// Notify tells all registered clients of a blocked queue, or that it moves again
// (DS-76), within a second. It does not block; when to tell is outbound's to decide.
func (s *Server) Notify(n outbound.Notice) {
	s.noticesMu.Lock()
	defer s.noticesMu.Unlock()
	if len(s.notices) == maxNotices {
		s.notices = s.notices[1:]
	}
	s.notices = append(s.notices, n)
}

// Reloaded tells all registered clients how a reload ended that none of them has asked
// for, within a second. It does not block.
func (s *Server) Reloaded(sum Summary, err error) {
	s.noticesMu.Lock()
	defer s.noticesMu.Unlock()
	for _, l := range rehashLines(sum, err) {
		s.reloads = append(s.reloads, wrap(clean(l), maxReply)...)
	}
	if n := len(s.reloads) - maxReloaded; n > 0 {
		s.reloads = append(s.reloads[:maxReloaded:maxReloaded], fmt.Sprintf("REHASH: … and %d more", n))
	}
}

// tellNotices tells what Notify and Reloaded were given since the last tick.
func (s *Server) tellNotices() {
	s.noticesMu.Lock()
	notices, reloads := s.notices, s.reloads
	s.notices, s.reloads = nil, nil
	s.noticesMu.Unlock()
	for _, text := range reloads {
		s.tellAll("REHASH", text)
	}
	for _, n := range notices {
		code := "QUEUE_BLOCKED"
		if n.Cleared {
			code = "QUEUE_MOVING"
		}
		s.tellAll(code, noticeText(n))
	}
}

// noticeText says why the head of the queue does not move and what a person can do:
// never that a message has failed, and nothing of any message.
func noticeText(n outbound.Notice) string {
	if n.Cleared {
		return "Your messages are going out again"
	}
	const kept = "Your messages are kept and not sent yet: "
	switch n.Reason {
	case outbound.ReasonHeld:
		return kept + "the queue was restored from a backup, and what was sent since would go out again; " +
			`"hearsay queue release" sends it, "hearsay queue purge" drops it`
	case outbound.ReasonNotSynced:
		if n.Have == 0 {
			return kept + "no peer is connected"
		}
		return kept + "this node is still getting the recent history from its peers"
	case outbound.ReasonConnections:
		return fmt.Sprintf("%sconnected to %d of %d peers", kept, n.Have, n.Want)
	case outbound.ReasonNoAck:
		return "The oldest of your waiting messages was sent again and again, and nothing shows yet that the network has it; " +
			"it goes on being sent, and the others wait behind it"
	case outbound.ReasonKey:
		return kept + "the key of the oldest one's conversation is gone or was changed; put it back and REHASH, " +
			"or drop that message: /msg *status QUEUE lists it, QUEUE CANCEL drops it"
	case outbound.ReasonBudget:
		return kept + "the rate limit of this epoch is used up"
	case outbound.ReasonIdentity:
		return kept + "there is no identity for the rate limit"
	case outbound.ReasonStorage:
		return kept + "the disk is full or refuses to write"
	case outbound.ReasonCapacity:
		return kept + "the queue has no room left for what sending needs; raise max_bytes, or cancel messages"
	case outbound.ReasonNone, outbound.ReasonProcessing:
	}
	return kept + "the oldest one could not be made into an event; trying on"
}
