package gossip

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"hearsay/eventgraph"
	"hearsay/internal/serial"
	"hearsay/spec"
)

// vectors returns the fields of each line of a vector file. An empty file fails.
func vectors(t testing.TB, name string) [][]string {
	t.Helper()
	b, err := spec.Vectors.ReadFile("vectors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 0 && !strings.HasPrefix(f[0], "#") {
			lines = append(lines, f)
		}
	}
	if len(lines) == 0 {
		t.Fatalf("no vectors in %s", name)
	}
	return lines
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	if s == "-" {
		return nil
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The two events of the vectors (fact sheet, section 12).
func vectorEvents(t testing.TB) (b, world eventgraph.Event) {
	genesis := eventgraph.DarkIRC().GenesisOf(1740787200000)
	b = eventgraph.Event{Content: []byte("hello"), Header: eventgraph.Header{Timestamp: 1740787201234, Layer: 1}}
	b.Parents[0] = genesis.ID()
	b.ContentHash = eventgraph.HashContent(b.Content)
	world = eventgraph.Event{Content: []byte("world"), Header: eventgraph.Header{Timestamp: 1740787202000, Layer: 2}}
	world.Parents[0], world.Parents[1] = b.ID(), genesis.ID()
	world.ContentHash = eventgraph.HashContent(world.Content)
	return b, world
}

// vectorMessages is what the vectors' payloads mean.
func vectorMessages(t testing.TB) map[string]any {
	b, world := vectorEvents(t)
	genesis := b.Parents[0]
	big := eventgraph.Event{Header: eventgraph.Header{Timestamp: 1740787203000, Layer: 1}}
	for i := range 300 {
		big.Content = append(big.Content, byte(i))
	}
	big.Parents[0], big.ContentHash = genesis, eventgraph.HashContent(big.Content)
	const name = "1740787200000"
	newest := eventgraph.Cursor{Timestamp: ^uint64(0)}
	return map[string]any{
		"c_event_put":                   EventPut{Event: b},
		"event_put_300_byte_content":    EventPut{Event: big},
		"event_rep_one_empty_blob":      EventRep{Events: []eventgraph.Event{b}, Blobs: [][]byte{nil}},
		"event_req_two_ids":             EventReq{IDs: []eventgraph.ID{b.ID(), world.ID()}},
		"header_rep_empty":              HeaderRep{Headers: []eventgraph.Header{}},
		"header_rep_two":                HeaderRep{Headers: []eventgraph.Header{b.Header, world.Header}},
		"header_req":                    HeaderReq{Name: name, Tips: eventgraph.Tips{0: {genesis}}},
		"range_rep_one":                 RangeRep{Events: []eventgraph.Event{b}, Blobs: [][]byte{nil}, Next: eventgraph.Cursor{Timestamp: b.Timestamp, ID: b.ID()}, Exhausted: true},
		"range_req_newest_backward_100": RangeReq{Name: name, From: newest, Backward: true, Limit: 100},
		"range_req_oldest_forward_50":   RangeReq{Name: name, Limit: 50},
		"tip_rep_empty":                 TipRep{},
		"tip_rep_one_layer":             TipRep{Tips: eventgraph.Tips{1: {b.ID()}}},
		"tip_rep_two_layers":            TipRep{Tips: eventgraph.Tips{0: {genesis}, 2: {world.ID(), b.ID()}}},
		"tip_req_rotating":              TipReq{Name: name},
		"tip_req_static":                TipReq{Name: StaticName},
	}
}

type appender interface{ AppendTo([]byte) []byte }

func TestMessageVectors(t *testing.T) {
	want := vectorMessages(t)
	lines := vectors(t, "gossip-messages.txt")
	for _, f := range lines {
		name, command, payload, frame := f[0], f[1], unhex(t, f[2]), unhex(t, f[3])
		t.Run(name, func(t *testing.T) {
			m, ok := want[name]
			if !ok {
				t.Fatal("no test knows what this vector means")
			}
			if got := m.(appender).AppendTo(nil); !bytes.Equal(got, payload) {
				t.Errorf("encodes as %x, want %x", got, payload)
			}
			got, err := decode(command, payload)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.(appender).AppendTo(nil), payload) {
				t.Errorf("%+v does not encode back", got)
			}
			if fmt.Sprintf("%x", got) != fmt.Sprintf("%x", m) {
				t.Errorf("decodes as %+v, want %+v", got, m)
			}
			checkFrame(t, command, payload, frame)
		})
	}
	if len(lines) != len(want) {
		t.Errorf("%d vectors, %d meanings", len(lines), len(want))
	}
}

