package ircd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"hearsay/internal/privmsg"
)

// TestNothingPersonalIsLogged: at debug level, with refusals, hostile input and lost clients, no
// nick, channel, text, password or address is in the log (DS-44; failure-cases 63).
func TestNothingPersonalIsLogged(t *testing.T) {
	var out bytes.Buffer
	serve(t, func(c *Config, _ *fakeGraph) {
		c.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}, func(h *harness) {
		a := h.dial()
		a.do("PASS canary-pass", "NICK canary", "USER canary-user 0 * :canary-real", "JOIN #canary", "PRIVMSG #canary :canary-text")
		h.outbox.err = errors.New("disk on fire")
		a.do("PRIVMSG #canary :canary-text", "NOTICE canary2 :canary-text", "CANARY canary", "PRIVMSG #c :\xe9 canary", "TOPIC #canary :canary\rcanary")
		h.graph.say("#canary", "canary\r\nnick", "canary\x00text")
		a.conn.Write([]byte(strings.Repeat("canary", 10000)))
		time.Sleep(2 * time.Minute)
	})
	if s := strings.ToLower(out.String()); strings.Contains(s, "canary") || strings.Contains(s, "127.0.0.1") {
		t.Errorf("log:\n%s", s)
	} else if !strings.Contains(s, "disk on fire") {
		t.Error("the test logged nothing")
	}
}

// TestMessageNeverPrints: what a queue holds does not print itself (DS-44).
func TestMessageNeverPrints(t *testing.T) {
	m := Message{privmsg.Sealed{Kind: privmsg.Public, Name: "#canary"}, "canary", "canary", false}
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
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
	}
	if s := out.String(); strings.Contains(s, "canary") || strings.Contains(s, "63616e617279") || !strings.Contains(s, messageWord) {
		t.Errorf("printed:\n%s", s)
	}
}
