package p2p

import (
	"context"
	"errors"
	"os"
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
	var rest []byte
	for _, m := range batch {
		b = appendHeader(b, p.node.cfg.Magic, m.Command, len(m.Payload))
		n := min(len(m.Payload), max(writeBatch-len(b), 0))
		b = append(b, m.Payload[:n]...)
		rest = m.Payload[n:] // of the last: only a batch of one does not fit
	}
	if err := p.write(b); err != nil {
		return err
	}
	*buf = b[:0]
	for len(rest) > 0 {
		n := min(len(rest), writeBatch)
		if err := p.write(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	p.node.stats.framesOut.Add(uint64(len(batch)))
	for _, m := range batch {
		p.node.emit(Event{Kind: EventSend, Peer: p.id, URL: p.url, Command: m.Command})
	}
	return nil
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
