package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hearsay/internal/box"
	"hearsay/internal/config"
	"hearsay/ircd"
	"hearsay/outbound"
)

// A fileEditor changes the configuration file of a running daemon and reloads it.
type fileEditor struct{ d *daemon }

var _ ircd.Editor = fileEditor{}

// change edits the file, then does what REHASH does. One at a time.
func (f fileEditor) change(ctx context.Context, edit func(*config.Editor) error) (ircd.Summary, error) {
	f.d.editing.Lock()
	defer f.d.editing.Unlock()
	if f.d.file == "" {
		return ircd.Summary{}, errors.New("there is no configuration file; hearsay config init writes one, then start the daemon again")
	}
	if err := config.EditFile(f.d.file, config.OSEnv(), edit); err != nil {
		return ircd.Summary{}, err
	}
	sum, err := f.d.reload(ctx)
	if err != nil {
		err = fmt.Errorf("the file is written, but not in force: %w", err)
	}
	return sum, err
}

// AddContact implements ircd.Editor.
func (f fileEditor) AddContact(ctx context.Context, label string, theirs box.PublicKey) (ours box.PublicKey, sum ircd.Summary, err error) {
	sum, err = f.change(ctx, func(e *config.Editor) error {
		secret, pending := e.Pending(label)
		if !pending {
			secret = box.GenerateSecret()
		}
		ours = secret.Public()
		switch {
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
	return f.change(ctx, func(e *config.Editor) error { return e.RemoveChannel(name) })
}

// maxStuck is how many positions a line about stuck messages names.
const maxStuck = 10

// stuck says which messages wait for a key that is gone or was changed, and what can be
// done about them (DS-79, DS-84).
func (d *daemon) stuck() ([]string, error) {
	positions, names := map[string][]uint64{}, []string{}
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
		lines = append(lines, fmt.Sprintf("%s to %s cannot go out without the key that is gone, and what was said later waits behind: put the key back, or drop each with /msg *status QUEUE CANCEL position; positions: %s",
			count(len(all), "message"), name, strings.Join(list, ", ")))
	}
	return lines, nil
}
