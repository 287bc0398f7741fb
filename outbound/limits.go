package outbound

import "time"

// Bounds on storage (DS-42, DS-85) and on what peers can make us remember.
const (
	// DefaultMaxMessages is [outbound] max_messages.
	DefaultMaxMessages = 4096
	// DefaultMaxBytes is [outbound] max_bytes: keys and values of all rows but the owners'.
	DefaultMaxBytes = 16 << 20
	// HeadReserve is the part of max_bytes that enqueues leave for the head's own
	// needs, so that a queue filled to the brim can still drain (DS-42). A bound
	// below twice of it leaves half.
	HeadReserve = 1 << 20
	// MaxPayload bounds one message's payload, in bytes.
	MaxPayload = 64 << 10
	// MaxBatch bounds the messages of one Enqueue: one transaction has to hold them.
	MaxBatch = 256
	// MaxBatchBytes bounds the payloads of one Enqueue together.
	MaxBatchBytes = 256 << 10
	// MaxTombstones bounds the cancelled records that the head has yet to pass: at the
	// bound enqueues are refused, at twice the bound cancels of other records than the
	// head. One commit has to delete them all.
	MaxTombstones = 4096
	// MaxOwners bounds the generations whose owner is known (DS-85): 24 slots of an
	// hour at the pacing of DS-86 are 259,200. At the bound the head parks.
	MaxOwners = 262144
	// MaxEvent bounds one encoded event, MaxBlob its proof, in bytes.
	MaxEvent = 128 << 10
	MaxBlob  = 64 << 10

	// maxPuts bounds the (generation, connection) pairs that are remembered for
	// DS-52. The oldest are forgotten first; a status on such a connection is
	// ignored until the next round.
	maxPuts = 8192
	// maxLocal bounds the local events resting on a generation that are followed
	// for DS-52. Beyond it their foreign children are not recognised as evidence.
	maxLocal = 1024
	// sweepRows is the number of rows that one maintenance commit deletes.
	sweepRows = 1024
	// pruneRows is the number of aged owners that a generation's commit deletes.
	pruneRows = 16
	// dequeueGenerations is the number of generation rows that a dequeue deletes in
	// its own commit; more are left to the sweep (a store applies only so much at once).
	dequeueGenerations = 1024
)

// Times of the worker that no setting changes.
const (
	// putTimeout bounds one Put: a peer that does not read delays the head no longer.
	putTimeout = 10 * time.Second
	// wakeGap is the least time between retries of a parked head that callers of
	// Wake can cause (DS-77).
	wakeGap = time.Second
	// maxPark is the longest that a refusal's own retry time is believed.
	maxPark = time.Hour
	// noticeAfter and noticeEvery are the delays of DS-76.
	noticeAfter = 30 * time.Second
	noticeEvery = time.Hour
)
