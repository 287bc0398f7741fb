package ircd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hearsay/internal/privmsg"
)

// A listFilter is one condition of LIST (ELIST=MNTU).
type listFilter func(cv *conversation, users int) bool

// parseListFilter reads a condition: a mask, !mask, >users, <users, T>minutes since the
// topic was set, T<minutes.
func (s *Server) parseListFilter(item string) (listFilter, bool) {
	if n, err := strconv.Atoi(strings.TrimLeft(item, "<>T")); err == nil && n >= 0 {
		switch item[:len(item)-len(strings.TrimLeft(item, "<>T"))] {
		case ">":
			return func(_ *conversation, users int) bool { return users > n }, true
		case "<":
			return func(_ *conversation, users int) bool { return users < n }, true
		case "T>", "T<":
			limit := s.cfg.Now().Add(-time.Duration(min(n, 1<<24)) * time.Minute)
			older := item[1] == '>'
			return func(cv *conversation, _ int) bool {
				return cv.topic != "" && cv.topicAt.Before(limit) == older
			}, true
		}
	}
	mask, not := strings.CutPrefix(privmsg.Fold(item), "!")
	if !strings.ContainsAny(mask, "*?#") {
		return nil, false
	}
	return func(cv *conversation, _ int) bool { return matchMask(mask, cv.folded) != not }, true
}

// cmdList is LIST: configured and joined channels, and those in which somebody spoke.
// Several masks are alternatives, other conditions all have to hold.
func cmdList(s *Server, rq *request) error {
	if target := rq.param(1); target != "" {
		if err := s.elsewhere(target); err != nil {
			return err
		}
	}
	var masks, all []listFilter
	for _, item := range splitList(rq.param(0)) {
		f, ok := s.parseListFilter(item)
		switch {
		case !ok:
		case item[0] == '!' || strings.ContainsRune("<>T", rune(item[0])):
			all = append(all, f)
		default:
			masks = append(masks, f)
		}
	}
	rq.reply(rplListStart, "Channel", "Users  Name")
	for _, cv := range s.listed() {
		n := len(s.present(cv))
		holds := func(f listFilter) bool { return f(cv, n) }
		if len(masks) > 0 && !slices.ContainsFunc(masks, holds) {
			continue
		}
		if slices.ContainsFunc(all, func(f listFilter) bool { return !holds(f) }) {
			continue
		}
		rq.reply(rplList, cv.name, strconv.Itoa(n), cv.topic)
	}
	rq.reply(rplListEnd, "End of /LIST")
	return nil
}

// listed are the channels to show, by name, at most maxListed: one that is neither
// configured nor has anybody in it is not.
func (s *Server) listed() []*conversation {
	var list []*conversation
	for _, cv := range s.convs {
		if cv.isChannel() && (cv.configured || len(s.present(cv)) > 0) {
			list = append(list, cv)
		}
	}
	slices.SortFunc(list, func(a, b *conversation) int { return cmp.Compare(a.folded, b.folded) })
	return list[:min(len(list), maxListed)]
}
