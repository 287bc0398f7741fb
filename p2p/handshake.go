package p2p

import (
	"context"
	"sync"
	"time"
)

// A handshake is the state of the exchange of version and verack (spec/wire.md,
// section 3). Both ends speak first, and neither order of the peer's two messages is
// wrong. The reader feeds it; the session's goroutine waits for it.
type handshake struct {
	mu      sync.Mutex
	version bool          // the peer's has come
	verack  bool          // the peer's has come, and matches
	done    chan struct{} // both have
	acked   chan struct{} // our own verack has been written
}

func newHandshake() *handshake {
	return &handshake{done: make(chan struct{}), acked: make(chan struct{})}
}

// note sets one of the two; a second message of a kind changes nothing.
func (h *handshake) note(which *bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if *which {
		return
	}
	*which = true
	if h.version && h.verack {
		close(h.done)
	}
}

// peerDone tells whether the peer has sent both.
func (h *handshake) peerDone() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// sendVersion queues our version: before the reader starts, so that our verack, which
// answers the peer's, never overtakes it.
func (p *Peer) sendVersion() error {
	return p.sendControl(Message{Command: cmdVersion, Payload: p.node.versionFor(p).encode()})
}

// shakeHands waits until both sides have what they need, at most for timeout.
func (p *Peer) shakeHands(timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(p.ctx, timeout, ErrHandshake)
	defer cancel()
	for _, step := range []chan struct{}{p.shake.done, p.shake.acked} {
		select {
		case <-step:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// versionFor is our version message for p. A connection that carries no application
// protocol announces no feature of one (DS-80).
func (n *Node) versionFor(p *Peer) *versionMsg {
	m := &versionMsg{
		nodeID: n.cfg.NodeID, appName: n.cfg.AppName, version: n.cfg.version,
		timestamp: unix(n.cfg.Now()), connectRecv: p.url, resolveRecv: p.route,
		extSend: n.externalAddrs(),
	}
	if p.session&SessionDefault != 0 {
		m.features = n.cfg.features
	}
	return m
}

// gotVersion notes the peer's version and answers it. Later ones change nothing.
func (p *Peer) gotVersion(payload []byte) error {
	m, err := decodeVersion(payload)
	if err != nil {
		return err
	}
	v := PeerVersion{
		AppName: m.appName, Major: m.version.major, Minor: m.version.minor, Patch: m.version.patch,
		Timestamp: time.Unix(int64(min(m.timestamp, maxTimestamp)), 0), Received: p.node.cfg.Now(),
	}
	if len(m.features) > 0 {
		v.Features = make(map[string]uint32, len(m.features))
		for _, f := range m.features {
			v.Features[f.name] = f.value
		}
	}
	p.mu.Lock()
	first := p.version.Received.IsZero()
	if first {
		p.version = v
	}
	p.mu.Unlock()
	if !first {
		return nil
	}
	p.shake.note(&p.shake.version)
	p.node.noteIPv6(m.connectRecv)
	ack := verackMsg{version: p.node.cfg.version, appName: p.node.cfg.AppName}
	return p.sendControl(Message{Command: cmdVerack, Payload: ack.encode(), Written: func(err error) {
		if err == nil {
			close(p.shake.acked)
		}
	}})
}

// gotVerack compares what the peer runs with what we do: here only, never in version.
func (p *Peer) gotVerack(payload []byte) error {
	m, err := decodeVerack(payload)
	if err != nil {
		return err
	}
	own := p.node.cfg.version
	if m.version.major != own.major || m.version.minor != own.minor || m.appName != p.node.cfg.AppName {
		if p.shake.peerDone() {
			return nil // after the handshake nobody looks at it
		}
		return &wireFault{offenceVersion, ErrIncompatible}
	}
	p.shake.note(&p.shake.verack)
	return nil
}
