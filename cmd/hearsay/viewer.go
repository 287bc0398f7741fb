package main

import (
	"context"
	"iter"

	"github.com/mr-tron/base58"

	"hearsay/eventgraph"
	"hearsay/internal/rpc"
	"hearsay/p2p"
)

// netEvent describes an event of p2p as upstream's viewers read it.
func netEvent(e p2p.Event) rpc.NetEvent {
	id, slot := uint32(e.Peer), uint32(e.Slot)
	var info any
	switch e.Kind {
	case p2p.EventSend, p2p.EventRecv:
		info = rpc.NewMessageInfo(e.URL.String(), id, e.Command, e.Time)
	case p2p.EventInboundConnected, p2p.EventInboundDisconnected:
		info = map[string]any{"addr": e.URL.String(), "channel_id": id}
	case p2p.EventSlotSleeping:
		info = map[string]any{"slot": slot}
	case p2p.EventSlotConnecting:
		info = map[string]any{"slot": slot, "addr": e.URL.String()}
	case p2p.EventSlotConnected:
		info = map[string]any{"slot": slot, "addr": e.URL.String(), "channel_id": id}
	case p2p.EventSlotDisconnected:
		info = map[string]any{"slot": slot, "err": e.Reason}
	case p2p.EventPeerDiscovery:
		info = map[string]any{"attempt": e.Attempt, "state": e.State}
	case p2p.EventDirectConnecting:
		info = map[string]any{"connect_addr": e.URL.String()}
	case p2p.EventDirectConnected:
		info = map[string]any{"connect_addr": e.URL.String(), "addr": e.URL.String(), "channel_id": id}
	case p2p.EventDirectDisconnected:
		info = map[string]any{"connect_addr": e.URL.String(), "err": e.Reason}
	default:
		info = map[string]any{}
	}
	return rpc.NetEvent{Event: string(e.Kind), Info: info}
}

// p2pInfo is the result of p2p.get_info.
func p2pInfo(node *p2p.Node) rpc.P2PInfo {
	info := node.Info()
	out := rpc.P2PInfo{Channels: []rpc.Channel{}, OutboundSlots: []uint32{}}
	for _, c := range info.Connections {
		out.Channels = append(out.Channels, rpc.Channel{URL: c.URL.String(), Session: c.Session.String(), ID: uint32(c.ID)})
	}
	for _, id := range info.OutboundSlots {
		out.OutboundSlots = append(out.OutboundSlots, uint32(id))
	}
	return out
}

// graphEvents lists the retained events in the order of slots and time, each slot's
// genesis first.
func graphEvents(ctx context.Context, graph *eventgraph.Graph) iter.Seq2[eventgraph.Event, error] {
	return func(yield func(eventgraph.Event, error) bool) {
		for _, slot := range graph.Slots() {
			if !yield(graph.Params().GenesisOf(slot), nil) {
				return
			}
			for cursor := (eventgraph.Cursor{}); ; {
				page, err := graph.Page(slot, cursor, false, eventgraph.MaxPage)
				if err == nil {
					err = context.Cause(ctx)
				}
				if err != nil {
					yield(eventgraph.Event{}, err)
					return
				}
				for _, e := range page.Events {
					if !yield(e, nil) {
						return
					}
				}
				if page.Exhausted || page.Next == cursor {
					break
				}
				cursor = page.Next
			}
		}
	}
}

// viewerGraph is eventgraph.get_info: content is left empty unless that was enabled
// by name (DS-44).
func viewerGraph(ctx context.Context, graph *eventgraph.Graph, content bool) iter.Seq2[rpc.GraphNode, error] {
	return func(yield func(rpc.GraphNode, error) bool) {
		for e, err := range graphEvents(ctx, graph) {
			if err != nil {
				yield(rpc.GraphNode{}, err)
				return
			}
			n := rpc.GraphNode{ID: e.ID().String(), Timestamp: e.Timestamp, Layer: e.Layer}
			for _, p := range e.Parents {
				n.Parents = append(n.Parents, p.String())
			}
			if content {
				n.Content = base58.Encode(e.Content)
			}
			if !yield(n, nil) {
				return
			}
		}
	}
}
