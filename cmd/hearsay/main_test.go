package main

import (
	"errors"
	"testing"
)

// TestPlain: an error is one line, without the names of packages.
func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"rpc: no daemon answers":                 "no daemon answers",
		"open: kv: endpoint: it is\r\nin use":    "open: it is; in use",
		"kv: kv: locked":                         "locked",
		"line 3: mailbox: unknown key kv: there": "line 3: mailbox: unknown key kv: there",
		"irc: rpcx: 1":                           "irc: rpcx: 1",
	} {
		if got := plain(errors.New(text)); got != want {
			t.Errorf("%q is told as %q, want %q", text, got, want)
		}
	}
}
