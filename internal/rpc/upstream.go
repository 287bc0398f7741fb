package rpc

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"
)

// P2PInfo is the result of p2p.get_info.
type P2PInfo struct {
	Channels []Channel `json:"channels"`
	// OutboundSlots holds a channel id per slot, 0 for an empty one.
	OutboundSlots []uint32 `json:"outbound_slots"`
}

// A Channel is one connection, as upstream describes it.
type Channel struct {
	URL     string `json:"url"`
	Session string `json:"session"` // inbound, outbound, manual, refine, seed, direct
	ID      uint32 `json:"id"`
}

// A NetEvent is one notification of dnet.subscribe_events.
type NetEvent struct {
	Event string `json:"event"`
	Info  any    `json:"info"`
}

// MessageInfo is the info of the events "send" and "recv".
type MessageInfo struct {
	Chan    MessageChannel `json:"chan"`
	Command string         `json:"cmd"`
	Time    string         `json:"time"` // nanoseconds since the epoch, decimal
}

// MessageChannel names the connection of a MessageInfo.
type MessageChannel struct {
	Addr string `json:"addr"`
	ID   uint32 `json:"id"`
}

// NewMessageInfo fills in the time as upstream writes it.
func NewMessageInfo(addr string, id uint32, command string, at time.Time) MessageInfo {
	return MessageInfo{MessageChannel{addr, id}, command, strconv.FormatInt(at.UnixNano(), 10)}
}

// A GraphNode is one event of eventgraph.get_info.
type GraphNode struct {
	ID        string   `json:"-"`
	Timestamp uint64   `json:"timestamp"`
	Content   string   `json:"content"` // base58; empty unless enabled by name (DS-44)
	Parents   []string `json:"parents"`
	Layer     uint64   `json:"layer"`
}

// Graph is the result of eventgraph.get_info, written as it is read.
type Graph struct{ Nodes iter.Seq2[GraphNode, error] }

// WriteJSON writes the object that upstream's viewer reads. An error of the
// iterator ends it; what was written by then is no JSON, and the connection must
// be closed.
func (g Graph) WriteJSON(w io.Writer) error {
	b := bufio.NewWriter(w)
	_, _ = b.WriteString(`{"eventgraph_info":{"dag":{`)
	first := true
	for n, err := range g.Nodes {
		if err != nil {
			return err
		}
		if !first {
			_ = b.WriteByte(',')
		}
		first = false
		body, err := json.Marshal(n)
		if err != nil {
			return err
		}
		// A buffered writer keeps its first error, so only the last call needs a look.
		if _, err := fmt.Fprintf(b, "%q:%s", n.ID, body); err != nil {
			return err
		}
	}
	_, _ = b.WriteString(`}}}`)
	return b.Flush()
}

// Upstream is where upstream's methods get their answers.
type Upstream struct {
	P2P func() P2PInfo
	Net *Feed // dnet.subscribe_events
	Deg *Feed // deg.subscribe_events
	// Graph lists the events; content says whether to show what they hold.
	Graph func(ctx context.Context, content bool) iter.Seq2[GraphNode, error]
	// Content: eventgraph.get_info may show what the events hold (DS-44).
	Content bool
}

// Methods are upstream's methods. All of them only read, switches of feeds aside.
func (u Upstream) Methods() map[string]Method {
	return map[string]Method{
		"ping":                  {Public: true, Call: ping},
		"p2p.get_info":          {Public: true, Call: func(context.Context, json.RawMessage) (any, error) { return u.P2P(), nil }},
		"dnet.switch":           {Public: true, Call: switchFeed(u.Net)},
		"dnet.subscribe_events": {Public: true, Feed: u.Net},
		"deg.switch":            {Public: true, Call: switchFeed(u.Deg)},
		"deg.subscribe_events":  {Public: true, Feed: u.Deg},
		"eventgraph.get_info": {Public: true, Call: func(ctx context.Context, params json.RawMessage) (any, error) {
			if err := noParams(params); err != nil {
				return nil, err
			}
			return Graph{u.Graph(ctx, u.Content)}, nil
		}},
	}
}

func ping(context.Context, json.RawMessage) (any, error) { return "pong", nil }

func noParams(params json.RawMessage) error {
	var list []json.RawMessage
	if json.Unmarshal(params, &list) != nil || len(list) != 0 {
		return ErrParams
	}
	return nil
}

func switchFeed(f *Feed) func(context.Context, json.RawMessage) (any, error) {
	return func(_ context.Context, params json.RawMessage) (any, error) {
		var list []json.RawMessage
		var on *bool
		if json.Unmarshal(params, &list) != nil || len(list) != 1 || json.Unmarshal(list[0], &on) != nil || on == nil {
			return nil, ErrParams
		}
		f.Switch(*on)
		return true, nil
	}
}
