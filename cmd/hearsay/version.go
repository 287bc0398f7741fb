package main

import (
	"bufio"
	"encoding/json"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version of this source.
const release = "0.1.0"

// buildVersion is what the version command prints (MB-46).
type buildVersion struct {
	Version  string         `json:"version"`
	Revision string         `json:"revision"` // of the source; "" where the build does not know it
	Modified bool           `json:"modified"` // the source had uncommitted changes
	Time     string         `json:"time"`     // of the revision, RFC 3339
	Go       string         `json:"go"`
	Platform string         `json:"platform"`
	Schemas  map[string]int `json:"schemas"`
}

func thisBuild() buildVersion {
	v := buildVersion{Version: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Schemas: schemas()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		case "vcs.time":
			v.Time = s.Value
		}
	}
	return v
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "print version, source revision and schema versions",
		Example: "  hearsay version --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := thisBuild()
			out := bufio.NewWriter(cmd.OutOrStdout())
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			}
			revision := v.Revision
			switch {
			case revision == "":
				revision = "unknown"
			case v.Modified:
				revision += " with changes"
			}
			printf(out, "hearsay %s\nrevision %s\nbuilt with %s for %s\n", v.Version, revision, v.Go, v.Platform)
			for _, name := range sortedKeys(v.Schemas) {
				printf(out, "schema %s %d\n", name, v.Schemas[name])
			}
			return out.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
