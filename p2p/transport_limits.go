package p2p

import "time"

// Bounds of the transport layer. Each stops the abuse named with it.
const (
	// MaxURLLen bounds a URL's text, before and after it is made canonical, in
	// bytes: a peer that fills our host list with kilobytes per address. Real
	// addresses have less than 200.
	MaxURLLen = 2048

	// maxHandshake bounds a transport's handshake whatever the caller's context
	// says: a client that connects and then says nothing. It is above every
	// configured timeout (65 s).
	maxHandshake = 2 * time.Minute
	// quicHandshakeIdle bounds a QUIC handshake that has not reached Accept; the
	// whole handshake may take twice as long.
	quicHandshakeIdle = 8 * time.Second
	// quicUnprovenRate and quicUnprovenBurst: beyond so many QUIC handshakes per
	// second, clients first have to show that their address is not forged.
	quicUnprovenRate  = 32
	quicUnprovenBurst = 64
	// quicStreamWindow and quicConnWindow bound what one QUIC peer can make us
	// buffer, in bytes, while we do not read or while it leaves a gap: a hundred of them
	// together take 4 MiB at first. A peer whose data we keep up with reaches the second pair,
	// 1 MB/s over 100 ms.
	quicStreamWindow    = 32 << 10
	quicConnWindow      = 40 << 10
	quicMaxStreamWindow = 96 << 10
	quicMaxConnWindow   = 112 << 10

	// lingerTime is how long Close waits for the other end to have read what was
	// sent before (ST-07), and lingerBytes how much it reads and drops meanwhile.
	lingerTime  = 2 * time.Second
	lingerBytes = 4 << 20

	// acceptBackoffMax is the longest pause after a failed accept: out of file
	// descriptors must not become a busy loop, nor stop the listener.
	acceptBackoffMax = time.Second

	// maxResolved is how many addresses of one name are tried.
	maxResolved = 4

	// maxSOCKSHost is what a length byte can say.
	maxSOCKSHost = 255
)

// Timings that are facts of the network, not bounds (p2p facts, 6.2 and 6.4).
const (
	tcpKeepAlive  = 20 * time.Second
	quicKeepAlive = 15 * time.Second
	quicIdle      = 30 * time.Second
)
