package privmsg

// Bounds on what is received. Upstream has none (facts 1.3): a peer could make
// every node decode, decrypt and show messages of any size. Honest messages stay
// far below: sealed fields have at most 88 characters, a sealed text of 512 bytes 754.
const (
	// MaxChannelField and MaxNickField bound the two short fields, plain or sealed,
	// in bytes. A longer one is no conversation of ours and no honest nick.
	MaxChannelField = 128
	MaxNickField    = 128
	// MaxTextField bounds the text, plain or sealed, in bytes: the cost of
	// decrypting and showing one event.
	MaxTextField = 16 << 10
	// MaxLines bounds the lines that one received text may become. Without it 16 KiB
	// of line feeds and letters would be 8,192 messages.
	MaxLines = 64
	// MaxReplays bounds the remembered nonces (T24). Only holders of a key can add
	// one; the oldest is forgotten first.
	MaxReplays = 1 << 16
)

// Bounds on what is sent: upstream's (facts 1.3), which other nodes rely on.
const (
	// MaxNick is the longest nick, and the size to which it is padded before it is
	// sealed, in bytes.
	MaxNick = 24
	// MaxChannel is the longest channel name, in bytes.
	MaxChannel = 24
	// MaxText is the longest text of one event, in bytes: upstream's clients show
	// longer ones, but its own daemon never makes them. Longer input becomes
	// several events.
	MaxText = 512
)
