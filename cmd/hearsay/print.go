package main

import (
	"fmt"
	"io"
)

// printf prints for a person. Whoever needs to know that everything was written
// gives it a bufio.Writer, which keeps the first error for Flush; elsewhere a reader
// that has gone away is nobody's fault.
func printf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
