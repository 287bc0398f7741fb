package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"hearsay/internal/box"
)

// Errors of edits that callers branch on.
var (
	// ErrExists: a table of that name is there already.
	ErrExists = errors.New("config: it is configured already")
	// ErrMissing: there is no table of that name.
	ErrMissing = errors.New("config: it is not configured")
	// ErrByHand: the file says it in a form that only its author should touch.
	ErrByHand = errors.New("config: the file is written in a way that this cannot change safely; please edit it by hand")
	// ErrChanged: somebody else wrote the file in the meantime.
	ErrChanged = errors.New("config: the file has just been changed by somebody else; please try again")
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
		if slices.ContainsFunc(c.Channels, func(o Channel) bool { return strings.EqualFold(o.Name, name) }) {
			return ErrExists
		}
		c.Channels = append(c.Channels, Channel{Name: name, Secret: secret})
		return nil
	})
}

// RemoveChannel removes a channel's table.
func (e *Editor) RemoveChannel(name string) error {
	return e.remove("channel", name, func(c *Chat) bool {
		n := len(c.Channels)
		c.Channels = slices.DeleteFunc(c.Channels, func(o Channel) bool { return o.Name == name })
		return len(c.Channels) < n
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
		if slices.ContainsFunc(c.Contacts, func(o Contact) bool { return strings.EqualFold(o.Label, label) }) {
			return ErrExists
		}
		c.Contacts = append(c.Contacts, Contact{Label: label, Public: public, Secret: secret})
		return nil
	})
	if err != nil {
		e.text = was
	}
	return err
}

// RemoveContact removes a contact's table, or a pending contact.
func (e *Editor) RemoveContact(label string) error {
	if _, pending := e.Pending(label); pending {
		return e.change(e.withoutPending(label), func(*Chat) error { return nil })
	}
	return e.remove("contact", label, func(c *Chat) bool {
		n := len(c.Contacts)
		c.Contacts = slices.DeleteFunc(c.Contacts, func(o Contact) bool { return o.Label == label })
		return len(c.Contacts) < n
	})
}

// pendingLine begins a contact whose key is not known yet: a table that is a comment, so
// that the file stays one that darkirc reads too.
func pendingLine(label string) string {
	return fmt.Sprintf("#[contact.%q] # waits for their key\n", label)
}

const pendingSecret = `#my_dm_chacha_secret = "`

// Pending is our secret for a contact whose key is not known yet.
func (e *Editor) Pending(label string) (secret box.SecretKey, ok bool) {
	_, rest, found := strings.Cut("\n"+string(e.text), "\n"+pendingLine(label)+pendingSecret)
	if !found {
		return secret, false
	}
	text, _, _ := strings.Cut(rest, `"`)
	secret, err := box.ParseSecret(text)
	return secret, err == nil
}

// AddPending notes our secret for a contact whose key is not known yet.
func (e *Editor) AddPending(label string, secret box.SecretKey) error {
	if text := checkLabel(label); text != "" {
		return errors.New(text)
	}
	if _, ok := e.Pending(label); ok {
		return ErrExists
	}
	return e.change(e.appended(pendingLine(label)+pendingSecret+secret.Base58()+"\"\n"), func(c *Chat) error {
		if slices.ContainsFunc(c.Contacts, func(o Contact) bool { return strings.EqualFold(o.Label, label) }) {
			return ErrExists
		}
		return nil
	})
}

func (e *Editor) withoutPending(label string) []byte {
	before, rest, found := bytes.Cut(append([]byte("\n"), e.text...), []byte("\n"+pendingLine(label)+pendingSecret))
	if !found {
		return e.text
	}
	_, after, _ := bytes.Cut(rest, []byte("\n"))
	return append(bytes.TrimPrefix(append(before, '\n'), []byte("\n")), after...)
}

// appended is the text with a table at its end.
func (e *Editor) appended(table string) []byte {
	text := slices.Clone(e.text)
	if n := len(text); n > 0 && text[n-1] != '\n' {
		text = append(text, '\n')
	}
	if len(text) > 0 {
		text = append(text, '\n')
	}
	return append(text, table...)
}

func (e *Editor) remove(kind, name string, from func(*Chat) bool) error {
	text, found := e.without(kind, name)
	if !found {
		cfg, _ := Parse(e.text, e.env)
		if from(&cfg.Chat) {
			return ErrByHand // a dotted key or an inline table
		}
		return ErrMissing
	}
	return e.change(text, func(c *Chat) error {
		if !from(c) {
			return ErrMissing
		}
		return nil
	})
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
// to the last line that is neither empty nor a comment.
func (e *Editor) without(kind, name string) (text []byte, found bool) {
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
	if p.Error() != nil {
		return nil, false
	}
	text = slices.Clone(e.text)
	for i, h := range slices.Backward(headers) {
		if !h.mine {
			continue
		}
		end := len(e.text)
		if i+1 < len(headers) {
			end = headers[i+1].at
		}
		found = true
		text = slices.Delete(text, h.at, h.at+len(withoutTail(e.text[h.at:end])))
	}
	return text, found
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

// EditFile changes a configuration file: the new text is on the disk under the file's
// name, whole, or the old one still is. A symbolic link stays one.
func EditFile(path string, env Env, edit func(*Editor) error) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	e, err := NewEditor(old, env)
	if err != nil {
		return err
	}
	if err := edit(e); err != nil {
		return err
	}
	if bytes.Equal(e.text, old) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".hearsay-*.toml")
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	_, err = f.Write(e.text)
	err = errors.Join(err, f.Chmod(info.Mode().Perm()), f.Sync(), f.Close())
	if err == nil {
		if now, rerr := os.ReadFile(path); rerr != nil || !bytes.Equal(now, old) {
			err = errors.Join(ErrChanged, rerr)
		}
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error to report is the other one
		return fmt.Errorf("config: %w", err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}
