package main

import (
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"hearsay/mailbox"
	"hearsay/mailbox/endpoint"
)

// noticeAge is how long clients that connect are still told of something that happened
// once, and maxMailNotices bounds what is told at once.
const (
	noticeAge      = 24 * time.Hour
	maxMailNotices = 32
)

// Texts of what a person is told.
const (
	mailFullText = "too many messages wait at mailbox relays for their recipients: new ones go out as usual, but not to the relays"
	mailUnknown  = "the mailbox relay of %s has refused your mail for a day: it does not know %[1]s yet; it goes on being offered"
	mailUnread   = "%s has not collected mail of yours for 30 days; it is sent to the relay again"
	mailShort    = "%s registered only some of the names under which your mail comes: what some contacts write is refused there"
	mailRefused  = "%s not asked, since all active profiles hide this machine's address: " +
		`use a tcp+tls:// address with tor or socks5, or set allow_direct = true in [mailbox]`
)

// mailNotices are what a person should know of mail.
type mailNotices struct {
	mu     sync.Mutex
	isFull bool
	short  map[endpoint.RelayID]bool // relays that registered less than all tokens
	since  map[string]time.Time      // what happened once
}

// full says whether there was room for the last deposit.
func (n *mailNotices) full(is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isFull = is
}

// registered says whether a relay has registered all tokens that it was asked to.
func (n *mailNotices) registered(relay endpoint.RelayID, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if all {
		delete(n.short, relay)
		return
	}
	if n.short == nil {
		n.short = map[endpoint.RelayID]bool{}
	}
	n.short[relay] = true
}

// configured forgets relays that are not in the configuration any more.
func (n *mailNotices) configured(relays map[endpoint.RelayID][]mailbox.Address) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.short, func(id endpoint.RelayID, _ bool) bool { return relays[id] == nil })
}

func (n *mailNotices) add(text string, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.since == nil {
		n.since = map[string]time.Time{}
	}
	n.since[text] = now
	for len(n.since) > maxMailNotices {
		oldest := text
		for other, at := range n.since {
			if at.Before(n.since[oldest]) {
				oldest = other
			}
		}
		delete(n.since, oldest)
	}
}

// list is what is true now or happened lately.
func (n *mailNotices) list(now time.Time) (out []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isFull {
		out = append(out, mailFullText)
	}
	switch k := len(n.short); {
	case k == 1:
		out = append(out, fmt.Sprintf(mailShort, "1 mailbox relay has"))
	case k > 1:
		out = append(out, fmt.Sprintf(mailShort, fmt.Sprint(k, " mailbox relays have")))
	}
	for _, text := range sortedKeys(n.since) {
		if now.Sub(n.since[text]) > noticeAge {
			delete(n.since, text)
			continue
		}
		out = append(out, text)
	}
	return out
}

// notify implements endpoint.Config.Notify.
func (m *mail) notify(kind endpoint.NoticeKind, id endpoint.ContactID) {
	label, ok := m.contacts().labels[id]
	if !ok {
		return
	}
	format := mailUnknown
	if kind == endpoint.NoticeUnread {
		format = mailUnread
	}
	m.notices.add(fmt.Sprintf(format, label), time.Now())
}

// troubles are what clients are told of mail.
func (m *mail) troubles() []string {
	out := m.notices.list(time.Now())
	if n := m.refused(); n > 0 {
		out = append(out, fmt.Sprintf(mailRefused, are(n, "mailbox relay")))
	}
	return out
}

// are is "1 thing is", "2 things are".
func are(n int, what string) string {
	if n == 1 {
		return count(n, what) + " is"
	}
	return count(n, what) + " are"
}

// status is the object "mailbox" of the status.
func (m *mail) status() mailboxStatus {
	s := mailboxStatus{Relays: len(m.own), Refused: m.refused()}
	if c, err := m.endpoint.Counts(); err == nil {
		s.InboxRows = int(c.Inbox)
	}
	if n, err := m.endpoint.Pending(); err == nil {
		s.DepositsPending = n
	}
	return s
}

func printMailbox(out io.Writer, s mailboxStatus) {
	if s.Relays+s.Refused+s.DepositsPending+s.InboxRows == 0 {
		return
	}
	printf(out, "mailbox: %s, %s, %s without a receipt\n", count(s.Relays, "relay"), count(s.InboxRows, "kept message"), count(s.DepositsPending, "deposit"))
	if s.Refused > 0 {
		printf(out, "  "+mailRefused+"\n", are(s.Refused, "relay"))
	}
}

// mailMetrics are the mailbox's numbers: none of any contact or message (DS-44).
func (m *mail) metrics(gauge func(name, help string, value func() float64)) {
	counts := func(read func(endpoint.Counts) uint64) func() float64 {
		return func() float64 {
			c, err := m.endpoint.Counts()
			if err != nil {
				return -1
			}
			return float64(read(c))
		}
	}
	gauge("mailbox_relays", "Relays that mail is collected from.", func() float64 { return float64(len(m.own)) })
	gauge("mailbox_refused_relays", "Relays that are not asked, since that would show this machine's address.", func() float64 { return float64(m.refused()) })
	gauge("mailbox_inbox_rows", "Messages that a mailbox brought and that are kept.", counts(func(c endpoint.Counts) uint64 { return c.Inbox }))
	gauge("mailbox_deposits", "Envelopes on their way to relays or without their receipt.", counts(func(c endpoint.Counts) uint64 { return c.Deposits }))
	gauge("mailbox_deposit_bytes", "Bytes of these.", counts(func(c endpoint.Counts) uint64 { return c.DepositBytes }))
	gauge("mailbox_deposits_pending", "Of these, messages without their receipt.", func() float64 {
		n, err := m.endpoint.Pending()
		if err != nil {
			return -1
		}
		return float64(n)
	})
}
