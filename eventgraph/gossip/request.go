package gossip

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hearsay/p2p"
)

// A reply carries no request id: it answers the oldest request of its type that is out,
// or the one that it fits where more may be. So there is one request at a time per type
// and connection, but for events: their replies show what they answer, and the next
// request waits at the peer while it makes the answer to the one before. After a timeout
// the type is suspect until the stray reply came or is not to be expected any more
// (facts page, trap 8).
type replyKind uint8

const (
	replyTips replyKind = iota
	replyHeaders
	replyEvents
	replyRange
	replyKinds
)

// strayTimeouts is how many timeouts a stray reply is waited for.
const strayTimeouts = 3

var (
	errTimeout = errors.New("gossip: no answer in time")
	// errTooLong: the answer was larger than was asked for, and was not read.
	errTooLong = errors.New("gossip: answer too long")
	// errSuspect: an earlier request of this type is still unanswered.
	errSuspect = errors.New("gossip: an earlier request is unanswered")
)

// maxAsked is how many requests of a type are out at a time.
func maxAsked(kind replyKind) int {
	if kind == replyEvents {
		return 2
	}
	return 1
}

// A requester sends the requests of one connection and takes their answers.
type requester struct {
	timeout time.Duration
	mu      sync.Mutex
	slots   [replyKinds]requestSlot
}

// A requestSlot is the state of one reply type. mu of the requester guards it,
// but for turn, which is a semaphore of maxAsked.
type requestSlot struct {
	turn  chan struct{}
	out   []*asked  // requests that are out, the oldest first
	owed  bool      // an earlier request may still be answered
	until time.Time // of owed
	limit int       // bytes of payload that an owed answer may have
}

// A fitFunc tells whether a reply answers a request, and makes of it what the asker gets.
type fitFunc func(reply any) (answer any, ok bool)

// An asked is a request that is out.
type asked struct {
	reply chan any      // takes one reply
	first chan struct{} // closed once it is the oldest: its time runs from then on
	fit   fitFunc       // nil accepts everything
	limit int           // bytes of payload that the answer may have
}

func newRequester(timeout time.Duration) *requester {
	r := &requester{timeout: timeout}
	for i := range r.slots {
		r.slots[i].turn = make(chan struct{}, maxAsked(replyKind(i)))
	}
	return r
}

// ask sends m and waits for its reply. limit bounds the reply's payload. Where the reply
// shows what it answers, fit tells: then a suspect type may be used, and a reply that
// does not fit is taken for the stray. Any other reply is returned as it came, for the
// caller to judge.
func (r *requester) ask(ctx context.Context, p peer, kind replyKind, m p2p.Message, limit int, fit fitFunc) (any, error) {
	s := &r.slots[kind]
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	a, err := r.enter(s, limit, fit)
	if err != nil {
		return nil, err
	}
	owed := false
	defer func() { r.leave(s, a, owed) }()
	timer := time.NewTimer(r.timeout)
	defer timer.Stop()
	sendCtx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if err := p.Send(sendCtx, m); err != nil {
		return nil, fmt.Errorf("gossip: request: %w", err)
	}
	first := a.first
	for {
		select {
		case v := <-a.reply:
			if err, ok := v.(error); ok {
				return nil, err
			}
			return v, nil
		case <-first:
			first = nil
			timer.Reset(r.timeout)
		case <-timer.C:
			if first != nil {
				continue // the one before has its time, which then becomes ours
			}
			owed = true
			return nil, errTimeout
		case <-ctx.Done():
			owed = true
			return nil, ctx.Err()
		}
	}
}

// enter adds a request to those that are out.
func (r *requester) enter(s *requestSlot, limit int, fit fitFunc) (*asked, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.owed && time.Now().Before(s.until) && fit == nil {
		return nil, errSuspect
	}
	a := &asked{reply: make(chan any, 1), first: make(chan struct{}), fit: fit, limit: limit}
	if s.out = append(s.out, a); s.out[0] == a {
		close(a.first)
	}
	return a, nil
}

// leave takes it out. owed: its reply may still come.
func (r *requester) leave(s *requestSlot, a *asked, owed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if owed && len(a.reply) == 0 {
		s.owed, s.until, s.limit = true, time.Now().Add(strayTimeouts*r.timeout), a.limit
	}
	if was := s.out[0]; was == a && len(s.out) > 1 {
		close(s.out[1].first)
	}
	s.out = slices.DeleteFunc(s.out, func(o *asked) bool { return o == a })
}

// deliver takes a reply off the wire. It never blocks. false: nobody asked.
func (r *requester) deliver(kind replyKind, v any) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.slots[kind]
	if len(s.out) == 0 {
		was := s.owed
		s.owed = false
		return was
	}
	for _, a := range s.out {
		if len(a.reply) > 0 || a.fit == nil {
			continue
		}
		if answer, ok := a.fit(v); ok {
			a.reply <- answer
			return true
		}
	}
	if s.owed && s.out[0].fit != nil && time.Now().Before(s.until) {
		s.owed = false // the stray of the request before; ours is still to come
		return true
	}
	return s.answer(v)
}

// answer gives v to the oldest request without an answer. false: there is none.
func (s *requestSlot) answer(v any) bool {
	for _, a := range s.out {
		if len(a.reply) == 0 {
			a.reply <- v
			return true
		}
	}
	return false // a second answer to one request
}

// fail ends the oldest request that is out: its answer came, and is of no use.
func (r *requester) fail(kind replyKind, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.slots[kind]
	s.owed = false
	s.answer(err)
}

// limit is how large a reply may be now: nothing that was not asked for is read.
func (r *requester) limit(kind replyKind) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.slots[kind]
	if s.owed {
		n = s.limit
	}
	for _, a := range s.out {
		n = max(n, a.limit)
	}
	return n
}

// busy tells whether any request is out: its answer must not wait behind puts.
func (r *requester) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.slots {
		if len(r.slots[i].out) > 0 {
			return true
		}
	}
	return false
}
