package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A tap is between a client and a daemon, and writes down what passes.
type tap struct {
	port int

	mu    sync.Mutex
	lines []string // "> " from the client, "< " to it
}

// startTap makes a tap to a port.
func startTap(t *testing.T, port int) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tp := &tap{port: l.Addr().(*net.TCPAddr).Port}
	var all sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		all.Wait()
		if t.Failed() {
			t.Logf("tap of port %d:\n%s", port, strings.Join(tp.lines, "\n"))
		}
	})
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				client.Close()
				return
			}
			all.Go(func() { tp.copy("> ", client, server) })
			all.Go(func() { tp.copy("< ", server, client) })
		}
	})
	return tp
}

func (tp *tap) copy(mark string, from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	for r := bufio.NewReader(from); ; {
		l, err := r.ReadString('\n')
		if l != "" {
			tp.mu.Lock()
			tp.lines = append(tp.lines, mark+strings.TrimRight(l, "\r\n"))
			tp.mu.Unlock()
		}
		if _, werr := to.Write([]byte(l)); err != nil || werr != nil {
			return
		}
	}
}

// passed are the lines so far.
func (tp *tap) passed() []string {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	return slices.Clone(tp.lines)
}

// waits waits for a line with part, and returns its index.
func (tp *tap) waits(t *testing.T, part string) (at int) {
	t.Helper()
	eventually(t, "a line with "+part, func() error {
		all := tp.passed()
		at = slices.IndexFunc(all, func(l string) bool { return strings.Contains(l, part) })
		if at < 0 {
			return errors.New(strings.Join(all, "\n"))
		}
		return nil
	})
	return at
}

// noErrors fails on numerics of errors, except for some.
func (tp *tap) noErrors(t *testing.T, except ...string) {
	t.Helper()
	for _, l := range tp.passed() {
		if got, ok := strings.CutPrefix(l, "< "); ok && isError(got, except...) {
			t.Errorf("the client got %s", got)
		}
	}
}

// isError tells whether a line from a server is a numeric of an error.
func isError(l string, except ...string) bool {
	if strings.HasPrefix(l, "@") {
		_, l, _ = strings.Cut(l, " ")
	}
	f := strings.Fields(l)
	return len(f) > 1 && len(f[1]) == 3 && f[1] >= "400" && f[1] < "600" && !slices.Contains(except, f[1])
}
