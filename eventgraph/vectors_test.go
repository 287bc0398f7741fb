package eventgraph

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"testing"

	"hearsay/internal/serial"
	"hearsay/spec"
)

type vectors struct {
	Provenance string
	AGenesis   struct {
		Timestamp uint64 `json:"timestamp"`
		ID        string `json:"event_id_hex"`
		Hash      string `json:"content_hash_hex"`
		Event     string `json:"event_hex"`
		Header    string `json:"header_hex"`
	} `json:"a_genesis"`
	BEvent struct {
		ID     string `json:"event_id_hex"`
		Hash   string `json:"content_hash_hex"`
		Event  string `json:"event_hex"`
		Header string `json:"header_hex"`
	} `json:"b_event"`
	Extra struct {
		Large struct {
			ID  string `json:"event_id_hex"`
			Put struct {
				Payload string `json:"payload_hex"`
			} `json:"event_put"`
		} `json:"event_put_300_byte_content"`
		Two struct {
			ID     string `json:"event_id_hex"`
			Header string `json:"header_hex"`
		} `json:"event_two_parents_layer2"`
		Foreign struct {
			ID string `json:"event_id_hex"`
		} `json:"foreign_genesis_same_slot_contents_darkirc"`
		Slot2 struct {
			ID string `json:"event_id_hex"`
		} `json:"genesis_slot_1740790800000"`
		SlotNow struct {
			ID     string `json:"event_id_hex"`
			Header string `json:"header_hex"`
		} `json:"genesis_slot_1784829600000"`
	} `json:"extra"`
}

