package e2e

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A person is a connection to a daemon without a client program.
type person struct {
	conn net.Conn

	mu  sync.Mutex
	got []string
}

// connect registers a person.
func connect(t *testing.T, n *node, nick string) *person {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", n.irc)
	var conn net.Conn
	var err error
	if n.cert == "" {
		conn, err = net.Dial("tcp", addr)
	} else {
		conn, err = tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // what it is for is tested elsewhere
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p := &person{conn: conn}
	go func() {
		r := bufio.NewScanner(conn)
		for r.Scan() {
			if rest, ok := strings.CutPrefix(r.Text(), "PING "); ok {
				p.send("PONG " + rest)
			}
			p.mu.Lock()
			p.got = append(p.got, r.Text())
			p.mu.Unlock()
		}
	}()
	p.send("NICK "+nick, fmt.Sprintf("USER %s 0 * :%[1]s", nick))
	p.waits(t, " 366 "+nick+" #dev ")
	return p
}

func (p *person) send(lines ...string) {
	_, _ = p.conn.Write([]byte(strings.Join(lines, "\r\n") + "\r\n"))
}

// waits waits for a line with part.
func (p *person) waits(t *testing.T, part string) {
	t.Helper()
	eventually(t, "a line with "+part, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !slices.ContainsFunc(p.got, func(l string) bool { return strings.Contains(l, part) }) {
			return errors.New(strings.Join(p.got, "\n"))
		}
		return nil
	})
}

// serves is the fingerprint of the certificate that a node's IRC port serves.
func serves(t *testing.T, n *node) string {
	t.Helper()
	c, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", n.irc), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it is only looked at
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return fmt.Sprintf("%x", sha256.Sum256(c.ConnectionState().PeerCertificates[0].Raw))
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func writeFile(t *testing.T, text string) (name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
