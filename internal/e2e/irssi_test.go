package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// An irssi in a terminal.
type irssi struct{ *terminal }

// startIrssi starts an irssi and waits until it shows #dev.
func startIrssi(t *testing.T, l login) *irssi {
	t.Helper()
	dir := t.TempDir()
	i := &irssi{startTerminal(t, fmt.Sprintf("irssi --home=%s -n %s", dir, l.nick), "HOME="+dir)}
	eventually(t, "irssi's prompt", func() error {
		if !strings.Contains(i.screen(t), "[(status)]") {
			return errors.New(i.screen(t))
		}
		return nil
	})
	i.enter(t, "/set show_server_time on") // off by default, as in the README
	i.enter(t, "/set timestamp_format %H:%M:%S")
	i.enter(t, "/set autoclose_query 0")
	user := l.user
	if user == "" {
		user = l.nick
	}
	i.enter(t, "/set user_name "+user)
	secure := "-notls"
	if l.cert != "" { // irssi wants colons
		var pairs []string
		for fp := strings.ToUpper(fingerprint(t, l.cert)); fp != ""; fp = fp[2:] {
			pairs = append(pairs, fp[:2])
		}
		secure = "-tls -tls_pinned_cert " + strings.Join(pairs, ":")
	}
	i.enter(t, fmt.Sprintf("/connect %s 127.0.0.1 %d", secure, l.port))
	eventually(t, "irssi's #dev", func() error { // it opens in the background
		if screen := i.text(t, "#dev"); !strings.Contains(screen, "has joined #dev") {
			return errors.New(screen)
		}
		return nil
	})
	return i
}

func (i *irssi) name() string { return "irssi" }

// front brings a window to the front.
func (i *irssi) front(t *testing.T, window string) {
	t.Helper()
	eventually(t, "irssi's window "+window, func() error {
		if strings.Contains(i.screen(t), "\n["+window+"]") {
			return nil
		}
		i.enter(t, "/window goto "+window)
		return errors.New(i.screen(t))
	})
}

func (i *irssi) say(t *testing.T, window, text string) {
	t.Helper()
	i.front(t, window)
	i.enter(t, text)
}

func (i *irssi) query(t *testing.T, nick string) { t.Helper(); i.enter(t, "/query "+nick) }

// text is the screen with the window in front.
func (i *irssi) text(t *testing.T, window string) string {
	t.Helper()
	i.front(t, window)
	return i.screen(t)
}
