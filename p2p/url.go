package p2p

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Errors of [ParseURL]. They never carry the text: it may be an address.
var (
	// ErrURL: the text is not a URL by the network's grammar.
	ErrURL = errors.New("p2p: invalid URL")
	// ErrURLTooLong: the text, or its canonical form, is longer than [MaxURLLen].
	ErrURLTooLong = errors.New("p2p: URL too long")
)

// A URL is the network's canonical text of an address (spec/wire.md,
// section 8): equal text is the same address, so URLs compare with == and serve as map
// keys. The zero URL is no address.
//
// String gives the text, which is also what goes over the wire and into files;
// slog prints "[address]" instead (DS-51).
type URL struct{ text string }

// A HostKind says what the host of a URL is.
type HostKind uint8

// Host kinds.
const (
	HostNone HostKind = iota // no host
	HostName                 // a name, or a dotted quad under a scheme that is not special
	HostIPv4
	HostIPv6
)

// ParseURL brings s into canonical form. Text that upstream's parser refuses is
// refused here: it must never be sent. The errors are [ErrURL] and [ErrURLTooLong].
func ParseURL(s string) (URL, error) {
	if len(s) > MaxURLLen {
		return URL{}, ErrURLTooLong
	}
	text, err := canonicalURL(s)
	if err != nil {
		return URL{}, err
	}
	if len(text) > MaxURLLen {
		return URL{}, ErrURLTooLong
	}
	return URL{text}, nil
}

// MustParseURL is [ParseURL] for text that the program itself wrote; it panics on
// anything that is not a URL.
func MustParseURL(s string) URL {
	u, err := ParseURL(s)
	if err != nil {
		panic("p2p: MustParseURL of text that is not a URL")
	}
	return u
}

// String is the canonical text.
func (u URL) String() string { return u.text }

// IsZero tells whether u is the zero URL.
func (u URL) IsZero() bool { return u.text == "" }

// LogValue keeps addresses out of logs.
func (u URL) LogValue() slog.Value { return slog.StringValue("[address]") }

// MarshalText is the canonical text.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.text), nil }

// UnmarshalText parses as [ParseURL] does; empty text is the zero URL.
func (u *URL) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*u = URL{}
		return nil
	}
	v, err := ParseURL(string(b))
	if err != nil {
		return err
	}
	*u = v
	return nil
}

// Scheme is the part before the colon, in lower case.
func (u URL) Scheme() string { return u.parts().scheme }

// Host is the host as it is dialed: an IPv6 address has no brackets. It is empty
// where the URL has none.
func (u URL) Host() string { return strings.Trim(u.parts().host, "[]") }

// HostKind says what Host is.
func (u URL) HostKind() HostKind {
	p := u.parts()
	switch {
	case p.host == "":
		return HostNone
	case p.host[0] == '[':
		return HostIPv6
	case isSpecialScheme(p.scheme) && endsInNumber(p.host):
		return HostIPv4
	}
	return HostName
}

// IP is the address of a host that is an IPv4 or IPv6 literal, else the zero Addr.
func (u URL) IP() netip.Addr {
	if k := u.HostKind(); k == HostIPv4 || k == HostIPv6 {
		a, _ := netip.ParseAddr(u.Host()) // canonical text parses
		return a
	}
	return netip.Addr{}
}

// HasPort tells whether a port was written. No scheme of the network has a
// default port.
func (u URL) HasPort() bool { return u.parts().port != "" }

// Port is the port in decimal, or empty.
func (u URL) Port() string { return u.parts().port }

// HostPort is Host and Port as net.Dial takes them, an IPv6 host in brackets.
func (u URL) HostPort() string { return net.JoinHostPort(u.Host(), u.Port()) }

// Path is the path, percent-encoded as in the text.
func (u URL) Path() string { return u.parts().path }

