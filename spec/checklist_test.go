package spec

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// checklistItems is how many behaviours the facts page's checklist of the event graph
// (its section 10) has.
const checklistItems = 104

var decisionRef = regexp.MustCompile(`decision (\d{4})`)

// TestChecklist: every item has exactly one row in checklist.md. A row names tests that
// exist, or a decision that exists and overrides it, or says "[R]" (proofs, which are
// off), or "open:" and why.
func TestChecklist(t *testing.T) {
	tests := testFuncs(t)
	decisions := map[string]bool{}
	entries, err := os.ReadDir("decisions")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		decisions[e.Name()[:min(4, len(e.Name()))]] = true
	}
	seen := map[int]bool{}
	for _, line := range lines(t, "checklist.md") {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		n, err := strconv.Atoi(strings.TrimSpace(cells[0]))
		if err != nil {
			continue // the head
		}
		if n < 1 || n > checklistItems || seen[n] || len(cells) != 3 {
			t.Errorf("row %d: no item, twice, or not three cells", n)
			continue
		}
		seen[n] = true
		row := cells[2]
		refs, overrides := testRef.FindAllStringSubmatch(row, -1), decisionRef.FindAllStringSubmatch(row, -1)
		if len(refs)+len(overrides) == 0 && !strings.Contains(row, "[R]") && !strings.Contains(row, "open:") {
			t.Errorf("item %d: no test, no decision, not [R], not open", n)
		}
		for _, m := range refs {
			if !tests[m[1]+":"+m[2]] {
				t.Errorf("item %d names %s in %q, which does not exist", n, m[2], m[1])
			}
		}
		for _, m := range overrides {
			if !decisions[m[1]] {
				t.Errorf("item %d names decision %s, which does not exist", n, m[1])
			}
		}
	}
	for n := 1; n <= checklistItems; n++ {
		if !seen[n] {
			t.Errorf("item %d has no row", n)
		}
	}
}

// DS-81: what a status cannot prove, and who can tell whose messages are whose, is told in
// the user documentation.
func TestReadmeTells_DS81(t *testing.T) {
	text := strings.Join(strings.Fields(strings.Join(lines(t, "../README.md"), " ")), " ")
	for _, want := range []string{
		"one lying peer can say it falsely",
		"Your direct peers can tell which messages are yours",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("README.md does not say %q", want)
		}
	}
}
