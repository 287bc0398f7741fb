package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds each wait of these tests, which run real programs in real time.
const patience = 60 * time.Second

// TestRealClients chats between WeeChat and irssi through two daemons, over each
// transport that needs no proxy, and reads what each client shows.
func TestRealClients(t *testing.T) {
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
	for _, scheme := range []string{"quic", "tcp+tls"} {
		t.Run(scheme, func(t *testing.T) {
			a := startNode(t, bin, scheme, nil)
			b := startNode(t, bin, scheme, a)
			b.waitStatus(t, func(s status) bool { return s.Synced && s.P2P.Connected == 1 })
			a.waitStatus(t, func(s status) bool { return s.P2P.Connected == 1 })

			wee := startWeeChat(t, a, "wanda")
			iri := startIrssi(t, b, "iris")

			wee.say(t, "#dev", "hello from weechat")
			iri.shows(t, `wanda>.*hello from weechat`)
			iri.say(t, "hello from irssi")
			wee.shows(t, "#dev", `iris\s+hello from irssi`)

			// The encrypted channel.
			wee.command(t, "/join #secret")
			iri.say(t, "/join #secret")
			wee.shows(t, "#secret", `wanda`)
			wee.say(t, "#secret", "under the rose")
			iri.shows(t, `wanda>.*under the rose`)

			// A direct message to a contact, who is called differently on each side.
			wee.command(t, "/msg bob for your eyes only")
			iri.say(t, "/query alice")
			iri.shows(t, `for your eyes only`)

			// Somebody who comes later sees what was said.
			late := startWeeChat(t, b, "larry")
			late.shows(t, "#dev", `wanda\s+hello from weechat`)
			late.shows(t, "#dev", `iris\s+hello from irssi`)

			for _, n := range []*node{a, b} {
				n.stop(t)
				for _, text := range []string{"hello from", "under the rose", "eyes only"} {
					if bytes.Contains(n.log.Bytes(), []byte(text)) {
						t.Errorf("message text %q in a log (DS-44)", text)
					}
				}
			}
		})
	}
}

// Keys for both sides of the encrypted channel and the contact pair, made for
// this test: base58 of the bytes 1 to 32 and 33 to 64 (chat vectors B and C).
const (
	secretA = "4wBqpZM9xaSheZzJSMawUKKwhdpChKbZ5eu5ky4Vigw"
	publicA = "WpSggvhoqoVW4XJvfjsB52dvVunYSQWrz6XiuMQVsCf"
	secretB = "3ELeRTTg5W5hAYaEFznzFV1jknNFkjHqS8ytwvQEQP1Z"
	publicB = "6x8MB28qE9sJmS26FVpSvvoFW9PsXLoDQZXXsut4tWiN"
)

// A node is a running daemon.
type node struct {
	bin, config, scheme string
	irc, p2p            int
	cmd                 *exec.Cmd
	log                 bytes.Buffer
}

// startNode runs a daemon, alone or as a peer of other.
func startNode(t *testing.T, bin, scheme string, other *node) *node {
	dir := t.TempDir()
	n := &node{bin: bin, config: filepath.Join(dir, "hearsay.toml"), scheme: scheme, irc: freePort(t), p2p: freePort(t)}
	peers, contact, secret, public, first := "", "bob", secretA, publicB, true
	if other != nil {
		peers = fmt.Sprintf("%q", fmt.Sprintf("%s://127.0.0.1:%d", scheme, other.p2p))
		contact, secret, public, first = "alice", secretB, publicA, false
	}
	conf := fmt.Sprintf(`
irc_listen = "tcp://127.0.0.1:%d"
datastore = %q
autojoin = ["#dev"]
skip_dag_sync = %t

[channel."#secret"]
secret = %q

[contact.%q]
dm_chacha_public = %q
my_dm_chacha_secret = %q

[outbound]
min_connections = 1

[net]
magic_bytes = [1, 2, 3, 4]
active_profiles = [%q]
localnet = true

[net.profiles.%q]
inbound = ["%s://127.0.0.1:%d"]
peers = [%s]
`, n.irc, filepath.Join(dir, "data"), first, publicA, contact, public, secret, scheme, scheme, scheme, n.p2p, peers)
	if err := os.WriteFile(n.config, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	n.cmd = exec.Command(bin, "run", "--config", n.config)
	n.cmd.Stdout, n.cmd.Stderr = &n.log, &n.log
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n.cmd != nil {
			n.cmd.Process.Kill()
			n.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("log of the node on port %d:\n%s", n.irc, n.log.Bytes())
		}
	})
	eventually(t, "the IRC port", func() error {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", n.irc))
		if err == nil {
			c.Close()
		}
		return err
	})
	return n
}

// stop asks the daemon to end and wants exit code 0 within the contract's 10 s.
func (n *node) stop(t *testing.T) {
	t.Helper()
	n.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan error, 1)
	go func() { done <- n.cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("daemon ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		n.cmd.Process.Kill()
		<-done
		t.Error("daemon did not end on SIGTERM")
	}
	n.cmd = nil
}

