// Package privmsg is the content of a DarkIRC chat event: its bytes, which of its
// fields are sealed in which box, and what may be believed of one that came from
// the network (spec/chat.md).
//
// [Decode] and [Message.AppendTo] are the codec, [Keyring] turns a conversation,
// a nick and a text into a Message and back, [Replays] recognises sealed texts
// that were seen before, and the functions of text.go make a remote nick or text
// fit for an IRC line.
//
// The package does not know IRC commands, clients, the event graph or time.
//
// Invariants: what a Keyring opens as a private channel or a contact was
// authenticated with that conversation's key, and a plain message that names one
// is refused (facts T4); a conversation that is to be sealed is never put into a
// plain Message (DS-79). A Keyring is immutable; Replays has one owner. There are
// no goroutines.
package privmsg
