package main

import (
	"context"
	"fmt"
	"strings"

	"hearsay/internal/privmsg"
	"hearsay/ircd"
	"hearsay/mailbox/endpoint"
)

// mailStatusCommand is a person's hand on what waits at relays (MB-34).
func (d *daemon) mailStatusCommand() ircd.StatusCommand {
	return ircd.StatusCommand{
		Name:  "MAILBOX",
		Alias: "MAIL",
		Usage: "MAILBOX [DROP contact]",
		Help:  "the relays that keep messages for you, and what waits at relays for others",
		More: []string{
			"MAILBOX alone: your relays, and what was deposited for others and has no receipt yet.",
			"MAILBOX DROP contact: gives up what waits for one contact.",
		},
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
		known := false
		for _, label := range labels {
			known = known || privmsg.Fold(label) == privmsg.Fold(args[1])
		}
		if !known {
			return nil, fmt.Errorf("%s is no contact with a mailbox", args[1])
		}
		n, err := m.endpoint.Drop(func(id endpoint.ContactID) bool {
			return labels[id] != "" && privmsg.Fold(labels[id]) == privmsg.Fold(args[1])
		})
		if err != nil {
			return nil, err
		}
		return []string{fmt.Sprintf("%s dropped here. What a relay has of it goes when it is collected, or in 30 days.", count(n, "deposit"))}, nil
	}
	return nil, ircd.ErrUsage
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
	s := m.status()
	lines := []string{"You have no mailbox relay: what is written to you while you are away for more than a day may never reach you ([mailbox] in the configuration)"}
	if s.Relays > 0 {
		lines[0] = fmt.Sprintf("Messages for you are collected at %s; %s kept", count(s.Relays, "mailbox relay"), count(s.InboxRows, "message"))
	}
	if s.Refused > 0 {
		lines = append(lines, fmt.Sprintf(mailRefused, are(s.Refused, "mailbox relay")))
	}
	n := len(lines)
	for _, label := range sortedKeys(labelled) {
		lines = append(lines, fmt.Sprintf("%s: %s without a receipt", label, count(labelled[label], "deposit")))
	}
	if len(lines) == n {
		lines = append(lines, "Nothing of yours waits at mailbox relays")
	}
	return lines, nil
}
