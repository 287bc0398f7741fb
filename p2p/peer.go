package p2p

import (
	"context"
	"errors"
	"time"
)

// ErrSlowPeer is the closing cause of a peer that did not read what was queued for it.
var ErrSlowPeer = errors.New("p2p: peer does not read")

// A ConnID names one connection of this process. It is ephemeral: never stored,
// never logged (DS-51).
type ConnID uint64

// A Peer is one connection.
type Peer struct{}

// PeerVersion is what the peer said in its version message, and when it came.
type PeerVersion struct {
	AppName             string
	Major, Minor, Patch uint64
	Timestamp           time.Time // the peer's clock, seconds
	Received            time.Time // ours
	Features            map[string]uint32
}

// A Message is one frame to send.
type Message struct {
	Command string
	Payload []byte // not changed after the call
	// Written, if set, is called once: with nil when the whole frame went to the
	// transport, else with the reason why it did not. From the writer; must not block.
	Written func(error)
}

func (p *Peer) ID() ConnID                         { panic("to be built") }
func (p *Peer) Session() Session                   { panic("to be built") }
func (p *Peer) Transport() string                  { panic("to be built") } // scheme
func (p *Peer) Version() PeerVersion               { panic("to be built") } // valid after the handshake
func (p *Peer) Feature(name string) (uint32, bool) { panic("to be built") }

// Since is when the handshake finished.
func (p *Peer) Since() time.Time { panic("to be built") }

// Send queues m, waiting for room in the peer's bounded queue.
func (p *Peer) Send(ctx context.Context, m Message) error { panic("to be built") }

// TrySend queues m or, if the queue is full, drops the peer with ErrSlowPeer and
// returns that.
func (p *Peer) TrySend(m Message) error { panic("to be built") }

// Close ends the connection between frames, with a cause.
func (p *Peer) Close(cause error) { panic("to be built") }

// Ban black-lists the peer's address as the network does, and closes. force:
// under every ban policy.
func (p *Peer) Ban(force bool, cause error) { panic("to be built") }

// Context ends with the connection; its cause says why.
func (p *Peer) Context() context.Context { panic("to be built") }
