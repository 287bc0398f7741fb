package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/rpc"
	"hearsay/outbound"
)

// methods are what the control socket offers: upstream's, and our own for its
// owner.
func (d *daemon) methods() map[string]rpc.Method {
	all := rpc.Upstream{
		P2P:     func() rpc.P2PInfo { return p2pInfo(d.node) },
		Net:     d.dnet,
		Deg:     rpc.NewFeed("deg.subscribe_events"), // nothing is ever published there, as upstream
		Content: slices.Contains(d.cfg.RPC.Content, "eventgraph.get_info"),
		Graph: func(ctx context.Context, content bool) iter.Seq2[rpc.GraphNode, error] {
			return viewerGraph(ctx, d.graph, content)
		},
	}.Methods()
	all["hearsay.status"] = rpc.Method{Call: func(context.Context, json.RawMessage) (any, error) { return d.status(), nil }}
	all["hearsay.dag"] = rpc.Method{Call: d.dag}
	all["hearsay.backup"] = rpc.Method{Call: d.backup}
	all["hearsay.edit"] = rpc.Method{Call: d.edit}
	d.queueMethods(all)
	d.mailMethods(all)
	return all
}

// status is a picture of this moment; it holds no address and no text.
func (d *daemon) status() statusReport {
	stats := d.graph.Stats()
	skew, _ := d.skew()
	s := statusReport{
		Version:     release,
		UptimeS:     int64(time.Since(d.started) / time.Second),
		Synced:      d.gossip.Synced(),
		ClockSkewMS: skew.Milliseconds(),
		Graph: graphStatus{
			Genesis: d.cfg.Graph.Genesis,
			Slots:   len(d.graph.Slots()),
			Events:  int(stats.Events),
			Tips:    stats.Tips,
		},
		Outbound: d.outboundStatus(),
		Mailbox:  d.custody.mail.status(),
		Relay:    d.relay.status(),
		Troubles: append(append([]string{}, d.notes.list()...), d.custody.mail.notices.list(time.Now())...),
		P2P: p2pStatus{
			MinConnections: d.cfg.Outbound.MinConnections,
			CanSend:        d.gossip.PutTargets(),
			Connections:    []connectionStatus{},
		},
	}
	for _, c := range d.node.Info().Connections {
		features := c.Features
		if features == nil {
			features = map[string]uint32{}
		}
		s.P2P.Connections = append(s.P2P.Connections, connectionStatus{
			ID: connID(c.ID), Session: c.Session.String(), Transport: c.Transport, Features: features,
		})
	}
	s.P2P.Connected = len(s.P2P.Connections)
	return s
}

// outboundStatus describes the queue and its head, never text.
func (d *daemon) outboundStatus() outboundStatus {
	sum, err := d.custody.queue.Summary()
	if err != nil {
		d.log.Warn("the queue cannot be read", "err", err)
	}
	s := outboundStatus{Depth: sum.Depth, Bytes: sum.Bytes, AckedTotal: sum.Acked, Held: sum.Held}
	if sum.Depth == 0 {
		return s
	}
	h, ok := d.worker.Head()
	if !ok { // enqueued a moment ago
		items, err := d.custody.queue.List(0, 1)
		if err != nil || len(items) == 0 {
			return s
		}
		h = outbound.HeadStatus{Position: items[0].Position, State: "waiting", Generations: items[0].Generations}
	}
	s.Head = &headStatus{
		Position: uint64(h.Position), State: h.State, Reason: h.Reason,
		Generations: h.Generations, Rounds: h.Rounds,
	}
	if !h.NextAttempt.IsZero() {
		s.Head.NextAttempt = h.NextAttempt.UTC().Format(time.RFC3339)
	}
	return s
}

// dag answers hearsay.dag: one page of one slot.
func (d *daemon) dag(_ context.Context, params json.RawMessage) (any, error) {
	var list []dagCursor
	if json.Unmarshal(params, &list) != nil || len(list) != 1 {
		return nil, rpc.ErrParams
	}
	from := list[0]
	cursor := eventgraph.Cursor{Timestamp: from.Timestamp}
	if from.ID != "" {
		if b, err := hex.DecodeString(from.ID); err != nil || copy(cursor.ID[:], b) != len(cursor.ID) {
			return nil, rpc.ErrParams
		}
	}
	slots := d.graph.Slots()
	i, found := slices.BinarySearch(slots, eventgraph.Slot(from.Slot))
	if i == len(slots) {
		return dagPage{Nodes: []dagNode{}}, nil
	}
	if !found {
		cursor = eventgraph.Cursor{} // pruned since, or the very first page
	}
	if cursor == (eventgraph.Cursor{}) {
		i = d.nextWithEvents(slots, i)
	}
	if i == len(slots) {
		return dagPage{Nodes: []dagNode{}}, nil
	}
	slot := slots[i]
	page, err := d.graph.Page(slot, cursor, false, eventgraph.MaxPage)
	if err != nil {
		return nil, err
	}
	tips, err := d.graph.Tips(slot)
	if err != nil && !errors.Is(err, eventgraph.ErrNoSlot) {
		return nil, err
	}
	isTip := map[eventgraph.ID]bool{}
	for _, ids := range tips {
		for _, id := range ids {
			isTip[id] = true
		}
	}
	out := dagPage{Nodes: []dagNode{}}
	if cursor == (eventgraph.Cursor{}) && len(page.Events) > 0 {
		out.Nodes = append(out.Nodes, d.genesis(slot, isTip))
	}
	for i := range page.Events {
		out.Nodes = append(out.Nodes, newDagNode(slot, &page.Events[i], isTip))
	}
	switch {
	case !page.Exhausted && page.Next != cursor:
		out.Next = &dagCursor{uint64(slot), page.Next.Timestamp, page.Next.ID.String()}
	default:
		if i = d.nextWithEvents(slots, i+1); i < len(slots) {
			out.Next = &dagCursor{Slot: uint64(slots[i])}
		}
	}
	return out, nil
}

// nextWithEvents is the first slot from i on that holds events, or len(slots).
func (d *daemon) nextWithEvents(slots []eventgraph.Slot, i int) int {
	for ; i < len(slots); i++ {
		if n, _ := d.graph.SlotStats(slots[i]); n > 0 {
			break
		}
	}
	return i
}

// genesis is the root of a slot, which pages leave out.
func (d *daemon) genesis(slot eventgraph.Slot, isTip map[eventgraph.ID]bool) dagNode {
	params := d.graph.Params()
	e := params.GenesisOf(slot)
	return newDagNode(slot, &e, isTip)
}

func newDagNode(slot eventgraph.Slot, e *eventgraph.Event, isTip map[eventgraph.ID]bool) dagNode {
	id := e.ID()
	n := dagNode{
		ID: id.String(), Slot: uint64(slot), Timestamp: e.Timestamp, Layer: e.Layer,
		Parents: []string{}, Size: len(e.Content), Tip: isTip[id],
	}
	for _, p := range e.Parents {
		if !p.IsNull() {
			n.Parents = append(n.Parents, p.String())
		}
	}
	return n
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
