package eventgraph

import "time"

// Every bound on what a peer, through the code above this package, can make us
// keep or compute.
const (
	// DefaultMaxContent bounds one event's content, in bytes. The network has no
	// limit of its own (spec/wire-eventgraph.md, section 3); without one, one event fills the disk.
	DefaultMaxContent = 64 << 10
	// maxMaxContent keeps an event within one transaction of any store.
	maxMaxContent = 256 << 10

	// MaxHeaderOnly bounds the headers without a body in one slot: invented headers
	// cost their inventor nothing but a hash each. 16 full header replies.
	MaxHeaderOnly = 16 * MaxHeaders
	// MaxHeaders is the most headers that one HeaderReq is answered with, and the
	// most that HeadersBeyond and Missing return (spec/wire-eventgraph.md, section 3).
	MaxHeaders = 4096
	// MaxPage is the most events of one page (spec/wire-eventgraph.md, section 3).
	MaxPage = 100
	// MaxPageBytes ends a page early, after at least one event: 100 events of the
	// largest size would be a reply of 6.4 MB.
	MaxPageBytes = 1 << 20
	// pageScanFactor bounds the index entries looked at for one page, as a multiple
	// of its limit, so that a run of headers without a body cannot make a page dear.
	pageScanFactor = 4

	// MaxBatch bounds the events, or headers, of one Insert.
	MaxBatch = 1 << 17
	// maxCommitEvents and maxCommitBytes cut larger batches into several
	// transactions: a store of default size takes 1.1 MB and 10,000 pairs at once.
	maxCommitEvents = 3000
	maxCommitBytes  = 900 << 10
	// commitOverhead is what an event costs a transaction beyond its own bytes: two or
	// three keys, an arrival, and what the store adds to each pair.
	commitOverhead = 320

	// MaxStaticEvents and MaxStaticBytes bound the static graph: with RLN off anybody
	// can add to it for ever, and nothing ever leaves it (facts page, trap 29).
	MaxStaticEvents = 4096
	MaxStaticBytes  = 4 << 20

	// MaxWindow bounds Config.Window.
	MaxWindow = 10_000

	// inlineContent is the largest content that is stored beside its header; larger
	// ones have a record of their own, so that scanning a slot's headers stays cheap.
	inlineContent = 1 << 10

	// maxIndexed is how many events of non-current slots may be indexed in memory
	// together, at about 120 bytes each. Beyond it the least recently used go.
	maxIndexed = 150_000
	// indexIdle is how long an unused index of a non-current slot stays.
	indexIdle = 10 * time.Minute
	// maxKeptTips is how many tips of a slot stay in memory without its index.
	maxKeptTips = 1024

	// findTogether is from how many ids on two read them.
	findTogether = 64

	// pruneKeys is how many events one pruning transaction deletes, header-only ones
	// dropped on request included.
	pruneKeys = 1000
	// pruneGrace is how long the clock has to say that a slot is expired before it is
	// deleted: a clock that was wrong at boot and is then corrected deletes nothing.
	pruneGrace = 2 * time.Minute
	// runInterval is how often Run looks. It polls instead of sleeping until the next
	// rotation because timers stand still while the machine is suspended.
	runInterval = time.Minute

	// feedPageBytes bounds what one Subscribe holds in memory, after one event.
	feedPageBytes = 256 << 10
	// feedPage bounds the arrivals of one read.
	feedPage = 256
	// receiptBuffer is how many statuses a receipt feed holds; more are dropped and
	// counted (DS-21).
	receiptBuffer = 1024
)
