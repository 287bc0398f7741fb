package ircd

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"hearsay/internal/arrival"
	"hearsay/internal/privmsg"
)

// A query is a CHATHISTORY (IRCv3 draft/chathistory).
type query struct {
	sub    string
	target string // "" for TARGETS
	refs   []ref
	limit  int
}

// A ref is a message reference as it was asked for.
type ref struct {
	arrival.Ref
	id string // of the message, until its place is found
}

// chathistorySubs are the subcommands with the number of their references.
var chathistorySubs = map[string]int{"AFTER": 1, "AROUND": 1, "BEFORE": 1, "BETWEEN": 2, "LATEST": 1, "TARGETS": 2}

// failHistory is a FAIL, whatever was negotiated: the specifications of CHATHISTORY and
// MARKREAD know no other error.
func (rq *request) failHistory(code string, context []string, text string) {
	params := append([]string{rq.msg.Command, code}, context...)
	rq.send(free(rq.s.cfg.ServerName, "FAIL", append(params, text)...))
}

// cmdChathistory is CHATHISTORY. It reads the Log on the reader's goroutine: a page far
// back delays nobody else.
func cmdChathistory(s *Server, rq *request) error {
	q, ok := rq.parseQuery()
	if !ok {
		return nil
	}
	if _, _, ok := s.past(q.target); q.target != "" && !ok {
		rq.failTarget(&q)
		return nil
	}
	rq.job = func(context.Context) event {
		last, err := s.cfg.Log.Last()
		if err == nil {
			err = s.resolve(q.refs)
		}
		return evAnswer{rq, func() {
			if err != nil {
				s.historyFailed(rq, &q, err)
				return
			}
			s.whenRead(rq, last, func() { s.answerHistory(rq, &q, last) })
		}}
	}
	return nil
}

// failTarget: there is no such conversation here.
func (rq *request) failTarget(q *query) {
	rq.failHistory("INVALID_TARGET", []string{q.sub, token(q.target)}, "Messages could not be retrieved")
}

// past is the conversation called target that a client may look into, joined or not: one that
// this node has the key of, or any public channel. What is not in memory is made up, and
// belongs to nobody; whether there is anything in it is for the Log to say.
func (s *Server) past(target string) (cv *conversation, tag arrival.Tag, ok bool) {
	kind, name, print, ok := s.ring.Lookup(target)
	if !ok || kind == privmsg.Public && !privmsg.ValidChannel(target) {
		return nil, tag, false
	}
	tag = tagOf(kind, name, print)
	if cv = s.convs[privmsg.Fold(target)]; cv == nil || cv.kind != kind {
		cv = &conversation{folded: privmsg.Fold(target), name: name, kind: kind}
	}
	return cv, tag, true
}

// parseQuery reads the parameters, or answers what is wrong with them.
func (rq *request) parseQuery() (q query, ok bool) {
	q.sub = strings.ToUpper(rq.param(0))
	n, known := chathistorySubs[q.sub]
	sub := token(q.sub)
	if !known {
		rq.failHistory("INVALID_PARAMS", []string{sub}, "Unknown subcommand")
		return q, false
	}
	params := rq.msg.Params[1:]
	if q.sub != "TARGETS" {
		n++
	}
	if len(params) < n+1 {
		rq.failHistory("INVALID_PARAMS", []string{sub}, "Insufficient parameters")
		return q, false
	}
	refs := params[:n]
	if q.sub != "TARGETS" {
		q.target, refs = params[0], params[1:n]
		if q.target == "" {
			rq.failHistory("INVALID_PARAMS", []string{sub}, "Insufficient parameters")
			return q, false
		}
	}
	for _, text := range refs {
		if text == "*" && q.sub == "LATEST" {
			q.refs = append(q.refs, ref{})
			continue
		}
		r, code := parseRef(text)
		if code == "" && q.sub == "TARGETS" && !r.Timed {
			code = "INVALID_PARAMS"
		}
		if code != "" {
			rq.failHistory(code, []string{sub, token(text)}, "A message reference is msgid=ID or timestamp=YYYY-MM-DDThh:mm:ss.sssZ")
			return q, false
		}
		q.refs = append(q.refs, r)
	}
	limit, err := strconv.Atoi(params[n])
	if err != nil || limit < 0 {
		rq.failHistory("INVALID_PARAMS", []string{sub, token(params[n])}, "The limit is a number")
		return q, false
	}
	if q.limit = min(limit, maxChathistory); limit == 0 {
		q.limit = maxChathistory
	}
	return q, true
}

