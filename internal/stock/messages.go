package stock

import (
	"fmt"
	"math"
	"strings"

	"hearsay/eventgraph"
	"hearsay/internal/serial"
	"hearsay/p2p"
)

// The base messages (p2p 2.3) and the event graph's (eventgraph 5.1).
const (
	cmdVersion = "version"
	cmdVerack  = "verack"
	cmdPing    = "ping"
	cmdPong    = "pong"
	cmdGetaddr = "getaddr"
	cmdAddr    = "addr"

	cmdEventPut  = "EventGraph::EventPut"
	cmdStaticPut = "EventGraph::StaticPut"
	cmdEventReq  = "EventGraph::EventReq"
	cmdEventRep  = "EventGraph::EventRep"
	cmdHeaderPut = "EventGraph::HeaderPut"
	cmdHeaderReq = "EventGraph::HeaderReq"
	cmdHeaderRep = "EventGraph::HeaderRep"
	cmdTipReq    = "EventGraph::TipReq"
	cmdTipRep    = "EventGraph::TipRep"
	cmdRangeReq  = "EventGraph::RangeReq"
	cmdRangeRep  = "EventGraph::RangeRep"
)

const staticDAG = "static-dag"

// unlimited is for counts and lengths that upstream does not limit: the payload
// does.
const unlimited = math.MaxInt32

type semver struct {
	major, minor, patch uint64
	pre, build          string
}

func (v semver) appendTo(b []byte) []byte {
	b = serial.AppendUint64(b, v.major)
	b = serial.AppendUint64(b, v.minor)
	b = serial.AppendUint64(b, v.patch)
	return serial.AppendString(serial.AppendString(b, v.pre), v.build)
}

func readSemver(r *serial.Reader) (v semver) {
	v = semver{r.Uint64(), r.Uint64(), r.Uint64(), r.String(unlimited), r.String(unlimited)}
	if r.Err() == nil && (!validIdentifiers(v.pre, true) || !validIdentifiers(v.build, false)) {
		r.Fail(fmt.Errorf("stock: not a semantic version"))
	}
	return v
}

// validIdentifiers checks a pre-release or build string, which may be empty.
func validIdentifiers(s string, pre bool) bool {
	if s == "" {
		return true
	}
	for id := range strings.SplitSeq(s, ".") {
		digits := true
		for _, c := range id {
			switch {
			case '0' <= c && c <= '9':
			case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '-':
				digits = false
			default:
				return false
			}
		}
		if id == "" || pre && digits && len(id) > 1 && id[0] == '0' {
			return false
		}
	}
	return true
}

// readURL reads a URL; upstream normalises, so text that is not canonical is no
// error there. foreign collects such text.
func readURL(r *serial.Reader, foreign *[]string) p2p.URL {
	text := r.String(unlimited)
	if r.Err() != nil {
		return p2p.URL{}
	}
	u, err := p2p.ParseURL(text)
	if err != nil {
		r.Fail(err)
	} else if u.String() != text {
		*foreign = append(*foreign, text)
	}
	return u
}

type versionMessage struct {
	nodeID, app  string
	version      semver
	timestamp    uint64
	connectRecv  p2p.URL
	resolveRecv  *p2p.URL
	external     []p2p.URL
	features     map[string]uint32
	notCanonical []string
}

func (m *versionMessage) encode() []byte {
	b := serial.AppendString(nil, m.nodeID)
	b = serial.AppendString(b, m.app)
	b = m.version.appendTo(b)
	b = serial.AppendUint64(b, m.timestamp)
	b = serial.AppendString(b, m.connectRecv.String())
	b = serial.AppendBool(b, m.resolveRecv != nil)
	if m.resolveRecv != nil {
		b = serial.AppendString(b, m.resolveRecv.String())
	}
	b = serial.AppendVarInt(b, uint64(len(m.external)))
	for _, u := range m.external {
		b = serial.AppendString(b, u.String())
	}
	return serial.AppendVarInt(b, 0) // features: always empty
}

