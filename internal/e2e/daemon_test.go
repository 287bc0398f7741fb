package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds each wait of these tests, which run real programs in real time.
const patience = 60 * time.Second

// need skips a test whose programs are not installed, and fails it where they have to be.
// What has a slash is a pattern of a file that a program needs.
func need(t *testing.T, programs ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("short")
	}
	for _, prog := range programs {
		_, err := exec.LookPath(prog)
		if strings.Contains(prog, "/") {
			var found []string
			if found, err = filepath.Glob(prog); err == nil && len(found) == 0 {
				err = os.ErrNotExist
			}
		}
		if err != nil {
			if os.Getenv("HEARSAY_E2E") != "" {
				t.Fatalf("%s is not installed", prog)
			}
			t.Skipf("%s is not installed", prog)
		}
	}
}

var built struct {
	sync.Once
	dir string
	err error
}

// build compiles the daemon, once for all tests, unless HEARSAY_BIN names one.
func build(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("HEARSAY_BIN"); bin != "" {
		return bin
	}
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "hearsay-e2e-"); built.err != nil { //nolint:usetesting // it outlives the test
			return
		}
		out, err := exec.Command("go", "build", "-o", built.dir, "hearsay/cmd/hearsay").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatalf("build: %v", built.err)
	}
	return filepath.Join(built.dir, "hearsay")
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
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
	dir                 string // of its configuration and data
	cert, key           string // of its IRC port, if that speaks TLS
	irc, p2p            int
	cmd                 *exec.Cmd
	log                 bytes.Buffer
}

// nodeOptions change what startNode does.
type nodeOptions struct {
	tls         bool // on the IRC port, with the certificate of "config init --tls"
	maxMessages int  // of the queue; 0 = default
}

// startNode runs a daemon, alone or as a peer of other.
func startNode(t *testing.T, bin, scheme string, other *node) *node {
	t.Helper()
	return startNodeWith(t, bin, scheme, other, nodeOptions{})
}

func startNodeWith(t *testing.T, bin, scheme string, other *node, opt nodeOptions) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{bin: bin, dir: dir, config: filepath.Join(dir, "hearsay.toml"), scheme: scheme, irc: freePort(t), p2p: freePort(t)}
	irc := fmt.Sprintf("irc_listen = \"tcp://127.0.0.1:%d\"", n.irc)
	if opt.tls {
		n.cert, n.key = filepath.Join(dir, "irc.crt"), filepath.Join(dir, "irc.key")
		n.newCertificate(t)
		irc = fmt.Sprintf("irc_listen = \"tcp+tls://127.0.0.1:%d\"\nirc_tls_cert = %q\nirc_tls_secret = %q", n.irc, n.cert, n.key)
	}
	limit := ""
	if opt.maxMessages > 0 {
		limit = fmt.Sprintf("max_messages = %d", opt.maxMessages)
	}
	peers, contact, secret, public, first := "", "bob", secretA, publicB, true
	if other != nil {
		peers = fmt.Sprintf("%q", fmt.Sprintf("%s://127.0.0.1:%d", scheme, other.p2p))
		contact, secret, public, first = "alice", secretB, publicA, false
	}
	conf := fmt.Sprintf(`
%s
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
%s

[net]
magic_bytes = [1, 2, 3, 4]
active_profiles = [%q]
localnet = true

[net.profiles.%q]
inbound = ["%s://127.0.0.1:%d"]
peers = [%s]
`, irc, filepath.Join(dir, "data"), first, publicA, contact, public, secret, limit, scheme, scheme, scheme, n.p2p, peers)
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
			_ = n.cmd.Process.Kill()
			_ = n.cmd.Wait()
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

// newCertificate gives the node another certificate, with the command that the README
// names.
func (n *node) newCertificate(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command(n.bin, "config", "init", "--tls", "--config", filepath.Join(dir, "hearsay.toml")).CombinedOutput()
	if err != nil {
		t.Fatalf("config init --tls: %v\n%s", err, out)
	}
	for from, to := range map[string]string{"irc.crt": n.cert, "irc.key": n.key} {
		if err := os.Rename(filepath.Join(dir, from), to); err != nil {
			t.Fatal(err)
		}
	}
	if fp := fingerprint(t, n.cert); !strings.Contains(string(out), fp) {
		t.Errorf("config init --tls printed no fingerprint %s:\n%s", fp, out)
	}
}

// stop asks the daemon to end and wants exit code 0 within the contract's 10 s.
func (n *node) stop(t *testing.T) {
	t.Helper()
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan error, 1)
	go func() { done <- n.cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("daemon ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		_ = n.cmd.Process.Kill()
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
	Outbound struct {
		Depth int `json:"depth"`
	} `json:"outbound"`
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
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
