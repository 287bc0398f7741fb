package gossip

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hearsay/p2p"
)

// A reply carries no request id: it answers whatever was asked last for its type.
// So there is one request at a time per type and connection, and after a timeout
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

// A requester sends the requests of one connection and takes their answers.
type requester struct {
	timeout time.Duration
	mu      sync.Mutex
	slots   [replyKinds]requestSlot
}

// A requestSlot is the state of one reply type. mu of the requester guards it,
// but for turn, which is a semaphore of one.
type requestSlot struct {
	turn    chan struct{}
	waiting bool           // a request is out
	reply   chan any       // takes one reply that match accepts
	match   func(any) bool // nil accepts everything
	limit   int            // bytes of payload that the answer may have
	owed    bool           // an earlier request may still be answered
	until   time.Time      // of owed
}

func newRequester(timeout time.Duration) *requester {
	r := &requester{timeout: timeout}
	for i := range r.slots {
		r.slots[i].turn = make(chan struct{}, 1)
	}
	return r
}

// ask sends m and waits for the next reply of its kind. limit bounds the reply's
// payload. Where the reply shows what it answers, match tells: then a suspect type
// may be used, and a reply that does not match is taken for the stray. Any other
// reply is returned for the caller to judge.
func (r *requester) ask(ctx context.Context, p peer, kind replyKind, m p2p.Message, limit int, match func(any) bool) (any, error) {
	s := &r.slots[kind]
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now := time.Now()
	r.mu.Lock()
	if s.owed && now.Before(s.until) && match == nil {
		r.mu.Unlock()
		return nil, errSuspect
	}
	reply := make(chan any, 1)
	s.waiting, s.reply, s.match, s.limit = true, reply, match, limit
	r.mu.Unlock()

	answered := false
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if s.waiting = false; !answered {
			s.owed, s.until = true, time.Now().Add(strayTimeouts*r.timeout)
		}
	}()
	timer := time.NewTimer(r.timeout)
	defer timer.Stop()
	sendCtx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if err := p.Send(sendCtx, m); err != nil {
		answered = true // it never went out
		return nil, fmt.Errorf("gossip: request: %w", err)
	}
	select {
	case v := <-reply:
		answered = true
		if err, ok := v.(error); ok {
			return nil, err
		}
		return v, nil
	case <-timer.C:
		return nil, errTimeout
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// deliver takes a reply off the wire. It never blocks. false: nobody asked.
func (r *requester) deliver(kind replyKind, v any) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.slots[kind]
	if !s.waiting {
		was := s.owed
		s.owed = false
		return was
	}
	if s.owed && s.match != nil && !s.match(v) && time.Now().Before(s.until) {
		s.owed = false // the stray of the request before; ours is still to come
		return true
	}
	select {
	case s.reply <- v:
		return true
	default:
		return false // a second answer to one request
	}
}

// fail ends the request that is out: its answer came, and is of no use.
func (r *requester) fail(kind replyKind, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.slots[kind]
	if s.owed = false; !s.waiting {
		return
	}
	select {
	case s.reply <- err:
	default:
	}
}

// limit is how large a reply may be now: nothing that was not asked for is read.
func (r *requester) limit(kind replyKind) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := &r.slots[kind]; s.waiting || s.owed {
		return s.limit
	}
	return 0
}

// busy tells whether any request is out: its answer must not wait behind puts.
func (r *requester) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.slots {
		if r.slots[i].waiting {
			return true
		}
	}
	return false
}
