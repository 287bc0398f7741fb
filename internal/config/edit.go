package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"hearsay/internal/box"
)

// Errors of edits that callers branch on.
var (
	// ErrExists: a table of that name is there already.
	ErrExists = errors.New("is configured already")
	// ErrMissing: there is no table of that name.
	ErrMissing = errors.New("is not configured")
	// ErrByHand: the file says it in a form that only its author should touch.
	ErrByHand = errors.New("the file is written in a way that this cannot change safely; please edit it by hand")
)

// An Editor changes the text of a configuration file: whole tables, at the end or out of
// it. Everything else, comments too, stays as it is, byte for byte; each change is
// checked by reading both texts.
type Editor struct {
	env  Env
	text []byte
}

// NewEditor edits text, which must be a configuration without errors.
func NewEditor(text []byte, env Env) (*Editor, error) {
	if cfg, problems := Parse(text, env); cfg == nil {
		return nil, problems
	}
	return &Editor{env, text}, nil
}

// Text is the text as it is now.
func (e *Editor) Text() []byte { return e.text }

// AddChannel adds an encrypted channel.
func (e *Editor) AddChannel(name string, secret box.SecretKey) error {
	if text := checkChannel(name); text != "" {
		return errors.New(text)
	}
	return e.change(e.appended(fmt.Sprintf("[channel.%q]\nsecret = %q\n", name, secret.Base58())), func(c *Chat) error {
		if i := c.channel(name); i >= 0 {
			return fmt.Errorf("%s %w", c.Channels[i].Name, ErrExists)
		}
		c.Channels = append(c.Channels, Channel{Name: name, Secret: secret})
		return nil
	})
}

// RemoveChannel removes a channel's table, in whatever case it is spelt.
func (e *Editor) RemoveChannel(name string) error {
	cfg, _ := Parse(e.text, e.env)
	i := cfg.Chat.channel(name)
	if i < 0 {
		return fmt.Errorf("%s %w", name, ErrMissing)
	}
	return e.change(e.without("channel", cfg.Chat.Channels[i].Name), func(c *Chat) error {
		c.Channels = slices.Delete(c.Channels, i, i+1)
		return nil
	})
}

// AddContact adds a contact whose key is known, in place of a pending one.
func (e *Editor) AddContact(label string, public box.PublicKey, secret box.SecretKey) error {
	if text := checkLabel(label); text != "" {
		return errors.New(text)
	}
	if _, err := box.New(secret, public); err != nil {
		return errors.New("this cannot be anybody's public key")
	}
	table := fmt.Sprintf("[contact.%q]\n# for them: dm_chacha_public = %q\ndm_chacha_public = %q\nmy_dm_chacha_secret = %q\n",
		label, secret.Public().Base58(), public.Base58(), secret.Base58())
	was := e.text
	e.text = e.withoutPending(label)
	err := e.change(e.appended(table), func(c *Chat) error {
		if err := c.noContact(label); err != nil {
			return err
		}
		c.Contacts = append(c.Contacts, Contact{Label: label, Public: public, Secret: secret})
		return nil
	})
	if err != nil {
		e.text = was
	}
	return err
}

// RemoveContact removes a contact's table, or a pending contact, in whatever case it is spelt.
func (e *Editor) RemoveContact(label string) error {
	if text := e.withoutPending(label); len(text) < len(e.text) {
		return e.change(text, func(*Chat) error { return nil })
	}
	cfg, _ := Parse(e.text, e.env)
	i := cfg.Chat.contact(label)
	if i < 0 {
		return fmt.Errorf("%s %w", label, ErrMissing)
	}
	return e.change(e.without("contact", cfg.Chat.Contacts[i].Label), func(c *Chat) error {
		c.Contacts = slices.Delete(c.Contacts, i, i+1)
		return nil
	})
}

// channel is the index of a channel, or -1.
func (c *Chat) channel(name string) int {
	return slices.IndexFunc(c.Channels, func(o Channel) bool { return strings.EqualFold(o.Name, name) })
}

// contact is the index of a contact, or -1.
func (c *Chat) contact(label string) int {
	return slices.IndexFunc(c.Contacts, func(o Contact) bool { return strings.EqualFold(o.Label, label) })
}

func (c *Chat) noContact(label string) error {
	if i := c.contact(label); i >= 0 {
		return fmt.Errorf("%s %w", c.Contacts[i].Label, ErrExists)
	}
	return nil
}

// A Pending is a contact whose key is not known yet. In the file it is a table that is a
// comment, so that darkirc reads the file too.
type Pending struct {
	Label  string
	Secret box.SecretKey // ours

	from, to int // its two lines in the text
}

const (
	pendingHead   = `#[contact."`
	pendingTail   = `"] # waits for their key`
	pendingSecret = `#my_dm_chacha_secret = "`
)

