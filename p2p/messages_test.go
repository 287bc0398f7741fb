package p2p

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"hearsay/internal/serial"
)

// splitFrame takes a frame apart by the rules of section 2, on its own.
func splitFrame(t testing.TB, b []byte) (command string, payload []byte) {
	t.Helper()
	r := serial.NewReader(b)
	if !bytes.Equal(r.Take(4), DarkIRCMagic[:]) {
		t.Fatal("wrong magic")
	}
	command = r.String(255)
	payload = r.Bytes(1 << 20)
	if err := r.Done(); err != nil {
		t.Fatal(err)
	}
	return command, payload
}

// recode decodes a base payload and encodes the result.
func recode(command string, payload []byte) ([]byte, error) {
	switch command {
	case cmdVersion:
		m, err := decodeVersion(payload)
		return m.encode(), err
	case cmdVerack:
		m, err := decodeVerack(payload)
		return m.encode(), err
	case cmdGetaddr:
		m, err := decodeGetaddr(payload)
		return m.encode(), err
	case cmdAddr:
		m, err := decodeAddr(payload)
		return encodeAddr(m), err
	default:
		n, err := decodeNonce(payload)
		return appendNonce(n), err
	}
}

func TestGoldenFrames(t *testing.T) {
	for _, c := range vectorCases(t, "p2p-frames.txt") {
		frame := unhex(t, c["hex"])
		command, payload := splitFrame(t, frame)
		if command != c["command"] {
			t.Errorf("%s: command %q", c["case"], command)
		}
		again, err := recode(command, payload)
		if err != nil {
			t.Errorf("%s: %v", c["case"], err)
			continue
		}
		if got := append(appendHeader(nil, DarkIRCMagic, command, len(again)), again...); !bytes.Equal(got, frame) {
			t.Errorf("%s: encoded as %x", c["case"], got)
		}
		if n := headerSize(command, len(payload)) + len(payload); n != len(frame) {
			t.Errorf("%s: frame size %d, computed %d", c["case"], len(frame), n)
		}
	}
}

func TestGoldenValues(t *testing.T) {
	payloads := make(map[string][]byte)
	for _, c := range vectorCases(t, "p2p-frames.txt") {
		_, payloads[c["case"]] = splitFrame(t, unhex(t, c["hex"]))
	}
	v, err := decodeVersion(payloads["version with a feature"])
	want := versionMsg{
		appName: "darkirc", version: semver{minor: 5, patch: 1}, timestamp: 1753293550,
		connectRecv: MustParseURL("tcp+tls://203.0.113.9:51234"),
		extSend:     []URL{MustParseURL("tcp+tls://198.51.100.7:9600")},
		features:    []feature{{"event_put_status", 1}},
	}
	if err != nil || !reflect.DeepEqual(v, want) {
		t.Errorf("version: %+v, %v", v, err)
	}
	if n, err := decodeNonce(payloads["ping"]); n != 0x1234 || err != nil {
		t.Errorf("ping: %#x, %v", n, err)
	}
	a, err := decodeAddr(payloads["addr one"])
	if err != nil || !reflect.DeepEqual(a, []hostEntry{{MustParseURL("tcp+tls://1.2.3.4:9600"), 1753293550}}) {
		t.Errorf("addr: %v, %v", a, err)
	}
	if k, err := decodeVerack(payloads["verack"]); err != nil || k.appName != "darkirc" || k.version.minor != 5 {
		t.Errorf("verack: %+v, %v", k, err)
	}
}

