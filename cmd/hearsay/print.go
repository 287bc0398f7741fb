package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// printf prints for a person. Whoever needs to know that everything was written
// gives it a bufio.Writer, which keeps the first error for Flush; elsewhere a reader
// that has gone away is nobody's fault.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// report writes v as JSON, or as print tells it to a person, and says if it could not.
func report[T any](w io.Writer, asJSON bool, v T, print func(io.Writer, T)) error {
	out := bufio.NewWriter(w)
	if asJSON {
		if err := json.NewEncoder(out).Encode(v); err != nil {
			return err
		}
	} else {
		print(out, v)
	}
	return out.Flush()
}
