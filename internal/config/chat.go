package config

import (
	"strings"
	"unicode"

	"hearsay/internal/box"
)

// Limits of names on the network (ircd facts, section 1.3).
const (
	maxNick    = 24
	maxChannel = 24
	// maxTopic is what fits an IRC line with everything around it, in bytes.
	maxTopic = 390
)

// serviceNames are nicks that nobody may be called (T23).
var serviceNames = []string{"nickserv", "chanserv"}

func (d *decoder) readChat(s *section, c *Chat) {
	s.filePath("motd", &c.MOTD)
	joined := map[string]bool{}
	for _, it := range s.items("autojoin") {
		folded := strings.ToLower(it.text)
		switch {
		case joined[folded]:
			s.errorf(it.line, "autojoin", "%s is listed twice", it.text)
		case checkChannel(it.text) != "":
			s.errorf(it.line, "autojoin", "%s", checkChannel(it.text))
		default:
			c.Autojoin = append(c.Autojoin, it.text)
		}
		joined[folded] = true
	}
	d.readChannels(s.sub("channel"), c)
	d.readContacts(s.sub("contact"), c)
}

func (d *decoder) readChannels(s *section, c *Chat) {
	folded := map[string]string{}
	s.each(func(name string, line int, t *section) {
		ch := Channel{Name: name}
		if text := checkChannel(name); text != "" {
			d.errorf(line, t.path, "%s", text)
		}
		// IRC clients cannot tell the two apart, so one of them would be sent to
		// under the other's key.
		if other, ok := folded[strings.ToLower(name)]; ok {
			d.errorf(line, t.path, "differs from %s in case only, which IRC does not see", other)
		}
		folded[strings.ToLower(name)] = name
		if t.str("topic", &ch.Topic) {
			switch {
			case strings.ContainsAny(ch.Topic, "\x00\r\n"):
				t.errorf(t.line("topic"), "topic", "must be one line")
			case len(ch.Topic) > maxTopic:
				t.warnf(t.line("topic"), "topic", "is cut after %d bytes, which is what fits an IRC line", maxTopic)
				ch.Topic = strings.ToValidUTF8(ch.Topic[:maxTopic], "")
			}
		}
		var ok bool
		if ch.Secret, ok = t.secret("secret"); ok && ch.Secret.IsZero() {
			t.errorf(t.line("secret"), "secret", "is no secret: all bytes are zero")
		}
		t.finish()
		c.Channels = append(c.Channels, ch)
	})
}

func (d *decoder) readContacts(s *section, c *Chat) {
	folded := map[string]string{}
	labels := map[box.Fingerprint]string{}
	s.each(func(label string, line int, t *section) {
		if text := checkLabel(label); text != "" {
			d.errorf(line, t.path, "%s", text)
		}
		if other, ok := folded[strings.ToLower(label)]; ok {
			d.errorf(line, t.path, "differs from %s in case only, which IRC does not see", other)
		}
		folded[strings.ToLower(label)] = label
		for _, name := range []string{"dm_chacha_public", "my_dm_chacha_secret"} {
			if !t.has(name) {
				t.errorf(line, name, "is required")
			}
		}
		public, ok1 := t.public("dm_chacha_public")
		secret, ok2 := t.secret("my_dm_chacha_secret")
		relays := d.readMailboxURLs(t, "mailbox")
		t.finish()
		if !ok1 || !ok2 {
			return
		}
		shared, err := box.New(secret, public)
		if err != nil {
			t.errorf(t.line("dm_chacha_public"), "dm_chacha_public", "cannot be anybody's public key")
			return
		}
		if other, ok := labels[shared.Fingerprint()]; ok {
			d.warnf(line, t.path, "has the same keys as %s; what arrives from either is shown under one of the names", other)
		} else {
			labels[shared.Fingerprint()] = label
		}
		c.Contacts = append(c.Contacts, Contact{Label: label, Public: public, Secret: secret, Mailbox: relays})
	})
}

// checkChannel is "" for a name that can be joined, else what is wrong with it.
func checkChannel(name string) string {
	switch {
	case !strings.HasPrefix(name, "#"):
		return "a channel's name starts with #"
	case len(name) < 2 || len(name) > maxChannel:
		return "a channel's name has 2 to 24 bytes, # included"
	case name[1] == '#':
		return "a channel's name has one # in front"
	}
	for _, r := range name {
		if r <= ' ' || r > '~' || r == ',' {
			return "a channel's name is printable ASCII without space and comma"
		}
	}
	return ""
}

// checkLabel is "" for a contact that can be written to, else what is wrong.
func checkLabel(label string) string {
	if label == "" || len(label) > maxNick {
		return "a contact's label has 1 to 24 bytes"
	}
	for _, r := range label {
		if !validNickRune(r) {
			return "a contact's label is a nick: ASCII letters, digits and - _ [ ] { } \\ ` ^ |"
		}
	}
	for _, name := range serviceNames {
		if strings.EqualFold(label, name) {
			return "a contact cannot be called like a service"
		}
	}
	return ""
}

func validNickRune(r rune) bool {
	return r <= unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_[]{}\\`^|", r))
}
