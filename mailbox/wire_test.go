package mailbox

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hearsay/spec"
)

// vectors are the known answers of spec/vectors/mailbox-v2.json, which nobody of
// this project made (MB-35).
type vectors struct {
	Provenance string
	Canonical  struct {
		Inputs    map[string]any
		Encodings map[string]string
	}
	Roundtrip []struct {
		ID, Message  string
		CanonicalHex string `json:"canonical_hex"`
	}
	Reject []struct {
		ID        string
		Arguments struct {
			EncodedHex string `json:"encoded_hex"`
			Message    string
		}
	}
}

func loadVectors(t testing.TB) (v vectors) {
	b, err := spec.Vectors.ReadFile("vectors/mailbox-v2.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Canonical.Encodings) == 0 || len(v.Roundtrip) == 0 || len(v.Reject) == 0 {
		t.Fatal("the vectors are empty")
	}
	return v
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestVectors (MB-35): each published encoding is what we write, and decodes to
// what we wrote.
func TestVectors(t *testing.T) {
	v := loadVectors(t)
	in := func(name string) []byte { return unhex(t, v.Canonical.Inputs[name].(string)) }
	lease, row := LeaseID(in("lease_id_hex")), RowID(in("row_id_hex"))
	one, two := Token(in("token_one_hex")), Token(in("token_two_hex"))
	envelope := Octets(in("envelope_hex"))
	expires := uint64(v.Canonical.Inputs["expires_at"].(float64))

	requests := map[string]Request{
		"deposit_request_hex": {Deposit: &Deposit{envelope}},
		"lease_request_hex":   {Lease: &Lease{[]Token{one, two}}},
		"ack_request_hex":     {AckLease: &AckLease{lease, []RowID{row}}},
	}
	responses := map[string]Response{
		"deposit_accepted_response_hex": {Deposit: &Accepted{true}},
		"deposit_refused_response_hex":  {Deposit: &Accepted{false}},
		"ack_accepted_response_hex":     {AckLease: &Accepted{true}},
		"lease_miss_response_hex":       {Lease: &Page{Rows: []Row{}}},
		"lease_page_response_hex":       {Lease: &Page{true, lease, expires, []Row{{row, envelope}}}},
	}
	if got, want := len(requests)+len(responses), len(v.Canonical.Encodings); got != want {
		t.Errorf("%d encodings are tested of %d", got, want)
	}
	for name, r := range requests {
		want := unhex(t, v.Canonical.Encodings[name])
		if got, err := r.Encode(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: encoded as %x, %v", name, got, err)
		}
		if got, err := DecodeRequest(want); err != nil || !cmp.Equal(got, r) {
			t.Errorf("%s: decoded differently, %v", name, err)
		}
	}
	for name, r := range responses {
		want := unhex(t, v.Canonical.Encodings[name])
		if got, err := r.Encode(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: encoded as %x, %v", name, got, err)
		}
		if got, err := DecodeResponse(want); err != nil || !cmp.Equal(got, r) {
			t.Errorf("%s: decoded differently, %v", name, err)
		}
	}
	for _, c := range v.Roundtrip {
		b := unhex(t, c.CanonicalHex)
		again, err := reencode(c.Message, b)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s: %x, %v", c.ID, again, err)
		}
	}
	for _, c := range v.Reject {
		if _, err := reencode(c.Arguments.Message, unhex(t, c.Arguments.EncodedHex)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", c.ID, err)
		}
	}
}

// reencode decodes and encodes a request or a response.
func reencode(message string, b []byte) ([]byte, error) {
	if message == "request" {
		r, err := DecodeRequest(b)
		if err != nil {
			return nil, err
		}
		return r.Encode()
	}
	r, err := DecodeResponse(b)
	if err != nil {
		return nil, err
	}
	return r.Encode()
}