func readVersion(r *serial.Reader) any {
	m := &versionMessage{features: map[string]uint32{}}
	m.nodeID = r.String(unlimited)
	m.app = r.String(unlimited)
	m.version = readSemver(r)
	m.timestamp = r.Uint64()
	m.connectRecv = readURL(r, &m.notCanonical)
	if r.Bool() {
		u := readURL(r, &m.notCanonical)
		m.resolveRecv = &u
	}
	for n := r.Count(unlimited, 1); n > 0; n-- {
		m.external = append(m.external, readURL(r, &m.notCanonical))
	}
	for n := r.Count(unlimited, 5); n > 0; n-- {
		name := r.String(unlimited)
		m.features[name] = r.Uint32()
	}
	return m
}

type verackMessage struct {
	version semver
	app     string
}

type getaddrMessage struct {
	max        uint32
	transports []string
}

type addrEntry struct {
	url      p2p.URL
	lastSeen uint64
}

type addrMessage struct {
	entries      []addrEntry
	notCanonical []string
}

func appendAddrs(b []byte, entries []addrEntry) []byte {
	b = serial.AppendVarInt(b, uint64(len(entries)))
	for _, e := range entries {
		b = serial.AppendUint64(serial.AppendString(b, e.url.String()), e.lastSeen)
	}
	return b
}

type putMessage struct {
	event eventgraph.Event
	blob  []byte
}

func encodePut(e *eventgraph.Event) []byte {
	return serial.AppendVarInt(e.AppendTo(nil), 0)
}

type eventRep struct {
	events []eventgraph.Event
	blobs  int
}

func appendEventRep(b []byte, events []eventgraph.Event) []byte {
	b = serial.AppendVarInt(b, uint64(len(events)))
	for i := range events {
		b = events[i].AppendTo(b)
	}
	b = serial.AppendVarInt(b, uint64(len(events)))
	return append(b, make([]byte, len(events))...) // empty blobs
}

func readEventRep(r *serial.Reader) any {
	m := &eventRep{}
	for n := r.Count(unlimited, eventgraph.HeaderSize+1); n > 0 && r.Err() == nil; n-- {
		m.events = append(m.events, eventgraph.ReadEvent(r, unlimited))
	}
	m.blobs = r.Count(unlimited, 1)
	for n := m.blobs; n > 0 && r.Err() == nil; n-- {
		r.Bytes(unlimited)
	}
	return m
}

func appendIDs(b []byte, ids []eventgraph.ID) []byte {
	b = serial.AppendVarInt(b, uint64(len(ids)))
	for _, id := range ids {
		b = append(b, id[:]...)
	}
	return b
}

func readIDs(r *serial.Reader) any {
	var ids []eventgraph.ID
	for n := r.Count(unlimited, 32); n > 0; n-- {
		ids = append(ids, readID(r))
	}
	return ids
}

func readID(r *serial.Reader) (id eventgraph.ID) {
	copy(id[:], r.Take(32))
	return id
}

type tipMap map[uint64]map[eventgraph.ID]bool

func (t tipMap) count() (n int) {
	for _, ids := range t {
		n += len(ids)
	}
	return n
}

func (t tipMap) appendTo(b []byte) []byte {
	b = serial.AppendVarInt(b, uint64(len(t)))
	for _, layer := range sortedKeys(t) {
		b = serial.AppendUint64(b, layer)
		b = appendIDs(b, sortedIDs(t[layer]))
	}
	return b
}

func readTips(r *serial.Reader) any {
	t := tipMap{}
	for n := r.Count(unlimited, 9); n > 0 && r.Err() == nil; n-- {
		layer := r.Uint64()
		ids, _ := readIDs(r).([]eventgraph.ID)
		set := map[eventgraph.ID]bool{}
		for _, id := range ids {
			set[id] = true
		}
		t[layer] = set // a repeated key overwrites
	}
	return t
}

