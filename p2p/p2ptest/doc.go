// Package p2ptest is a network in memory, for tests of nodes in fake time.
//
// A [Network] has [Host]s; each gives out a p2p.Transport for its node. Between
// two hosts there is a [Link] with latency, jitter, bandwidth and a window, and
// with a mean time after which its connections break. Tests partition and heal,
// stall one direction, break connections, and crash hosts so that their peers are
// left with half-open connections.
//
// There are no packets: loss shows as it does above TCP, as a stall or as a broken
// connection. Connections are net.Conns with deadlines, half-closing and
// backpressure. A Close loses nothing that was written before (see p2p.Transport).
//
// Everything that waits does so on channels and timers, never with a mutex held,
// so that in a testing/synctest bubble the clock moves on. The package starts no
// goroutine. Randomness comes from the seed, per pair of hosts and connection, so
// it does not depend on the order in which goroutines run.
//
// It knows nothing of frames, TLS or proxies: every scheme is a plain stream.
package p2ptest