// TestNotCanonical (MB-35): encodings of the same meaning that are not the one.
func TestNotCanonical(t *testing.T) {
	const deposit = "a1674465706f736974a168656e76656c6f7065820102"
	if _, err := DecodeRequest(unhex(t, deposit)); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	for name, s := range map[string]string{
		"empty":                "",
		"trailing byte":        deposit + "00",
		"byte string":          "a1674465706f736974a168656e76656c6f7065420102",
		"long array head":      "a1674465706f736974a168656e76656c6f706598020102",
		"long integer":         "a1674465706f736974a168656e76656c6f706582180102",
		"integer above a byte": "a1674465706f736974a168656e76656c6f70658219010002",
		"indefinite array":     "a1674465706f736974a168656e76656c6f70659f0102ff",
		"indefinite map":       "bf674465706f736974a168656e76656c6f7065820102ff",
		"unknown variant":      "a1674465706f73697aa168656e76656c6f7065820102",
		"other case":           "a1676465706f736974a168656e76656c6f7065820102",
		"unknown field":        "a1674465706f736974a268656e76656c6f70658201026178f5",
		"missing field":        "a1674465706f736974a0",
		"two variants":         "a2674465706f736974a168656e76656c6f706582010264496e666fa0",
		"variant twice":        "a2674465706f736974a168656e76656c6f7065820102674465706f736974a168656e76656c6f7065820102",
		"no variant":           "a0",
		"null variant":         "a1674465706f736974f6",
		"null envelope":        "a1674465706f736974a168656e76656c6f7065f6",
		"tagged":               "c0a1674465706f736974a168656e76656c6f7065820102",
		"announced, not sent":  "a1674465706f736974a168656e76656c6f70659a00020000",
		"huge":                 "a1674465706f736974a168656e76656c6f70659affffffff",
		"ack, fields swapped":  "a16841636b4c65617365a267726f775f69647380686c656173655f69649001010101010101010101010101010101",
		"ack, short lease id":  "a16841636b4c65617365a2686c656173655f69648f010101010101010101010101010101" + "67726f775f69647380",
		"ack, zero row id":     "a16841636b4c65617365a2686c656173655f6964900101010101010101010101010101010167726f775f69647381" + "9000000000000000000000000000000000",
	} {
		if _, err := DecodeRequest(unhex(t, s)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", name, err)
		}
	}
	// A miss that carries something, a lease without an id.
	for _, p := range []Page{{ExpiresAt: 1}, {LeaseID: LeaseID{1}}, {Rows: []Row{{RowID{1}, nil}}}, {Serving: true}} {
		if _, err := (&Response{Lease: &p}).Encode(); !errors.Is(err, ErrMalformed) {
			t.Errorf("page %+v: %v", p.Serving, err)
		}
	}
}

func tokens(n int) []Token {
	out := make([]Token, n)
	for i := range out {
		out[i] = Token{0xff, byte(i), byte(i >> 8)}
	}
	return out
}

func rowIDs(n int) []RowID {
	out := make([]RowID, n)
	for i := range out {
		out[i] = RowID{0xff, byte(i), byte(i >> 8)}
	}
	return out
}

func pageOf(rows, size int) Response {
	p := &Page{Serving: true, LeaseID: LeaseID{1}, ExpiresAt: 1}
	for _, id := range rowIDs(rows) {
		p.Rows = append(p.Rows, Row{id, bytes.Repeat([]byte{0xff}, size)})
	}
	return Response{Lease: p}
}