// status is the part of the contract's status JSON that the tests look at.
type status struct {
	Synced bool `json:"synced"`
	P2P    struct {
		Connected int `json:"connected"`
	} `json:"p2p"`
	Graph struct {
		Events int `json:"events"`
	} `json:"graph"`
}

func (n *node) waitStatus(t *testing.T, ok func(status) bool) {
	t.Helper()
	eventually(t, "status", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, n.bin, "status", "--json", "--config", n.config).Output()
		if err != nil {
			return err
		}
		var s status
		if err := json.Unmarshal(out, &s); err != nil {
			return err
		}
		if !ok(s) {
			return fmt.Errorf("status is %s", out)
		}
		return nil
	})
}

// A weechat is a headless WeeChat: commands go in through its FIFO, what it shows
// comes out of its log files.
type weechat struct {
	dir string
	cmd *exec.Cmd
}

func startWeeChat(t *testing.T, n *node, nick string) *weechat {
	w := &weechat{dir: t.TempDir()}
	w.cmd = exec.Command("weechat-headless", "--stdout", "--dir", w.dir,
		"-r", "/set logger.file.flush_delay 0",
		"-r", "/set irc.look.server_buffer independent",
		"-r", fmt.Sprintf("/server add h 127.0.0.1/%d -notls -nicks=%s -username=%s", n.irc, nick, nick),
		"-r", "/connect h")
	w.cmd.Env = append(os.Environ(), "TERM=dumb", "HOME="+w.dir, "XDG_RUNTIME_DIR="+w.dir)
	var out bytes.Buffer
	w.cmd.Stdout, w.cmd.Stderr = &out, &out
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.cmd.Process.Kill()
		w.cmd.Wait()
		if t.Failed() {
			t.Logf("%s's WeeChat:\n%s", nick, out.Bytes())
		}
	})
	w.shows(t, "#dev", nick)
	return w
}

// command types a line into WeeChat's core of server h.
func (w *weechat) command(t *testing.T, line string) { t.Helper(); w.fifo(t, "irc.server.h *"+line) }

// say types a line into a channel's window.
func (w *weechat) say(t *testing.T, target, text string) {
	t.Helper()
	w.fifo(t, "irc.h."+target+" *"+text)
}

func (w *weechat) fifo(t *testing.T, line string) {
	t.Helper()
	eventually(t, "WeeChat's FIFO", func() error {
		var path string
		filepath.WalkDir(w.dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type()&fs.ModeNamedPipe != 0 {
				path = p
			}
			return nil
		})
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

// shows waits until a line of the window's log matches.
func (w *weechat) shows(t *testing.T, window, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	eventually(t, "WeeChat showing "+pattern, func() error {
		var all []string
		filepath.WalkDir(w.dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(p, ".weechatlog") {
				b, _ := os.ReadFile(p)
				all = append(all, filepath.Base(p)+":\n"+string(b))
			}
			return nil
		})
		for _, log := range all {
			name, text, _ := strings.Cut(log, "\n")
			if strings.Contains(name, window) && re.MatchString(text) {
				return nil
			}
		}
		return fmt.Errorf("logs are %s", strings.Join(all, "\n"))
	})
}

// An irssi runs in a tmux window of its own server, as a person would have it.
type irssi struct{ socket string }

func startIrssi(t *testing.T, n *node, nick string) *irssi {
	dir := t.TempDir()
	i := &irssi{socket: filepath.Join(dir, "tmux")}
	i.tmux(t, "new-session", "-d", "-s", "irssi", "-x", "160", "-y", "50",
		fmt.Sprintf("TERM=screen irssi --home=%s -c 127.0.0.1 -p %d -n %s", dir, n.irc, nick))
	t.Cleanup(func() { exec.Command("tmux", "-S", i.socket, "kill-server").Run() })
	// A channel that the server joins one to opens in the background.
	i.shows(t, `Act: 2`)
	i.say(t, "/window goto 2")
	i.shows(t, `#dev`)
	return i
}

func (i *irssi) tmux(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", i.socket}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// say types a line into the window in front.
func (i *irssi) say(t *testing.T, text string) {
	t.Helper()
	i.tmux(t, "send-keys", "-t", "irssi", "-l", text)
	i.tmux(t, "send-keys", "-t", "irssi", "Enter")
}

// shows waits until the screen matches.
func (i *irssi) shows(t *testing.T, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	eventually(t, "irssi showing "+pattern, func() error {
		screen := i.tmux(t, "capture-pane", "-p", "-t", "irssi")
		if !re.MatchString(screen) {
			return fmt.Errorf("screen is\n%s", screen)
		}
		return nil
	})
}

// eventually calls fn until it returns nil.
func eventually(t *testing.T, what string, fn func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := fn()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting for %s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