func checkFrame(t *testing.T, command string, payload, frame []byte) {
	t.Helper()
	b := serial.AppendString(unhex(t, "fbe5c7b5"), command)
	if b = serial.AppendBytes(b, payload); !bytes.Equal(b, frame) {
		t.Errorf("frame %x, want %x", b, frame)
	}
}

// DS-01, DS-02: 34 bytes, 66 with the frame, golden vectors for all six results.
func TestStatusVectors_DS01_DS02(t *testing.T) {
	b, _ := vectorEvents(t)
	results := map[string]eventgraph.Result{
		"has_inserted_true": eventgraph.HasInserted, "has_inserted_false": eventgraph.HasAlready,
		"nack_too_old": eventgraph.NackTooOld, "nack_not_synced": eventgraph.NackNotSynced,
		"nack_invalid": eventgraph.NackInvalid, "nack_busy": eventgraph.NackBusy,
	}
	for _, f := range vectors(t, "gossip-status.txt") {
		result, ok := results[f[0]]
		if !ok {
			t.Fatalf("unknown result %q", f[0])
		}
		delete(results, f[0])
		payload, frame := unhex(t, f[1]), unhex(t, f[2])
		want := eventgraph.Status{ID: b.ID(), Result: result}
		if got := AppendStatus(nil, want); !bytes.Equal(got, payload) || len(got) != 34 || len(frame) != 66 {
			t.Errorf("%s: %x, want %x", f[0], got, payload)
		}
		if got, err := DecodeStatus(payload); err != nil || got != want {
			t.Errorf("%s: %+v, %v", f[0], got, err)
		}
		checkFrame(t, CmdEventPutStatus, payload, frame)
	}
	if len(results) > 0 {
		t.Errorf("no vector for %v", results)
	}
	lax := append(bytes.Repeat([]byte{7}, 32), 0, 0x3a)
	if s, err := DecodeStatus(lax); err != nil || s.Result != eventgraph.HasInserted {
		t.Errorf("a bool of 0x3a must be true: %+v, %v", s, err)
	}
}

var classes = map[string]error{
	"short": serial.ErrShort, "limit": serial.ErrLimit, "trailing": serial.ErrTrailing, "nonminimal": serial.ErrNonMinimal,
	"utf8": serial.ErrUTF8, "tag": errTag, "many": ErrTooMany,
}

func badVector(t testing.TB, f []string) []byte {
	b := unhex(t, f[2])
	if len(f) > 3 {
		n, err := strconv.Atoi(f[4])
		if err != nil || f[3] != "x" {
			t.Fatalf("bad line %v", f)
		}
		b = append(b, bytes.Repeat(unhex(t, f[5]), n)...)
	}
	return b
}

// Every row is refused for the reason it names, and returns nothing (DS-03 for the
// statuses among them).
func TestBadVectors_DS03(t *testing.T) {
	for _, f := range vectors(t, "gossip-bad.txt") {
		m, err := decode(f[0], badVector(t, f))
		if want := classes[f[1]]; want == nil || !errors.Is(err, want) {
			t.Errorf("%v %v: error %v", f[0], f[1], err)
		}
		if !reflect.ValueOf(m).IsZero() {
			t.Errorf("%v: a failed decode returned %+v", f[0], m)
		}
	}
}

// Bounds: at the limit accepted, one past it ErrTooMany.
func TestItemLimits(t *testing.T) {
	e, _ := vectorEvents(t)
	events := func(n int) (es []eventgraph.Event, blobs [][]byte) {
		for range n {
			es, blobs = append(es, e), append(blobs, nil)
		}
		return es, blobs
	}
	tips := func(n int) eventgraph.Tips {
		tips := eventgraph.Tips{}
		for i := range n {
			l := uint64(i % 7)
			tips[l] = append(tips[l], eventgraph.ID{1, byte(i), byte(i >> 8)})
		}
		return tips
	}
	for _, c := range []struct {
		command string
		limit   int
		make    func(n int) appender
	}{
		{CmdEventReq, 128, func(n int) appender { return EventReq{make([]eventgraph.ID, n)} }},
		{CmdEventRep, 128, func(n int) appender { es, b := events(n); return EventRep{es, b} }},
		{CmdHeaderReq, 1024, func(n int) appender { return HeaderReq{"1", tips(n)} }},
		{CmdHeaderRep, 4096, func(n int) appender { return HeaderRep{make([]eventgraph.Header, n)} }},
		{CmdTipRep, 1024, func(n int) appender { return TipRep{tips(n)} }},
		{CmdRangeRep, 100, func(n int) appender { es, b := events(n); return RangeRep{Events: es, Blobs: b} }},
	} {
		if _, err := decode(c.command, c.make(c.limit).AppendTo(nil)); err != nil {
			t.Errorf("%s at its limit: %v", c.command, err)
		}
		if _, err := decode(c.command, c.make(c.limit+1).AppendTo(nil)); !errors.Is(err, ErrTooMany) {
			t.Errorf("%s past its limit: %v", c.command, err)
		}
	}
}

