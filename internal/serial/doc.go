// Package serial is the byte grammar of DarkIRC's network: little-endian
// scalars, minimal VarInts, length-prefixed strings (spec/wire.md, section 1).
//
// Writers are append functions; they cannot fail. Reading goes through
// [Reader], which keeps the first error, never allocates for an announced
// count, and hands out views into the caller's buffer.
//
// The package knows no message, no limit of any message and no I/O: callers
// pass the limits.
package serial
