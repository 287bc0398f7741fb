package mailbox

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const someKey = "2JekwGNU54pEk56F1m1yfxJasZE8dr2q53wdxpBSJyQ3"

// TestAddress: an address names scheme, host, port and key, and nothing else; what is
// parsed is written so that it is parsed again.
func TestAddress(t *testing.T) {
	for text, host := range map[string]string{
		"quic://relay.example.org:9610?key=" + someKey:  "relay.example.org:9610",
		"QUIC://Relay.Example.org:9610/?key=" + someKey: "relay.example.org:9610",
		"tcp+tls://127.0.0.1:65535?key=" + someKey:      "127.0.0.1:65535",
		"quic://[2001:DB8::1]:1?key=" + someKey:         "[2001:db8::1]:1",
		"tcp+tls://abcdefgh.onion:9610?key=" + someKey:  "abcdefgh.onion:9610",
	} {
		a, err := ParseAddress(text)
		if err != nil || a.Host != host || a.Check() != nil {
			t.Errorf("%s: %v, %v", text, a, err)
		}
		if b, err := ParseAddress(a.String()); err != nil || !cmp.Equal(a, b) {
			t.Errorf("%s does not come back: %v", text, err)
		}
	}
	for _, text := range []string{
		"", "quic://h:1", "quic://h:1?key=", "quic://h:1?key=abc", "quic://h:1?key=0OIl", "quic://h:1?key=" + someKey + "1",
		"quic://h?key=" + someKey, "quic://:1?key=" + someKey, "quic://h:0?key=" + someKey, "quic://h:65536?key=" + someKey,
		"tcp://h:1?key=" + someKey, "h:1?key=" + someKey, "quic://h:1/x?key=" + someKey, "quic://u@h:1?key=" + someKey,
		"quic://h:1?key=" + someKey + "#f", "quic://h:1?key=" + someKey + "&x=1", "quic://h:1?key=" + someKey + "&key=" + someKey,
		"quic://[fe80::1%25eth0]:1?key=" + someKey, "quic://[::1:1?key=" + someKey, "quic://h:1?key=" + someKey + "\n",
		"quic://" + strings.Repeat("h", maxAddress) + ":1?key=" + someKey,
	} {
		a, err := ParseAddress(text)
		if !errors.Is(err, ErrAddress) {
			t.Errorf("%q is %v, %v", text, a, err)
		}
		if err != nil && strings.Contains(err.Error(), someKey) {
			t.Errorf("%q: the error shows it", text)
		}
	}
}

func FuzzAddress(f *testing.F) {
	f.Add("quic://relay.example.org:9610?key=" + someKey)
	f.Add("tcp+tls://[::1]:9610?key=" + someKey)
	f.Add("quic://[fe80::1%25eth0]:9610?key=" + someKey)
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAddress(text)
		if err != nil {
			return
		}
		if b, err := ParseAddress(a.String()); err != nil || !cmp.Equal(a, b) || a.Check() != nil {
			t.Fatalf("%q is written as %q: %v", text, a, err)
		}
	})
}