// parseRef reads msgid=… or timestamp=…; code is that of the fault.
func parseRef(text string) (r ref, code string) {
	name, value, found := strings.Cut(text, "=")
	switch {
	case !found || value == "":
		return r, "INVALID_PARAMS"
	case name == "timestamp":
		t, err := time.Parse(time.RFC3339Nano, value)
		if err != nil {
			return r, "INVALID_PARAMS"
		}
		return ref{Ref: arrival.Ref{Time: t.UnixMilli(), Timed: true}}, ""
	case name == "msgid":
		return ref{id: value}, ""
	}
	return r, "INVALID_MSGREFTYPE"
}

// errNoMessage: a msgid that names no message.
type errNoMessage struct{ id string }

func (e errNoMessage) Error() string { return "no such message" }

// resolve finds the places of ids. The second and later lines of a message have its id
// with -2, -3, …
func (s *Server) resolve(refs []ref) error {
	for i := range refs {
		if refs[i].id == "" {
			continue
		}
		id, _, _ := strings.Cut(refs[i].id, "-")
		m, ok, err := s.cfg.Log.Find(id)
		if err != nil {
			return err
		}
		if !ok {
			return errNoMessage{refs[i].id}
		}
		refs[i].Ref = arrival.Ref{Seq: m.Seq, Time: m.Time}
	}
	return nil
}

func (s *Server) historyFailed(rq *request, q *query, err error) {
	ctx := []string{q.sub}
	if q.target != "" {
		ctx = append(ctx, token(q.target))
	}
	if none, ok := err.(errNoMessage); ok { //nolint:errorlint // made above, never wrapped
		rq.failHistory("MESSAGE_ERROR", append(ctx, token(none.id)), "There is no such message here")
		return
	}
	s.log.Error("history cannot be read", "error", err)
	rq.failHistory("MESSAGE_ERROR", ctx, "Messages could not be retrieved")
}

// whenRead goes on with then when the feed has handed over everything up to at, or after
// readerWait.
func (s *Server) whenRead(rq *request, at arrival.Seq, then func()) {
	if s.feedAt >= at {
		then()
		return
	}
	w := waiter{at, make(chan struct{})}
	s.readers = append(s.readers, w) // one for each client at most: its reader waits
	rq.job = func(ctx context.Context) event {
		late := time.NewTimer(readerWait)
		defer late.Stop()
		select {
		case <-w.done:
		case <-late.C:
		case <-ctx.Done():
		}
		return evAnswer{rq, func() {
			s.readers = slices.DeleteFunc(s.readers, func(o waiter) bool { return o.done == w.done })
			then()
		}}
	}
}

// answerHistory selects what was asked for and reads it: of what clients were shown already, so
// that nothing of a page comes again as new.
func (s *Server) answerHistory(rq *request, q *query, last arrival.Seq) {
	last = max(last, s.feedAt)
	if q.sub == "TARGETS" {
		s.answerTargets(rq, q, last)
		return
	}
	cv, tag, ok := s.past(q.target)
	if !ok {
		rq.failTarget(q)
		return
	}
	ring := s.ring
	// Of a channel that the client has nothing to do with, "nothing" is no answer: it may not exist.
	foreign := cv.isChannel() && !cv.configured && !rq.c.joined[cv]
	rq.job = func(ctx context.Context) event {
		marks, err := (pager{s.cfg.Log, tag, last}).pick(q)
		empty := false
		if err == nil && len(marks) == 0 && foreign {
			_, some, newestErr := s.cfg.Log.Newest(tag, last)
			empty, err = !some, newestErr
		}
		var page []entry
		if err == nil {
			page, err = s.fetch(ctx, ring, marks)
		}
		return evAnswer{rq, func() {
			switch {
			case err != nil:
				s.historyFailed(rq, q, err)
			case empty:
				rq.failTarget(q)
			case s.ring != ring: // its key is gone, perhaps
				rq.failHistory("MESSAGE_ERROR", []string{q.sub, token(q.target)}, "The configuration has just changed: please ask again")
			default:
				s.beginPage(rq, cv, page)
			}
		}}
	}
}

// read reads the message at a place; ok is false where it was pruned or cancelled since.
func (f *feed) read(at arrival.Seq) (e entry, ok bool, err error) {
	a, ok, err := f.s.cfg.Log.Get(at)
	if err != nil || !ok {
		return e, false, err
	}
	in, ok := f.open(&a)
	return in.entry(), ok && len(in.lines) > 0, nil
}

