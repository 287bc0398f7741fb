package gossip

import (
	"context"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// A peer is what this package needs of a connection: *p2p.Peer.
type peer interface {
	ID() p2p.ConnID
	Session() p2p.Session
	Feature(name string) (uint32, bool)
	Since() time.Time
	Send(ctx context.Context, m p2p.Message) error
	SendLazy(ctx context.Context, command string, atMost int, make func(room int) ([]byte, error)) error
	SendPieces(ctx context.Context, command string, make func() (p2p.Pieces, error)) error
	Close(cause error)
	Ban(force bool, cause error)
}

var _ peer = (*p2p.Peer)(nil)

// A graph is what this package needs of the store: *eventgraph.Graph.
type graph interface {
	Params() eventgraph.Params
	Current() eventgraph.Slot
	Slots() []eventgraph.Slot
	Insert(ctx context.Context, slot eventgraph.Slot, events []eventgraph.Event, src eventgraph.Source) ([]eventgraph.ID, error)
	InsertValid(ctx context.Context, slot eventgraph.Slot, events []eventgraph.Event, src eventgraph.Source) ([]eventgraph.ID, []eventgraph.Refusal, error)
	InsertHeaders(slot eventgraph.Slot, headers []eventgraph.Header) error
	HasBody(slot eventgraph.Slot, id eventgraph.ID) bool
	HasHeader(slot eventgraph.Slot, id eventgraph.ID) bool
	Find(id eventgraph.ID) (eventgraph.Event, eventgraph.Slot, error)
	FindAll(ids []eventgraph.ID, maxBytes int) []eventgraph.Event
	Tips(slot eventgraph.Slot) (eventgraph.Tips, error)
	HeadersBeyond(slot eventgraph.Slot, known eventgraph.Tips, limit int) (eventgraph.HeaderList, error)
	Missing(slot eventgraph.Slot, limit int) (eventgraph.HeaderList, error)
	Page(slot eventgraph.Slot, from eventgraph.Cursor, backward bool, limit int) (eventgraph.Page, error)
	OnCommit(fn func(eventgraph.Arrival))
	PublishReceipt(s eventgraph.Status, conn eventgraph.Conn)
	StaticTips() eventgraph.Tips
	HasStatic(id eventgraph.ID) bool
	StaticFind(id eventgraph.ID) (eventgraph.Event, error)
	StaticInsert(e eventgraph.Event) (bool, error)
}

var _ graph = (*eventgraph.Graph)(nil)
