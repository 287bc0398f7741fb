package p2p

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// A pinger keeps a connection alive and notices when it is not. Each ping of the peer
// is answered once, by Run, so that answers are paced. A pong that was not asked for
// is ignored: upstream takes it for the next answer and closes.
type pinger struct {
	peer     *Peer
	pings    chan uint16   // to answer
	answered chan struct{} // holds one token when the expected pong has come

	mu      sync.Mutex
	waiting bool
	nonce   uint16
	written bool // the ping in question has gone out
}

func newPinger(p *Peer) Handler {
	return &pinger{peer: p, pings: make(chan uint16, pongBacklog), answered: make(chan struct{}, 1)}
}

// Handle takes ping and pong.
func (h *pinger) Handle(command string, payload []byte) error {
	nonce, err := decodeNonce(payload)
	if err != nil {
		return err
	}
	if command == cmdPing {
		select {
		case h.pings <- nonce:
		default: // more than any honest peer sends
		}
		return nil
	}
	h.mu.Lock()
	ok := h.waiting && nonce == h.nonce
	if ok {
		h.waiting = false
	}
	h.mu.Unlock()
	if ok {
		h.answered <- struct{}{} // empty: one token per ping, and Run took the last
	}
	return nil
}

// Run pings, waits for the pong, pauses, and answers in between.
func (h *pinger) Run(ctx context.Context) error {
	timer := time.NewTimer(0) // the first ping goes out at once
	defer timer.Stop()
	waiting, extensions := false, 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case nonce := <-h.pings:
			if err := h.peer.sendBase(ctx, cmdPong, appendNonce(nonce)); err != nil {
				return err
			}
		case <-h.answered:
			waiting = false
			timer.Reset(h.peer.profile.Heartbeat)
		case <-timer.C:
			if waiting && len(h.answered) > 0 {
				continue // the pong has come while a paced answer was under way
			}
			switch {
			case !waiting:
				waiting, extensions = true, 0
				if err := h.ping(ctx); err != nil {
					return err
				}
			case h.excused() && extensions < pongExtensions:
				extensions++
			default:
				return ErrNoPong
			}
			timer.Reset(h.peer.profile.ConnectTimeout)
		}
	}
}

func (h *pinger) ping(ctx context.Context) error {
	if err := h.peer.pace(ctx, h.peer.routes[cmdPing]); err != nil {
		return err
	}
	nonce := uint16(rand.Uint32()) // only has to differ from the last
	h.mu.Lock()
	h.waiting, h.nonce, h.written = true, nonce, false
	h.mu.Unlock()
	return h.peer.sendControl(Message{Command: cmdPing, Payload: appendNonce(nonce), Written: func(error) {
		h.mu.Lock()
		h.written = true
		h.mu.Unlock()
	}})
}

// excused tells whether the pong cannot be here yet: the ping waits behind a frame of
// ours, or the pong behind one of the peer's or behind our handling of one. Both ends
// of that have deadlines of their own.
func (h *pinger) excused() bool {
	h.mu.Lock()
	written := h.written
	h.mu.Unlock()
	return !written || h.peer.busy.get()
}
