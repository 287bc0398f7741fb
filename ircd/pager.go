package ircd

import (
	"cmp"
	"slices"

	"hearsay/internal/arrival"
)

// A pager selects messages of one conversation, up to a place that clients have seen.
type pager struct {
	log interface {
		Page(of arrival.Tag, sp arrival.Span) ([]arrival.Mark, error)
	}
	tag  arrival.Tag
	last arrival.Seq
}

func (p pager) page(sp arrival.Span) ([]arrival.Mark, error) {
	sp.Last = p.last
	return p.log.Page(p.tag, sp)
}

// pick selects the marks that q asks for.
func (p pager) pick(q *query) ([]arrival.Mark, error) {
	switch sp := (arrival.Span{Limit: q.limit}); q.sub {
	case "BEFORE":
		sp.Before, sp.Newest = bound(q.refs[0]), true
		return p.page(sp)
	case "AFTER":
		sp.After = bound(q.refs[0])
		return p.page(sp)
	case "LATEST":
		sp.After, sp.Newest = bound(q.refs[0]), true
		return p.page(sp)
	case "BETWEEN":
		a, b := q.refs[0], q.refs[1]
		sp.After, sp.Before = bound(a), bound(b)
		if isBefore(b, a) { // from the newer one backwards
			sp.After, sp.Before, sp.Newest = bound(b), bound(a), true
		}
		return p.page(sp)
	}
	return p.around(q.refs[0], q.limit)
}

// bound is r as the end of a span.
func bound(r ref) arrival.Ref {
	if r.Timed {
		return r.Ref
	}
	return arrival.Ref{Seq: r.Seq}
}

// isBefore orders two references: by their places if both have one, else by moments.
func isBefore(a, b ref) bool {
	if !a.Timed && !b.Timed {
		return a.Seq < b.Seq
	}
	return a.Time < b.Time
}

// around selects at most limit marks with r in their middle.
func (p pager) around(r ref, limit int) ([]arrival.Mark, error) {
	only := arrival.Span{After: bound(r), Before: bound(r), Limit: 1}
	if r.Timed {
		only.After.Time--
		only.Before.Time++
	} else {
		only.After.Seq--
		only.Before.Seq++
	}
	all, err := p.page(only)
	if err != nil {
		return nil, err
	}
	rest := limit - len(all)
	older, err := p.page(arrival.Span{Before: bound(r), Newest: true, Limit: rest / 2})
	if err != nil {
		return nil, err
	}
	newer, err := p.page(arrival.Span{After: bound(r), Limit: rest - len(older)})
	all = slices.Concat(all, older, newer)
	slices.SortFunc(all, func(a, b arrival.Mark) int { return cmp.Compare(a.Seq, b.Seq) })
	return all, err
}
