package p2p

import (
	"context"
	"errors"
	"fmt"
)

// SendLazy is Send for a message that is made once there is room for it. Who answers
// requests with large messages uses it: what many peers that do not read have asked for
// then takes no memory while it waits.
//
// make gets the room that there is for the payload: at best atMost bytes; where other
// peers hold the memory, a few KiB, for which nobody but this peer is waited for. A maker
// that can answer in part keeps to it. A payload that does not fit is dropped, and made
// again once there is room for that much. An error of make is returned, and nothing is
// sent; so it is for a payload above atMost (ErrTooLarge).
func (p *Peer) SendLazy(ctx context.Context, command string, atMost int, make func(room int) ([]byte, error)) error {
	ctx, done, err := p.lazily(ctx, command)
	if err != nil {
		return err
	}
	defer done()
	head := headerSize(command, atMost)
	least := min(atMost, smallPayload)
	for {
		q := queued{Message: Message{Command: command}}
		if err := p.queue.admitUpTo(ctx, &q, head+least, head+atMost); err != nil {
			return err
		}
		payload, err := make(q.size - head)
		if err == nil && len(payload) > atMost {
			err = ErrTooLarge
		}
		if err == nil && head+len(payload) <= q.size {
			q.Payload = payload
			p.queue.shrink(&q, headerSize(command, len(payload))+len(payload))
			return p.queue.add(q)
		}
		p.queue.release(q)
		if err != nil {
			return err
		}
		least = len(payload)
	}
}

// Pieces is a payload that is made while it is written.
type Pieces struct {
	Size int // of the payload, in bytes
	// Fill makes the part of the payload that begins at the given byte and fills b. It is
	// called from the writer, must not fail, and must not block.
	Fill func(b []byte, at int)
}

// SendPieces is Send for a large message that is known by little: it takes no memory for a
// peer that does not read it, but what Fill holds. It waits until the one before has been
// written, before make is called. An error of make is returned, and nothing is sent.
func (p *Peer) SendPieces(ctx context.Context, command string, make func() (Pieces, error)) error {
	ctx, done, err := p.lazily(ctx, command)
	if err != nil {
		return err
	}
	defer done()
	q := queued{Message: Message{Command: command}, pieces: new(Pieces)}
	if err := p.queue.admitPieces(ctx, &q); err != nil {
		return err
	}
	if *q.pieces, err = make(); err != nil {
		p.queue.release(q)
		return err
	}
	return p.queue.add(q)
}

// lazily is the common beginning of the two above: ctx ends with the connection, too.
func (p *Peer) lazily(ctx context.Context, command string) (_ context.Context, done func(), err error) {
	r := p.routes[command]
	if r == nil || r.base {
		return nil, nil, fmt.Errorf("%w: %q", ErrUnknownCommand, command)
	}
	if err := p.pace(ctx, r); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })
	return ctx, func() { stop(); cancel(nil) }, nil
}

// admitUpTo counts m in with as much of most bytes as there is room for, at least least.
// Where there is less, it waits until the peer has read what is queued for it; for others
// to give room only if least is more than the allowance.
func (q *sendQueue) admitUpTo(ctx context.Context, m *queued, least, most int) error {
	for {
		room, err := q.reserveUpTo(m, least, most)
		if err == nil && m.size < most || errors.Is(err, errQueueFull) {
			q.pool.evictSlow(q.holder)
		}
		switch {
		case !errors.Is(err, errQueueFull):
			return err
		case room == nil:
			m.size = least + sendPool/poolKept // that part is left to others at once
			if err := q.admit(ctx, m, true); err != nil {
				return err
			}
			q.shrink(m, least)
			return nil
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// reserveUpTo is one try of admitUpTo. room is nil where others hold it.
func (q *sendQueue) reserveUpTo(m *queued, least, most int) (room chan struct{}, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cause != nil {
		return nil, q.cause
	}
	if q.frames > 0 {
		if q.frames+1 > sendQueueFrames || q.bytes+least > sendQueueBytes {
			return q.room, errQueueFull
		}
		most = min(most, sendQueueBytes-q.bytes)
	}
	free := min(most, max(sendAllowance-q.bytes, 0))
	pooled := q.pool.takeSome(q.holder, most-free)
	if free+pooled < least {
		q.pool.give(q.holder, pooled)
		if least <= sendAllowance {
			return q.room, errQueueFull
		}
		return nil, errQueueFull
	}
	m.size, m.pooled = free+pooled, pooled
	q.bytes += m.size
	q.frames++
	return nil, nil
}

// admitPieces counts m in once nothing else in the queue is made in pieces.
func (q *sendQueue) admitPieces(ctx context.Context, m *queued) error {
	for {
		q.mu.Lock()
		room, cause, busy := q.room, q.cause, q.pieced || q.frames+1 > sendQueueFrames
		if cause == nil && !busy {
			q.pieced = true
			q.bytes += m.size
			q.frames++
		}
		q.mu.Unlock()
		switch {
		case cause != nil:
			return cause
		case !busy:
			return nil
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
