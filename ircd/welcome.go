package ircd

import (
	"fmt"
	"strconv"
	"time"
)

// maxGreeting bounds the welcome, in lines: more would not be read.
const maxGreeting = 5

// greet says whether anybody is there, what holds messages up, and where to go on.
func (s *Server) greet(rq *request) {
	var lines []string
	if s.cfg.Network != nil {
		lines = append(lines, s.cfg.Network.State().String())
		lines = append(lines, s.currentTroubles()...)
		if text, ok := s.blocked(); ok {
			lines = append(lines, text)
		}
		if len(lines) > maxGreeting-1 {
			lines = append(lines[:maxGreeting-2], "There is more to see to: /msg *status STATUS")
		}
	}
	hint := "/msg *status HELP says what can be asked of this node"
	if len(s.settings.Contacts) == 0 {
		hint = "For direct messages you need contacts: /msg *status CONTACTS says how to add one"
	}
	for _, text := range append(lines, hint) {
		rq.notice(text)
	}
}

// blocked is what holds accepted messages up, if anything does.
func (s *Server) blocked() (text string, ok bool) {
	b, ok := s.cfg.Network.(Blockable)
	if !ok {
		return "", false
	}
	n, ok := b.Blocked()
	if !ok {
		return "", false
	}
	return noticeText(n), true
}

// String is what clients are told.
func (n NetworkState) String() string {
	switch {
	case n.Peers == 0 && n.Connected > 0:
		return fmt.Sprintf("Connected to %s, but none takes messages yet: what you say is kept and sent later", peers(n.Connected))
	case n.Peers == 0:
		return "No peer is connected: what you say is kept and sent later"
	case !n.Synced:
		return fmt.Sprintf("Connected to %s, getting the recent history: what you say is kept and sent after that", peers(n.Peers))
	case n.Peers < n.Needed:
		return fmt.Sprintf("Connected to %d of %d peers: what you say is kept and sent when there are more", n.Peers, n.Needed)
	}
	return "Connected to " + peers(n.Peers)
}

func peers(n int) string {
	if n == 1 {
		return "1 peer"
	}
	return strconv.Itoa(n) + " peers"
}

// level is the part of the state that is worth a line when it changes.
func (n NetworkState) level() int {
	switch {
	case n.Peers == 0:
		return 0
	case !n.Synced:
		return 1
	case n.Peers < n.Needed:
		return 2
	}
	return 3
}

// A Syncing is a Network that knows how far it is with the recent history.
type Syncing interface {
	Network
	// Sync is asked once a second and must not block.
	Sync() SyncProgress
}

// SyncProgress is how many of the wanted slots of the graph are complete.
type SyncProgress struct{ Done, Of int }

// String is what clients are told.
func (p SyncProgress) String() string {
	return fmt.Sprintf("Getting the recent history: %d of %d parts", p.Done, p.Of)
}

// watchNetwork tells registered clients of a change of level and of the progress of a
// sync, not more often than noticeInterval in all; a change that was undone in between is
// not told.
func (s *Server) watchNetwork(now time.Time) {
	if s.cfg.Network == nil {
		return
	}
	s.watchTroubles()
	st := s.cfg.Network.State()
	if s.told.IsZero() { // the first look: who connects is greeted
		s.network, s.told = st, now
		return
	}
	if now.Sub(s.told) < noticeInterval {
		return
	}
	if st.level() != s.network.level() {
		s.network, s.told = st, now
		s.tellAll("NETWORK", st.String())
		return
	}
	s.watchSync(st, now)
}

// watchSync tells the start, the progress and the end of a sync.
func (s *Server) watchSync(st NetworkState, now time.Time) {
	n, ok := s.cfg.Network.(Syncing)
	if !ok {
		return
	}
	p := n.Sync()
	under := p.Done < p.Of
	switch {
	case under && st.Peers == 0: // it goes on when there is somebody to ask
	case under && (!s.syncTold || p != s.sync):
		s.sync, s.syncTold, s.told = p, true, now
		s.tellAll("SYNC", p.String())
	case !under && s.syncTold:
		s.sync, s.syncTold, s.told = SyncProgress{}, false, now
		s.tellAll("SYNC", "The recent history is here")
	}
}

// tellAll tells every registered client.
func (s *Server) tellAll(code, text string) {
	for c := range s.clients {
		if c.registered {
			s.tell(c, code, text)
		}
	}
}
