package p2p

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"hearsay/internal/serial"
)

// Base commands: every connection knows them from its first byte.
const (
	cmdVersion = "version"
	cmdVerack  = "verack"
	cmdPing    = "ping"
	cmdPong    = "pong"
	cmdGetaddr = "getaddr"
	cmdAddr    = "addr"
)

// baseCommands are the network's bounds and meters of the base messages.
var baseCommands = []Command{
	{Name: cmdVersion, MaxPayload: maxVersionPayload, Meter: Meter{4, 1000, 10_000}},
	{Name: cmdVerack, MaxPayload: maxVerackPayload, Meter: Meter{4, 1000, 10_000}},
	{Name: cmdPing, MaxPayload: maxPingPayload, Meter: Meter{4, 1000, 10_000}},
	{Name: cmdPong, MaxPayload: maxPingPayload, Meter: Meter{4, 1000, 10_000}},
	{Name: cmdGetaddr, MaxPayload: maxGetaddrPayload, Meter: Meter{6, 1000, 10_000}},
	{Name: cmdAddr, MaxPayload: maxAddrPayload, Meter: Meter{6, 1000, 10_000}},
}

// A semver is a version as the network writes it.
type semver struct {
	major, minor, patch uint64
	pre, build          string
}

var errSemver = errors.New("p2p: not a semantic version")

// parseSemver reads "1.2.3", "1.2.3-beta" or "1.2.3-beta+build".
func parseSemver(s string) (semver, error) {
	var v semver
	s, v.build, _ = strings.Cut(s, "+")
	s, v.pre, _ = strings.Cut(s, "-")
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return semver{}, fmt.Errorf("%w: want MAJOR.MINOR.PATCH", errSemver)
	}
	for i, dst := range []*uint64{&v.major, &v.minor, &v.patch} {
		n, err := strconv.ParseUint(parts[i], 10, 64)
		if err != nil || strconv.FormatUint(n, 10) != parts[i] {
			return semver{}, fmt.Errorf("%w: bad number", errSemver)
		}
		*dst = n
	}
	if !validIdentifiers(v.pre, true) || !validIdentifiers(v.build, false) {
		return semver{}, fmt.Errorf("%w: bad identifier", errSemver)
	}
	return v, nil
}

// validIdentifiers checks dot-separated identifiers; numeric ones of a pre-release
// have no leading zero. Empty text is none.
func validIdentifiers(s string, pre bool) bool {
	if s == "" {
		return true
	}
	for id := range strings.SplitSeq(s, ".") {
		numeric := id != ""
		for _, c := range []byte(id) {
			switch {
			case '0' <= c && c <= '9':
			case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '-':
				numeric = false
			default:
				return false
			}
		}
		if id == "" || pre && numeric && len(id) > 1 && id[0] == '0' {
			return false
		}
	}
	return true
}

func (v semver) appendTo(b []byte) []byte {
	b = serial.AppendUint64(b, v.major)
	b = serial.AppendUint64(b, v.minor)
	b = serial.AppendUint64(b, v.patch)
	b = serial.AppendString(b, v.pre)
	return serial.AppendString(b, v.build)
}

func readSemver(r *serial.Reader) (v semver) {
	v.major, v.minor, v.patch = r.Uint64(), r.Uint64(), r.Uint64()
	v.pre, v.build = r.String(r.Len()), r.String(r.Len())
	if r.Err() == nil && (!validIdentifiers(v.pre, true) || !validIdentifiers(v.build, false)) {
		r.Fail(errSemver)
	}
	return v
}

func appendURL(b []byte, u URL) []byte { return serial.AppendString(b, u.String()) }

func readURL(r *serial.Reader) URL {
	s := r.String(r.Len())
	if r.Err() != nil {
		return URL{}
	}
	u, err := ParseURL(s)
	if err != nil {
		r.Fail(err)
	}
	return u
}

// A feature is a pair of a version message; upstream writes none and reads none.
type feature struct {
	name  string
	value uint32
}

// A versionMsg is the message that both ends send first.
type versionMsg struct {
	nodeID      string
	appName     string
	version     semver
	timestamp   uint64 // UNIX seconds
	connectRecv URL
	resolveRecv URL // zero: none
	extSend     []URL
	features    []feature
}

