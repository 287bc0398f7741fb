package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"hearsay/internal/privmsg"
	"hearsay/ircd"
	"hearsay/mailbox/endpoint"
)

// mailStatusCommand is a person's hand on what waits at relays (MB-34).
func (d *daemon) mailStatusCommand() ircd.StatusCommand {
	return ircd.StatusCommand{
		Name:  "MAIL",
		Usage: "MAIL [DROP contact]",
		Help:  "what was deposited at mailbox relays and has no receipt yet; give up what waits for one contact",
		Run: func(_ context.Context, args []string, _ string) ([]string, error) {
			return d.custody.mail.command(args)
		},
	}
}

func (m *mail) command(args []string) ([]string, error) {
	switch {
	case len(args) == 0:
		return m.pendingLines()
	case len(args) == 2 && strings.EqualFold(args[0], "DROP"):
		labels := m.contacts().labels
		n, err := m.endpoint.Drop(func(id endpoint.ContactID) bool {
			return labels[id] != "" && privmsg.Fold(labels[id]) == privmsg.Fold(args[1])
		})
		if err != nil {
			return nil, err
		}
		return []string{fmt.Sprintf("%s dropped here. What a relay has of it goes when it is collected, or in 30 days.", count(n, "deposit"))}, nil
	}
	return nil, errors.New("MAIL, or MAIL DROP contact")
}

func (m *mail) pendingLines() ([]string, error) {
	by, err := m.endpoint.PendingBy()
	if err != nil {
		return nil, err
	}
	labelled := map[string]int{}
	for id, n := range by {
		label, ok := m.contacts().labels[id]
		if !ok {
			label = "somebody who is no contact any more"
		}
		labelled[label] += n
	}
	lines := []string{}
	for _, label := range sortedKeys(labelled) {
		lines = append(lines, fmt.Sprintf("%s: %s without a receipt", label, count(labelled[label], "deposit")))
	}
	if len(lines) == 0 {
		lines = append(lines, "Nothing waits at mailbox relays")
	}
	return lines, nil
}
