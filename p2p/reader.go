package p2p

import (
	"errors"
	"time"
)

// errProbed ends the reading of a probe: whatever comes behind version and verack
// does not matter any more.
var errProbed = errors.New("p2p: probe has its answer")

// A Skipper is a Handler that wants to know of payloads that were read and dropped
// because of Command.Skip. It is called like Handle.
type Skipper interface {
	Skipped(command string, size uint64)
}

// readLoop is the one goroutine that reads from the connection. It decides what a bad
// frame costs.
func (p *Peer) readLoop() {
	err := p.readFrames()
	p.frames.done()
	var fault *wireFault
	var asked *Fault
	switch {
	case errors.Is(err, ErrDisconnected):
		p.end(ErrDisconnected, endFrame)
	case errors.As(err, &fault) && fault.offence == offenceLost:
		p.end(ErrConnection, endCut)
	case p.ctx.Err() != nil, errors.Is(err, errProbed): // the session ends a probe
	case errors.As(err, &fault) && fault.offence == offenceStall:
		p.end(ErrStalled, endCut)
	case errors.As(err, &fault):
		p.node.stats.faults.Add(1)
		if fault.offence.bans(p.session) {
			p.Ban(false, fault.err)
		} else {
			p.end(fault.err, endFrame)
		}
	case errors.As(err, &asked) && asked.Ban:
		p.Ban(asked.Force, asked.Err)
	case errors.As(err, &asked):
		p.end(asked.Err, endFrame)
	default:
		p.end(err, endFrame)
	}
}

func (p *Peer) readFrames() error {
	for {
		command, payload, skipped, err := p.frames.next(p.ctx)
		if err != nil {
			return err
		}
		if err := p.ctx.Err(); err != nil {
			return err
		}
		p.busy.set(true)
		err = p.dispatch(p.routes[command], payload, skipped)
		p.busy.set(false)
		p.frames.done()
		if err != nil {
			return err
		}
		if p.session == SessionRefine && p.shake.peerDone() {
			return errProbed
		}
	}
}

// dispatch meters a frame and hands it to whom it is for.
func (p *Peer) dispatch(r *route, payload []byte, skipped uint64) error {
	p.node.stats.framesIn.Add(1)
	p.node.stats.bytesIn.Add(uint64(headerSize(r.Name, len(payload))+len(payload)) + skipped)
	p.node.emit(Event{Kind: EventRecv, Peer: p.id, URL: p.url, Command: r.Name})
	if !p.meters.add(r.Name, time.Now()) {
		return &wireFault{offenceMeter, ErrMetering}
	}
	switch {
	case r.Name == cmdVersion:
		return p.gotVersion(payload)
	case r.Name == cmdVerack:
		return p.gotVerack(payload)
	case !r.base && !p.shake.peerDone():
		return &wireFault{offenceEarly, ErrHandshake}
	case skipped > 0:
		if s, ok := r.handler.(Skipper); ok {
			s.Skipped(r.Name, skipped)
		}
		return nil
	case r.handler != nil:
		return r.handler.Handle(r.Name, payload)
	case r.base:
		return checkBase(r.Name, payload)
	}
	return nil
}

// checkBase decodes a base message that nobody waits for on this connection: a bad one
// is a fault all the same.
func checkBase(command string, payload []byte) (err error) {
	switch command {
	case cmdPing, cmdPong:
		_, err = decodeNonce(payload)
	case cmdGetaddr:
		_, err = decodeGetaddr(payload)
	case cmdAddr:
		_, err = decodeAddr(payload)
	}
	return err
}
