package gossip

import (
	"errors"
	"fmt"

	"hearsay/internal/serial"
	"hearsay/p2p"
)

// Why this package ends connections.
var (
	ErrFlood   = errors.New("gossip: too many new events in too short a time")
	ErrStrikes = errors.New("gossip: five strikes")
	ErrSilent  = errors.New("gossip: parents are never served")
)

// A command is a row of the table of all commands: what is read for it and what a
// bad payload costs. It is the only place that says so.
type command struct {
	name string
	// max bytes are read; above it and up to skip they are read and dropped; above
	// that the connection is closed. Replies are bounded by what was asked for instead.
	max, skip int
	reply     replyKind // only with isReply
	isReply   bool
	isRequest bool // waits for its turn to be served
	malformed cost // bytes that do not decode
	tooMany   cost // well-formed, but too long a list
}

// A cost is what a bad payload takes from its sender.
type cost uint8

const (
	costBan    cost = iota // the connection, and the address as the ban policy says (facts page, 9.3)
	costStrike             // a strike; the message is ignored
	costIgnore             // the message
	costWarn               // the message, and one line in the log per connection (DS-03)
)

// commands is the table. The order is that of the catalogue.
func commands(maxContent int, statuses bool) []command {
	put := 208 + 9 + maxContent + 9 + maxBlob
	list := []command{
		{name: CmdEventPut, max: put, skip: put + maxOversize},
		{name: CmdStaticPut, max: put, skip: put + maxOversize},
		{name: CmdEventReq, isRequest: true, max: maxRequest, skip: maxOversize, tooMany: costStrike},
		{name: CmdEventRep, isReply: true, reply: replyEvents, skip: maxSkip, tooMany: costIgnore},
		{name: CmdHeaderPut, max: 208, skip: maxRequest},
		{name: CmdHeaderReq, isRequest: true, max: maxRequest, skip: maxOversize, tooMany: costStrike},
		{name: CmdHeaderRep, isReply: true, reply: replyHeaders, skip: maxSkip, tooMany: costIgnore},
		{name: CmdTipReq, isRequest: true, max: maxSmall, skip: maxRequest},
		{name: CmdTipRep, isReply: true, reply: replyTips, skip: maxSkip, tooMany: costIgnore},
		{name: CmdRangeReq, isRequest: true, max: maxSmall, skip: maxRequest},
		{name: CmdRangeRep, isReply: true, reply: replyRange, skip: maxSkip, tooMany: costIgnore},
	}
	if statuses {
		list = append(list, command{name: CmdEventPutStatus, max: maxStatus, malformed: costWarn})
	}
	return list
}

// badPayload is the error with which a handler makes a malformed payload cost what
// the network makes it cost. Bytes behind the content desynchronise an unmodified
// node's stream, which it takes for a wrong magic: that bans only from the side that
// dialed.
func badPayload(s p2p.Session, err error) error {
	if errors.Is(err, serial.ErrTrailing) {
		return &p2p.Fault{Ban: s == p2p.SessionOutbound, Err: fmt.Errorf("%w: %w", p2p.ErrTrailing, err)}
	}
	return &p2p.Fault{Ban: true, Err: fmt.Errorf("%w: %w", p2p.ErrMalformed, err)}
}