// fetch reads the messages of marks. What was pruned or cancelled since is left out.
func (s *Server) fetch(ctx context.Context, ring *privmsg.Keyring, marks []arrival.Mark) (page []entry, err error) {
	f := feed{s: s, ring: ring}
	for _, m := range marks {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e, ok, err := f.read(m.Seq)
		if err != nil {
			return nil, err
		}
		if ok {
			e.asked = true
			page = append(page, e)
		}
	}
	return page, nil
}

// beginPage answers with a batch. The label goes to the batch itself, so that the answer
// need not be held back.
func (s *Server) beginPage(rq *request, cv *conversation, page []entry) {
	batch := s.beginBatch(rq, "chathistory", cv.name)
	s.goOnPage(rq, cv, page, batch)
}

// beginBatch opens a batch that is the whole answer; "" where the client knows none.
func (s *Server) beginBatch(rq *request, params ...string) string {
	if !rq.c.caps.has(capBatch) {
		return ""
	}
	batch := s.newBatch()
	l := plain(s.cfg.ServerName, "BATCH", append([]string{"+" + batch}, params...)...)
	l.label, rq.label = rq.label, ""
	s.send(rq.c, l)
	return batch
}

func (s *Server) endBatch(rq *request, batch string) {
	if batch != "" {
		s.send(rq.c, plain(s.cfg.ServerName, "BATCH", "-"+batch))
	}
}

// goOnPage sends entries while the client's queue is short, and waits where it is not.
func (s *Server) goOnPage(rq *request, cv *conversation, page []entry, batch string) {
	c := rq.c
	for len(page) > 0 && !c.gone && c.queue.size() < lowWater {
		for _, l := range s.lines(c, cv, &page[0]) {
			l.batch = batch
			if batch != "" {
				s.send(c, l)
			} else {
				rq.send(l)
			}
		}
		page = page[1:]
	}
	if len(page) == 0 || c.gone {
		s.endBatch(rq, batch)
		return
	}
	rq.job = func(ctx context.Context) event {
		c.waitDrained(ctx)
		return evAnswer{rq, func() { s.goOnPage(rq, cv, page, batch) }}
	}
}

// waitDrained waits until less than lowWater waits for c, or ctx ends.
func (c *client) waitDrained(ctx context.Context) {
	tick := time.NewTicker(tick) // a queue that was closed says nothing
	defer tick.Stop()
	for c.queue.size() >= lowWater {
		select {
		case <-ctx.Done():
			return
		case <-c.drained:
		case <-tick.C:
		}
	}
}

// answerTargets lists the conversations whose newest message came between two moments: those
// that somebody here has joined or configured. What counts is when it came here, so that a
// client which was away learns of a late message with an old time too (decision 0201).
func (s *Server) answerTargets(rq *request, q *query, last arrival.Seq) {
	type found struct {
		name string
		tag  arrival.Tag
		at   time.Time
	}
	var all []found
	for _, cv := range s.convs {
		if !cv.kept() {
			continue
		}
		if _, tag, ok := s.past(cv.name); ok {
			all = append(all, found{name: cv.name, tag: tag})
		}
	}
	from, to := q.refs[0].Time, q.refs[1].Time
	rq.job = func(context.Context) event {
		var err error
		for i := range all {
			var ok bool
			if all[i].at, ok, err = s.cfg.Log.Newest(all[i].tag, last); err != nil {
				break
			}
			if !ok {
				all[i].at = time.Time{}
			}
		}
		all = slices.DeleteFunc(all, func(f found) bool {
			ms := f.at.UnixMilli()
			return f.at.IsZero() || ms <= min(from, to) || ms >= max(from, to)
		})
		slices.SortFunc(all, func(a, b found) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
		if n := len(all) - q.limit; n > 0 && from > to {
			all = all[n:]
		} else if n > 0 {
			all = all[:q.limit]
		}
		return evAnswer{rq, func() {
			if err != nil {
				s.historyFailed(rq, q, err)
				return
			}
			batch := s.beginBatch(rq, "draft/chathistory-targets")
			for _, f := range all {
				l := plain(s.cfg.ServerName, "CHATHISTORY", "TARGETS", f.name, f.at.UTC().Format(timeFormat))
				l.batch = batch
				s.send(rq.c, l)
			}
			s.endBatch(rq, batch)
		}}
	}
}

// A waiter is a request that waits for the feed.
type waiter struct {
	at   arrival.Seq
	done chan struct{} // closed when the feed is there
}

// readTo notes how far the feed is.
func (s *Server) readTo(at arrival.Seq) {
	s.feedAt = at
	s.readers = slices.DeleteFunc(s.readers, func(w waiter) bool {
		if w.at > at {
			return false
		}
		close(w.done)
		return true
	})
}
