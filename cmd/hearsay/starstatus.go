package main

import (
	"context"
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
		Usage: "QUEUE [LIST|CANCEL position|RELEASE]",
		Help:  "the messages that wait to be sent or acknowledged",
		More: []string{
			"QUEUE LIST, or QUEUE alone: their positions, states, ages and sizes, the oldest first; never their text.",
			"QUEUE CANCEL position: drops one for good. What is out already cannot be called back.",
			"QUEUE RELEASE: sends a queue that was restored from a backup and is held since.",
		},
		Run: d.queueCommand,
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
		sum, err := d.custody.queue.Summary()
		if err == nil && !sum.Held {
			return []string{"The queue is not held: only one that was restored from a backup is"}, nil
		}
		if err := d.custody.queue.Release(ctx); err != nil {
			return nil, err
		}
		return []string{"The queue is released; its messages go out in order."}, nil
	}
	return nil, ircd.ErrUsage
}

func (d *daemon) queueSummary() ([]string, error) {
	p, err := d.queuePage(0)
	if err != nil {
		return nil, err
	}
	if p.Depth == 0 {
		sum, err := d.custody.queue.Summary()
		return []string{sentence(queueWords(outboundStatus{AckedTotal: sum.Acked}))}, err
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
		lines = append(lines, fmt.Sprintf("%d: %s, %s old, %s", r.Position, r.stateWords(), time.Duration(r.AgeS)*time.Second, count(r.Size, "byte")))
	}
	return lines, nil
}
