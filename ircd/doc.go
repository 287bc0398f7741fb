// Package ircd is the face of a node for people: an IRC server whose channels and
// direct messages are events of the graph (spec/chat.md).
//
// It knows IRC, the chat payload and the conversations' keys. It does not know
// peers, the network's wire, how an accepted message gets out, or the
// configuration file: those come as [Config], and behind the interfaces [Log],
// [Outbox] and [Network], which belong to this package. [ArrivalLog] and [Sender] are
// the Log and the Outbox of a node.
//
// # A message, both ways
//
// A line is read (conn.go), parsed and looked up in the command table (command.go),
// and becomes one or several [Message] records (privmsg.go) that an [Outbox] makes
// durable. From then on it is shown as said, to other local clients and to the
// sender with echo-message. Later the Outbox asks the [Materialiser] for an event's
// content; when that event, or a later generation of it, arrives from the graph, it
// is recognised by its id and not shown again.
//
// Arrivals are opened by the feed (feed.go) and appended to a conversation's log
// (conversation.go). Each client has a cursor into the log of each conversation that
// it is in; delivery (deliver.go) and history (history.go) both move that cursor, so
// nothing is shown twice, or out of the order in which it arrived.
//
// CHATHISTORY (chathistory.go, pager.go) and HISTORY (replay.go) ask the Log for what is older: it
// knows to which conversation each message belongs by a tag (place.go), and finds the texts. How far each device has read (cursor.go), and the read
// markers (readmarker.go), are kept in Config.ReadState.
//
// What clients of this daemon tell each other (presence.go, monitor.go, invitations in
// refuse.go), and what they ask of the daemon (query.go, who.go, whois.go, and "*status"
// in service.go) stays here. A node adds commands to "*status" with
// [Config.StatusCommands], and facts to it and to the welcome by being a [Peered], a
// [Syncing], a [Troubled] or a [Blockable].
//
// # Goroutines
//
// [Server.Run] owns all of them. One runs the loop (server.go): it owns every
// client's state, the conversations and the settings, takes one event (event.go) at
// a time, and never blocks. Each listener has one, each connection two: the reader
// hands over one line at a time and waits for the loop to be done with it, and does
// the slow part of a command (a durable commit, a password hash) on the loop's
// behalf; the writer empties a queue of bounded size. The feed has one.
//
// # Invariants
//
//   - Nothing about the network reaches a connection, and no command but those of
//     registration is obeyed, before registration and password (facts T6).
//   - Nothing of a remote nick, channel or text reaches a line before it was made
//     fit for one (T1), and nothing that claims to be a private conversation reaches
//     one unless its key opened it (T4).
//   - How a message must be encrypted is fixed when it is accepted; without that very
//     key it is not sent (DS-79).
//   - No address, nick, channel, text or key is logged, at any level.
package ircd