// IsOpaque tells whether the URL has neither authority nor a path that starts
// with a slash ("mailto:x"). No address of a peer is opaque.
func (u URL) IsOpaque() bool {
	p := u.parts()
	return !p.hasAuthority && !strings.HasPrefix(p.path, "/")
}

// RawQuery is what stands behind the question mark, without the fragment.
func (u URL) RawQuery() string { return strings.TrimPrefix(u.parts().query, "?") }

// QueryValue is the value of the first query pair called key, percent-encoded as
// in the text, and whether there is one. A pair without "=" has an empty value.
func (u URL) QueryValue(key string) (string, bool) {
	for pair := range strings.SplitSeq(u.RawQuery(), "&") {
		if k, v, _ := strings.Cut(pair, "="); k == key && pair != "" {
			return v, true
		}
	}
	return "", false
}

// WithoutPort drops the port.
func (u URL) WithoutPort() URL {
	p := u.parts()
	p.port = ""
	return p.join()
}

// WithPort sets the port; u must have a host.
func (u URL) WithPort(port uint16) URL {
	p := u.parts()
	if p.host == "" {
		return u
	}
	p.port = strconv.Itoa(int(port))
	return p.join()
}

// WithoutQuery drops the query. A fragment stays.
func (u URL) WithoutQuery() URL {
	p := u.parts()
	p.query = ""
	return p.join()
}

// WithScheme replaces the scheme. It fails between a special scheme and one that
// is not (so between i2p and any of tcp, tor, socks5).
func (u URL) WithScheme(scheme string) (URL, error) {
	p := u.parts()
	if isSpecialScheme(p.scheme) != isSpecialScheme(scheme) {
		return URL{}, fmt.Errorf("%w: scheme %s cannot become %s", ErrURL, p.scheme, scheme)
	}
	return ParseURL(scheme + u.text[len(p.scheme):])
}

// urlParts are the pieces of a canonical text, delimiters included where the
// comment says so.
type urlParts struct {
	scheme       string
	hasAuthority bool
	userinfo     string // with "@"
	host         string // IPv6 in brackets
	port         string // without ":"
	path         string
	query        string // with "?"
	fragment     string // with "#"
}

// parts cuts canonical text, where every delimiter in the wrong place has been
// percent-encoded.
func (u URL) parts() (p urlParts) {
	scheme, rest, ok := strings.Cut(u.text, ":")
	if !ok {
		return p
	}
	p.scheme = scheme
	if i := strings.IndexByte(rest, '#'); i >= 0 {
		rest, p.fragment = rest[:i], rest[i:]
	}
	if i := strings.IndexByte(rest, '?'); i >= 0 {
		rest, p.query = rest[:i], rest[i:]
	}
	authority, ok := strings.CutPrefix(rest, "//")
	if !ok {
		p.path = rest
		return p
	}
	p.hasAuthority = true
	if i := strings.IndexByte(authority, '/'); i >= 0 {
		authority, p.path = authority[:i], authority[i:]
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		p.userinfo, authority = authority[:i+1], authority[i+1:]
	}
	p.host = authority
	if i := strings.LastIndexByte(authority, ':'); i >= 0 && i > strings.LastIndexByte(authority, ']') {
		p.host, p.port = authority[:i], authority[i+1:]
	}
	return p
}

func (p urlParts) join() URL {
	var b strings.Builder
	b.WriteString(p.scheme)
	if p.scheme != "" {
		b.WriteByte(':')
	}
	if p.hasAuthority {
		b.WriteString("//")
		b.WriteString(p.userinfo)
		b.WriteString(p.host)
		if p.port != "" {
			b.WriteByte(':')
			b.WriteString(p.port)
		}
	}
	if !p.hasAuthority && p.query == "" && p.fragment == "" {
		p.path = strings.TrimRight(p.path, " ") // of an opaque path, as a parser would
	}
	b.WriteString(p.path)
	b.WriteString(p.query)
	b.WriteString(p.fragment)
	return URL{b.String()}
}
