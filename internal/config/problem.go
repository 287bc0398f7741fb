package config

import (
	"fmt"
	"sort"
	"strings"
)

// A Problem is one thing that is wrong or odd about a configuration file.
type Problem struct {
	Line    int    // from 1; 0 if no line is to blame
	Key     string // dotted, as written in the file
	Text    string
	Warning bool // the file can be used all the same
}

// String is one line without the file's name.
func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", p.Line)
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Text)
	return b.String()
}

// Problems are ordered by line.
type Problems []Problem

// Errors are those that are no warnings.
func (ps Problems) Errors() Problems { return ps.filter(false) }

// Warnings are the others.
func (ps Problems) Warnings() Problems { return ps.filter(true) }

func (ps Problems) filter(warning bool) Problems {
	var out Problems
	for _, p := range ps {
		if p.Warning == warning {
			out = append(out, p)
		}
	}
	return out
}

// Error makes Problems an error: its first error, and how many more there are.
func (ps Problems) Error() string {
	errs := ps.Errors()
	switch len(errs) {
	case 0:
		return "no problem"
	case 1:
		return errs[0].String()
	}
	return fmt.Sprintf("%s (and %d more)", errs[0], len(errs)-1)
}

func (ps Problems) sort() {
	sort.SliceStable(ps, func(i, j int) bool { return ps[i].Line < ps[j].Line })
}
