package ircd

import (
	"time"

	"hearsay/internal/arrival"
)

// An event is something the loop handles: the closed set of this file. What a
// connection's goroutines and the feed know, they say in one of these.
type event interface{ event() }

type (
	// evOpen: a connection is there (after its TLS handshake).
	evOpen struct{ c *client }
	// evLine: c's reader has a line and waits on c.resume.
	evLine struct {
		c    *client
		line string
	}
	// evGone: c's reader ended; it waits for nothing.
	evGone struct {
		c      *client
		reason string
	}
	// evDrained: c's send queue fell below lowWater.
	evDrained struct{ c *client }
	// evArrival: the feed opened an event that is for us.
	evArrival struct {
		feed int // generation of the feed; older ones are ignored
		incoming
	}
	// evRead: the feed has handed over everything up to at.
	evRead struct {
		feed int
		at   arrival.Seq
	}
	// evCaughtUp: the feed has delivered everything that was stored when it began.
	evCaughtUp struct{ feed int }
	// evOlder: what a member gets from the Log was read.
	evOlder struct {
		c     *client
		cv    *conversation
		m     *member
		asked int
		page  []entry
		left  int
	}
	// evAccepted: a client's message went to the outbox; its reader waits.
	evAccepted struct {
		rq     *request
		ticket int
		sends  []send
	}
	// evPassword: a client's password was checked; its reader waits.
	evPassword struct {
		rq *request
		ok bool
	}
	// evReloaded: REHASH is done; the client's reader waits.
	evReloaded struct {
		rq  *request
		sum Summary
		err error
	}
	// evAnswer: the slow part of a command is done; then completes the answer. The
	// client's reader waits.
	evAnswer struct {
		rq   *request
		then func()
	}
	// evApply: new settings, already validated.
	evApply struct {
		st   Settings
		done chan<- []string
	}
	// evTick: a second has passed.
	evTick struct{ now time.Time }
)

func (evOpen) event()     {}
func (evLine) event()     {}
func (evGone) event()     {}
func (evDrained) event()  {}
func (evArrival) event()  {}
func (evRead) event()     {}
func (evCaughtUp) event() {}
func (evOlder) event()    {}
func (evAccepted) event() {}
func (evPassword) event() {}
func (evReloaded) event() {}
func (evAnswer) event()   {}
func (evApply) event()    {}
func (evTick) event()     {}

// msTime is a timestamp of the network as a time.
func msTime(ms uint64) time.Time {
	return time.UnixMilli(int64(min(ms, 1<<53))).UTC() // clock drift is bounded by the graph
}
