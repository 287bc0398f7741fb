package p2p

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTwoNodesMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		a := m.start(t, "5.0.0.1", nil)
		b := m.start(t, "5.0.0.2", func(c *Config) {
			c.Peers = []URL{a.url}
			c.Features = map[string]uint32{"x": 7}
		})
		settle(time.Second)
		if len(a.Peers()) != 1 || len(b.Peers()) != 1 {
			t.Fatalf("%d and %d peers", len(a.Peers()), len(b.Peers()))
		}
		pa, pb := a.Peers()[0], b.Peers()[0]
		if pa.Session() != SessionInbound || pb.Session() != SessionManual {
			t.Errorf("sessions %v and %v", pa.Session(), pb.Session())
		}
		if v, ok := pa.Feature("x"); !ok || v != 7 {
			t.Errorf("feature x: %d %v", v, ok)
		}
		settle(10 * time.Minute) // pings keep it alive
		if len(a.Peers()) != 1 || a.Peers()[0] != pa {
			t.Error("the connection did not last")
		}
	})
}
