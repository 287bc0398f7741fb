package p2p

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"
)

// scratch holds the buffers in which frames are put together. A buffer is taken only
// while a write is under way.
var scratch = sync.Pool{New: func() any { b := make([]byte, 0, writeBatch); return &b }}

// writeLoop is the one goroutine that writes to the connection. It ends by closing it,
// never inside a frame unless the peer does not read or is gone (ST-07). The
// transport's Close waits for what is in flight.
func (p *Peer) writeLoop() {
	for {
		batch := p.queue.next()
		if batch == nil {
			break
		}
		err := p.writeBatch(batch)
		p.queue.release(batch...)
		for _, m := range batch {
			if m.Written != nil {
				m.Written(err)
			}
		}
		if err != nil {
			p.end(err, endCut)
			break
		}
	}
	_ = p.conn.Close() // nothing can be done about a failing close
	for _, m := range p.queue.takeFailed() {
		if m.Written != nil {
			m.Written(context.Cause(p.ctx))
		}
	}
}

// writeBatch writes whole frames, small ones in one write together, a large one in
// steps, each of which has to make progress in time.
func (p *Peer) writeBatch(batch []queued) error {
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	b := (*buf)[:0]
	for i := range batch {
		m := &batch[i]
		b = appendHeader(b, p.node.cfg.Magic, m.Command, m.length())
		for at := 0; at < m.length(); {
			if len(b) >= writeBatch {
				if err := p.write(b); err != nil {
					return err
				}
				b = b[:0]
			}
			n := min(m.length()-at, writeBatch-len(b))
			b = m.appendPart(b, at, n)
			at += n
		}
	}
	if err := p.write(b); err != nil {
		return err
	}
	*buf = b[:0]
	p.node.stats.framesOut.Add(uint64(len(batch)))
	for _, m := range batch {
		p.node.emit(Event{Kind: EventSend, Peer: p.id, URL: p.url, Command: m.Command})
	}
	return nil
}

// appendPart appends n bytes of the payload.
func (m *queued) appendPart(b []byte, at, n int) []byte {
	if m.pieces == nil {
		return append(b, m.Payload[at:at+n]...)
	}
	b = slices.Grow(b, n)[:len(b)+n]
	m.pieces.Fill(b[len(b)-n:], at)
	return b
}

// write is one step. Its error holds nothing of the transport's, which may be an address.
func (p *Peer) write(b []byte) error {
	err := p.setWriteDeadline(time.Now().Add(p.profile.Heartbeat))
	if err == nil {
		_, err = p.conn.Write(b)
	}
	switch {
	case err == nil:
		p.node.stats.bytesOut.Add(uint64(len(b)))
		p.queue.pool.touch(p.queue.holder, len(b))
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrSlowPeer
	default:
		return ErrConnection
	}
}
