package rpc

import "time"

// Bounds of a client. Upstream allows 16 MiB a line; no request of ours needs
// more than a few hundred bytes.
const (
	// maxRequest bounds one request line, in bytes: a client that never ends its
	// line, or that makes us parse megabytes.
	maxRequest = 64 << 10
	// maxReply bounds a line that the Client reads.
	maxReply = 16 << 20
	// maxConns bounds connections per listener: a local program that opens them
	// without end.
	maxConns = 64
	// maxSubscriptions bounds a connection's subscriptions, each of which has a
	// goroutine and a backlog.
	maxSubscriptions = 8
	// feedBacklog is how many notifications wait for one subscriber before it is
	// dropped.
	feedBacklog = 1024
	// writeTimeout is how long one write may take: a client that does not read.
	writeTimeout = 10 * time.Second
	// idleTimeout ends TCP connections that ask nothing and have no subscription, so
	// that forgotten ones do not use up maxConns.
	idleTimeout = 10 * time.Minute
)
