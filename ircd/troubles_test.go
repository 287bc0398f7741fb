package ircd

import (
	"sync"
	"testing"
	"time"
)

// A troubledNetwork has a State and troubles.
type troubledNetwork struct {
	fakeNetwork
	mu    sync.Mutex
	texts []string
}

func (n *troubledNetwork) Troubles() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.texts
}

func (n *troubledNetwork) have(texts ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.texts = texts
}

// DS-82: what a person has to see to is told when it comes up, once, and to a client
// that connects while it lasts.
func TestTroublesAreTold(t *testing.T) {
	n := &troubledNetwork{}
	serve(t, func(c *Config, _ *fakeGraph) { c.Network = n }, func(h *harness) {
		c := h.register("a")
		std := h.register("std", "standard-replies")
		n.have("the clock is off")
		time.Sleep(2 * tick)
		want(t, c.got(), ":irc.hearsay NOTICE a :the clock is off")
		want(t, std.got(), ":irc.hearsay NOTE * TROUBLE :the clock is off")
		n.have("the clock is off", "no proxy")
		time.Sleep(2 * tick)
		want(t, c.got(), ":irc.hearsay NOTICE a :no proxy")
		late := h.dial()
		lines := late.do("NICK b", "USER b 0 * :b")
		wantPart(t, lines, "NOTICE b :the clock is off")
		wantPart(t, lines, "NOTICE b :no proxy")
		n.have()
		time.Sleep(2 * tick)
		want(t, c.got())
		n.have("the clock is off")
		next := h.dial()
		next.send("NICK d", "USER d 0 * :d") // before anybody has looked
		time.Sleep(2 * tick)
		if lines := next.got(); count(lines, "the clock is off") != 1 {
			t.Errorf("%q", lines)
		}
		want(t, c.got(), ":irc.hearsay NOTICE a :the clock is off")
	})
}
