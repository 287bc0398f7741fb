package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hearsay/eventgraph"
)

// BenchmarkDaemon starts the built program and measures the time until an IRC client
// is welcome, and what memory of its own (RssAnon) it has when it idles. Linux.
func BenchmarkDaemon(b *testing.B) {
	bin := filepath.Join(b.TempDir(), "hearsay")
	build := exec.Command("go", "build", "-o", bin, "./cmd/hearsay")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	params := oneSlot()
	for _, events := range []int{0, syncEvents()} {
		b.Run(fmt.Sprintf("events=%d", events), func(b *testing.B) {
			dir := b.TempDir()
			if events > 0 {
				g, err := eventgraph.Open(filepath.Join(dir, "hearsay", "graph"), eventgraph.Config{Params: params})
				if err != nil {
					b.Fatal(err)
				}
				store(b, g, params.Genesis, chatter(params, params.Genesis, events))
				if err := g.Close(); err != nil {
					b.Fatal(err)
				}
			}
			idle := 3 * time.Second
			if testing.Short() {
				idle = 100 * time.Millisecond
			}
			var ready time.Duration
			var rss int
			for range b.N {
				r, m := daemon(b, bin, dir, params, idle)
				ready, rss = ready+r, max(rss, m)
			}
			b.ReportMetric(float64(ready.Microseconds())/1000/float64(b.N), "ready-ms")
			b.ReportMetric(float64(rss)/1000, "RssAnon-MB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// daemon runs the program once.
func daemon(b *testing.B, bin, dir string, params eventgraph.Params, idle time.Duration) (ready time.Duration, rssKB int) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	irc := l.Addr().String()
	l.Close()
	file := filepath.Join(b.TempDir(), "hearsay.toml")
	config := fmt.Sprintf(`irc_listen = "tcp://%s"
skip_dag_sync = true
[graph]
genesis = %d
genesis_contents = "bench"
rotation = "0s"
[net]
active_profiles = ["quic"]
outbound_connections = 0
[net.profiles."quic"]
inbound = ["%s"]
`, irc, params.Genesis, freeURL(b, "quic"))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(bin, "run", "--config", file, "--datastore", dir)
	cmd.Stderr, cmd.Stdout = &log, &log
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			b.Errorf("%v\n%s", err, &log)
		}
	}()
	for {
		if welcome(irc) {
			ready = time.Since(begin)
			break
		}
		if time.Since(begin) > time.Minute {
			b.Errorf("not ready after a minute")
			return 0, 0
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(idle)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		b.Error(err)
	}
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			rssKB, err = strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")))
			if err != nil {
				b.Error(err)
			}
		}
	}
	return ready, rssKB
}

// welcome registers an IRC client and reports whether it is welcomed.
func welcome(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return false
	}
	if _, err := c.Write([]byte("NICK bench\r\nUSER bench 0 * :bench\r\n")); err != nil {
		return false
	}
	for r := bufio.NewScanner(c); r.Scan(); {
		if strings.Contains(r.Text(), " 001 ") {
			return true
		}
	}
	return false
}
