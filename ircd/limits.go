package ircd

import "time"

// Bounds on what one client, and through the feed one peer, can make the server
// hold or do (spec/chat.md, section 4).
const (
	// maxLine is the longest line from a client, in bytes, with CR LF and without
	// tags; a longer one is answered 417. PRIVMSG and NOTICE may be longer, up to
	// maxText: their text becomes several events.
	maxLine = 512
	// maxText is the longest text of one PRIVMSG or NOTICE, in bytes.
	maxText = 8 << 10
	// maxInput bounds what is read without finding the end of a line; a client that
	// sends more is cut off.
	maxInput = 16 << 10
	// maxTargets bounds the recipients of one PRIVMSG or NOTICE.
	maxTargets = 4
	// maxJoined bounds the channels of one client.
	maxJoined = 256
	// maxTopic, maxAway and maxReason bound stored free text, in bytes, so that the
	// lines that carry it are never cut.
	maxTopic  = 390
	maxAway   = 256
	maxReason = 256
	// maxReply is how much of a numeric or notice is filled with text or a list.
	maxReply = 350
	// maxMonitored bounds one client's MONITOR list.
	maxMonitored = 100
	// maxWhowas bounds the nicks that WHOWAS remembers.
	maxWhowas = 100
	// maxDevice bounds the device in name@device, in bytes.
	maxDevice = 32
	// maxSASL bounds what AUTHENTICATE collects, in bytes of base64; maxSASLTries the
	// failed tries of one connection.
	maxSASL      = 4 * 400
	maxSASLTries = 3
	// maxUser bounds the user part of a prefix, in bytes.
	maxUser = 16
	// maxLabel is the longest label that labeled-response allows.
	maxLabel = 64

	// lowWater is how much may wait in a client's send queue before the next page of
	// history is put in: history is paced by the reading client.
	lowWater = 32 << 10
	// historyPage is the number of messages put into the send queue at once.
	historyPage = 32
	// maxWrite is the size of one write, in bytes; writeTimeout is for this much.
	maxWrite = 16 << 10

	// maxConversations bounds the channels of which a log is kept: a peer can invent
	// names at will. Configured and joined ones are never dropped for it.
	maxConversations = 1024
	// maxSpeakers bounds the nicks remembered per channel: a peer can invent those too.
	maxSpeakers = 512
	// maxEntries bounds the messages in one conversation's log.
	maxEntries = 1000
	// maxChathistory bounds the messages, or targets, of one CHATHISTORY.
	maxChathistory = 500
	// historyAsked is how many messages HISTORY of "*status" shows where no number is given.
	historyAsked = 50
	// readerWait is how long a CHATHISTORY waits for stored messages to be read.
	readerWait = 10 * time.Second
	// probeInterval is the least time between two questions whether a client has read what
	// it was sent, probeTimeout how long one is waited for before another is asked.
	probeInterval = 5 * time.Second
	probeTimeout  = time.Minute
	// maxReading bounds the readings of older messages for devices that were away, at a time: a
	// client that connects has one for each contact.
	maxReading = 4
	// maxUnproven bounds the proofs that wait for the places of own messages, oldest out
	// first: one for each conversation that a client has read ahead in.
	maxUnproven = 1024
	// maxOwn bounds the ids of own messages that are remembered, so that a later
	// generation is not shown again.
	maxOwn = 1 << 16
	// maxListed bounds the answers to LIST and WHO, and ends the one to NAMES without a channel.
	maxListed = 1000

	// maxHandshakes bounds the TLS handshakes under way, and maxUnregistered the connections
	// that have not registered: together fewer than there may be, so that neither keeps anybody out.
	maxHandshakes   = 64
	maxUnregistered = 64
	// maxThrottled bounds the hosts whose failed passwords are counted.
	maxThrottled = 1024
	// throttleStep and throttleMax are the wait before a password is looked at after
	// the first failure from its host; it doubles up to the second.
	throttleStep = 500 * time.Millisecond
	throttleMax  = 16 * time.Second
	// throttleForget is how long a failure counts.
	throttleForget = 10 * time.Minute
	// maxBcryptCost refuses a password hash that would take minutes to check.
	maxBcryptCost = 16
	// maxPassword is where bcrypt, and so darkirc, cuts a password.
	maxPassword = 72

	// tlsTimeout bounds a TLS handshake, registerTimeout the time until registration.
	tlsTimeout      = 10 * time.Second
	registerTimeout = 60 * time.Second
	// pingAfter is the silence after which a client is asked for a sign of life, and
	// pingTimeout how long it has to give one.
	pingAfter   = 90 * time.Second
	pingTimeout = 60 * time.Second
	// writeTimeout is how long one write may take before the client counts as gone.
	writeTimeout = 30 * time.Second
	// flushTimeout bounds the last words to a client, drainTimeout how long its own
	// unread input is taken so that it gets to read them.
	flushTimeout = 2 * time.Second
	drainTimeout = 500 * time.Millisecond
	// tick is the interval at which timeouts and the network's state are looked at.
	tick = time.Second
	// speakerAge is how long a nick stays in NAMES after it last spoke.
	speakerAge = 24 * time.Hour
	// noticeInterval is the least time between two notices about the network's state.
	noticeInterval = 10 * time.Second
)