func loadVectors(t testing.TB) vectors {
	t.Helper()
	b, err := fs.ReadFile(spec.Vectors, "vectors/eventgraph-derived.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]string{
		"a": v.AGenesis.Event, "b": v.BEvent.Event, "large": v.Extra.Large.Put.Payload,
		"two": v.Extra.Two.Header, "foreign": v.Extra.Foreign.ID, "2": v.Extra.Slot2.ID, "now": v.Extra.SlotNow.ID,
	} {
		if s == "" {
			t.Fatalf("vector %s is empty", name)
		}
	}
	return v
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Facts page section 12, (a) and (b), and the further cases of its vectors.
func TestVectors(t *testing.T) {
	v := loadVectors(t)
	p := DarkIRC()
	genesis := p.GenesisOf(Slot(v.AGenesis.Timestamp))
	if got := hex.EncodeToString(genesis.AppendTo(nil)); got != v.AGenesis.Event {
		t.Errorf("genesis %s", got)
	}
	if genesis.ID().String() != v.AGenesis.ID || hex.EncodeToString(genesis.ContentHash[:]) != v.AGenesis.Hash {
		t.Errorf("genesis id %v", genesis.ID())
	}
	b := forge(1740787201234, "hello", &genesis)
	if got := hex.EncodeToString(b.AppendTo(nil)); got != v.BEvent.Event || b.ID().String() != v.BEvent.ID || b.Size() != len(got)/2 {
		t.Errorf("event b: %v %s", b.ID(), got)
	}
	two := forge(1740787202000, "world", &b, &genesis)
	if got := hex.EncodeToString(two.Header.AppendTo(nil)); got != v.Extra.Two.Header || two.ID().String() != v.Extra.Two.ID {
		t.Errorf("two parents: %v %s", two.ID(), got)
	}
	content := make([]byte, 300)
	for i := range content {
		content[i] = byte(i)
	}
	large := forge(1740787203000, string(content), &genesis)
	put := unhex(t, v.Extra.Large.Put.Payload)
	if large.ID().String() != v.Extra.Large.ID || !bytes.Equal(large.AppendTo(nil), put[:len(put)-1]) {
		t.Errorf("300 bytes: %v", large.ID())
	}
	for slot, want := range map[Slot]string{1740790800000: v.Extra.Slot2.ID, 1784829600000: v.Extra.SlotNow.ID} {
		if g := p.GenesisOf(slot); g.ID().String() != want {
			t.Errorf("genesis of %v: %v, want %s", slot, g.ID(), want)
		}
	}
	p.Contents = []byte("darkirc")
	if g := p.GenesisOf(1740787200000); g.ID().String() != v.Extra.Foreign.ID {
		t.Errorf("foreign genesis: %v", g.ID())
	}
	c := &clock{t: Slot(1740787203000).Time()}
	g := memory(t, Config{Now: c.now})
	mustInsert(t, g, 1740787200000, two, b, large)
	checkInvariants(t, g)
}

// FuzzHeader: what decodes encodes to the bytes it came from, and its id is their hash.
func FuzzHeader(f *testing.F) {
	v := loadVectors(f)
	for _, s := range []string{v.AGenesis.Header, v.BEvent.Header, v.Extra.Two.Header, v.Extra.SlotNow.Header, ""} {
		f.Add(unhex(f, s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := serial.NewReader(b)
		h := ReadHeader(r)
		if (r.Err() == nil) != (len(b) >= HeaderSize) {
			t.Fatalf("%d bytes: %v", len(b), r.Err())
		}
		if r.Err() != nil {
			return
		}
		if got := h.AppendTo(nil); !bytes.Equal(got, b[:HeaderSize]) || h.ID() != ID(HashContent(b[:HeaderSize])) {
			t.Fatalf("%x decodes and encodes as %x", b, got)
		}
	})
}

// FuzzEvent: malleability, the bound on content, and that nothing of the input is kept.
func FuzzEvent(f *testing.F) {
	v := loadVectors(f)
	for _, s := range []string{v.AGenesis.Event, v.BEvent.Event, v.Extra.Large.Put.Payload, v.BEvent.Header + "fdfc00"} {
		f.Add(unhex(f, s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 300
		r := serial.NewReader(b)
		e := ReadEvent(r, limit)
		if r.Err() != nil {
			return
		}
		if len(e.Content) > limit {
			t.Fatalf("content of %d bytes", len(e.Content))
		}
		got := e.AppendTo(nil)
		if !bytes.Equal(got, b[:r.Offset()]) || e.Size() != len(got) {
			t.Fatalf("%x decodes and encodes as %x", b, got)
		}
		for i := range b {
			b[i] ^= 0xff
		}
		if !bytes.Equal(e.AppendTo(nil), got) {
			t.Fatal("the event shares memory with its input")
		}
	})
}

// FuzzRecord: stored records are read strictly.
func FuzzRecord(f *testing.F) {
	genesis := DarkIRC().GenesisOf(1740787200000)
	small, large := forge(1, "x", &genesis), forge(1, string(make([]byte, inlineContent+1)), &genesis)
	f.Add(appendRecord(nil, &small, 1))
	f.Add(appendRecord(nil, &large, 1))
	f.Add(small.Header.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := decodeRecord(b)
		if err != nil {
			return
		}
		if !rec.hasBody() {
			if !bytes.Equal(rec.header.AppendTo(nil), b) {
				t.Fatal("a header-only record is not its header")
			}
			return
		}
		e := Event{rec.header, rec.content}
		if rec.content == nil {
			e.Content = make([]byte, rec.size)
		}
		if got := appendRecord(nil, &e, rec.arrival); !bytes.Equal(got, b) {
			t.Fatalf("%x decodes and encodes as %x", b, got)
		}
	})
}

// FuzzRows: the small rows of the store.
func FuzzRows(f *testing.F) {
	row := arrivalRow{1, ID{2}, SourceSync, 3}
	f.Add(row.append(nil))
	f.Add(slotCount{true, 3, 2, 1}.encode())
	f.Add(meta{1, 2}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := decodeArrival(b); err == nil && !bytes.Equal(a.append(nil), b) {
			t.Fatal("arrival")
		}
		if c, err := decodeSlotCount(b); err == nil && !bytes.Equal(c.encode(), b) {
			t.Fatal("slot counters")
		}
		if m, err := decodeMeta(b); err == nil && !bytes.Equal(m.encode(), b) {
			t.Fatal("counters")
		}
	})
}
