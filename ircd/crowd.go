package ircd

import (
	"net"
	"slices"
	"sync"
)

// Who connects and does not go on must not keep out who does. At a bound on them the one that
// has waited longest makes room, of the host that has most: a person's client registers within
// a moment, and who opens many connections from one host drives out their own.

// A crowd are connections that have not got anywhere yet. The zero value is ready.
type crowd struct {
	mu  sync.Mutex // guards all
	all []net.Conn // oldest first
}

// enter takes conn in, and closes another one beyond the bound.
func (c *crowd) enter(conn net.Conn, bound int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, conn)
	if len(c.all) <= bound {
		return
	}
	hosts := make([]string, len(c.all))
	for i, o := range c.all {
		hosts[i] = hostOf(o)
	}
	i := longest(hosts)
	_ = c.all[i].Close() // nothing of ours is in it
	c.all = slices.Delete(c.all, i, i+1)
}

func (c *crowd) leave(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.all, conn); i >= 0 {
		c.all = slices.Delete(c.all, i, i+1)
	}
}

// longest is the first of the host that is named most often.
func longest(hosts []string) int {
	n := map[string]int{}
	for _, h := range hosts {
		n[h]++
	}
	best := 0
	for i, h := range hosts {
		if n[h] > n[hosts[best]] {
			best = i
		}
	}
	return best
}

// thinOut drops a client that waits to register, if there are too many of them.
func (s *Server) thinOut() {
	var waiting []*client
	for c := range s.clients {
		if !c.registered {
			waiting = append(waiting, c)
		}
	}
	if len(waiting) <= maxUnregistered {
		return
	}
	slices.SortFunc(waiting, func(a, b *client) int { return int(a.serial) - int(b.serial) })
	hosts := make([]string, len(waiting))
	for i, c := range waiting {
		hosts[i] = hostOf(c.conn)
	}
	s.drop(waiting[longest(hosts)], "Too many connections are waiting to register")
}
