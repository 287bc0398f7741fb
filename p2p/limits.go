package p2p

import "time"

// Every bound on a peer, with the abuse that it stops. Sections are those of
// spec/wire.md.
const (
	// maxCommand is the longest command name, in bytes (network rule, section 2).
	maxCommand = 255

	// Payload bounds of the base messages, in bytes: network rules, section 3.
	maxVersionPayload = 2043
	maxVerackPayload  = 128
	maxPingPayload    = 2
	maxGetaddrPayload = 57
	maxAddrPayload    = 65281

	// maxExternalAddrs and maxFeatures are what fits a version message beside the
	// rest; a longer message costs its sender a ban.
	maxExternalAddrs = 10
	maxFeatures      = 10

	// maxGetaddr is the largest number asked for with getaddr: twice as many
	// entries may come back, and 510 of 128 bytes fill an addr message.
	maxGetaddr = 255
	// unsolicitedAddrs is how many entries of an addr message are taken that answers
	// nothing: room for an own announcement, none for flooding the host lists.
	unsolicitedAddrs = 16
	// getaddrBacklog is how many getaddr requests of one peer wait for their paced
	// answers. More are not answered.
	getaddrBacklog = 4
	// pongBacklog is the same for pings.
	pongBacklog = 16

	// frameMinRate is the slowest that a payload may arrive, in bytes per second, on
	// top of one heartbeat interval for the frame as a whole: a peer that stalls, or
	// drips, inside a frame.
	frameMinRate = 8 << 10
	// payloadAllowance is how many payload bytes of a frame are held for one peer
	// without asking the pool, in bytes.
	payloadAllowance = 16 << 10
	// readPool is how many bytes of unfinished payloads all peers of one kind
	// (inbound, or any other) hold together above their allowances: a hundred peers
	// that each stall inside a large frame.
	readPool = 2 << 20

	// sendQueueBytes and sendQueueFrames bound what waits for one peer: a peer that
	// asks and does not read. One message of any size is taken by an empty queue.
	sendQueueBytes  = 1 << 20
	sendQueueFrames = 2048
	// sendAllowance is how many queued bytes of one peer do not count against the pool.
	sendAllowance = 16 << 10
	// smallPayload is the room for a payload that a peer always gets, whatever the others
	// do, once it has read what came before: the allowance but for the frame's header.
	smallPayload = sendAllowance - 512
	// sendPool is the bytes queued for all peers of one kind above the allowances.
	sendPool = 2 << 20
	// poolKept: what can be cut leaves one part in so many of a pool to what cannot.
	poolKept = 4
	// controlFrames bounds the base messages that wait for one peer. They are few:
	// every one of them is paced.
	controlFrames = 64
	// poolMinRate is the slowest, in bytes per second, that a peer may move bytes while
	// others wait for the pool bytes that it holds, measured over at least poolGrace.
	poolMinRate = 32 << 10
	poolGrace   = 2 * time.Second

	// closeGrace is how long the frame in hand, and at a stop the rest of the queue, may
	// take (ST-07). The transport's own closing comes on top.
	closeGrace = 2 * time.Second

	// pongExtensions is how often a missing pong is forgiven because the peer is in
	// the middle of a frame, or we are in the middle of handling one.
	pongExtensions = 8

	// refineTimeout bounds the handshake of a probe (section 5).
	refineTimeout = 5 * time.Second

	// pendingExtra is how many connections per listener may be in their handshakes on
	// top of the limit of live ones; beyond it the oldest is dropped: half-open floods.
	pendingExtra = 24
	// pendingPerHost is how many of those one host may have.
	pendingPerHost = 16
	// closingExtra is how many connections per listener may be closing beside those.
	closingExtra = 64
	// fullLinger is how long a connection that found all places taken after its
	// handshake is kept, so that a probe can still succeed.
	fullLinger = 2 * time.Second

	// baseSendLimit and baseSendWindow pace the base messages to one peer. Upstream
	// bans the sender of the 29th in 10 s.
	baseSendLimit  = 22
	baseSendWindow = 12 * time.Second

	// Caps of the host lists (section 6): addresses are free for whoever floods them.
	greyCap  = 2000
	whiteCap = 5000
	goldCap  = 10000 // upstream has none; ours only bounds what a file can bring
	blackCap = 10000
	darkCap  = 1000
	// darkAge is how long an address that cannot be dialed here is remembered.
	darkAge = 24 * time.Hour
	// maxHostsFile and maxHostsLine bound the host list file, in bytes.
	maxHostsFile = 16 << 20
	maxHostsLine = 4096

	// ipv6Ring is how many of the peers' views of our IPv6 address are kept.
	ipv6Ring = 20
)

// Paces that are ours alone: nothing on the wire depends on them.
const (
	// slotPause and slotPauseMax are the bounds of the pause of a slot whose peer was
	// not reached, or left within slotStable.
	slotPause    = time.Second
	slotPauseMax = time.Minute
	slotStable   = time.Minute
	// seedPauseFactor times DiscoveryCooloff is the longest pause between two visits to
	// a seed; the first is DiscoveryAttempt, and each doubles.
	seedPauseFactor = 10
	// saveInterval is how often changed host lists are saved.
	saveInterval = 5 * time.Minute
	// acceptPause and acceptPauseMax bound the pause after a failing accept.
	acceptPause    = 10 * time.Millisecond
	acceptPauseMax = time.Second
	// ipv6Retry is how long IPv6 counts as unavailable after "network unreachable".
	ipv6Retry = 10 * time.Minute
	// writeBatch is how many bytes of small frames go out in one write, and the size
	// of the steps in which a large one does.
	writeBatch = 16 << 10
)

// maxDialedURL is the longest address that is dialed, in bytes: it goes out twice in
// the version message, which has room for 2043 bytes.
const maxDialedURL = 256

// maxTimestamp is the largest timestamp of a version message that is believed, in UNIX
// seconds (the year 9999): arithmetic on larger ones overflows.
const maxTimestamp = 253402300799
