package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hearsay/ircd"
)

// queueLines is how many records "*status" lists; the command line has the rest.
const queueLines = 20

// statusCommands are what this node adds to "*status": a person's hand on the queue
// (DS-84).
func (d *daemon) statusCommands() []ircd.StatusCommand {
	return []ircd.StatusCommand{{
		Name:  "QUEUE",
		Usage: "QUEUE [CANCEL position|RELEASE]",
		Help:  "the messages that wait to be sent or acknowledged; drop one for good; confirm a restored queue",
		Run:   d.queueCommand,
	}, d.mailStatusCommand()}
}

func (d *daemon) queueCommand(ctx context.Context, args []string, _ string) ([]string, error) {
	verb := "LIST"
	if len(args) > 0 {
		verb = strings.ToUpper(args[0])
	}
	switch {
	case verb == "LIST" && len(args) <= 1:
		return d.queueSummary()
	case verb == "CANCEL" && len(args) == 2:
		position, err := strconv.ParseUint(args[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no position", args[1])
		}
		if err := d.custody.cancel(ctx, position); err != nil {
			return nil, err
		}
		return []string{fmt.Sprintf("The message at position %d is dropped. What is out already cannot be called back.", position)}, nil
	case verb == "RELEASE" && len(args) == 1:
		if err := d.custody.queue.Release(ctx); err != nil {
			return nil, err
		}
		return []string{"The queue is released; its messages go out in order."}, nil
	}
	return nil, errors.New("QUEUE, QUEUE CANCEL position, or QUEUE RELEASE")
}

func (d *daemon) queueSummary() ([]string, error) {
	p, err := pageOf(d.custody.queue, 0, time.Now(), d.worker.Head)
	if err != nil {
		return nil, err
	}
	if p.Depth == 0 {
		return []string{"Nothing waits: everything that was accepted has been acknowledged"}, nil
	}
	lines := []string{fmt.Sprintf("%s, %d bytes", count(p.Depth, "message"), p.Bytes)}
	if p.Held {
		lines[0] += ", held since it was restored from a backup: QUEUE RELEASE sends it"
	}
	shown := 0
	for _, r := range p.Records {
		if r.State == "cancelled" {
			continue
		}
		if shown++; shown > queueLines {
			lines = append(lines, fmt.Sprintf("and %d more", p.Depth-queueLines))
			break
		}
		state := r.State
		if r.Reason != "" {
			state += " (" + r.Reason + ")"
		}
		lines = append(lines, fmt.Sprintf("%d: %s, %s old, %d bytes", r.Position, state, time.Duration(r.AgeS)*time.Second, r.Size))
	}
	return lines, nil
}
