// Package bench measures hearsay beside programs that do comparable work, in one
// run on one machine. It is a module of its own, so that what it compares with is
// no dependency of hearsay. README.md has the ratios and how to get them.
package bench
