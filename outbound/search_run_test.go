package outbound

import (
	"testing"
	"time"
)

func TestSearch(t *testing.T) {
	for _, h := range []int{30, 35, 40, 45} {
		var s search
		at := time.Now()
		s.run(1, time.Duration(h)*time.Second, 0)
		if s.failed != "" {
			t.Fatal(s.failed)
		}
		t.Logf("%d s %d states, %d tries; left %d %v %v", h, s.states, s.tried, len(s.queue), s.reached, time.Since(at))
	}
}
