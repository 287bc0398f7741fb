package ircd

import (
	"cmp"
	"slices"
	"time"

	"hearsay/internal/arrival"
	"hearsay/internal/privmsg"
)

// marks are the messages of a conversation in the fake graph, each once, by opening all of it.
func (g *fakeGraph) marks(of arrival.Tag) (all []arrival.Mark) {
	ring := noKeys
	if g.keys != nil {
		ring = g.keys.get()
	}
	page, _, _ := g.Read(0, 1<<30)
	f, seen := feed{ring: ring}, map[string]bool{}
	for i := range page {
		in, ok := f.open(&page[i])
		if !ok || len(in.lines) == 0 || seen[in.logical] {
			continue
		}
		seen[in.logical] = true
		_, _, print, _ := ring.Lookup(in.name)
		if tagOf(in.kind, in.name, print) == of {
			all = append(all, arrival.Mark{Seq: in.seq, Time: in.time.UnixMilli()})
		}
	}
	return all
}

// Page is what arrival.Log.Page promises, in the plainest way: TestPage of internal/arrival holds
// the real one against the same words.
func (g *fakeGraph) Page(of arrival.Tag, sp arrival.Span) ([]arrival.Mark, error) {
	in := slices.DeleteFunc(g.marks(of), func(m arrival.Mark) bool {
		return after(m, sp.Before) >= 0 && !sp.Before.IsZero() || after(m, sp.After) <= 0 && !sp.After.IsZero() || sp.Last != 0 && m.Seq > sp.Last
	})
	if sp.After.Timed || sp.Before.Timed {
		slices.SortStableFunc(in, func(a, b arrival.Mark) int { return cmp.Compare(a.Time, b.Time) })
	}
	if n := len(in) - sp.Limit; n > 0 && sp.Newest {
		in = in[n:]
	} else if n > 0 {
		in = in[:sp.Limit]
	}
	slices.SortFunc(in, func(a, b arrival.Mark) int { return cmp.Compare(a.Seq, b.Seq) })
	return in, nil
}

func after(m arrival.Mark, r arrival.Ref) int {
	if r.Timed {
		return cmp.Compare(m.Time, r.Time)
	}
	return cmp.Compare(m.Seq, r.Seq)
}

func (g *fakeGraph) Newest(of arrival.Tag, last arrival.Seq) (time.Time, bool, error) {
	page, err := g.Page(of, arrival.Span{Newest: true, Limit: 1, Last: last})
	if err != nil || len(page) == 0 {
		return time.Time{}, false, err
	}
	a, ok, err := g.Get(page[0].Seq)
	return a.Came, ok, err
}

func (g *fakeGraph) Get(at arrival.Seq) (Arrival, bool, error) {
	page, _, err := g.Read(at-1, 1)
	if len(page) == 0 || page[0].Seq != at {
		return Arrival{}, false, err
	}
	return page[0], true, nil
}

func (g *fakeGraph) Find(id string) (arrival.Mark, bool, error) {
	page, _, err := g.Read(0, 1<<30)
	for _, a := range page {
		if a.ID == id {
			return arrival.Mark{Seq: a.Seq, Time: a.Time.UnixMilli()}, true, nil
		}
	}
	return arrival.Mark{}, false, err
}

func (g *fakeGraph) Extent() (x arrival.Extent, err error) {
	page, _, err := g.Read(0, 1<<30)
	for i := range page {
		if _, err := privmsg.Decode(page[i].Content); err == nil {
			x.Messages++
			x.Bytes += uint64(len(page[i].Content))
		}
	}
	if len(page) > 0 {
		x.Since = page[0].Came
	}
	return x, err
}
