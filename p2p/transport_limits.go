package p2p

// Bounds of the transport layer. Each stops the abuse named with it.
const (
	// MaxURLLen bounds a URL's text, before and after it is made canonical, in
	// bytes: a peer that fills our host list with kilobytes per address. Real
	// addresses have less than 200.
	MaxURLLen = 2048
)
