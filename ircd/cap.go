package ircd

import (
	"slices"
	"strings"
)

// A capSet is the capabilities that a client switched on.
type capSet uint32

// Capabilities, each with what it changes.
const (
	capBatch           capSet = 1 << iota // history and labelled answers come in batches
	capEchoMessage                        // the sender sees its own messages
	capLabeledResponse                    // answers carry the command's label
	capMessageTags                        // msgid, and client-only tags between local clients
	capMultiPrefix                        // nothing: there are no prefixes here
	capNoAutojoin                         // darkirc: the autojoin list is skipped
	capNoHistory                          // darkirc: nothing is replayed
	capServerTime                         // when a message was said
	capStandardReplies                    // FAIL, WARN and NOTE instead of notices
	capUserhostInNames                    // NAMES lists prefixes
	capSelfMessage                        // direct messages that another client of ours sent
	capCapNotify                          // nothing: capabilities do not change
	capAwayNotify                         // AWAY of other local clients
	capSASL                               // AUTHENTICATE
	capSetname                            // SETNAME of other local clients
	capReadMarker                         // MARKREAD, unasked too
	capChathistory                        // no history unasked; CHATHISTORY brings it
)

// capNames are the capabilities by name, with their values for clients that know CAP
// LS 302.
var capNames = []capName{
	{name: "away-notify", cap: capAwayNotify},
	{name: "batch", cap: capBatch},
	{name: "cap-notify", cap: capCapNotify},
	{name: "draft/chathistory", cap: capChathistory},
	{name: "draft/read-marker", cap: capReadMarker},
	{name: "echo-message", cap: capEchoMessage},
	{name: "labeled-response", cap: capLabeledResponse},
	{name: "message-tags", cap: capMessageTags},
	{name: "multi-prefix", cap: capMultiPrefix},
	{name: "no-autojoin", cap: capNoAutojoin},
	{name: "no-history", cap: capNoHistory},
	{name: "sasl", cap: capSASL, value: "PLAIN"},
	{name: "server-time", cap: capServerTime},
	{name: "setname", cap: capSetname},
	{name: "standard-replies", cap: capStandardReplies},
	{name: "userhost-in-names", cap: capUserhostInNames},
	{name: "znc.in/self-message", cap: capSelfMessage},
}

// A capName is a capability on the wire.
type capName struct {
	name  string
	cap   capSet
	value string
}

func (cs capSet) has(c capSet) bool { return cs&c != 0 }

// list names the capabilities in cs, with values or without.
func (cs capSet) list(values bool) string {
	var names []string
	for _, c := range capNames {
		switch {
		case !cs.has(c.cap):
		case values && c.value != "":
			names = append(names, c.name+"="+c.value)
		default:
			names = append(names, c.name)
		}
	}
	return strings.Join(names, " ")
}

const allCaps = ^capSet(0)

// cmdCap is CAP: LS and REQ hold registration up until END (IRCv3), a REQ is granted
// as a whole or not at all.
func cmdCap(s *Server, rq *request) error {
	c := rq.c
	answer := func(sub, text string) {
		rq.send(free(s.cfg.ServerName, "CAP", c.name(), sub, text))
	}
	switch sub := strings.ToUpper(rq.param(0)); sub {
	case "LS":
		if !c.registered {
			c.capHold = true
		}
		if v := rq.param(1); len(v) > 3 || len(v) == 3 && v >= "302" {
			c.cap302 = true
			c.caps |= capCapNotify // implied
		}
		answer("LS", allCaps.list(c.cap302))
	case "LIST":
		answer("LIST", c.caps.list(false))
	case "REQ":
		if !c.registered {
			c.capHold = true
		}
		list := rq.param(1)
		on, off, ok := parseCaps(list)
		if c.cap302 && off.has(capCapNotify) {
			ok = false // "MUST NOT be disabled" once implied
		}
		if !ok {
			answer("NAK", cutUTF8(list, 400))
			return nil
		}
		c.caps = c.caps&^off | on
		answer("ACK", list)
	case "END":
		if c.registered {
			return nil
		}
		c.capHold = false
		s.register(rq)
	default:
		return numeric(errInvalidCapCmd, token(rq.param(0)), "Invalid CAP subcommand")
	}
	return nil
}

// parseCaps reads a REQ's list. Later mentions win, so no name is in both sets.
func parseCaps(list string) (on, off capSet, ok bool) {
	for word := range strings.FieldsSeq(list) {
		name, minus := strings.CutPrefix(word, "-")
		i := slices.IndexFunc(capNames, func(c capName) bool { return c.name == name })
		if i < 0 {
			return 0, 0, false
		}
		if c := capNames[i].cap; minus {
			on, off = on&^c, off|c
		} else {
			on, off = on|c, off&^c
		}
	}
	return on, off, true
}