// Pending lists the contacts whose keys are not known yet, in the order of the file.
func (e *Editor) Pending() (all []Pending) {
	at, last := 0, Pending{} // last has a label if the line above begins a pending contact
	for line := range bytes.Lines(e.text) {
		text := strings.TrimRight(string(line), "\r\n")
		at += len(line)
		if last.Label != "" {
			if rest, ok := strings.CutPrefix(text, pendingSecret); ok {
				key, _, _ := strings.Cut(rest, `"`)
				if secret, err := box.ParseSecret(key); err == nil {
					last.Secret, last.to = secret, at
					all = append(all, last)
				}
			}
		}
		last = Pending{}
		if rest, ok := strings.CutPrefix(text, pendingHead); ok {
			if quoted, ok := strings.CutSuffix(rest, pendingTail); ok {
				if label, err := strconv.Unquote(`"` + quoted + `"`); err == nil && checkLabel(label) == "" {
					last = Pending{Label: label, from: at - len(line)}
				}
			}
		}
	}
	return all
}

// AddPending notes our secret for a contact whose key is not known yet.
func (e *Editor) AddPending(label string, secret box.SecretKey) error {
	if text := checkLabel(label); text != "" {
		return errors.New(text)
	}
	for _, p := range e.Pending() {
		if strings.EqualFold(p.Label, label) {
			return fmt.Errorf("%s %w", p.Label, ErrExists)
		}
	}
	lines := fmt.Sprintf("#[contact.%q] # waits for their key\n%s%s\"\n", label, pendingSecret, secret.Base58())
	return e.change(e.appended(lines), func(c *Chat) error { return c.noContact(label) })
}

// withoutPending is the text without a pending contact, or as it is.
func (e *Editor) withoutPending(label string) []byte {
	for _, p := range e.Pending() {
		if strings.EqualFold(p.Label, label) {
			return cut(e.text, p.from, p.to)
		}
	}
	return e.text
}

// cut is text without what is between two places, and without an empty line that parted
// it from the rest and now would part nothing.
func cut(text []byte, from, to int) []byte {
	above, below := text[:from], text[to:]
	next, rest, _ := bytes.Cut(below, []byte("\n"))
	switch {
	case len(bytes.TrimSpace(next)) > 0:
	case len(above) == 0:
		below = rest
	case bytes.HasSuffix(above, []byte("\n\r\n")):
		above = above[:len(above)-2]
	case bytes.HasSuffix(above, []byte("\n\n")):
		above = above[:len(above)-1]
	}
	return slices.Concat(above, below)
}

// appended is the text with a table at its end, in the file's way of ending lines.
func (e *Editor) appended(table string) []byte {
	if n := len(e.text); n > 0 {
		table = "\n" + table
		if e.text[n-1] != '\n' {
			table = "\n" + table
		}
	}
	if first := bytes.IndexByte(e.text, '\n'); first > 0 && e.text[first-1] == '\r' {
		table = strings.ReplaceAll(table, "\n", "\r\n")
	}
	return slices.Concat(e.text, []byte(table))
}

// change makes text the text, if it says what the old one says with the change to its
// chat part.
func (e *Editor) change(text []byte, apply func(*Chat) error) error {
	want, _ := Parse(e.text, e.env)
	if err := apply(&want.Chat); err != nil {
		return err
	}
	got, problems := Parse(text, e.env)
	if got == nil {
		if only := problems.Errors(); len(only) > 0 {
			return fmt.Errorf("%w (%s)", ErrByHand, only[0].Text)
		}
		return ErrByHand
	}
	if !reflect.DeepEqual(nonNil(*got), nonNil(*want)) {
		return ErrByHand
	}
	e.text = text
	return nil
}

// nonNil makes no lists and empty ones the same.
func nonNil(c Config) Config {
	if len(c.Chat.Channels) == 0 {
		c.Chat.Channels = nil
	}
	if len(c.Chat.Contacts) == 0 {
		c.Chat.Contacts = nil
	}
	return c
}

// without is the text without the table kind.name and those below it: from their headers
// to the last line that is neither empty nor a comment. Where it has none (a dotted key,
// an inline table) the text is as it is.
func (e *Editor) without(kind, name string) (text []byte) {
	type header struct {
		at   int // offset of its line
		mine bool
	}
	var headers []header
	var p unstable.Parser
	p.Reset(e.text)
	for p.NextExpression() {
		x := p.Expression()
		if x.Kind != unstable.Table && x.Kind != unstable.ArrayTable {
			continue
		}
		var path []string
		at := -1
		for key := x.Key(); key.Next(); {
			n := key.Node()
			if at < 0 {
				at = bytes.LastIndexByte(e.text[:n.Raw.Offset], '\n') + 1
			}
			path = append(path, string(n.Data))
		}
		headers = append(headers, header{at, len(path) >= 2 && path[0] == kind && path[1] == name})
	}
	text = slices.Clone(e.text)
	if p.Error() != nil {
		return text
	}
	for i, h := range slices.Backward(headers) {
		if !h.mine {
			continue
		}
		end := len(e.text)
		if i+1 < len(headers) {
			end = headers[i+1].at
		}
		text = cut(text, h.at, h.at+len(withoutTail(e.text[h.at:end])))
	}
	return text
}

// withoutTail cuts empty lines and comments off the end.
func withoutTail(text []byte) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	for n := len(lines); n > 1; n-- {
		line := bytes.TrimSpace(lines[n-1])
		if len(line) > 0 && line[0] != '#' {
			break
		}
		text = text[:len(text)-len(lines[n-1])]
	}
	return text
}
