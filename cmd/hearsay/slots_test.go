package main

import "testing"

// Checklist 102: an archive that is to sync 30 slots takes events of 30 slots in,
// whatever the retention says.
func TestArchiveWindow(t *testing.T) {
	for text, want := range map[string]int{
		"":                            24,
		"history_retention_dags = 48": 48,
		"dags_count = 30\nhistory_retention_dags = 2\narchive_mode = true": 30,
	} {
		if got := graphConfig(parse(t, text), noLog); got.Window != want {
			t.Errorf("%q: a window of %d slots, want %d", text, got.Window, want)
		}
	}
}
