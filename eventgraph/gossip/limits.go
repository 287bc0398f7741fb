package gossip

import "time"

// Bounds of single messages. The counts are the network's (spec/wire-eventgraph.md,
// section 3); the network has no byte bounds, so those are ours.
const (
	MaxEventReqIDs      = 128  // a request for more is a strike: stops bulk lookups
	MaxEventRepEvents   = 128  // more is no answer
	MaxHeaderReqTips    = 1024 // more is a strike: each tip costs us a walk to its ancestors
	MaxHeaderRepHeaders = 4096
	MaxTipRepTips       = 1024
	MaxRangePage        = 100

	// maxBlob bounds the proof beside an event. We ignore it, yet must read it from
	// peers that run with proofs on.
	maxBlob = 16 << 10
	// maxOversize: an event above our content bound is legal on the network, so its
	// put is skipped up to this size instead of costing an honest relayer the connection.
	maxOversize = 1 << 20
	// maxRequest bounds a HeaderReq, whose 1024 tips take 41 KiB at worst, and an
	// EventReq, of which a peer may send more than 128 ids for one strike.
	maxRequest = 64 << 10
	// maxSmall bounds TipReq and RangeReq: names are at most 20 digits.
	maxSmall = 128
	// maxTipRep holds 1024 tips in 1024 layers.
	maxTipRep = 64 << 10
	// maxHeaderRep is 4096 headers and their count.
	maxHeaderRep = 3 + MaxHeaderRepHeaders*208
	// maxEventRep bounds the answer to one of our EventReqs; a peer that answers with more
	// is skipped up to maxSkip and asked for fewer ids at a time.
	maxEventRep = 4 << 20
	maxSkip     = 32 << 20
	// maxStatus: longer statuses close the connection (DS-03).
	maxStatus = 1 << 10
	// maxServe is where we stop filling an EventRep or RangeRep: a partial answer is
	// legal, and 100 peers that do not read must not pin 100 times 8 MiB.
	maxServe = 1 << 20
)

// Bounds of one connection.
const (
	// maxStrikes: the fifth strike closes (facts page, section 4.9).
	maxStrikes = 5
	// maxInboxPuts and maxInboxBytes bound the puts that wait for their turn: a peer
	// that pushes faster than we commit is slowed down, then answered Busy.
	maxInboxPuts  = 512
	maxInboxBytes = 1 << 20
	// putAllowance is how much of that does not count against the budget of all
	// connections, maxPutBytes: dozens of ordinary messages.
	putAllowance = 16 << 10
	// inboxWait is how long the reader of a connection waits for room in the inbox.
	inboxWait = time.Second
	// inboxPoll is how often it looks meanwhile whether others made room.
	inboxPoll = 50 * time.Millisecond
	// maxInboxRequests and maxQuestionBytes bound the requests that wait to be served; more
	// are dropped. An honest peer has one of each kind outstanding, ours two EventReqs: a
	// HeaderReq of 1024 tips in as many layers, and two EventReqs of 128 ids, take 49.1 KiB.
	// No budget is shared: a hundred peers that ask and do not read must not keep others
	// from asking, and cost 5 MiB.
	maxInboxRequests = 8
	maxQuestionBytes = 50 << 10
	// maxConcurrentPuts of one connection need more than to be stored, and are in work at a
	// time. Each has a goroutine, and may wait for parents that never come.
	maxConcurrentPuts = 8
	// maxStagedPuts of one connection are in the stage at a time: a few commits' worth. Their
	// bytes are those of the inbox.
	maxStagedPuts = 256
	// maxRelayBytes of events of one source wait for the relay limiter, relayAllowance of
	// them outside of maxRelayPool.
	maxRelayBytes  = 1 << 20
	relayAllowance = 16 << 10
	// maxHeldPuts waits for the next slot to open (DS-23).
	maxHeldPuts  = 32
	maxHeldBytes = 256 << 10
	// maxOutboxPuts and maxOutboxBytes bound what waits for pacing towards a peer.
	// The oldest go: a newer event makes the peer fetch what it missed.
	maxOutboxPuts  = 4096
	maxOutboxBytes = 4 << 20
	// maxOverflow ids of puts that found no room wait to be answered Busy: more than the
	// flood window lets a peer send.
	maxOverflow = 256
	// maxKnown ids that a peer is known to have, twice: only an economy.
	maxKnown = 512
	// ownReserve of the pacing window is kept for own puts, so that the head never
	// waits behind a burst of relays (DS-86).
	ownReserve = 12
	// readyAfter verack an inbound peer that said nothing telling counts as one that takes
	// puts: seed and refine probes are gone by then (p2p facts, trap 5).
	readyAfter = 10 * time.Second
	// maxSilentFetches: that many parent fetches in a row without any answer close the
	// connection, for the peer's handler is dead (trap 34).
	maxSilentFetches = 3
)

// Bounds of one fetch of ancestors.
const (
	maxFetchRounds = 1000    // MAX_PARENT_FETCH_DEPTH: a longer fake ancestry is a strike
	maxFetchBytes  = 1 << 20 // what is held until the last ancestor came
	maxFetchEvents = 4096
	maxFetches     = 8 // at a time, in the whole process
	// fetchTimeouts, in request timeouts: a peer that drips ancestors gives up its turn.
	fetchTimeouts = 4
)

// Bounds of the whole process.
const (
	// maxRevealed ids per generation; a generation is a slot's time. Beyond it everything
	// stored counts as revealed: a HeaderReq reveals it for the asking anyway.
	maxRevealed = 1 << 16
	// maxPutBytes of puts wait or are in work, beside the connections' allowances: a
	// hundred peers whose puts wait for parents that do not come.
	maxPutBytes = 2 << 20
	// maxRelayPool of events wait for the relay limiter: a hundred sources of large events.
	maxRelayPool = 2 << 20
	// maxBuilding answers are made at a time: each takes several times its size until it
	// is done, and as many as there are processors gain nothing.
	maxBuilding = 2
	// maxExchanges fetch headers and bodies at a time, in the whole process; each holds
	// at most maxPending headers.
	maxExchanges = 4
)

// Bounds of one exchange of headers and bodies.
const (
	// maxPending headers are gathered before their bodies are fetched: enough to see
	// which of them lead to the peer's tips. The rest may be inventions.
	maxPending = 2 * MaxHeaderRepHeaders
	// maxUnserved headers whose bodies did not come: beyond it the peer is given up.
	maxUnserved = maxPending + MaxHeaderRepHeaders
	// maxRangePages of one walk over a slot in time order: more than any slot of this
	// network fills. maxWalked slots of a peer have a mark where the next walk begins.
	maxRangePages = 8192
	maxWalked     = 64
	// maxPages of headers: a peer cannot keep one exchange going for ever.
	maxPages = 1024
	// maxRefused events that our own rules refuse, before the exchange is given up.
	maxRefused = 64
	// maxSilentChunks requests in a row without an answer end the exchange.
	maxSilentChunks = 2
	// insertBatch events or insertBytes go to the store in one commit.
	insertBatch = 1024
	insertBytes = 1 << 20
)