// TestBounds (MB-01, MB-20, MB-22, MB-23): each limit of the codec at it, with the
// worst bytes that fit, and one past it.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		req  Request
		ok   bool
	}{
		{"envelope", Request{Deposit: &Deposit{bytes.Repeat([]byte{0xff}, MaxEnvelope)}}, true},
		{"envelope+1", Request{Deposit: &Deposit{make([]byte, MaxEnvelope+1)}}, false},
		{"tokens", Request{Lease: &Lease{tokens(MaxTokens)}}, true},
		{"tokens+1", Request{Lease: &Lease{tokens(MaxTokens + 1)}}, false},
		{"acks", Request{AckLease: &AckLease{LeaseID{1}, rowIDs(MaxPageRows)}}, true},
		{"acks+1", Request{AckLease: &AckLease{LeaseID{1}, rowIDs(MaxPageRows + 1)}}, false},
	} {
		b, err := c.req.Encode()
		if c.ok != (err == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
		if !c.ok {
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: %v, want ErrTooLarge", c.name, err)
			}
			// The same on the receiving side, from bytes that our encoder does not make.
			raw, err := encMode.Marshal(&c.req)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := DecodeRequest(raw); err == nil {
				t.Errorf("%s: decoded", c.name)
			}
			continue
		}
		if got, err := DecodeRequest(b); err != nil || !cmp.Equal(got, c.req) {
			t.Errorf("%s: does not come back: %v", c.name, err)
		}
	}
	for _, c := range []struct {
		name string
		resp Response
		ok   bool
	}{
		{"page of rows", pageOf(MaxPageRows, MaxPageBytes/MaxPageRows), true},
		{"page of rows+1", pageOf(MaxPageRows+1, 1), false},
		{"page of bytes+1", pageOf(MaxPageRows, MaxPageBytes/MaxPageRows+1), false},
		{"info text", Response{Info: &RelayInfo{Policy: strings.Repeat("x", MaxInfoText)}}, true},
		{"info text+1", Response{Info: &RelayInfo{Policy: strings.Repeat("x", MaxInfoText+1)}}, false},
	} {
		b, err := c.resp.Encode()
		if c.ok != (err == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.ok {
			if got, err := DecodeResponse(b); err != nil || !cmp.Equal(got, c.resp) {
				t.Errorf("%s: does not come back: %v", c.name, err)
			}
		}
	}
	if _, err := DecodeRequest(make([]byte, MaxRequest+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("request+1: %v", err)
	}
	if _, err := DecodeResponse(make([]byte, MaxResponse+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("response+1: %v", err)
	}
}

// TestEnvelope (MB-01): what a relay looks at, and nothing else.
func TestEnvelope(t *testing.T) {
	e := Envelope{Kind: KindSealed, Token: Token{7}, Body: []byte("sealed")}
	b := e.AppendTo(nil)
	got, err := ParseEnvelope(b)
	if err != nil || !cmp.Equal(got, e) {
		t.Fatalf("%v", err)
	}
	if _, err := ParseEnvelope(b[:EnvelopeHeader]); err != nil {
		t.Errorf("empty body: %v", err)
	}
	if _, err := ParseEnvelope(b[:EnvelopeHeader-1]); !errors.Is(err, ErrEnvelope) {
		t.Errorf("short: %v", err)
	}
	for kind, ok := range map[byte]bool{0: false, 1: true, 6: true, 7: false, 255: false} {
		b[1] = kind
		if _, err := ParseEnvelope(b); (err == nil) != ok {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
	b[0], b[1] = 2, 1
	if _, err := ParseEnvelope(b); !errors.Is(err, ErrEnvelope) {
		t.Errorf("version 2: %v", err)
	}
	big := e.AppendTo(nil)
	big = append(big, make([]byte, MaxEnvelope-len(big))...)
	if _, err := ParseEnvelope(big); err != nil {
		t.Errorf("at the bound: %v", err)
	}
	if _, err := ParseEnvelope(append(big, 0)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one past the bound: %v", err)
	}
	if ContentIDOf(b) == ContentIDOf(big) {
		t.Error("content ids collide")
	}
}

// TestSecretsDoNotPrint (MB-32): tokens, row and lease ids stay out of every
// formatter.
func TestSecretsDoNotPrint(t *testing.T) {
	secret := [16]byte{0xde, 0xad, 0xbe, 0xef, 0xde, 0xad, 0xbe, 0xef, 0xde, 0xad, 0xbe, 0xef, 0xde, 0xad, 0xbe, 0xef}
	var token Token
	copy(token[:], secret[:])
	for _, v := range []any{token, RowID(secret), LeaseID(secret), ContentID(secret), []Token{token}, &token} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%d", "%x", "%X", "%s", "%q"} {
			s := strings.ToLower(fmt.Sprintf(verb, v))
			if strings.Contains(s, "dead") || strings.Contains(s, "222") {
				t.Errorf("%T with %s prints %s", v, verb, s)
			}
		}
		if b, err := json.Marshal(v); err != nil || bytes.Contains(b, []byte("222")) || bytes.Contains(b, []byte("3q2+")) {
			t.Errorf("%T as JSON is %s, %v", v, b, err)
		}
		var buf bytes.Buffer
		slog.New(slog.NewJSONHandler(&buf, nil)).Info("x", "v", v)
		slog.New(slog.NewTextHandler(&buf, nil)).Info("x", "v", v)
		if s := strings.ToLower(buf.String()); strings.Contains(s, "dead") || strings.Contains(s, "222") {
			t.Errorf("%T in slog is %s", v, s)
		}
	}
}

// FuzzDecode (MB-35): what decodes re-encodes to the same bytes; a failed decode
// returns nothing.
func FuzzDecode(f *testing.F) {
	for _, s := range loadVectors(f).Canonical.Encodings {
		f.Add(unhex(f, s))
	}
	info := Response{Info: &RelayInfo{Version: "1", Draining: true}}
	b, err := info.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	refuse := Request{RefuseRows: &RefuseRows{LeaseID{1}, rowIDs(2), RefuseOverQuota}}
	if b, err = refuse.Encode(); err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, message := range []string{"request", "response"} {
			again, err := reencode(message, b)
			if err == nil && !bytes.Equal(again, b) {
				t.Fatalf("%s %x re-encodes as %x", message, b, again)
			}
		}
		if r, err := DecodeRequest(b); err != nil && !cmp.Equal(r, Request{}) {
			t.Fatal("a failed decode returned data")
		}
	})
}
