package p2p

import (
	"encoding/hex"
	"strings"
	"testing"

	"hearsay/spec"
)

// vectorCases reads a file of spec/vectors: records of "name value" lines.
func vectorCases(t testing.TB, file string) (cases []map[string]string) {
	t.Helper()
	text, err := spec.Vectors.ReadFile("vectors/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(text), "\n\n") {
		rec := make(map[string]string)
		for line := range strings.Lines(block) {
			name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
			if ok && name != "#" {
				rec[name] = value
			}
		}
		if rec["case"] != "" {
			cases = append(cases, rec)
		}
	}
	if len(cases) == 0 {
		t.Fatalf("%s has no cases", file)
	}
	return cases
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
