package mailbox

// Bounds of the wire, checked before anything is allocated (MB-01, MB-20 to MB-23).
const (
	// MaxRequest and MaxResponse bound an encoded message, in bytes: what a peer
	// can make the other end read and hold per stream.
	MaxRequest  = 320 << 10
	MaxResponse = 3 << 20
	// MaxEnvelope bounds an envelope, in bytes. It fits a request with room to spare:
	// each byte takes up to two on the wire.
	MaxEnvelope = 128 << 10
	// MaxTokens bounds the filters of one check-in.
	MaxTokens = 4096
	// MaxPageRows and MaxPageBytes bound one lease's page: rows, and the sum of their
	// envelopes' bytes.
	MaxPageRows  = 128
	MaxPageBytes = 1 << 20
	// MaxInfoText bounds each text of a relay's published information, in bytes.
	MaxInfoText = 256
)
