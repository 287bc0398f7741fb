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
	if q.target != "" && s.historyOf(q.target) == nil {
		rq.failHistory("INVALID_TARGET", []string{q.sub, token(q.target)}, "Messages could not be retrieved")
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
			s.whenRead(rq, last, func() { s.answerHistory(rq, &q) })
		}}
	}
	return nil
}

// historyOf is the conversation called target that a client may look into: all that are
// known, which are those that this node has the keys of.
func (s *Server) historyOf(target string) *conversation {
	return s.convs[privmsg.Fold(target)]
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
		if code == "" && q.sub == "TARGETS" && !r.timed {
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
		return ref{time: t.UnixMilli(), timed: true}, ""
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
		seq, ok, err := s.cfg.Log.Find(id)
		if err != nil {
			return err
		}
		if !ok {
			return errNoMessage{refs[i].id}
		}
		refs[i].seq = seq
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

// answerHistory selects what was asked for and reads it.
func (s *Server) answerHistory(rq *request, q *query) {
	if q.sub == "TARGETS" {
		s.answerTargets(rq, q)
		return
	}
	cv := s.historyOf(q.target)
	if cv == nil {
		rq.failHistory("INVALID_TARGET", []string{q.sub, token(q.target)}, "Messages could not be retrieved")
		return
	}
	index, ring := cv.index, s.ring
	rq.job = func(ctx context.Context) event {
		page, err := s.fetch(ctx, ring, q.pick(index))
		return evAnswer{rq, func() {
			switch {
			case err != nil:
				s.historyFailed(rq, q, err)
			case s.historyOf(q.target) != cv || s.ring != ring: // its key is gone, perhaps
				rq.failHistory("MESSAGE_ERROR", []string{q.sub, token(q.target)}, "The configuration has just changed: please ask again")
			default:
				s.beginPage(rq, cv, page)
			}
		}}
	}
}

// pick selects the marks that q asks for.
func (q *query) pick(index []mark) []mark {
	switch sp := (span{limit: q.limit}); q.sub {
	case "BEFORE":
		sp.before, sp.from = q.refs[0], newest
		return sp.page(index)
	case "AFTER":
		sp.after = q.refs[0]
		return sp.page(index)
	case "LATEST":
		sp.after, sp.from = q.refs[0], newest
		return sp.page(index)
	case "BETWEEN":
		a, b := q.refs[0], q.refs[1]
		sp.after, sp.before = a, b
		if isBefore(index, b, a) { // from the newer one backwards
			sp.after, sp.before, sp.from = b, a, newest
		}
		return sp.page(index)
	}
	return around(index, q.refs[0], q.limit)
}

// isBefore orders two references: by their places if both have one, else by moments.
func isBefore(index []mark, a, b ref) bool {
	if !a.timed && !b.timed {
		return a.seq < b.seq
	}
	return moment(index, a) < moment(index, b)
}

func moment(index []mark, r ref) int64 {
	i, ok := slices.BinarySearchFunc(index, r.seq, bySeq)
	if !r.timed && ok {
		return index[i].time
	}
	return r.time
}

// fetch reads the messages of marks. What was pruned or cancelled since is left out.
func (s *Server) fetch(ctx context.Context, ring *privmsg.Keyring, marks []mark) (page []entry, err error) {
	f := feed{s: s, ring: ring}
	for _, m := range marks {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		rows, _, err := s.cfg.Log.Read(m.seq-1, 1)
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 || rows[0].Seq != m.seq {
			continue
		}
		if in, ok := f.open(&rows[0]); ok && len(in.lines) > 0 {
			e := in.entry()
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

// answerTargets lists the conversations that have a newest message between two moments:
// those that somebody here has joined or configured.
func (s *Server) answerTargets(rq *request, q *query) {
	type found struct {
		name string
		at   time.Time
	}
	var all []found
	from, to := q.refs[0].time, q.refs[1].time
	for _, cv := range s.convs {
		at, ok := cv.newestTime()
		if ms := at.UnixMilli(); ok && cv.kept() && ms > min(from, to) && ms < max(from, to) {
			all = append(all, found{cv.name, at})
		}
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name)) })
	if n := len(all) - q.limit; n > 0 && from > to {
		all = all[n:]
	} else if n > 0 {
		all = all[:q.limit]
	}
	batch := s.beginBatch(rq, "draft/chathistory-targets")
	for _, f := range all {
		l := plain(s.cfg.ServerName, "CHATHISTORY", "TARGETS", f.name, f.at.Format(timeFormat))
		l.batch = batch
		s.send(rq.c, l)
	}
	s.endBatch(rq, batch)
}
