package config

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// maxFile bounds a configuration file: far above any real one, far below what
// would hurt to parse.
const maxFile = 1 << 20

// A value is one TOML value and the line it begins at.
type value struct {
	line int
	kind kind
	str  string // kindString; the raw text of kindOther
	num  int64
	flag bool
	list []*value
	tab  *table
}

type kind uint8

const (
	kindString kind = iota + 1
	kindInt
	kindBool
	kindArray
	kindTable
	kindOther // floats and times: no key takes them
)

// String names the kind as an error message does.
func (k kind) String() string {
	switch k {
	case kindString:
		return "a string"
	case kindInt:
		return "a whole number"
	case kindBool:
		return "true or false"
	case kindArray:
		return "an array"
	case kindTable:
		return "a table"
	default:
		return "a number or a date"
	}
}

// A table keeps its keys in the order of the file.
type table struct {
	line int
	keys []string
	vals map[string]*value
}

func newTable(line int) *table { return &table{line: line, vals: map[string]*value{}} }

// parseTree reads a document into tables that know their lines. Whatever breaks
// TOML's own rules, a duplicate key for example, is one Problem.
func parseTree(data []byte) (*table, *Problem) {
	if len(data) > maxFile {
		return nil, &Problem{Text: fmt.Sprintf("larger than %d bytes", maxFile)}
	}
	// The library's decoder knows all of TOML's rules, its tree knows the lines.
	// So the first checks and the second is read.
	var sink map[string]any
	if err := toml.Unmarshal(data, &sink); err != nil {
		return nil, syntaxProblem(data, err)
	}
	b := builder{root: newTable(1)}
	for i, c := range data {
		if c == '\n' {
			b.ends = append(b.ends, i)
		}
	}
	b.p.Reset(data)
	at := b.root
	for b.p.NextExpression() {
		e := b.p.Expression()
		var err error
		switch e.Kind {
		case unstable.Table:
			at, err = b.open(b.root, e.Key(), false)
		case unstable.ArrayTable:
			at, err = b.open(b.root, e.Key(), true)
		case unstable.KeyValue:
			err = b.set(at, e)
		default: // comments are not kept
		}
		if err != nil {
			return nil, &Problem{Line: b.line, Text: err.Error()}
		}
	}
	if err := b.p.Error(); err != nil {
		return nil, syntaxProblem(data, err)
	}
	return b.root, nil
}

func syntaxProblem(data []byte, err error) *Problem {
	var de *toml.DecodeError
	if errors.As(err, &de) {
		line, _ := de.Position()
		return &Problem{Line: line, Key: strings.Join(de.Key(), "."), Text: strings.TrimPrefix(de.Error(), "toml: ")}
	}
	// Without a position the end of the file is the best guess for what is missing.
	return &Problem{Line: 1 + bytes.Count(data, []byte("\n")), Text: strings.TrimPrefix(err.Error(), "toml: ")}
}

type builder struct {
	p    unstable.Parser
	root *table
	ends []int // offsets of the line ends
	line int   // of the expression in hand
}

func (b *builder) lineOf(n *unstable.Node) int {
	if n.Raw.Length == 0 {
		return b.line
	}
	return 1 + sort.SearchInts(b.ends, int(n.Raw.Offset))
}

// open finds or makes the table that key names.
func (b *builder) open(at *table, key unstable.Iterator, array bool) (*table, error) {
	for key.Next() {
		n := key.Node()
		b.line = b.lineOf(n)
		name := string(n.Data)
		v := at.vals[name]
		last := key.IsLast()
		switch {
		case v == nil && last && array:
			v = &value{line: b.line, kind: kindArray}
			at.put(name, v)
		case v == nil:
			v = &value{line: b.line, kind: kindTable, tab: newTable(b.line)}
			at.put(name, v)
		}
		if v.kind == kindArray {
			if last && array {
				v.list = append(v.list, &value{line: b.line, kind: kindTable, tab: newTable(b.line)})
			}
			if len(v.list) == 0 || v.list[len(v.list)-1].kind != kindTable {
				return nil, fmt.Errorf("%s is not a table", name)
			}
			at = v.list[len(v.list)-1].tab
			continue
		}
		if v.kind != kindTable {
			return nil, fmt.Errorf("%s is not a table", name)
		}
		at = v.tab
	}
	return at, nil
}

// set stores one key = value line, dotted keys included.
func (b *builder) set(at *table, e *unstable.Node) error {
	key := e.Key()
	for key.Next() {
		n := key.Node()
		b.line = b.lineOf(n)
		name := string(n.Data)
		if key.IsLast() {
			if at.vals[name] != nil {
				return fmt.Errorf("%s is set twice", name)
			}
			line := b.line
			v, err := b.value(e.Value())
			if err != nil {
				return err
			}
			v.line = line
			at.put(name, v)
			return nil
		}
		v := at.vals[name]
		if v == nil {
			v = &value{line: b.line, kind: kindTable, tab: newTable(b.line)}
			at.put(name, v)
		}
		if v.kind != kindTable {
			return fmt.Errorf("%s is not a table", name)
		}
		at = v.tab
	}
	return nil
}

func (b *builder) value(n *unstable.Node) (*value, error) {
	v := &value{line: b.lineOf(n)}
	switch n.Kind {
	case unstable.String:
		v.kind, v.str = kindString, string(n.Data)
	case unstable.Bool:
		v.kind, v.flag = kindBool, string(n.Data) == "true"
	case unstable.Integer:
		text := strings.TrimPrefix(strings.ReplaceAll(string(n.Data), "_", ""), "+")
		num, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is no whole number of 64 bits", n.Data)
		}
		v.kind, v.num = kindInt, num
	case unstable.Array:
		v.kind = kindArray
		for it := n.Children(); it.Next(); {
			c, err := b.value(it.Node())
			if err != nil {
				return nil, err
			}
			v.list = append(v.list, c)
		}
	case unstable.InlineTable:
		v.kind, v.tab = kindTable, newTable(v.line)
		for it := n.Children(); it.Next(); {
			if err := b.set(v.tab, it.Node()); err != nil {
				return nil, err
			}
		}
	default:
		v.kind, v.str = kindOther, string(n.Data)
	}
	return v, nil
}

func (t *table) put(name string, v *value) {
	t.keys = append(t.keys, name)
	t.vals[name] = v
}
