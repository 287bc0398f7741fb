package p2p

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// specialSchemes are the names that the network's URL parser treats as WHATWG
// special schemes, with their default port. "file" is special as well, but is no
// address of anything here and is refused (decision 0060).
var specialSchemes = map[string]string{
	"tcp": "", "tcp+tls": "", "tor": "", "tor+tls": "", "socks5": "", "socks5+tls": "",
	"nym": "", "nym+tls": "", "quic": "",
	"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21",
}

func isSpecialScheme(s string) bool {
	_, ok := specialSchemes[s]
	return ok
}

// canonicalURL is the WHATWG basic URL parser without a base, followed by its
// serialiser. The caller bounds the length.
func canonicalURL(s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", ErrURL
	}
	s = strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
	if strings.ContainsAny(s, "\t\n\r") {
		s = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(s)
	}
	scheme, rest, ok := strings.Cut(s, ":")
	if scheme = asciiLower(scheme); !ok || !validScheme(scheme) || scheme == "file" {
		return "", ErrURL
	}
	special := isSpecialScheme(scheme)
	var fragment, query string
	hasFragment, hasQuery := false, false
	if i := strings.IndexByte(rest, '#'); i >= 0 {
		rest, fragment, hasFragment = rest[:i], rest[i+1:], true
	}
	if i := strings.IndexByte(rest, '?'); i >= 0 {
		rest, query, hasQuery = rest[:i], rest[i+1:], true
	}

	out := make([]byte, 0, len(s)+8)
	out = append(append(out, scheme...), ':')
	authority := special
	if special {
		rest = strings.TrimLeft(rest, `/\`)
	} else {
		rest, authority = strings.CutPrefix(rest, "//")
	}
	switch {
	case authority:
		ends := "/"
		if special {
			ends = `/\`
		}
		path := ""
		if i := strings.IndexAny(rest, ends); i >= 0 {
			rest, path = rest[:i], rest[i:]
		}
		var err error
		if out, err = appendAuthority(append(out, "//"...), scheme, rest); err != nil {
			return "", err
		}
		if special || path != "" {
			out = appendPath(out, path, special)
		}
	case strings.HasPrefix(rest, "/"):
		path := appendPath(nil, rest, false)
		if bytes.HasPrefix(path, []byte("//")) {
			out = append(out, "/."...) // else it would be read as an authority
		}
		out = append(out, path...)
	default:
		out = appendEncoded(out, rest, encodeControl)
	}
	if hasQuery {
		set := encodeQuery
		if special {
			set = encodeSpecialQuery
		}
		out = appendEncoded(append(out, '?'), query, set)
	}
	if hasFragment {
		out = appendEncoded(append(out, '#'), fragment, encodeFragment)
	}
	return string(out), nil
}

func validScheme(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return s != ""
}

func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

// appendAuthority appends user info, host and port of an authority.
func appendAuthority(out []byte, scheme, s string) ([]byte, error) {
	special := isSpecialScheme(scheme)
	hasUserinfo := false
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		user, password, _ := strings.Cut(s[:i], ":")
		s, hasUserinfo = s[i+1:], true
		out = appendEncoded(out, user, encodeUserinfo)
		if password != "" {
			out = appendEncoded(append(out, ':'), password, encodeUserinfo)
		}
		if user != "" || password != "" {
			out = append(out, '@')
		}
	}
	host, port, hasColon := s, "", false
	if i := portColon(s); i >= 0 {
		host, port, hasColon = s[:i], s[i+1:], true
	}
	if host == "" && (special || hasColon || hasUserinfo) {
		return nil, ErrURL
	}
	var err error
	switch {
	case host == "":
	case host[0] == '[':
		out, err = appendIPv6(out, host)
	case special:
		out, err = appendDomain(out, host)
	default:
		out, err = appendOpaqueHost(out, host)
	}
	if err != nil {
		return nil, err
	}
	if port = trimZeros(port); port != "" {
		if len(port) > 5 || strings.Trim(port, "0123456789") != "" {
			return nil, ErrURL
		}
		if n, _ := strconv.Atoi(port); n > 65535 {
			return nil, ErrURL
		}
		if port != specialSchemes[scheme] {
			out = append(append(out, ':'), port...)
		}
	}
	return out, nil
}

// portColon is the index of the colon before the port, or -1.
func portColon(s string) int {
	inBrackets := false
	for i := range len(s) {
		switch s[i] {
		case '[':
			inBrackets = true
		case ']':
			inBrackets = false
		case ':':
			if !inBrackets {
				return i
			}
		}
	}
	return -1
}

// trimZeros drops leading zeros of a number; a zero stays.
func trimZeros(s string) string {
	if t := strings.TrimLeft(s, "0"); t != "" || s == "" {
		return t
	}
	return "0"
}

// appendIPv6 appends a bracketed address, in hex groups only: netip would print
// an IPv4-mapped one as a dotted quad.
func appendIPv6(out []byte, host string) ([]byte, error) {
	inner, ok := strings.CutSuffix(host[1:], "]")
	a, err := netip.ParseAddr(inner)
	if !ok || err != nil || !a.Is6() || a.Zone() != "" || strings.Contains(inner, "%") {
		return nil, ErrURL
	}
	b := a.As16()
	var g [8]uint64
	for i := range g {
		g[i] = uint64(b[2*i])<<8 | uint64(b[2*i+1])
	}
	// The first longest run of two or more zero groups becomes "::".
	start, length := -1, 1
	for i := 0; i < len(g); i++ {
		n := 0
		for i+n < len(g) && g[i+n] == 0 {
			n++
		}
		if n > length {
			start, length = i, n
		}
		i += n
	}
	out = append(out, '[')
	for i := 0; i < len(g); i++ {
		if i == start {
			out = append(out, "::"...)
			i += length - 1
			continue
		}
		if i > 0 && i != start+length {
			out = append(out, ':')
		}
		out = strconv.AppendUint(out, g[i], 16)
	}
	return append(out, ']'), nil
}

// idnaProfile is WHATWG "domain to ASCII" with beStrict false.
var idnaProfile = idna.New(
	idna.MapForLookup(),
	idna.BidiRule(),
	idna.ValidateLabels(true),
	idna.CheckJoiners(true),
	idna.CheckHyphens(false),
	idna.StrictDomainName(false),
	idna.VerifyDNSLength(false),
	idna.Transitional(false),
)

// appendDomain appends the host of a special scheme.
func appendDomain(out []byte, host string) ([]byte, error) {
	domain := percentDecode(host)
	if !utf8.ValidString(domain) {
		return nil, ErrURL
	}
	if isPlainASCII(domain) {
		domain = asciiLower(domain)
	} else {
		// Mapping can yield text that maps on; canonical text must not.
		for range 2 {
			ascii, err := idnaProfile.ToASCII(domain)
			if err != nil {
				return nil, ErrURL
			}
			domain = ascii
		}
	}
	if domain == "" || strings.ContainsFunc(domain, forbiddenInDomain) {
		return nil, ErrURL
	}
	if endsInNumber(domain) {
		return appendIPv4(out, domain)
	}
	return append(out, domain...), nil
}

// isPlainASCII tells whether s needs no IDNA: only ASCII, and no label that
// claims to be Punycode.
func isPlainASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	s = asciiLower(s)
	return !strings.HasPrefix(s, "xn--") && !strings.Contains(s, ".xn--")
}

// endsInNumber tells whether the last label looks numeric, so that the host must
// be an IPv4 address.
func endsInNumber(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last != "" && strings.Trim(last, "0123456789") == "" {
		return true
	}
	digits, ok := strings.CutPrefix(asciiLower(last), "0x")
	return ok && strings.Trim(digits, "0123456789abcdef") == ""
}

// appendIPv4 parses the loose IPv4 forms: hex, octal, fewer than four parts.
func appendIPv4(out []byte, host string) ([]byte, error) {
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(parts) > 4 {
		return nil, ErrURL
	}
	var addr uint64
	for i, part := range parts {
		base, digits := 10, asciiLower(part)
		if hex, ok := strings.CutPrefix(digits, "0x"); ok {
			base, digits = 16, hex
		} else if len(digits) > 1 && digits[0] == '0' {
			base, digits = 8, digits[1:]
		}
		if part == "" {
			return nil, ErrURL
		}
		var n uint64
		if digits != "" {
			var err error
			if n, err = strconv.ParseUint(digits, base, 64); err != nil {
				return nil, ErrURL
			}
		}
		bits := 8 // of the last part: all that the others left
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if n>>bits != 0 {
			return nil, ErrURL
		}
		addr = addr<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(addr >> 24), byte(addr >> 16), byte(addr >> 8), byte(addr)}).AppendTo(out), nil
}

// appendOpaqueHost appends the host of a scheme that is not special: case stays,
// numbers mean nothing.
func appendOpaqueHost(out []byte, host string) ([]byte, error) {
	if strings.ContainsFunc(host, forbiddenInHost) {
		return nil, ErrURL
	}
	return appendEncoded(out, host, encodeControl), nil
}

func forbiddenInHost(r rune) bool {
	return r == 0 || r == '\t' || r == '\n' || r == '\r' || strings.ContainsRune(` #/:<>?@[\]^|`, r)
}

func forbiddenInDomain(r rune) bool {
	return forbiddenInHost(r) || r < ' ' || r == '%' || r == 0x7f
}

// appendPath appends a path with its dot segments resolved.
func appendPath(out []byte, path string, special bool) []byte {
	base := len(out)
	for first := true; first || path != ""; first = false {
		if path != "" && (path[0] == '/' || special && path[0] == '\\') {
			path = path[1:]
		}
		segment, last := path, true
		for i := range len(path) {
			if path[i] == '/' || special && path[i] == '\\' {
				segment, path, last = path[:i], path[i:], false
				break
			}
		}
		if last {
			path = ""
		}
		switch asciiLower(segment) {
		case ".", "%2e":
			if last {
				out = append(out, '/')
			}
		case "..", ".%2e", "%2e.", "%2e%2e":
			if i := bytes.LastIndexByte(out[base:], '/'); i >= 0 {
				out = out[:base+i]
			}
			if last {
				out = append(out, '/')
			}
		default:
			out = appendEncoded(append(out, '/'), segment, encodePath)
		}
	}
	return out
}

// percentDecode undoes every valid escape.
func percentDecode(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b = append(b, byte(n))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

// An encodeSet lists the printable ASCII characters that are percent-encoded, on
// top of controls and everything beyond ASCII.
type encodeSet string

const (
	encodeControl      encodeSet = ""
	encodeFragment     encodeSet = " \"<>`"
	encodeQuery        encodeSet = " \"#<>"
	encodeSpecialQuery encodeSet = " \"#<>'"
	encodePath         encodeSet = " \"<>`#?{}"
	encodeUserinfo     encodeSet = " \"<>`#?{}/:;=@[\\]^|"
)

func appendEncoded(out []byte, s string, set encodeSet) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c >= 0x7f || strings.IndexByte(string(set), c) >= 0 {
			out = append(out, '%', hex[c>>4], hex[c&15])
		} else {
			out = append(out, c)
		}
	}
	return out
}
