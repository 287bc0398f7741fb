package config

import "testing"

// Checklist 102: archive mode ignores the retention; without it the same file is refused.
func TestArchiveIgnoresRetention(t *testing.T) {
	const slots = "dags_count = 30\nhistory_retention_dags = 2\n"
	cfg, problems := Parse([]byte(slots+"archive_mode = true\n"), testEnv)
	if cfg == nil || len(problems.Errors()) > 0 || !cfg.Slots.Archive || cfg.Slots.Sync != 30 {
		t.Errorf("%+v, %v", cfg, problems)
	}
	if cfg, problems := Parse([]byte(slots), testEnv); cfg != nil || len(problems.Errors()) != 1 {
		t.Error(problems)
	}
}
