package e2e

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	// cycles is how often a client connects, joins and goes, of each kind; as many come
	// before the first look at the memory.
	cycles = 500
	// cyclesBound is what all of them may leave behind in the daemon's own memory: less than
	// 4 KiB each, where a forgotten connection has more than 10.
	cyclesBound = 6 << 20
	// cyclesSlack is how many goroutines and files more there may be than at first: the
	// store's and the metrics' own come and go. One forgotten by each client is 500.
	cyclesSlack = 8
)

// TestCycles: clients that come and go in every way leave no goroutine, no file and no
// memory behind (failure-cases IRC 19, issue 5).
func TestCycles(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	bin := build(t)
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", secure), func(t *testing.T) { testCycles(t, bin, secure) })
	}
}

func testCycles(t *testing.T, bin string, secure bool) {
	d, metrics := cycleDaemon(t, bin, secure)
	visit := func(i int, reset bool) {
		t.Helper()
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", d.irc))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(patience))
		var rw io.ReadWriter = conn
		if secure {
			rw = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // its own certificate
		}
		// Each is somebody else, in a channel of their own as well.
		if _, err := fmt.Fprintf(rw, "NICK n%d\r\nUSER u 0 * :u\r\nJOIN #all,#c%d\r\nPING here\r\n", i, i); err != nil {
			t.Fatal(err)
		}
		for s := bufio.NewScanner(rw); ; {
			if !s.Scan() {
				t.Fatalf("the connection ended early: %v", s.Err())
			}
			if strings.Contains(s.Text(), " PONG ") {
				break
			}
		}
		if reset {
			_ = conn.(*net.TCPConn).SetLinger(0)
			return
		}
		_, _ = io.WriteString(rw, "QUIT :bye\r\n")
		_, _ = io.Copy(io.Discard, rw) // an ERROR, and the end
	}
	round := func(from int, reset bool) {
		for i := range cycles {
			visit(from+i, reset)
		}
	}
	var routines, files, memory int
	look := func(r, f int) {
		t.Helper()
		eventually(t, "the end of what the clients had", func() (err error) {
			if routines, err = scrape(metrics, "go_goroutines "); err != nil {
				return err
			}
			if files = d.fds(t); r > 0 && (routines > r+cyclesSlack || files > f+cyclesSlack) {
				return fmt.Errorf("%d goroutines and %d files, at first %d and %d", routines, files, r, f)
			}
			return nil
		})
		memory = d.rss(t)
	}
	look(0, 0)
	r, f := routines, files
	round(0, false) // what is made once is there
	look(r, f)
	before := memory
	for i, reset := range []bool{false, true, true} {
		round((i+1)*cycles, reset)
		look(r, f)
	}
	t.Logf("%d goroutines; RssAnon %d KiB after %d cycles, %+d KiB after %d more", routines, before>>10, cycles, (memory-before)>>10, 3*cycles)
	if memory-before > cyclesBound {
		t.Errorf("%d KiB more", (memory-before)>>10)
	}
}

// cycleDaemon runs a daemon without a network, and its metrics.
func cycleDaemon(t *testing.T, bin string, secure bool) (*daemonProc, string) {
	t.Helper()
	dir := t.TempDir()
	n := &node{bin: bin, config: filepath.Join(dir, "hearsay.toml"), irc: freePort(t)}
	metrics, listen := fmt.Sprintf("127.0.0.1:%d", freePort(t)), fmt.Sprintf("irc_listen = \"tcp://127.0.0.1:%d\"\n", n.irc)
	if secure {
		made := filepath.Join(dir, "made.toml")
		if out, err := exec.Command(bin, "config", "init", "--tls", "--config", made).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		listen = fmt.Sprintf("irc_listen = \"tcp+tls://127.0.0.1:%d\"\nirc_tls_cert = %q\nirc_tls_secret = %q\n",
			n.irc, filepath.Join(dir, "irc.crt"), filepath.Join(dir, "irc.key"))
	}
	conf := listen + fmt.Sprintf("datastore = %q\nautojoin = []\nskip_dag_sync = true\n[metrics]\nlisten = %q\n[net]\nactive_profiles = []\n", filepath.Join(dir, "data"), metrics)
	if err := os.WriteFile(n.config, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &daemonProc{node: n, dir: dir}
	d.start(t)
	t.Cleanup(func() {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
	})
	return d, "http://" + metrics + "/metrics"
}

// scrape reads a number. It opens a connection for it: one that waits has goroutines.
func scrape(metrics, name string) (n int, err error) {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := c.Get(metrics)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), name); ok {
			return strconv.Atoi(v)
		}
	}
	return 0, fmt.Errorf("no %q", name)
}
