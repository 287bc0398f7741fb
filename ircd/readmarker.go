package ircd

import (
	"context"
	"strings"
	"time"

	"hearsay/internal/privmsg"
)

// cmdMarkread is MARKREAD (IRCv3 draft/read-marker). Markers are the person's, and all
// clients of a node are one person's (decision 0172): whoever sets one, the others are
// told.
func cmdMarkread(s *Server, rq *request) error {
	target := rq.param(0)
	fail := func(code, text string) {
		context := []string{}
		if target != "" {
			context = append(context, token(target))
		}
		rq.failHistory(code, context, text)
	}
	name, ok := s.markable(target)
	switch {
	case target == "":
		fail("NEED_MORE_PARAMS", "Missing parameters")
		return nil
	case !ok:
		fail("INVALID_PARAMS", "This cannot have been read: it is no channel and no nick")
		return nil
	case len(rq.msg.Params) == 1:
		rq.send(s.marker(name))
		return nil
	}
	value, found := strings.CutPrefix(rq.param(1), "timestamp=")
	at, err := time.Parse(time.RFC3339Nano, value)
	if !found || err != nil || at.UnixMilli() < 0 {
		fail("INVALID_PARAMS", "A marker is timestamp=YYYY-MM-DDThh:mm:ss.sssZ")
		return nil
	}
	// Nothing was said later than now, and a marker does not go back (decision 0232).
	if now := s.cfg.Now(); at.After(now) {
		at = now
	}
	key := s.readKey(target)
	rq.job = func(context.Context) event {
		_, err := s.cfg.ReadState.SetMarker(key, at)
		return evAnswer{rq, func() {
			if err != nil {
				s.log.Warn("a read marker was not stored", "error", err)
				fail("INTERNAL_ERROR", "The read marker could not be stored")
				return
			}
			l := s.marker(name)
			rq.send(l)
			// Where the marker was further on already the answer says so, and there is no news.
			if !s.cfg.ReadState.Marker(key).Equal(at.Truncate(time.Millisecond)) {
				return
			}
			for o := range s.clients {
				if o != rq.c && o.registered && o.caps.has(capReadMarker) {
					s.send(o, l)
				}
			}
		}}
	}
	return nil
}

// markable is target as it is spelt here; ok is false where there can be no messages.
func (s *Server) markable(target string) (name string, ok bool) {
	if cv := s.convs[privmsg.Fold(target)]; cv != nil {
		return cv.name, true
	}
	return target, privmsg.ValidChannel(target) || privmsg.ValidNick(target)
}

// marker is the line that says up to when name was read.
func (s *Server) marker(name string) line {
	at := "*"
	if t := s.cfg.ReadState.Marker(s.readKey(name)); !t.IsZero() {
		at = "timestamp=" + t.Format(timeFormat)
	}
	return plain(s.cfg.ServerName, "MARKREAD", name, at)
}