// Trap 3 and facts page section 5.2: any order, repeated ids collapse, a repeated
// layer replaces, an empty layer is legal.
func TestTipsAreLax(t *testing.T) {
	a, b := eventgraph.ID{1}, eventgraph.ID{2}
	raw := serial.AppendVarInt(nil, 4)
	layer := func(l uint64, ids ...eventgraph.ID) { raw = appendIDs(serial.AppendUint64(raw, l), ids) }
	layer(9, b, a, b)
	layer(3)
	layer(1, a)
	layer(1, b)
	m, err := DecodeTipRep(raw)
	want := eventgraph.Tips{9: {a, b}, 1: {b}}
	if err != nil || !reflect.DeepEqual(m.Tips, want) {
		t.Errorf("got %v, %v, want %v", m.Tips, err, want)
	}
}

// Each decoder, on any bytes: no panic, nothing on failure, and what decodes means
// the same after encoding and decoding it again. Formats without a lax part encode to
// the very bytes they came from.
func fuzzDecoder(f *testing.F, command string, canonical bool) {
	n := 0
	for _, v := range vectors(f, "gossip-messages.txt") {
		if v[1] == command || command == CmdStaticPut && v[1] == CmdEventPut {
			f.Add(unhex(f, v[2]))
			n++
		}
	}
	for _, v := range vectors(f, "gossip-bad.txt") {
		if v[0] == command {
			f.Add(badVector(f, v))
			n++
		}
	}
	if n == 0 {
		f.Fatalf("no seeds for %s", command)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(command, b)
		if err != nil {
			if !reflect.ValueOf(m).IsZero() {
				t.Fatalf("failed, and returned %+v", m)
			}
			return
		}
		again := m.(appender).AppendTo(nil)
		if canonical && !bytes.Equal(again, b) {
			t.Fatalf("%x decodes, and encodes as %x", b, again)
		}
		m2, err := decode(command, again)
		if err != nil || !bytes.Equal(m2.(appender).AppendTo(nil), again) {
			t.Fatalf("%x does not survive: %v", again, err)
		}
	})
}

func FuzzEventPut(f *testing.F)  { fuzzDecoder(f, CmdEventPut, true) }
func FuzzStaticPut(f *testing.F) { fuzzDecoder(f, CmdStaticPut, true) }
func FuzzEventReq(f *testing.F)  { fuzzDecoder(f, CmdEventReq, true) }
func FuzzEventRep(f *testing.F)  { fuzzDecoder(f, CmdEventRep, true) }
func FuzzHeaderPut(f *testing.F) { fuzzDecoder(f, CmdHeaderPut, true) }
func FuzzHeaderReq(f *testing.F) { fuzzDecoder(f, CmdHeaderReq, false) }
func FuzzHeaderRep(f *testing.F) { fuzzDecoder(f, CmdHeaderRep, true) }
func FuzzTipReq(f *testing.F)    { fuzzDecoder(f, CmdTipReq, true) }
func FuzzTipRep(f *testing.F)    { fuzzDecoder(f, CmdTipRep, false) }
func FuzzRangeReq(f *testing.F)  { fuzzDecoder(f, CmdRangeReq, true) }
func FuzzRangeRep(f *testing.F)  { fuzzDecoder(f, CmdRangeRep, false) }

// FuzzEventPutStatus_DS03: only the bool is lax.
func FuzzEventPutStatus_DS03(f *testing.F) {
	for _, v := range vectors(f, "gossip-status.txt") {
		f.Add(unhex(f, v[1]))
	}
	for _, v := range vectors(f, "gossip-bad.txt") {
		if v[0] == CmdEventPutStatus {
			f.Add(badVector(f, v))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeStatus(b)
		if err != nil {
			if s != (eventgraph.Status{}) {
				t.Fatal("failed, and returned something")
			}
			return
		}
		again := AppendStatus(nil, s)
		if len(b) != 34 || !bytes.Equal(again[:33], b[:33]) || again[33] != b[33] && s.Result != eventgraph.HasInserted {
			t.Fatalf("%x decodes as %v, which is %x", b, s, again)
		}
	})
}
