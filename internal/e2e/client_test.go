package e2e

import (
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// A client is a real program that a person types into.
type client interface {
	name() string
	// query opens a window for a person.
	query(t *testing.T, nick string)
	// say types a line into the window of a channel or a person.
	say(t *testing.T, window, text string)
	// text is what the window has shown.
	text(t *testing.T, window string) string
}

// lines are the lines of a window that match.
func lines(t *testing.T, c client, window, pattern string) (all []string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for l := range strings.Lines(c.text(t, window)) {
		if l = strings.TrimRight(l, " \r\n"); re.MatchString(l) {
			all = append(all, l)
		}
	}
	return all
}

// shows waits until a line of the window matches, and returns the last one.
func shows(t *testing.T, c client, window, pattern string) (line string) {
	t.Helper()
	eventually(t, c.name()+" showing "+pattern, func() error {
		all := lines(t, c, window, pattern)
		if len(all) == 0 {
			return fmt.Errorf("%s is\n%s", window, c.text(t, window))
		}
		line = all[len(all)-1]
		return nil
	})
	return line
}

// clock is the time of the day that a line shows.
func clock(t *testing.T, line string) string {
	t.Helper()
	at := regexp.MustCompile(`\d\d:\d\d:\d\d`).FindString(line)
	if at == "" {
		t.Errorf("no time in %q", line)
	}
	return at
}

// fingerprint is the SHA-256 of a certificate in a PEM file, in hex.
func fingerprint(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(b)
	if block == nil {
		t.Fatalf("no certificate in %s", file)
	}
	return fmt.Sprintf("%x", sha256.Sum256(block.Bytes))
}
