package privmsg

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"hearsay/internal/serial"
	"hearsay/spec"
)

type vector map[string]string

func (v vector) bytes(t testing.TB, name string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(v[name], " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (v vector) message() Message {
	return Message{Channel: v["channel"], Nick: v["nick"], Text: v["text"]}
}

// vectors reads spec/vectors/chat-payload.txt.
func vectors(t testing.TB) (all []vector) {
	t.Helper()
	data, err := spec.Vectors.ReadFile("vectors/chat-payload.txt")
	if err != nil {
		t.Fatal(err)
	}
	var v vector
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		switch name, value, _ := strings.Cut(line, " "); {
		case line == "":
			v = nil
		case name == "#":
		default:
			if v == nil {
				v = vector{}
				all = append(all, v)
			}
			v[name] = value
		}
	}
	if len(all) < 11 {
		t.Fatalf("only %d vectors", len(all))
	}
	return all
}

var classes = map[string]error{
	"short": serial.ErrShort, "nonminimal": serial.ErrNonMinimal, "utf8": serial.ErrUTF8, "limit": serial.ErrLimit,
}

// TestPayloadVectors proves the layout and the prefix decode (facts 1.1, 1.2).
func TestPayloadVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v["case"], func(t *testing.T) {
			want := v.message()
			if _, ok := v["bad"]; ok {
				m, err := Decode(v.bytes(t, "bad"))
				if !errors.Is(err, ErrMalformed) || !errors.Is(err, classes[v["class"]]) || m != (Message{}) {
					t.Fatalf("decoded with %v, want class %q", err, v["class"])
				}
				return
			}
			if lax, ok := v["lax"]; ok {
				got, err := Decode(v.bytes(t, "lax"))
				got.Version, got.Type = 0, 0
				if err != nil || got != want {
					t.Errorf("%q: %v", lax, err)
				}
				return
			}
			encoded := want.AppendTo(nil)
			if h, ok := v["hex"]; ok && !bytes.Equal(encoded, v.bytes(t, "hex")) {
				t.Errorf("encoded %x, want %s", encoded, h)
			}
			if size, ok := v["size"]; ok && fmt.Sprint(len(encoded)) != size {
				t.Errorf("%d bytes, want %s", len(encoded), size)
			}
			if !bytes.HasPrefix(encoded, v.bytes(t, "prefix")) {
				t.Errorf("encoded %x, want prefix %s", encoded, v["prefix"])
			}
			if got, err := Decode(encoded); err != nil || got != want {
				t.Errorf("round trip: %v", err)
			}
		})
	}
}

// TestReceiveCaps tests each bound at it and one past it.
func TestReceiveCaps(t *testing.T) {
	for name, c := range map[string]struct {
		limit int
		make  func(s string) Message
	}{
		"channel": {MaxChannelField, func(s string) Message { return Message{Channel: s} }},
		"nick":    {MaxNickField, func(s string) Message { return Message{Nick: s} }},
		"text":    {MaxTextField, func(s string) Message { return Message{Text: s} }},
	} {
		at, past := c.make(strings.Repeat("x", c.limit)), c.make(strings.Repeat("x", c.limit+1))
		if got, err := Decode(at.AppendTo(nil)); err != nil || got != at {
			t.Errorf("%s at its bound: %v", name, err)
		}
		if _, err := Decode(past.AppendTo(nil)); !errors.Is(err, serial.ErrLimit) {
			t.Errorf("%s past its bound: %v", name, err)
		}
	}
}

func TestMessageNeverPrints(t *testing.T) {
	m := Message{Channel: "#canary-channel", Nick: "canary-nick", Text: "canary-text"}
	var out strings.Builder
	for _, v := range []any{m, &m, []Message{m}, struct{ M Message }{m}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		j, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(j)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
	}
	if s := out.String(); strings.Contains(s, "canary") || strings.Contains(s, hex.EncodeToString([]byte("canary"))) {
		t.Error("a message printed itself:\n" + s)
	} else if !strings.Contains(s, messageWord) {
		t.Error("the test printed nothing")
	}
}

// FuzzDecode: what decodes is within bounds and encodes to the bytes that were read,
// version and type included, so there is no second form of a message.
func FuzzDecode(f *testing.F) {
	for _, v := range vectors(f) {
		for _, name := range []string{"hex", "lax", "bad"} {
			f.Add(v.bytes(f, name))
		}
		m := v.message()
		f.Add(m.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		m, err := Decode(content)
		if err != nil {
			if m != (Message{}) || !errors.Is(err, ErrMalformed) {
				t.Fatalf("failed decode returned something, %v", err)
			}
			return
		}
		if len(m.Channel) > MaxChannelField || len(m.Nick) > MaxNickField || len(m.Text) > MaxTextField {
			t.Fatal("past a bound")
		}
		if again := m.AppendTo(nil); !bytes.HasPrefix(content, again) {
			t.Fatalf("%x reads as a message that is written %x", content, again)
		}
	})
}
