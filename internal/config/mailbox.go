package config

import (
	"net/url"
	"time"

	"hearsay/internal/box"
)

// maxMailboxes is the number of relays that a node collects from (MB-53).
const maxMailboxes = 8

// readMailbox checks the mailbox keys of the schema, so that a file is ready for
// a build that has the mailbox. This one has not, and says so.
func (d *decoder) readMailbox(s *section) {
	if s.tab == nil {
		return
	}
	d.warnf(s.tab.line, s.path, "has no effect in this version: there is no mailbox yet")
	d.readMailboxURLs(s, "relays")
	interval := time.Minute
	s.duration("interval", &interval, time.Second, 24*time.Hour)
	direct := false
	s.flag("allow_direct", &direct)
	if s.has("relay") {
		d.readMailboxRelay(s.sub("relay"))
	}
	s.finish()
}

func (d *decoder) readMailboxRelay(s *section) {
	var text string
	if s.str("listen", &text) {
		if u, err := url.Parse(text); err != nil || u.Scheme != "quic" || u.Port() == "" {
			s.errorf(s.line("listen"), "listen", "must be quic://host:port")
		}
	}
	s.str("external", &text)
	s.str("datastore", &text)
	s.str("contact", &text)
	for _, it := range s.items("allow") {
		if _, err := box.ParsePublic(it.text); err != nil {
			s.errorf(it.line, "allow", "must hold client keys in base58")
		}
	}
	drain := false
	s.flag("drain", &drain)
	s.finish()
}

// readMailboxURLs checks addresses of relays, each with the relay's key.
func (d *decoder) readMailboxURLs(s *section, name string) {
	items := s.items(name)
	if len(items) > maxMailboxes {
		s.errorf(s.line(name), name, "must hold at most %d relays", maxMailboxes)
	}
	for _, it := range items {
		u, err := url.Parse(it.text)
		if err != nil || (u.Scheme != "quic" && u.Scheme != "tcp+tls") || u.Hostname() == "" || u.Port() == "" {
			s.errorf(it.line, name, "must be quic://host:port?key=KEY or tcp+tls://host:port?key=KEY")
			continue
		}
		if _, err := box.ParsePublic(u.Query().Get("key")); err != nil {
			s.errorf(it.line, name, "needs the relay's key: ?key= and 32 bytes in base58")
		}
	}
}
