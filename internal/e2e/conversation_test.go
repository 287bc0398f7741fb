package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOneConversation: two WeeChats and an irssi on one daemon, one of them with history
// switched off and one that was away, end with the same conversation, right times,
// nothing twice (issue 5).
func TestOneConversation(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	for _, prog := range []string{"weechat-headless", "irssi", "tmux"} {
		if _, err := exec.LookPath(prog); err != nil {
			if os.Getenv("HEARSAY_E2E") != "" {
				t.Fatalf("%s is not installed", prog)
			}
			t.Skipf("%s is not installed", prog)
		}
	}
	bin := filepath.Join(t.TempDir(), "hearsay")
	if out, err := exec.Command("go", "build", "-o", bin, "hearsay/cmd/hearsay").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	n := startNode(t, bin, "quic", nil)
	live := weechatIn(t, n, t.TempDir(), "wanda", "server-time,message-tags,batch,no-history")
	away := weechatIn(t, n, t.TempDir(), "anna", "server-time,message-tags,batch")
	iri := startIrssi(t, n, "iris")

	iri.say(t, "line 1")
	live.shows(t, "#dev", `iris\tline 1`)
	live.say(t, "#dev", "line 2")
	away.say(t, "#dev", "line 3")
	away.shows(t, "#dev", `wanda\tline 2`)
	iri.shows(t, `anna>.*line 3`)
	time.Sleep(8 * time.Second) // the daemon asks whether anna's client has read it, and it says so
	away.quit(t)
	iri.say(t, "line 4")
	live.shows(t, "#dev", `iris\tline 4`)
	live.say(t, "#dev", "line 5")
	iri.shows(t, `wanda>.*line 5`)
	time.Sleep(2 * time.Second) // so that a wrong time can be told from the right one

	away = weechatIn(t, n, away.dir, "anna", "server-time,message-tags,batch")
	away.shows(t, "#dev", `wanda\tline 5`)
	iri.say(t, "line 6")
	for _, w := range []*weechat{live, away} {
		w.shows(t, "#dev", `iris\tline 6`)
		for i := 1; i <= 6; i++ {
			if lines := w.lines(t, fmt.Sprint("\tline ", i)); len(lines) != 1 {
				t.Errorf("line %d is there as %q", i, lines)
			}
		}
	}
	for _, said := range []string{"\tline 4", "\tline 6"} { // by neither of the two
		a, b := live.lines(t, said), away.lines(t, said)
		if len(a) != 1 || len(b) != 1 || a[0] != b[0] {
			t.Errorf("%q and %q", a, b)
		}
	}
	n.stop(t)
}

// weechatIn is a WeeChat with a device of its own and its files in dir, perhaps not for
// the first time.
func weechatIn(t *testing.T, n *node, dir, nick, caps string) *weechat {
	t.Helper()
	w := &weechat{dir: dir}
	t.Cleanup(func() {
		if w.cmd != nil && w.cmd.ProcessState == nil {
			_ = w.cmd.Process.Kill()
			_ = w.cmd.Wait()
		}
	})
	w.cmd = exec.Command("weechat-headless", "--stdout", "--dir", dir,
		"-r", "/set logger.file.flush_delay 0",
		"-r", "/set irc.look.server_buffer independent",
		"-r", fmt.Sprintf("/server add h 127.0.0.1/%d -notls -nicks=%s -username=me@%s -capabilities=%s", n.irc, nick, nick, caps),
		"-r", "/connect h")
	w.cmd.Env = append(os.Environ(), "TERM=dumb", "HOME="+dir, "XDG_RUNTIME_DIR="+dir)
	var out bytes.Buffer // WeeChat hangs where its output is /dev/null
	w.cmd.Stdout, w.cmd.Stderr = &out, &out
	before := len(w.lines(t, "has joined #dev"))
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, nick+"'s WeeChat", func() error {
		if len(w.lines(t, "has joined #dev")) == before {
			return errors.New("it has not joined")
		}
		return nil
	})
	return w
}

// quit ends a WeeChat as a person does.
func (w *weechat) quit(t *testing.T) {
	t.Helper()
	w.command(t, "/quit")
	done := make(chan error, 1)
	go func() { done <- w.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(patience):
		_ = w.cmd.Process.Kill()
		<-done
		t.Error("WeeChat did not end")
	}
	// Its FIFO stays, and belongs to nobody.
	_ = filepath.WalkDir(w.dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeNamedPipe != 0 {
			return os.Remove(p)
		}
		return nil
	})
}

// lines are the lines of #dev's log that end in text, with their times.
func (w *weechat) lines(t *testing.T, text string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(w.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(p, "#dev.weechatlog") {
			return nil //nolint:nilerr // files come and go
		}
		b, err := os.ReadFile(p)
		for l := range strings.Lines(string(b)) {
			if strings.HasSuffix(strings.TrimRight(l, "\n"), text) {
				all = append(all, strings.TrimRight(l, "\n"))
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return all
}
