package outbound

import (
	"flag"
	"testing"
	"time"
)

var (
	searchLuck    = flag.Int("search-luck", 1, "adversities per path of TestSearch: failed commits, refusals, cancels, enqueues, gate changes")
	searchSeconds = flag.Int("search-seconds", 35, "model time of TestSearch; more takes minutes")
)

// TestSearch is the exhaustive search; see search_test.go. Crashes, statuses, tips and
// children are free; other adversities are bounded by -search-luck.
func TestSearch(t *testing.T) {
	seconds := *searchSeconds
	if testing.Short() {
		seconds = 30
	}
	var s search
	s.run(int8(*searchLuck), time.Duration(seconds)*time.Second, 0)
	if s.failed != "" {
		t.Fatal(s.failed)
	}
	for _, must := range []string{"generation 0", "generation 1", "generation 2", "dequeue", "send", "fault"} {
		if s.reached[must] == 0 && seconds >= 35 {
			t.Errorf("the search never reached %q", must)
		}
	}
	if s.drained == 0 {
		t.Error("no state was led to its end")
	}
	t.Logf("%d states, %d transitions, %d led to their end, reached %v", s.states, s.tried, s.drained, s.reached)
}

// TestSearchFindsBugs plants one bug of each kind; the search must break on it.
func TestSearchFindsBugs(t *testing.T) {
	for _, bug := range []string{
		"shows before it is durable",
		"loses the generation's commit",
		"keeps two active generations",
		"forgets the generation at a crash",
		"resurrects a removed record",
		"skips a record",
		"dequeues twice",
		"believes a peer that was never put to",
		"takes a status for another message",
		"takes Busy for an answer",
		"takes a local child for evidence",
		"recreates without a round",
		"forgets evidence of a superseded generation",
		"sends through a closed gate",
	} {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			s := search{bug: bug}
			s.run(1, 35*time.Second, 100_000)
			if s.failed == "" {
				t.Fatalf("not found in %d states", s.states)
			}
			t.Logf("%d states: %s", s.states, s.failed)
		})
	}
}
