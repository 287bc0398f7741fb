package p2p

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// counters are aggregates since the start.
type counters struct {
	framesIn, framesOut, bytesIn, bytesOut, bans, faults, refused atomic.Uint64
}

// Stats are aggregates since the start: nothing of them names a peer.
type Stats struct {
	FramesIn, FramesOut uint64
	BytesIn, BytesOut   uint64
	Bans                uint64 // addresses black-listed
	Faults              uint64 // connections ended for a malformed, unknown or excessive frame
	Refused             uint64 // inbound connections refused or not finished
}

// Stats returns the counters.
func (n *Node) Stats() Stats {
	return Stats{
		FramesIn: n.stats.framesIn.Load(), FramesOut: n.stats.framesOut.Load(),
		BytesIn: n.stats.bytesIn.Load(), BytesOut: n.stats.bytesOut.Load(),
		Bans: n.stats.bans.Load(), Faults: n.stats.faults.Load(), Refused: n.stats.refused.Load(),
	}
}

// Info is a picture of the node for viewers and status. It holds addresses: it is not
// for logs.
type Info struct {
	Connections   []ConnectionInfo // with a finished handshake, oldest first
	OutboundSlots []ConnID         // by slot; 0: empty
	Listening     []URL
	Hosts         map[string]int // addresses by colour
}

// A ConnectionInfo is one connection.
type ConnectionInfo struct {
	ID        ConnID
	URL       URL
	Session   Session
	Transport string // scheme
	Features  map[string]uint32
	AppName   string
	Since     time.Time
}

// Info describes the node as it is now.
func (n *Node) Info() Info {
	var info Info
	for _, p := range n.Peers() {
		v := p.Version()
		info.Connections = append(info.Connections, ConnectionInfo{
			ID: p.id, URL: p.url, Session: p.session, Transport: p.Transport(),
			Features: v.Features, AppName: v.AppName, Since: p.Since(),
		})
	}
	n.mu.Lock()
	info.OutboundSlots = slices.Clone(n.slots)
	info.Listening = slices.Clone(n.listen)
	n.mu.Unlock()
	info.Hosts = make(map[string]int)
	for c, count := range n.hosts.counts() {
		info.Hosts[colourNames[c]] = count
	}
	return info
}

// ClockSkew is the median of how far peers' clocks are ahead of ours, in milliseconds,
// as their version messages said when they came, and over how many connected peers.
// They tell whole seconds, so it is exact to about one second (DS-82).
func (n *Node) ClockSkew() (ms int64, peers int) {
	var skews []int64
	for _, p := range n.Peers() {
		v := p.Version()
		// The second that is told began on average half a second earlier.
		skews = append(skews, v.Timestamp.Add(time.Second/2).UnixMilli()-v.Received.UnixMilli())
	}
	return median(skews), len(skews)
}

// median of an even number of values is the mean of the middle two; of none, 0.
func median(v []int64) int64 {
	if len(v) == 0 {
		return 0
	}
	slices.SortFunc(v, cmp.Compare[int64])
	m := len(v) / 2
	if len(v)%2 == 1 {
		return v[m]
	}
	return (v[m-1] + v[m]) / 2
}
