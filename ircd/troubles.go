package ircd

import "slices"

// A Troubled is a Network that knows of troubles which a person has to see to: a proxy
// that does not answer, a clock that is off (DS-82). Each text is told to every
// client when it comes up, and to clients that connect while it lasts.
type Troubled interface {
	Network
	Troubles() []string
}

// currentTroubles is what the Network says now.
func (s *Server) currentTroubles() []string {
	if n, ok := s.cfg.Network.(Troubled); ok {
		return n.Troubles()
	}
	return nil
}

// watchTroubles tells registered clients of what has come up since the last look.
func (s *Server) watchTroubles() {
	now := s.currentTroubles()
	for _, text := range now {
		if slices.Contains(s.troubles, text) {
			continue
		}
		s.tellAll("TROUBLE", text)
	}
	s.troubles = now
}
