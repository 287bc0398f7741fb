package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A catgirl in a terminal. It speaks TLS and nothing else.
type catgirl struct {
	*terminal
	wire string // what it sent and got
}

// startCatgirl starts a catgirl that trusts l.cert.
func startCatgirl(t *testing.T, l login) *catgirl {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".local", "share"), 0o700); err != nil {
		t.Fatal(err)
	}
	user := l.user
	if user == "" {
		user = l.nick
	}
	c := &catgirl{wire: filepath.Join(dir, "wire")}
	c.terminal = startTerminal(t, fmt.Sprintf(`catgirl -v -T%%H:%%M:%%S -h 127.0.0.1 -p %d -t %s -n %s -u %s 2>%s; echo "ended with $?"; read wait`,
		l.port, l.cert, l.nick, user, c.wire), "HOME="+dir, "LC_ALL=C.UTF-8")
	return c
}

// joined waits until it is in #dev.
func (c *catgirl) joined(t *testing.T) {
	t.Helper()
	shows(t, c, "#dev", "arrives in #dev")
}

// ended waits until it has ended, and returns what that said.
func (c *catgirl) ended(t *testing.T) (status string) {
	t.Helper()
	eventually(t, "the end of catgirl", func() error {
		_, after, ok := strings.Cut(c.screen(t), "ended with ")
		if !ok {
			return errors.New(c.screen(t))
		}
		status, _, _ = strings.Cut(after, "\n")
		return nil
	})
	return status
}

func (c *catgirl) name() string { return "catgirl" }

// inFront is the reverse part of catgirl's status line: number, and the name of the
// window that is in front.
var inFront = regexp.MustCompile(`^[^\n]*\x1b\[(?:[0-9;]*;)?7m(?:\x1b\[[0-9;]*m)* *\d+[-+=]* (\S+)`)

// front brings a window to the front.
func (c *catgirl) front(t *testing.T, window string) {
	t.Helper()
	eventually(t, "catgirl's window "+window, func() error {
		if m := inFront.FindStringSubmatch(c.tmux(t, "capture-pane", "-e", "-p", "-t", "w")); m != nil && m[1] == window {
			return nil
		}
		c.enter(t, "/window "+window)
		return errors.New(c.screen(t))
	})
}

func (c *catgirl) say(t *testing.T, window, text string) {
	t.Helper()
	c.front(t, window)
	c.enter(t, text)
}

func (c *catgirl) query(t *testing.T, nick string) { t.Helper(); c.enter(t, "/query "+nick) }

func (c *catgirl) text(t *testing.T, window string) string {
	t.Helper()
	c.front(t, window)
	return c.screen(t)
}