func TestMalformedPayloads(t *testing.T) {
	_, version := splitFrame(t, unhex(t, vectorCases(t, "p2p-frames.txt")[8]["hex"]))
	_, verack := splitFrame(t, unhex(t, vectorCases(t, "p2p-frames.txt")[7]["hex"]))
	if _, err := decodeVersion(version); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		command string
		payload []byte
		want    offence
	}{
		"short ping":              {cmdPing, []byte{1}, offencePayload},
		"empty ping":              {cmdPing, nil, offencePayload},
		"long pong":               {cmdPong, []byte{1, 2, 3}, offenceMagic},
		"short version":           {cmdVersion, version[:len(version)-1], offencePayload},
		"long version":            {cmdVersion, append(bytes.Clone(version), 0), offenceMagic},
		"version not UTF-8":       {cmdVersion, append([]byte{1, 0xff}, version[1:]...), offencePayload},
		"short verack":            {cmdVerack, verack[:len(verack)-1], offencePayload},
		"long verack":             {cmdVerack, append(bytes.Clone(verack), 'x'), offenceMagic},
		"verack pre-release 01":   {cmdVerack, semverPayload("01", ""), offencePayload},
		"verack pre-release a..b": {cmdVerack, semverPayload("a..b", ""), offencePayload},
		"verack pre-release ä":    {cmdVerack, semverPayload("ä", ""), offencePayload},
		"verack build +":          {cmdVerack, semverPayload("", "+"), offencePayload},
		"getaddr count too big":   {cmdGetaddr, []byte{8, 0, 0, 0, 200}, offencePayload},
		"getaddr trailing":        {cmdGetaddr, []byte{8, 0, 0, 0, 0, 0}, offenceMagic},
		"addr absurd count":       {cmdAddr, []byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1}, offencePayload},
		"addr bad URL":            {cmdAddr, append([]byte{1, 7}, "nothing\x00\x00\x00\x00\x00\x00\x00\x00"...), offencePayload},
		"addr trailing":           {cmdAddr, []byte{0, 0}, offenceMagic},
	} {
		_, err := recode(c.command, c.payload)
		var f *wireFault
		if !errors.As(err, &f) || f.offence != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, payload := range map[string][]byte{
		"pre-release":     semverPayload("beta.1", ""),
		"build with zero": semverPayload("", "01"),
	} {
		if _, err := decodeVerack(payload); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func semverPayload(pre, build string) []byte {
	m := verackMsg{version: semver{pre: pre, build: build}, appName: "x"}
	return m.encode()
}

// A getaddr never passes 57 bytes and an addr never 65281, at the bound and past it.
func TestOwnMessagesFitTheirLimits(t *testing.T) {
	nine := getaddrMsg{max: 8, transports: shareable}
	if n := len(nine.encode()); n != maxGetaddrPayload {
		t.Errorf("nine schemes take %d bytes", n)
	}
	ten := getaddrMsg{max: 8, transports: append(shareable[:9:9], "quic")}
	if got := ten.encode(); !bytes.Equal(got, nine.encode()) {
		t.Errorf("ten schemes: %x", got)
	}
	// 65281 = 3 + 510 * 128: an entry of 128 bytes has a URL of 119.
	u := MustParseURL("tcp://" + strings.Repeat("a", 119-len("tcp://:1/")) + ":1")
	entries := make([]hostEntry, 511)
	for i := range entries {
		entries[i].url = u
	}
	for n, want := range map[int]int{0: 0, 1: 1, 509: 509, 510: 509, 511: 509} {
		payload := encodeAddr(entries[:n])
		got, err := decodeAddr(payload)
		if err != nil || len(got) != want || len(payload) > maxAddrPayload {
			t.Errorf("%d entries: %d in %d bytes, %v", n, len(got), len(payload), err)
		}
	}
}

func TestAddrSkipsURLsThatAreTooLong(t *testing.T) {
	b := serial.AppendVarInt(nil, 2)
	b = serial.AppendString(b, "tcp://"+strings.Repeat("a", MaxURLLen)+":1")
	b = serial.AppendUint64(b, 1)
	b = serial.AppendString(b, "tcp://1.2.3.4:1")
	b = serial.AppendUint64(b, 2)
	got, err := decodeAddr(b)
	if err != nil || len(got) != 1 || got[0].lastSeen != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestParseSemver(t *testing.T) {
	for s, want := range map[string]semver{
		"0.5.1":         {minor: 5, patch: 1},
		"1.21.3-beta":   {major: 1, minor: 21, patch: 3, pre: "beta"},
		"1.0.0-a.1+b.0": {major: 1, pre: "a.1", build: "b.0"},
	} {
		if v, err := parseSemver(s); err != nil || v != want {
			t.Errorf("%q: %+v, %v", s, v, err)
		}
	}
	for _, s := range []string{"", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.x", "1.2.-3", "1.2.3-01", "1.2.3+ä", "+1.2.3"} {
		if v, err := parseSemver(s); err == nil {
			t.Errorf("%q: %+v", s, v)
		}
	}
	if got := (semver{major: 1, minor: 21, patch: 3, pre: "beta"}).appendTo(nil); !bytes.Equal(got,
		unhex(t, "0100000000000000 1500000000000000 0300000000000000 04 62657461 00")) {
		t.Errorf("1.21.3-beta: %x", got)
	}
}

func fuzzBase(f *testing.F, command string) {
	found := false
	for _, c := range vectorCases(f, "p2p-frames.txt") {
		if c["command"] == command {
			_, payload := splitFrame(f, unhex(f, c["hex"]))
			f.Add(payload)
			found = true
		}
	}
	if !found {
		f.Fatal("no seeds")
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		if len(payload) > maxAddrPayload {
			return
		}
		once, err := recode(command, payload)
		if err != nil {
			var w *wireFault
			if !errors.As(err, &w) {
				t.Fatalf("error without offence: %v", err)
			}
			return
		}
		// What we send again is canonical: decoding it gives the same bytes.
		twice, err := recode(command, once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%x decodes, encodes to %x, then %x, %v", payload, once, twice, err)
		}
	})
}

func FuzzVersion(f *testing.F) { fuzzBase(f, cmdVersion) }
func FuzzVerack(f *testing.F)  { fuzzBase(f, cmdVerack) }
func FuzzPing(f *testing.F)    { fuzzBase(f, cmdPing) }
func FuzzGetaddr(f *testing.F) { fuzzBase(f, cmdGetaddr) }
func FuzzAddr(f *testing.F)    { fuzzBase(f, cmdAddr) }
