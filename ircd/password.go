package ircd

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// HashPassword makes a hash for [Config.PasswordHash], with a random salt. darkirc
// cannot check it; its own hashes are accepted here.
func HashPassword(password string) (string, error) {
	return hashPassword(password, 12) // a quarter of a second, as darkirc
}

func hashPassword(password string, cost int) (string, error) {
	h, err := bcrypt.GenerateFromPassword(cutPassword(password), cost)
	if err != nil {
		return "", fmt.Errorf("ircd: hash password: %w", err)
	}
	return string(h), nil
}

func cutPassword(p string) []byte { return []byte(p)[:min(len(p), maxPassword)] }

// checkPassword looks at a password on the connection's own goroutine, one in the
// whole server at a time, after the wait that earlier failures of the host cost. More
// than one try are readings of the same line: together they count as one failure.
func (s *Server) checkPassword(ctx context.Context, conn net.Conn, tries ...string) bool {
	host := hostOf(conn)
	select {
	case <-time.After(s.throttle.wait(host, time.Now())):
	case <-ctx.Done():
		return false
	}
	select {
	case s.hashing <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-s.hashing }()
	ok := slices.ContainsFunc(tries, func(password string) bool {
		// No password costs no work: nothing has the hash of "".
		return password != "" && bcrypt.CompareHashAndPassword([]byte(s.cfg.PasswordHash), cutPassword(password)) == nil
	})
	if ok {
		s.throttle.succeeded(host)
	} else {
		s.throttle.failed(host, time.Now())
	}
	return ok
}

// hostOf names where a connection comes from, for counting only.
func hostOf(conn net.Conn) string {
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return a.IP.String()
	}
	return ""
}

// throttle counts failed passwords per host, in memory. The zero value is ready.
type throttle struct {
	mu    sync.Mutex // guards hosts
	hosts map[string]failures
}

type failures struct {
	n    int
	last time.Time
}

// wait is what a try from host costs now.
func (t *throttle) wait(host string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.hosts[host]
	if f.n == 0 || now.Sub(f.last) > throttleForget {
		return 0
	}
	return min(throttleStep<<min(f.n-1, 20), throttleMax)
}

func (t *throttle) failed(host string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hosts == nil {
		t.hosts = map[string]failures{}
	}
	if _, ok := t.hosts[host]; !ok && len(t.hosts) >= maxThrottled {
		t.forget(now)
	}
	f := t.hosts[host]
	if now.Sub(f.last) > throttleForget {
		f.n = 0
	}
	t.hosts[host] = failures{f.n + 1, now}
}

// forget makes room: what no longer counts goes, else the oldest.
func (t *throttle) forget(now time.Time) {
	oldest, found := "", false
	for h, f := range t.hosts {
		if now.Sub(f.last) > throttleForget {
			delete(t.hosts, h)
		} else if !found || f.last.Before(t.hosts[oldest].last) {
			oldest, found = h, true
		}
	}
	if found && len(t.hosts) >= maxThrottled {
		delete(t.hosts, oldest)
	}
}

func (t *throttle) succeeded(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.hosts, host)
}
