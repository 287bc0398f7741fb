package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hearsay/internal/config"
)

// ST-04: a store that has lost its files is one line on stderr and exit 1, never a node
// that begins again with nothing; and it stays so.
func TestDamagedStoreEndsTheStart(t *testing.T) {
	for _, kind := range []string{"graph", custodyKind} {
		dir := t.TempDir()
		file := filepath.Join(dir, "h.toml")
		text := fmt.Sprintf("irc_listen = \"tcp://127.0.0.1:0\"\ndatastore = %q\nskip_dag_sync = true\n", filepath.Join(dir, "data"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := parse(t, text)
		d, err := openDaemon(t.Context(), cfg, noLog, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := d.run(ctx); err != nil {
			t.Fatal(err)
		}
		lost, err := filepath.Glob(filepath.Join(config.StoreDir(cfg.Datastore), kind, "gen-*", "MANIFEST"))
		if err != nil || len(lost) != 1 {
			t.Fatal(lost, err)
		}
		if err := os.Remove(lost[0]); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			code, _, errs := cli(t, "", "run", "--config", file)
			if code != exitFail || strings.Count(errs, "hearsay: ") != 1 || !strings.Contains(errs, "corrupt") {
				t.Errorf("%s: exit %d, %q", kind, code, errs)
			}
		}
	}
}
