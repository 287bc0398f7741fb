package bench

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An ircServer is a running program that speaks IRC: hearsay, or ngircd beside it.
type ircServer struct {
	addr, secure string // host:port; secure is the one with TLS, where there is one
	cmd          *exec.Cmd
	ready        time.Duration // from the start of the process until a client was welcome
	log          bytes.Buffer
}

// buildHearsay compiles the daemon as it is released.
func buildHearsay(b *testing.B) string {
	b.Helper()
	bin := filepath.Join(b.TempDir(), "hearsay")
	build := exec.Command("go", "build", "-o", bin, "./cmd/hearsay")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return bin
}

func freeAddr(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startHearsay runs a daemon without a network; with TLS its only port is that one. more is
// the rest of its configuration.
func startHearsay(b *testing.B, bin, datastore string, withTLS bool, more string) *ircServer {
	b.Helper()
	dir := b.TempDir()
	s := &ircServer{addr: freeAddr(b)}
	listen := fmt.Sprintf("irc_listen = \"tcp://%s\"\n", s.addr)
	if withTLS {
		cert, key := selfSigned(b, bin)
		listen = fmt.Sprintf("irc_listen = \"tcp+tls://%s\"\nirc_tls_cert = %q\nirc_tls_secret = %q\n", s.addr, cert, key)
		s.addr, s.secure = "", s.addr
	}
	file := filepath.Join(dir, "hearsay.toml")
	conf := listen + "skip_dag_sync = true\nautojoin = []\n" + more + "[net]\nactive_profiles = []\n"
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		b.Fatal(err)
	}
	s.start(b, bin, "run", "--config", file, "--datastore", datastore)
	return s
}

// startNgircd runs Debian's ngircd without look-ups and limits, or is nil where it is not installed.
func startNgircd(b *testing.B, bin string) *ircServer {
	b.Helper()
	program, err := exec.LookPath("ngircd")
	if err != nil {
		b.Log("ngircd is not installed")
		return nil
	}
	s := &ircServer{addr: freeAddr(b), secure: freeAddr(b)}
	cert, key := selfSigned(b, bin)
	if err := os.Chmod(key, 0o644); err != nil { // it gives up being root
		b.Fatal(err)
	}
	port := func(addr string) string { _, p, _ := net.SplitHostPort(addr); return p }
	file := filepath.Join(filepath.Dir(cert), "ngircd.conf")
	conf := fmt.Sprintf("[Global]\nName = irc.bench.local\nInfo = bench\nAdminInfo1 = a\nAdminInfo2 = b\nAdminEMail = c@d.e\n"+
		"Listen = 127.0.0.1\nPorts = %s\nMotdPhrase = bench\n[Limits]\nMaxConnections = 0\nMaxConnectionsIP = 0\nMaxJoins = 0\nMaxNickLength = 20\nMaxPenaltyTime = 0\n"+
		"[Options]\nDNS = no\nIdent = no\nPAM = no\nSyslogFacility = local1\n[SSL]\nPorts = %s\nCertFile = %s\nKeyFile = %s\n",
		port(s.addr), port(s.secure), cert, key)
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		b.Fatal(err)
	}
	s.start(b, program, "-n", "-f", file)
	return s
}

// selfSigned makes a certificate for localhost, in a directory that others can enter.
func selfSigned(b *testing.B, bin string) (cert, key string) {
	b.Helper()
	dir := b.TempDir()
	out, err := exec.Command(bin, "config", "init", "--tls", "--config", filepath.Join(dir, "x.toml")).CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			b.Fatal(err)
		}
	}
	return filepath.Join(dir, "irc.crt"), filepath.Join(dir, "irc.key")
}

// start runs the program until the benchmark ends, and waits until it is ready.
func (s *ircServer) start(b *testing.B, program string, args ...string) {
	b.Helper()
	s.cmd = exec.Command(program, args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	begin := time.Now()
	if err := s.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.stop)
	for !s.welcomes() {
		if time.Since(begin) > time.Minute {
			b.Fatalf("%s is not ready after a minute\n%s", program, &s.log)
		}
		time.Sleep(time.Millisecond)
	}
	s.ready = time.Since(begin)
}

func (s *ircServer) stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *ircServer) welcomes() bool {
	c, err := s.dial(s.addr == "")
	if err != nil {
		return false
	}
	defer c.Close()
	return c.register("ready") == nil
}

// rss is the program's own memory (RssAnon) in KiB.
func (s *ircServer) rss(b *testing.B) int {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		b.Skip("no /proc")
	}
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")))
			if err != nil {
				b.Fatal(err)
			}
			return kb
		}
	}
	b.Skip("the kernel does not tell RssAnon")
	return 0
}

// An ircConn is a client.
type ircConn struct {
	io.ReadWriter
	net.Conn // closed, and given its options
	r        *bufio.Reader
}

func (c *ircConn) Write(p []byte) (int, error) { return c.ReadWriter.Write(p) }
func (c *ircConn) Read(p []byte) (int, error)  { return c.ReadWriter.Read(p) }

func (s *ircServer) dial(secure bool) (*ircConn, error) {
	addr := s.addr
	if secure {
		addr = s.secure
	}
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := nc.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	c := &ircConn{ReadWriter: nc, Conn: nc}
	if secure {
		c.ReadWriter = tls.Client(nc, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // its own certificate
	}
	c.r = bufio.NewReader(c.ReadWriter)
	return c, nil
}

// until reads lines up to one that holds text.
func (c *ircConn) until(text string) (string, error) {
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("before %q: %w", text, err)
		}
		if rest, ok := strings.CutPrefix(line, "PING"); ok {
			if _, err := io.WriteString(c, "PONG"+rest); err != nil {
				return "", err
			}
		}
		if strings.Contains(line, text) {
			return line, nil
		}
	}
}

// ask sends lines and waits for one that holds text.
func (c *ircConn) ask(lines, text string) error {
	if _, err := io.WriteString(c, lines); err != nil {
		return err
	}
	_, err := c.until(text)
	return err
}

func (c *ircConn) register(nick string) error {
	return c.ask("NICK "+nick+"\r\nUSER "+nick+" 0 * :bench\r\n", " 001 ")
}

// client is a registered one in a channel, for as long as the benchmark runs.
func (s *ircServer) client(b *testing.B, nick, channel string) *ircConn {
	b.Helper()
	c, err := s.dial(s.addr == "")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	if err := errors.Join(c.SetDeadline(time.Now().Add(10*time.Minute)), c.register(nick), c.ask("JOIN "+channel+"\r\n", " 366 ")); err != nil {
		b.Fatal(err)
	}
	return c
}

// percentiles reports the median and the 99th percentile, and returns the median.
func percentiles(b *testing.B, all []time.Duration, unit time.Duration, name string) time.Duration {
	slices.Sort(all)
	in := func(d time.Duration) float64 { return float64(d) / float64(unit) }
	b.ReportMetric(in(all[len(all)/2]), name+"-p50")
	b.ReportMetric(in(all[len(all)*99/100]), name+"-p99")
	return all[len(all)/2]
}
