package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A decoder collects what is wrong with one file.
type decoder struct {
	env      Env
	problems Problems
}

func (d *decoder) errorf(line int, key, format string, args ...any) {
	d.problems = append(d.problems, Problem{Line: line, Key: key, Text: fmt.Sprintf(format, args...)})
}

func (d *decoder) warnf(line int, key, format string, args ...any) {
	d.problems = append(d.problems, Problem{Line: line, Key: key, Text: fmt.Sprintf(format, args...), Warning: true})
}

// A section reads one table. Each getter leaves its destination alone where the
// key is absent, and reports a value of the wrong kind. finish then reports the
// keys that nobody asked for.
type section struct {
	d     *decoder
	tab   *table // nil: the table is absent
	path  string // dotted, with the quotes of a TOML file
	known []string
	got   map[string]bool
}

func (d *decoder) section(t *table, path string) *section {
	return &section{d: d, tab: t, path: path, got: map[string]bool{}}
}

// key is the dotted name of a key of this section.
func (s *section) key(name string) string {
	if s.path == "" {
		return name
	}
	return s.path + "." + name
}

func (s *section) errorf(line int, name, format string, args ...any) {
	s.d.errorf(line, s.key(name), format, args...)
}

func (s *section) warnf(line int, name, format string, args ...any) {
	s.d.warnf(line, s.key(name), format, args...)
}

// line is where a key is set, or else where its table begins.
func (s *section) line(name string) int {
	if s.tab == nil {
		return 0
	}
	if v := s.tab.vals[name]; v != nil {
		return v.line
	}
	if s.path == "" {
		return 0
	}
	return s.tab.line
}

// has tells whether the key is there, and makes it known.
func (s *section) has(name string) bool {
	s.know(name)
	return s.tab != nil && s.tab.vals[name] != nil
}

func (s *section) know(name string) {
	if !s.got[name] {
		s.got[name] = true
		s.known = append(s.known, name)
	}
}

// get finds a value of the kind that is wanted.
func (s *section) get(name string, want kind) (*value, bool) {
	if !s.has(name) {
		return nil, false
	}
	v := s.tab.vals[name]
	if v.kind != want {
		s.errorf(v.line, name, "must be %s, not %s", want, v.kind)
		return nil, false
	}
	return v, true
}

func (s *section) str(name string, dst *string) bool {
	v, ok := s.get(name, kindString)
	if ok {
		*dst = v.str
	}
	return ok
}

func (s *section) flag(name string, dst *bool) bool {
	v, ok := s.get(name, kindBool)
	if ok {
		*dst = v.flag
	}
	return ok
}

// num reads a whole number within [low, high].
func (s *section) num(name string, dst *int, low, high int64) bool {
	v, ok := s.get(name, kindInt)
	if !ok {
		return false
	}
	if v.num < low || v.num > high {
		s.errorf(v.line, name, "must be from %d to %d, not %d", low, high, v.num)
		return false
	}
	*dst = int(v.num)
	return true
}

// seconds reads a whole number of seconds, as darkirc's keys give them, at least low.
func (s *section) seconds(name string, dst *time.Duration, low int64) {
	var n int
	if s.num(name, &n, low, maxSeconds) {
		*dst = time.Duration(n) * time.Second
	}
}

// duration reads a Go duration such as "30s" within [low, high].
func (s *section) duration(name string, dst *time.Duration, low, high time.Duration) {
	v, ok := s.get(name, kindString)
	if !ok {
		return
	}
	n, err := time.ParseDuration(v.str)
	switch {
	case err != nil:
		s.errorf(v.line, name, "%q is no duration such as \"30s\" or \"1h\"", v.str)
		return
	case n < low || n > high:
		s.errorf(v.line, name, "must be from %s to %s, not %s", low, high, n)
		return
	}
	*dst = n
}

// bytes reads a size such as "16MiB" within [low, high].
func (s *section) bytes(name string, dst *int64, low, high int64) bool {
	v, ok := s.get(name, kindString)
	if !ok {
		return false
	}
	n, err := parseBytes(v.str)
	switch {
	case err != nil:
		s.errorf(v.line, name, "%q is no size such as \"16MiB\"", v.str)
		return false
	case n < low || n > high:
		s.errorf(v.line, name, "must be from %s to %s, not %s", formatBytes(low), formatBytes(high), v.str)
		return false
	}
	*dst = n
	return true
}

// An item is one string of an array, with its line.
type item struct {
	text string
	line int
}

// items reads an array of strings.
func (s *section) items(name string) []item {
	v, ok := s.get(name, kindArray)
	if !ok {
		return nil
	}
	var out []item
	for _, e := range v.list {
		if e.kind != kindString {
			s.errorf(e.line, name, "must hold strings only, not %s", e.kind)
			continue
		}
		out = append(out, item{e.str, e.line})
	}
	return out
}

// sub opens a table of this section; absent tables read as empty ones.
func (s *section) sub(name string) *section {
	path := s.key(name)
	if v, ok := s.get(name, kindTable); ok {
		return s.d.section(v.tab, path)
	}
	return s.d.section(nil, path)
}

// each calls fn for every table in this section, in the order of the file.
func (s *section) each(fn func(name string, line int, t *section)) {
	if s.tab == nil {
		return
	}
	for _, name := range s.tab.keys {
		s.know(name)
		v := s.tab.vals[name]
		path := s.path + "." + quoteKey(name)
		if v.kind != kindTable {
			s.d.errorf(v.line, path, "must be a table, not %s", v.kind)
			continue
		}
		fn(name, v.line, s.d.section(v.tab, path))
	}
}

// inert makes a key of darkirc known that has no meaning here: one warning.
func (s *section) inert(name, why string) {
	if s.has(name) {
		s.warnf(s.tab.vals[name].line, name, "has no meaning here: %s", why)
	}
}

// finish reports the keys that neither program knows.
func (s *section) finish() {
	if s.tab == nil {
		return
	}
	for _, name := range s.tab.keys {
		if s.got[name] {
			continue
		}
		hint := ""
		if k := nearest(name, s.known); k != "" {
			hint = fmt.Sprintf("; did you mean %q?", k)
		}
		s.errorf(s.tab.vals[name].line, quoteKey(name), "unknown key%s", hint)
	}
}

// quoteKey writes a key as a TOML file has to.
func quoteKey(name string) string {
	for _, r := range name {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", r) {
			return strconv.Quote(name)
		}
	}
	if name == "" {
		return `""`
	}
	return name
}

var byteUnits = []struct {
	suffix string
	size   int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}

func parseBytes(text string) (int64, error) {
	for _, u := range byteUnits {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil {
			return 0, err
		}
		if n < 0 || n > math.MaxInt64/u.size {
			return 0, strconv.ErrRange
		}
		return n * u.size, nil
	}
	return 0, strconv.ErrSyntax
}

func formatBytes(n int64) string {
	for _, u := range []int{2, 1, 0} {
		if b := byteUnits[u]; n >= b.size && n%b.size == 0 {
			return fmt.Sprintf("%d%s", n/b.size, b.suffix)
		}
	}
	return fmt.Sprintf("%dB", n)
}

// nearest is the known key that name is most likely a misspelling of, or "".
func nearest(name string, known []string) string {
	best, at := 3, ""
	for _, k := range known {
		if n := distance(name, k); n < best && n < len(k) {
			best, at = n, k
		}
	}
	return at
}

// distance is Levenshtein's, on bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diag, row[j+1] = row[j+1], min(diag+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