func (m *versionMsg) encode() []byte {
	b := serial.AppendString(nil, m.nodeID)
	b = serial.AppendString(b, m.appName)
	b = m.version.appendTo(b)
	b = serial.AppendUint64(b, m.timestamp)
	b = appendURL(b, m.connectRecv)
	b = serial.AppendBool(b, !m.resolveRecv.IsZero())
	if !m.resolveRecv.IsZero() {
		b = appendURL(b, m.resolveRecv)
	}
	b = serial.AppendVarInt(b, uint64(len(m.extSend)))
	for _, u := range m.extSend {
		b = appendURL(b, u)
	}
	b = serial.AppendVarInt(b, uint64(len(m.features)))
	for _, f := range m.features {
		b = serial.AppendString(b, f.name)
		b = serial.AppendUint32(b, f.value)
	}
	return b
}

func decodeVersion(payload []byte) (m versionMsg, err error) {
	r := serial.NewReader(payload)
	m.nodeID = r.String(r.Len())
	m.appName = r.String(r.Len())
	m.version = readSemver(r)
	m.timestamp = r.Uint64()
	m.connectRecv = readURL(r)
	if r.Bool() {
		m.resolveRecv = readURL(r)
	}
	for range r.Count(r.Len(), 1) {
		m.extSend = append(m.extSend, readURL(r))
	}
	for range r.Count(r.Len(), 5) {
		m.features = append(m.features, feature{r.String(r.Len()), r.Uint32()})
	}
	return m, finish(r)
}

// A verackMsg answers a version. It alone is compared.
type verackMsg struct {
	version semver
	appName string
}

func (m *verackMsg) encode() []byte {
	return serial.AppendString(m.version.appendTo(nil), m.appName)
}

func decodeVerack(payload []byte) (m verackMsg, err error) {
	r := serial.NewReader(payload)
	m.version = readSemver(r)
	m.appName = r.String(r.Len())
	return m, finish(r)
}

// decodeNonce reads a ping or a pong.
func decodeNonce(payload []byte) (uint16, error) {
	r := serial.NewReader(payload)
	n := r.Uint16()
	return n, finish(r)
}

func appendNonce(n uint16) []byte { return serial.AppendUint16(nil, n) }

// A getaddrMsg asks for addresses.
type getaddrMsg struct {
	max        uint32
	transports []string
}

// encode leaves out transports that would make the payload longer than its limit.
func (m *getaddrMsg) encode() []byte {
	size, n := 4+1, 0
	for _, t := range m.transports {
		if size += 1 + len(t); size > maxGetaddrPayload {
			break
		}
		n++
	}
	b := serial.AppendUint32(nil, m.max)
	b = serial.AppendVarInt(b, uint64(n))
	for _, t := range m.transports[:n] {
		b = serial.AppendString(b, t)
	}
	return b
}

func decodeGetaddr(payload []byte) (m getaddrMsg, err error) {
	r := serial.NewReader(payload)
	m.max = r.Uint32()
	for range r.Count(r.Len(), 1) {
		m.transports = append(m.transports, r.String(r.Len()))
	}
	return m, finish(r)
}

// A hostEntry is an address and when somebody last saw it, in UNIX seconds.
type hostEntry struct {
	url      URL
	lastSeen uint64
}

// encodeAddr leaves out entries that would make the payload longer than its limit.
func encodeAddr(entries []hostEntry) []byte {
	size, n := 3, 0 // up to 65,535 entries the count takes at most 3 bytes
	for _, e := range entries {
		l := len(e.url.String())
		if size += serial.VarIntSize(uint64(l)) + l + 8; size > maxAddrPayload {
			break
		}
		n++
	}
	b := serial.AppendVarInt(nil, uint64(n))
	for _, e := range entries[:n] {
		b = appendURL(b, e.url)
		b = serial.AppendUint64(b, e.lastSeen)
	}
	return b
}

// decodeAddr checks the whole message and returns its entries but those whose URL is
// longer than we store: their sender may only be passing on what upstream takes.
func decodeAddr(payload []byte) (entries []hostEntry, err error) {
	r := serial.NewReader(payload)
	for range r.Count(r.Len(), 9) {
		s := r.String(r.Len())
		seen := r.Uint64()
		if r.Err() != nil {
			break
		}
		u, err := ParseURL(s)
		switch {
		case errors.Is(err, ErrURLTooLong):
		case err != nil:
			r.Fail(err)
		default:
			entries = append(entries, hostEntry{u, seen})
		}
	}
	if err := finish(r); err != nil {
		return nil, err
	}
	return entries, nil
}

// finish tells bytes behind the content, which upstream takes for the next frame,
// from content that is wrong.
func finish(r *serial.Reader) error {
	switch err := r.Done(); {
	case err == nil:
		return nil
	case errors.Is(err, serial.ErrTrailing):
		return &wireFault{offenceMagic, ErrTrailing}
	default:
		return &wireFault{offencePayload, fmt.Errorf("%w: %w", ErrMalformed, err)}
	}
}
