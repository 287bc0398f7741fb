package p2p

import "time"

// An EventKind names what happened. The words are upstream's, as its viewers expect
// them.
type EventKind string

// Events, with the fields that they set beside Kind and Time.
const (
	EventSend                EventKind = "send"                       // Peer, URL, Command
	EventRecv                EventKind = "recv"                       // Peer, URL, Command
	EventInboundConnected    EventKind = "inbound_connected"          // Peer, URL
	EventInboundDisconnected EventKind = "inbound_disconnected"       // Peer, URL, Reason
	EventSlotSleeping        EventKind = "outbound_slot_sleeping"     // Slot
	EventSlotConnecting      EventKind = "outbound_slot_connecting"   // Slot, URL
	EventSlotConnected       EventKind = "outbound_slot_connected"    // Slot, URL, Peer
	EventSlotDisconnected    EventKind = "outbound_slot_disconnected" // Slot, Reason
	EventPeerDiscovery       EventKind = "outbound_peer_discovery"    // Attempt, State
	EventDirectConnecting    EventKind = "direct_connecting"          // URL
	EventDirectConnected     EventKind = "direct_connected"           // URL, Peer
	EventDirectDisconnected  EventKind = "direct_disconnected"        // URL, Reason
)

// An Event is one thing that happened, for viewers. It holds addresses: it is not for
// logs.
type Event struct {
	Kind    EventKind
	Time    time.Time
	Peer    ConnID
	URL     URL
	Command string
	Slot    int
	Attempt int
	State   string
	Reason  string // one of a few words, without an address
}

func (n *Node) emit(e Event) {
	e.Time = n.cfg.Now()
	n.cfg.Observer(e)
}
