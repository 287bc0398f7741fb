package ircd

import "strings"

// An identity is who a client says it is in USER, PASS or SASL: name@device, so that
// several clients of one person can be told apart.
type identity struct {
	name   string
	device string // "" for a client that names none
}

// parseIdentity reads name@device.
func parseIdentity(s string) identity {
	name, device, _ := strings.Cut(s, "@")
	return identity{cutUTF8(name, maxUser), cleanDevice(device)}
}

// cleanDevice keeps what can be shown and compared.
func cleanDevice(s string) string {
	s = strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return -1
	}, s)
	return s[:min(len(s), maxDevice)]
}

// identify notes what a client says of itself. SASL counts for more than PASS and PASS
// for more than USER, in whatever order they come; the callers see to that.
func (c *client) identify(id identity, source identitySource) {
	if id.device != "" && source >= c.identified {
		c.who, c.identified = id, source
	}
}

// identitySource is where a client's device was named.
type identitySource int

const (
	fromUser identitySource = iota + 1
	fromPass
	fromSASL
)

// passIdentity splits a PASS of the form name@device:password. Whether it is one, or a
// password that looks like it, is for the check to find out.
func passIdentity(pass string) (id identity, password string, ok bool) {
	who, password, found := strings.Cut(pass, ":")
	name, device, at := strings.Cut(who, "@")
	if !found || !at || name == "" || device == "" || strings.ContainsAny(who, " ") {
		return identity{}, "", false
	}
	return parseIdentity(who), password, true
}
