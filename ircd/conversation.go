package ircd

import (
	"time"

	"hearsay/internal/arrival"
	"hearsay/internal/privmsg"
)

// A conversation is a channel or a contact: its log, and who follows it. The loop owns
// it.
type conversation struct {
	folded     string // key in state.convs
	name       string // as clients see it
	kind       privmsg.Kind
	configured bool // in the settings, or in the autojoin list
	spelt      bool // name is a spelling of ours: it does not change any more

	topic   string
	topicBy string
	topicAt time.Time

	members map[*client]*member // of a channel: who joined; of a contact: every registered client

	log     []entry
	base    int         // index of log[0] since the beginning
	bytes   int         // of log and speakers, roughly
	lastSeq arrival.Seq // of the newest arrival, shown or not
	rescan  bool        // the log is being built again with a new key
	held    []entry     // said here before the log was complete

	speakers map[string]speaker // on the network, by folded nick
	active   time.Time          // of the newest entry or join
	proven   map[string]int     // entries before this index were read, by device; see cursor.go
}

// A member is a client's place in a conversation.
type member struct {
	next    int       // index of the next entry to send
	live    int       // entries from here on are no history
	joined  time.Time // wall clock
	proven  int       // entries up to here were read
	known   bool      // the client has a cursor here: what came before was read
	waiting bool      // the log is not complete yet: next and live are not set; or older is being read
	older   older     // what comes before the log
}

// An entry is one message in a log. Its lines are fit to be sent.
type entry struct {
	id      string      // msgid
	seq     arrival.Seq // its place in the Log; 0: not known yet
	command string      // PRIVMSG, or NOTICE for one that was said here (decision 0202)
	nick    string      // clean; "" in a contact's conversation
	lines   []string
	time    time.Time // shown
	arrived time.Time
	mine    bool        // said by us, on this connection, another, or (contacts) another device
	all     arrival.Seq // all arrivals of the conversation up to here are in the log up to this entry
	by      string      // device that said it, "" if that is not known
	asked   bool        // for by CHATHISTORY
	from    uint64      // serial of the connection that said it, 0: none of these

	tags map[string]string // client-only tags, while it is shown for the first time
}

// size is what an entry counts for in LogBytes.
func (e *entry) size() int {
	n := 160 + len(e.id) + len(e.nick)
	for _, l := range e.lines {
		n += 16 + len(l)
	}
	return n
}

type speaker struct {
	nick string
	last time.Time
}

const speakerSize = 120 // bytes, roughly

func (cv *conversation) isChannel() bool { return cv.kind != privmsg.Contact }

// end is the index after the newest entry.
func (cv *conversation) end() int { return cv.base + len(cv.log) }

// kept tells whether the conversation must not be forgotten for lack of room.
func (cv *conversation) kept() bool {
	return cv.configured || cv.kind != privmsg.Public || len(cv.members) > 0
}

// complete tells whether the log holds what the Log held when the feed began.
func (s *Server) complete(cv *conversation) bool { return s.caughtUp && !cv.rescan }

// conversation finds or makes the conversation of a public channel. The local spelling
// wins over inbound ones, the first local one over later ones (T19).
func (s *Server) conversation(name string, local bool) *conversation {
	folded := privmsg.Fold(name)
	cv := s.convs[folded]
	if cv == nil {
		s.makeRoom()
		cv = s.newConversation(name, privmsg.Public)
	}
	if local && !cv.spelt {
		cv.name, cv.spelt = name, true
	}
	return cv
}

func (s *Server) newConversation(name string, kind privmsg.Kind) *conversation {
	cv := &conversation{
		folded: privmsg.Fold(name), name: name, kind: kind,
		members: map[*client]*member{}, speakers: map[string]speaker{}, active: time.Now(),
	}
	s.convs[cv.folded] = cv
	return cv
}

// makeRoom forgets the public channel that was quiet for longest, if there are too many.
func (s *Server) makeRoom() {
	if len(s.convs) < maxConversations {
		return
	}
	if cv := s.quietest(); cv != nil {
		s.forget(cv)
	}
}

// quietest is the conversation to forget first, nil if all are kept.
func (s *Server) quietest() (q *conversation) {
	for _, cv := range s.convs {
		if !cv.kept() && (q == nil || cv.active.Before(q.active)) {
			q = cv
		}
	}
	return q
}

func (s *Server) forget(cv *conversation) {
	s.logBytes -= cv.bytes
	delete(s.convs, cv.folded)
}

// add appends e to cv's log and shows it to everybody who is up to date.
func (s *Server) add(cv *conversation, e entry) {
	if len(e.lines) == 0 {
		return
	}
	cv.active = time.Now()
	i := cv.end()
	e.all = s.settled(cv)
	cv.log = append(cv.log, e)
	s.charge(cv, e.size())
	if cv.isChannel() && !e.mine { // of us it is known who is there (decision 0231)
		s.speak(cv, e.nick, e.arrived)
	}
	for c, m := range cv.members {
		if !m.waiting && m.next == i && len(m.older.page) == 0 {
			m.next = i + 1
			s.show(c, cv, &e, "")
		}
	}
	if len(cv.log) > maxEntries {
		s.trim(cv, len(cv.log)-maxEntries)
	}
	for s.logBytes > s.cfg.LogBytes {
		if q := s.quietest(); q != nil {
			s.forget(q)
		} else if !s.trimLargest() {
			break
		}
	}
}

func (s *Server) charge(cv *conversation, n int) {
	cv.bytes += n
	s.logBytes += n
}

// trim drops the n oldest entries.
func (s *Server) trim(cv *conversation, n int) {
	for i := range cv.log[:n] {
		s.charge(cv, -cv.log[i].size())
	}
	clear(cv.log[:n])
	cv.log = cv.log[n:] // the front is let go when append moves the log
	cv.base += n
	for _, m := range cv.members {
		m.next = max(m.next, cv.base)
	}
}

// trimLargest halves the longest log; false if there is nothing to trim.
func (s *Server) trimLargest() bool {
	var largest *conversation
	for _, cv := range s.convs {
		if len(cv.log) > 0 && (largest == nil || cv.bytes > largest.bytes) {
			largest = cv
		}
	}
	if largest == nil {
		return false
	}
	s.trim(largest, (len(largest.log)+1)/2)
	return true
}

// speak remembers who spoke on the network. The one who was silent for longest goes first.
func (s *Server) speak(cv *conversation, nick string, at time.Time) {
	folded := privmsg.Fold(nick)
	sp, known := cv.speakers[folded]
	if !known {
		if len(cv.speakers) >= maxSpeakers {
			oldest := ""
			for k, o := range cv.speakers {
				if oldest == "" || o.last.Before(cv.speakers[oldest].last) {
					oldest = k
				}
			}
			delete(cv.speakers, oldest)
			s.charge(cv, -speakerSize)
		}
		s.charge(cv, speakerSize)
	}
	if at.After(sp.last) {
		sp.last = at
	}
	cv.speakers[folded] = speaker{nick, sp.last}
}

// reset empties a log, to be built again.
func (s *Server) reset(cv *conversation) {
	s.charge(cv, -cv.bytes)
	cv.base = cv.end()
	cv.log, cv.lastSeq, cv.speakers, cv.rescan = nil, 0, map[string]speaker{}, true
	for _, m := range cv.members {
		m.waiting = true
	}
}
