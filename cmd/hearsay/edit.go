package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"hearsay/internal/box"
	"hearsay/internal/config"
	"hearsay/ircd"
	"hearsay/outbound"
)

// A fileEditor changes a configuration file.
type fileEditor struct {
	// file is the file, which is made if that is what it takes; "": there is none.
	file func(make bool) (string, error)
	// reload does what REHASH does; nil: no daemon runs on the file.
	reload func(ctx context.Context) (ircd.Summary, error)
}

var _ ircd.Editor = fileEditor{}

// editor edits the file of a daemon that runs.
func (d *daemon) editor() fileEditor { return fileEditor{d.editable, d.reload} }

// editable is the file that the daemon runs on. On the built-in default it is one that
// holds just that.
func (d *daemon) editable(create bool) (string, error) {
	d.editing.Lock()
	defer d.editing.Unlock()
	switch {
	case d.file != "" || !create:
		return d.file, nil
	case d.defaultFile == "":
		return "", errors.New("this daemon has no configuration file")
	}
	err := config.CreateFile(d.defaultFile)
	if errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("there is a %s now that this daemon does not run on: start it again", shortPath(d.defaultFile))
	}
	if err != nil {
		return "", err
	}
	d.file = d.defaultFile
	return d.file, nil
}

// change edits the file and puts it in force.
func (f fileEditor) change(ctx context.Context, edit func(*config.Editor) error) (sum ircd.Summary, err error) {
	path, err := f.file(true)
	if err != nil {
		return sum, err
	}
	if err := config.EditFile(path, config.OSEnv(), edit); err != nil {
		return sum, err
	}
	if f.reload == nil {
		return sum, nil
	}
	if sum, err = f.reload(ctx); err != nil {
		err = fmt.Errorf("the file is written, but not in force: %w", err)
	}
	return sum, err
}

// AddContact implements ircd.Editor.
func (f fileEditor) AddContact(ctx context.Context, label string, theirs box.PublicKey) (ours box.PublicKey, sum ircd.Summary, err error) {
	sum, err = f.change(ctx, func(e *config.Editor) error {
		secret, pending := box.GenerateSecret(), false
		for _, p := range e.Pending() {
			if strings.EqualFold(p.Label, label) {
				label, secret, pending = p.Label, p.Secret, true
			}
		}
		ours = secret.Public()
		switch {
		case !theirs.IsZero() && theirs == ours:
			return errors.New("this is your own key for them: it takes the one from their card")
		case !theirs.IsZero():
			return e.AddContact(label, theirs, secret)
		case pending:
			return nil // the same card again
		}
		return e.AddPending(label, secret)
	})
	return ours, sum, err
}

// RemoveContact implements ircd.Editor.
func (f fileEditor) RemoveContact(ctx context.Context, label string) (ircd.Summary, error) {
	return f.change(ctx, func(e *config.Editor) error { return e.RemoveContact(label) })
}

// AddChannel implements ircd.Editor.
func (f fileEditor) AddChannel(ctx context.Context, name string, secret box.SecretKey) (ircd.Summary, error) {
	return f.change(ctx, func(e *config.Editor) error { return e.AddChannel(name, secret) })
}

// RemoveChannel implements ircd.Editor.
func (f fileEditor) RemoveChannel(ctx context.Context, name string) (ircd.Summary, error) {
	joined := false
	sum, err := f.change(ctx, func(e *config.Editor) error {
		cfg, _ := config.Parse(e.Text(), config.OSEnv())
		joined = slices.ContainsFunc(cfg.Chat.Autojoin, func(o string) bool { return strings.EqualFold(o, name) })
		return e.RemoveChannel(name)
	})
	if err == nil && joined { // T22
		sum.Changed = append(sum.Changed, name+" is still in autojoin: after a restart it is joined as a public channel")
	}
	return sum, err
}

// Pending implements ircd.Editor.
func (f fileEditor) Pending(context.Context) (all []ircd.PendingContact, err error) {
	path, err := f.file(false)
	if path == "" || err != nil {
		return nil, err
	}
	pending, err := config.PendingIn(path, config.OSEnv())
	for _, p := range pending {
		all = append(all, ircd.PendingContact{Label: p.Label, Ours: p.Secret.Public()})
	}
	return all, err
}

// maxStuck is how many positions a line about stuck messages names.
const maxStuck = 10

// stuck says which messages wait for a key that is gone or was changed, and what can be
// done about them (DS-79, DS-84).
func (d *daemon) stuck() ([]string, error) {
	positions, names, why := map[string][]uint64{}, []string{}, map[string][2]string{}
	for from := outbound.Position(0); ; {
		items, err := d.custody.queue.List(from, queuePageSize)
		if err != nil {
			return nil, err
		}
		for _, it := range items {
			from = it.Position + 1
			e, err := d.custody.queue.Entry(it.Position)
			if errors.Is(err, outbound.ErrNotFound) {
				continue // cancelled, or gone out since
			}
			if err != nil {
				return nil, err
			}
			name, ok, err := d.keys.Usable(e.Payload)
			if err != nil || ok {
				continue // what is no record parks the head with another reason
			}
			if positions[name] == nil {
				names = append(names, name)
			}
			if m, err := ircd.DecodeMessage(e.Payload); err == nil && m.Public() {
				why[name] = [2]string{"since its channel has a secret now", "take the secret away again"}
			} else if why[name][0] == "" {
				why[name] = [2]string{"without the key that is gone", "put the key back"}
			}
			positions[name] = append(positions[name], uint64(it.Position))
		}
		if len(items) < queuePageSize {
			break
		}
	}
	var lines []string
	slices.Sort(names)
	for _, name := range names {
		var list []string
		all := positions[name]
		for _, p := range all[:min(len(all), maxStuck)] {
			list = append(list, strconv.FormatUint(p, 10))
		}
		if n := len(all) - maxStuck; n > 0 {
			list = append(list, fmt.Sprintf("and %d more", n))
		}
		lines = append(lines, fmt.Sprintf("%s to %s cannot go out %s, and what was said later waits behind: %s, or drop each with /msg *status QUEUE CANCEL position; positions: %s",
			count(len(all), "message"), name, why[name][0], why[name][1], strings.Join(list, ", ")))
	}
	return lines, nil
}