type headerReq struct {
	dag  string
	tips tipMap
}

func appendHeaders(b []byte, hs []eventgraph.Header) []byte {
	b = serial.AppendVarInt(b, uint64(len(hs)))
	for i := range hs {
		b = hs[i].AppendTo(b)
	}
	return b
}

func readHeaders(r *serial.Reader) any {
	var hs []eventgraph.Header
	for n := r.Count(unlimited, eventgraph.HeaderSize); n > 0; n-- {
		hs = append(hs, eventgraph.ReadHeader(r))
	}
	return hs
}

type cursor struct {
	ts uint64
	id eventgraph.ID
}

type rangeReq struct {
	dag      string
	from     cursor
	backward bool
	limit    uint32
}

func readRangeReq(r *serial.Reader) any {
	m := rangeReq{dag: r.String(unlimited), from: cursor{r.Uint64(), readID(r)}}
	switch d := r.Uint8(); d {
	case 0, 1:
		m.backward = d == 1
	default:
		r.Fail(fmt.Errorf("stock: direction %d", d))
	}
	m.limit = r.Uint32()
	return m
}

func appendRangeRep(b []byte, events []eventgraph.Event, next cursor, exhausted bool) []byte {
	b = appendEventRep(b, events)
	b = serial.AppendUint64(b, next.ts)
	b = append(b, next.id[:]...)
	return serial.AppendBool(b, exhausted)
}

// dispatchers makes the table of a new channel (p2p 2.2; eventgraph 5.1).
func dispatchers(session Session) map[string]*dispatcher {
	m := map[string]*dispatcher{
		cmdVersion: {max: 2043, threshold: 4, decode: readVersion},
		cmdVerack: {max: 128, threshold: 4, decode: func(r *serial.Reader) any {
			return verackMessage{readSemver(r), r.String(unlimited)}
		}},
		cmdPing: {max: 2, threshold: 4, decode: func(r *serial.Reader) any { return r.Uint16() }},
		cmdPong: {max: 2, threshold: 4, decode: func(r *serial.Reader) any { return r.Uint16() }},
		cmdGetaddr: {max: 57, threshold: 6, decode: func(r *serial.Reader) any {
			m := getaddrMessage{max: r.Uint32()}
			for n := r.Count(unlimited, 1); n > 0; n-- {
				m.transports = append(m.transports, r.String(unlimited))
			}
			return m
		}},
		cmdAddr: {max: 65281, threshold: 6, decode: func(r *serial.Reader) any {
			m := &addrMessage{}
			for n := r.Count(unlimited, 9); n > 0; n-- {
				u := readURL(r, &m.notCanonical)
				m.entries = append(m.entries, addrEntry{u, r.Uint64()})
			}
			return m
		}},
	}
	if !session.carriesGraph() {
		return m
	}
	put := func(r *serial.Reader) any {
		return putMessage{eventgraph.ReadEvent(r, unlimited), r.Bytes(unlimited)}
	}
	for command, decode := range map[string]func(*serial.Reader) any{
		cmdEventPut: put, cmdStaticPut: put,
		cmdEventReq: readIDs, cmdEventRep: readEventRep,
		cmdHeaderPut: func(r *serial.Reader) any { return eventgraph.ReadHeader(r) },
		cmdHeaderReq: func(r *serial.Reader) any {
			dag := r.String(unlimited)
			tips, _ := readTips(r).(tipMap)
			return headerReq{dag, tips}
		},
		cmdHeaderRep: readHeaders,
		cmdTipReq:    func(r *serial.Reader) any { return r.String(unlimited) },
		cmdTipRep:    readTips,
		cmdRangeReq:  readRangeReq,
		cmdRangeRep: func(r *serial.Reader) any {
			m := readEventRep(r)
			r.Take(8 + 32)
			r.Bool()
			return m
		},
	} {
		m[command] = &dispatcher{decode: decode}
	}
	return m
}
