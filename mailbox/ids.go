package mailbox

import (
	"fmt"
	"io"
	"log/slog"
)

// A Token is the capability under which an envelope waits: it finds the mailbox and
// says nothing of its owner. It never appears in a log, an error or a metric (MB-32):
// no fmt verb, no encoder and no slog handler prints its bytes.
type Token [32]byte

// A LeaseID names a lease: random, never zero for a live one.
type LeaseID [16]byte

// A RowID names a row at one relay: random, never zero.
type RowID [16]byte

// A ContentID is the first 16 bytes of the BLAKE3 hash of a whole envelope: what a
// deposit is deduplicated by.
type ContentID [16]byte

// IsZero tells whether id is the "no lease" of a miss.
func (id LeaseID) IsZero() bool { return id == LeaseID{} }

// IsZero tells whether id is no row id.
func (id RowID) IsZero() bool { return id == RowID{} }

func hide(f fmt.State, what string) { _, _ = io.WriteString(f, what) }

// Format hides the token from every verb.
func (Token) Format(f fmt.State, _ rune) { hide(f, "[token]") }

// MarshalText hides the token from JSON and every other text encoder.
func (Token) MarshalText() ([]byte, error) { return []byte("[token]"), nil }

// LogValue hides the token from slog.
func (Token) LogValue() slog.Value { return slog.StringValue("[token]") }

// Format hides the row id from every verb.
func (RowID) Format(f fmt.State, _ rune) { hide(f, "[row]") }

// MarshalText hides the row id from JSON and every other text encoder.
func (RowID) MarshalText() ([]byte, error) { return []byte("[row]"), nil }

// LogValue hides the row id from slog.
func (RowID) LogValue() slog.Value { return slog.StringValue("[row]") }

// Format hides the lease id from every verb.
func (LeaseID) Format(f fmt.State, _ rune) { hide(f, "[lease]") }

// MarshalText hides the lease id from JSON and every other text encoder.
func (LeaseID) MarshalText() ([]byte, error) { return []byte("[lease]"), nil }

// LogValue hides the lease id from slog.
func (LeaseID) LogValue() slog.Value { return slog.StringValue("[lease]") }

// Format hides the content id from every verb: it links deposits.
func (ContentID) Format(f fmt.State, _ rune) { hide(f, "[content]") }

// MarshalText hides the content id from JSON and every other text encoder.
func (ContentID) MarshalText() ([]byte, error) { return []byte("[content]"), nil }

// LogValue hides the content id from slog.
func (ContentID) LogValue() slog.Value { return slog.StringValue("[content]") }
