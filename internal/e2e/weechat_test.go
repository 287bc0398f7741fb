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
	"syscall"
	"testing"
	"time"
)

// A weechat is a headless WeeChat: commands go in through its FIFO, what it shows
// comes out of its log files, with the times that it shows.
type weechat struct {
	dir string
	cmd *exec.Cmd
	out bytes.Buffer // WeeChat hangs where its output is /dev/null
}

// login is how a client connects.
type login struct {
	port       int
	nick, user string // user is nick where empty
	cert       string // PEM file of the certificate to pin; empty without TLS
}

// startWeeChat starts a WeeChat with its files in dir, perhaps not for the first time, and
// waits until it is in #dev. caps are what it asks for; empty is its default.
func startWeeChat(t *testing.T, dir string, l login, caps string) *weechat {
	t.Helper()
	w := &weechat{dir: dir}
	user := l.user
	if user == "" {
		user = l.nick
	}
	server := fmt.Sprintf("/server add h 127.0.0.1/%d -nicks=%s -username=%s", l.port, l.nick, user)
	if l.cert == "" {
		server += " -notls"
	} else { // its name before 4.0, and since; an unknown one is ignored
		fp := fingerprint(t, l.cert)
		server += " -ssl -tls -ssl_fingerprint=" + fp + " -tls_fingerprint=" + fp
	}
	if caps != "" {
		server += " -capabilities=" + caps
	}
	w.cmd = exec.Command("weechat-headless", "--stdout", "--dir", dir,
		"-r", "/set logger.file.flush_delay 0",
		"-r", "/set irc.look.server_buffer independent",
		// Before 4.3 refusals of private messages are in the server's window otherwise.
		"-r", "/set irc.msgbuffer.401 private", "-r", "/set irc.msgbuffer.404 private",
		"-r", server, "-r", "/connect h")
	w.cmd.Env = append(os.Environ(), "TERM=dumb", "HOME="+dir, "XDG_RUNTIME_DIR="+dir, "TZ=UTC")
	w.cmd.Stdout, w.cmd.Stderr = &w.out, &w.out
	before := strings.Count(w.text(t, "#dev"), "has joined #dev")
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if w.cmd.ProcessState == nil {
			_ = w.cmd.Process.Kill()
			_ = w.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("%s's WeeChat:\n%s", l.nick, w.text(t, "server.h"))
		}
	})
	eventually(t, l.nick+"'s WeeChat", func() error {
		if strings.Count(w.text(t, "#dev"), "has joined #dev") == before {
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
	if path := w.pipe(); path != "" {
		_ = os.Remove(path)
	}
}

func (w *weechat) name() string { return "WeeChat" }

// command types a line into WeeChat's core of server h.
func (w *weechat) command(t *testing.T, line string) { t.Helper(); w.fifo(t, "irc.server.h *"+line) }

// say types a line into a channel's or a person's window.
func (w *weechat) say(t *testing.T, window, text string) {
	t.Helper()
	w.fifo(t, "irc.h."+window+" *"+text)
}

func (w *weechat) query(t *testing.T, nick string) { t.Helper(); w.command(t, "/query "+nick) }

func (w *weechat) pipe() (path string) {
	_ = filepath.WalkDir(w.dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeNamedPipe != 0 {
			path = p
		}
		return nil
	})
	return path
}

func (w *weechat) fifo(t *testing.T, line string) {
	t.Helper()
	eventually(t, "WeeChat's FIFO", func() error {
		path := w.pipe()
		if path == "" {
			return errors.New("no FIFO")
		}
		f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteString(line + "\n")
		return err
	})
}

// text is what the window has shown.
func (w *weechat) text(_ *testing.T, window string) (all string) {
	_ = filepath.WalkDir(w.dir, func(p string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, "."+window+".weechatlog") {
			b, _ := os.ReadFile(p) // files come and go
			all += string(b)
		}
		return nil
	})
	return all
}
