package ircd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hearsay/internal/arrival"
)

// HISTORY of "*status": for people, and for clients that have neither draft/chathistory nor
// no-history.

// historyCommand is HISTORY's entry among the builtins.
var historyCommand = StatusCommand{
	Name: "HISTORY", Usage: "HISTORY [name [count]|ON|OFF]", Help: "how far back history reaches; earlier messages", More: []string{
		"HISTORY: how much is kept, and what you get of it unasked.",
		fmt.Sprintf("HISTORY name [count]: the last messages of a channel or contact, %d or count, at most %d. Times are UTC.", historyAsked, maxChathistory),
		"HISTORY OFF: nothing unasked at a JOIN any more, for this device if your client names one, else until it goes. HISTORY ON: as before.",
	},
}

// history is HISTORY.
func (s *Server) history(rq *request, args []string) {
	limit := historyAsked
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 1 || len(args) > 2 {
			rq.say("*status", usageText(historyCommand))
			return
		}
		limit = min(n, maxChathistory)
	}
	switch {
	case len(args) == 0:
		s.historyExtent(rq)
	case len(args) == 1 && strings.EqualFold(args[0], "ON"), len(args) == 1 && strings.EqualFold(args[0], "OFF"):
		s.setQuiet(rq, strings.EqualFold(args[0], "OFF"))
	default:
		s.replay(rq, args[0], limit)
	}
}

// historyExtent tells how much there is.
func (s *Server) historyExtent(rq *request) {
	rq.job = func(context.Context) event {
		x, err := s.cfg.Log.Extent()
		return evAnswer{rq, func() {
			if err != nil {
				s.log.Error("history cannot be read", "error", err)
				rq.sayAll(failed("HISTORY", err))
				return
			}
			kept := "Nothing is kept yet"
			if x.Messages > 0 {
				kept = fmt.Sprintf("%s of all conversations, %s of text, the oldest here since %s",
					plural(int(x.Messages), "message"), bytesText(x.Bytes), x.Since.UTC().Format(time.DateTime+" UTC"))
			}
			rq.say("*status", kept+"; messages stay "+s.cfg.Keeps)
			switch c := rq.c; {
			case c.caps.has(capChathistory):
				rq.say("*status", "Your client fetches history by itself")
			case c.caps.has(capNoHistory):
				rq.say("*status", "Your client asked for no history: nothing comes unasked")
			case s.quiet(c):
				rq.say("*status", "At a JOIN nothing comes unasked: HISTORY ON changes that")
			case c.device() != "":
				rq.say("*status", fmt.Sprintf("At a JOIN you get what this device has not read, at most %s: HISTORY OFF changes that", plural(s.cfg.HistoryLines, "message")))
			default:
				rq.say("*status", fmt.Sprintf("At a JOIN you get what you have not seen, at most %s of the last %s: HISTORY OFF changes that",
					plural(s.cfg.HistoryLines, "message"), hoursText(s.cfg.HistoryAge)))
			}
		}}
	}
}

// setQuiet is HISTORY ON and OFF.
func (s *Server) setQuiet(rq *request, quiet bool) {
	c := rq.c
	done := func(where string) {
		if quiet {
			rq.say("*status", "History does not come unasked any more, for "+where)
		} else {
			rq.say("*status", "History comes at a JOIN, for "+where)
		}
	}
	device := c.device()
	if device == "" {
		c.quiet = quiet
		done("this connection (name@device as user name makes it last)")
		return
	}
	rq.job = func(context.Context) event {
		err := s.cfg.ReadState.SetQuiet(device, quiet)
		return evAnswer{rq, func() {
			if err != nil {
				s.log.Warn("a device's wish was not stored", "error", err)
				rq.sayAll(failed("HISTORY", err))
				return
			}
			done("device " + c.who.device)
		}}
	}
}

// replay shows the newest messages of a conversation once more, to one client.
func (s *Server) replay(rq *request, target string, limit int) {
	cv, tag, ok := s.past(target)
	if !ok {
		rq.say("*status", "There is no conversation "+token(target)+" here")
		return
	}
	ring := s.ring
	rq.job = func(ctx context.Context) event {
		var page []entry
		last, err := s.cfg.Log.Last()
		if err == nil {
			var marks []arrival.Mark
			if marks, err = (pager{s.cfg.Log, tag, last}).page(arrival.Span{Newest: true, Limit: limit}); err == nil {
				page, err = s.fetch(ctx, ring, marks)
			}
		}
		return evAnswer{rq, func() {
			switch {
			case err != nil:
				s.log.Error("history cannot be read", "error", err)
				rq.sayAll(failed("HISTORY", err))
			case s.ring != ring: // its key is gone, perhaps
				rq.say("*status", "The configuration has just changed: please ask again")
			case len(page) == 0:
				rq.say("*status", "No message of "+token(target)+" is kept")
			default:
				if !rq.c.caps.has(capServerTime) {
					for i := range page {
						page[i].stamp()
					}
				}
				rq.say("*status", fmt.Sprintf("The last %s of %s:", plural(len(page), "message"), cv.name))
				s.beginPage(rq, cv, page)
			}
		}}
	}
}

// stamp puts an entry's time in front of its words, for a client that is told no times.
func (e *entry) stamp() {
	at := e.time.UTC().Format("[" + time.DateTime + "] ")
	for i, l := range e.lines {
		if action, ok := strings.CutPrefix(l, "\x01ACTION "); ok {
			e.lines[i] = "\x01ACTION " + at + action
		} else {
			e.lines[i] = at + l
		}
	}
}

// bytesText is a size for people.
func bytesText(n uint64) string {
	switch {
	case n < 1<<10:
		return plural(int(n), "byte")
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

func hoursText(d time.Duration) string { return plural(int(d.Round(time.Hour)/time.Hour), "hour") }
