package arrival

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// tagged enters a message of a conversation that is shown with a time.
func (r *rig) tagged(tag byte, slot eventgraph.Slot, at int64) Seq {
	r.Helper()
	r.graph++
	ev := event(slot, fmt.Sprint("m", r.graph))
	a := eventgraph.Arrival{Seq: r.graph, Slot: slot, Source: eventgraph.SourcePut, Time: time.UnixMilli(1e6 + int64(r.graph)), Event: ev}
	place := Place{Tag: Tag{tag}, Time: at, Size: 7}
	if err := r.Ingest([]eventgraph.Arrival{a}, func(*eventgraph.Arrival) (Place, bool) { return place, true }); err != nil {
		r.Fatal(err)
	}
	r.check()
	last, err := r.Last()
	if err != nil {
		r.Fatal(err)
	}
	return last
}

// modelPage is what Page promises, in the plainest way.
func modelPage(index []Mark, sp Span) []Mark {
	side := func(m Mark, r Ref) int {
		if r.Timed {
			return cmp.Compare(m.Time, r.Time)
		}
		return cmp.Compare(m.Seq, r.Seq)
	}
	in := slices.DeleteFunc(slices.Clone(index), func(m Mark) bool {
		return !sp.After.IsZero() && side(m, sp.After) <= 0 || !sp.Before.IsZero() && side(m, sp.Before) >= 0 || sp.Last != 0 && m.Seq > sp.Last
	})
	timed := sp.After.Timed || sp.Before.Timed
	if timed {
		slices.SortStableFunc(in, func(a, b Mark) int { return cmp.Compare(a.Time, b.Time) })
	}
	if sp.Newest {
		slices.Reverse(in)
	}
	if len(in) > sp.Limit {
		next := in[sp.Limit].Time
		in = in[:sp.Limit]
		if timed && in[0].Time != next {
			in = slices.DeleteFunc(in, func(m Mark) bool { return m.Time == next })
		}
	}
	slices.SortFunc(in, func(a, b Mark) int { return cmp.Compare(a.Seq, b.Seq) })
	return in
}

// TestPage: every span over conversations with late messages and equal times is what the model says.
func TestPage(t *testing.T) {
	r := newRig(t)
	index := map[byte][]Mark{}
	for i := range 60 {
		tag, at := byte(1+i%3), int64((i*37)%25)
		index[tag] = append(index[tag], Mark{r.tagged(tag, 1000, at), at})
	}
	rapid.Check(t, func(t *rapid.T) {
		ref := func(name string) Ref {
			switch rapid.IntRange(0, 2).Draw(t, name) {
			case 0:
				return Ref{}
			case 1:
				return Ref{Seq: Seq(rapid.IntRange(1, 62).Draw(t, "seq"))}
			}
			return Ref{Time: int64(rapid.IntRange(-1, 26).Draw(t, "time")), Timed: true}
		}
		sp := Span{
			After: ref("after"), Before: ref("before"), Newest: rapid.Bool().Draw(t, "newest"),
			Limit: rapid.IntRange(1, 25).Draw(t, "limit"), Last: Seq(rapid.IntRange(0, 61).Draw(t, "last")),
		}
		tag := byte(rapid.IntRange(1, 3).Draw(t, "tag"))
		got, err := r.Page(Tag{tag}, sp)
		if want := modelPage(index[tag], sp); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%+v: got %v, want %v, %v", sp, got, want, err)
		}
	})
}

// TestPagingReachesTheFirst: from the newest message to the first, page by page, each message
// once, by place and by time, where several have one time too. A page that is all of one time cannot
// end between two: there the limit wins.
func TestPagingReachesTheFirst(t *testing.T) {
	r := newRig(t)
	for i := range 100 {
		r.tagged(1, 1000, int64(1000-(i/4)%20)) // up to 8 of one time
		r.tagged(2, 1000, 5)
	}
	for _, timed := range []bool{false, true} {
		for _, limit := range []int{1, 7, 8, 9, 99, 100, 101} {
			if timed && limit < 8 {
				continue
			}
			seen := map[Seq]bool{}
			for before, pages := (Ref{Time: 1 << 40, Timed: timed}), 0; ; pages++ {
				if !timed && pages == 0 {
					before = Ref{}
				}
				page, err := r.Page(Tag{1}, Span{Before: before, Newest: true, Limit: limit})
				if err != nil || len(page) > limit || pages > 101 {
					t.Fatal(len(page), pages, err)
				}
				if len(page) == 0 {
					break
				}
				before.Seq = page[0].Seq
				oldest := page[0].Time
				for _, m := range page {
					if seen[m.Seq] {
						t.Fatalf("limit %d: %v twice", limit, m)
					}
					seen[m.Seq], oldest = true, min(oldest, m.Time)
				}
				if timed {
					before = Ref{Time: oldest, Timed: true}
				}
			}
			if len(seen) != 100 {
				t.Errorf("limit %d, timed %t: %d messages", limit, timed, len(seen))
			}
		}
	}
	if got, err := r.Page(Tag{}, Span{Limit: 1}); err != nil || got != nil {
		t.Error(got, err)
	}
	if got, err := r.Page(Tag{1}, Span{}); err != nil || got != nil {
		t.Error(got, err)
	}
}

// TestPlacesGoWithTheirRows: what is cancelled, pruned or no longer kept is in no page, and not counted;
// mail stays longer than the graph.
func TestPlacesGoWithTheirRows(t *testing.T) {
	r := newRig(t)
	r.tagged(1, 1000, 10)
	kept := r.tagged(1, 2000, 9)
	mail := func(id byte, at int64) {
		r.tx(func(tx kv.Txn) error {
			_, err := r.AppendMail(tx, Origin{ID: ID{id}}, [32]byte{id}, Place{Tag: Tag{1}, Time: at, Size: 3})
			return err
		})
	}
	mail(7, 1)
	mail(8, 1e15) // its author's clock is wrong
	r.tx(func(tx kv.Txn) error {
		return r.AppendOwn(tx, ID{1}, 1, time.UnixMilli(4000), Place{Tag: Tag{1}, Time: 77, Notice: true, Size: 2})
	})
	count := func(wantMarks string, messages, bytes uint64) {
		t.Helper()
		marks, err := r.Page(Tag{1}, Span{Limit: 10})
		x, xerr := r.Extent()
		if got := fmt.Sprint(marks); got != wantMarks || x.Messages != messages || x.Bytes != bytes || err != nil || xerr != nil {
			t.Errorf("%v %+v %v %v", got, x, err, xerr)
		}
	}
	count("[{1 10} {2 9} {3 1} {4 5000} {5 4000}]", 5, 22)
	if row, ok, err := r.Row(5); !row.Place.Notice || !ok || err != nil {
		t.Errorf("%+v %v", row, err)
	}
	if _, err := r.Prune(2000, nil); err != nil {
		t.Fatal(err)
	}
	r.tx(func(tx kv.Txn) error { return r.RemoveOwn(tx, ID{1}) })
	r.tx(func(tx kv.Txn) error { return r.RemoveMail(tx, ID{7}) })
	r.check()
	r.reopen()
	count("[{2 9} {4 5000}]", 2, 10)
	if came, ok, err := r.Newest(Tag{1}, kept); !ok || err != nil || came.UnixMilli() != 1e6+2 {
		t.Error(came, ok, err)
	}
	if _, ok, err := r.Newest(Tag{2}, 0); ok || err != nil {
		t.Error(ok, err)
	}
	if _, ok, err := r.Row(1); ok || err != nil {
		t.Error(ok, err)
	}
}

// TestOldStoreGetsPlaces: rows from before there were places get theirs when the graph is read again,
// once; with the keys noted, they are not looked at any more.
func TestOldStoreGetsPlaces(t *testing.T) {
	r := newRig(t)
	r.arrive(1000, "a")
	own := event(1000, "b")
	r.tx(func(tx kv.Txn) error {
		return errors.Join(r.AppendOwn(tx, ID{1}, 1, time.UnixMilli(42), Place{}), r.OwnGeneration(tx, ID{1}, 1000, &own))
	})
	page := func() string {
		t.Helper()
		marks, err := r.Page(Tag{3}, Span{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(marks)
	}
	again := func() {
		t.Helper()
		a, b := event(1000, "a"), own
		if err := r.Ingest([]eventgraph.Arrival{{Seq: 1, Slot: 1000, Event: a}, {Seq: 2, Slot: 1000, Event: b}},
			func(*eventgraph.Arrival) (Place, bool) { return Place{Tag: Tag{3}, Time: 99}, true }); err != nil {
			t.Fatal(err)
		}
		r.check()
	}
	if got := page(); got != "[]" {
		t.Error(got)
	}
	again()
	again()
	if got := page(); got != "[{1 99} {2 42}]" {
		t.Error(got)
	}
	if err := r.SetKeys([16]byte{1}); err != nil {
		t.Fatal(err)
	}
	r.reopen()
	if keys, err := r.Keys(); keys != [16]byte{1} || err != nil {
		t.Error(keys, err)
	}
	r.arrive(1000, "c")
	again()
	if got := page(); got != "[{1 99} {2 42}]" {
		t.Error(got)
	}
}

// TestRowsWithoutPlaces: what a store from before there were places holds reads as it was, and a place
// with unknown flags does not (ST-04).
func TestRowsWithoutPlaces(t *testing.T) {
	row := Row{Kind: Foreign, At: 1, Hash: [32]byte{2}, Place: Place{Tag: Tag{3}, Size: 4}}
	body, err := kv.OpenRecord(row.encode())
	if err != nil {
		t.Fatal(err)
	}
	var got Row
	row.Place = Place{}
	if err := got.decode(kv.SealRecord(body[:len(body)-29])); err != nil || fmt.Sprint(got) != fmt.Sprint(row) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range [][]byte{body[:len(body)-1], append(slices.Clone(body[:len(body)-1]), 2)} {
		if err := new(Row).decode(kv.SealRecord(bad)); !errors.Is(err, kv.ErrCorrupt) {
			t.Error(err)
		}
	}
	m := meta{last: 3, direct: 4}
	if body, err = kv.OpenRecord(m.encode()); err != nil {
		t.Fatal(err)
	}
	var old meta
	if err := old.decode(kv.SealRecord(body[:len(body)-32])); err != nil || old != m {
		t.Errorf("%+v, %v", old, err)
	}
	r := newRig(t)
	for _, k := range [][]byte{key(tableTag, make([]byte, 17)), key(tableTime, make([]byte, 17))} {
		k[2], k[18] = 1, 0xff
		if err := r.store.Update(opIngest, func(tx kv.Txn) error { return tx.Set(k, nil) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, sp := range []Span{{Limit: 1}, {Limit: 1, After: Ref{Timed: true}}} {
		if _, err := r.Page(Tag{1}, sp); !errors.Is(err, kv.ErrCorrupt) {
			t.Error(err)
		}
	}
}

// checkPlaces recounts: each row with a tag is in both orders, under its time, and nothing else is.
func (r *rig) checkPlaces(rd kv.Reader, m meta, rows map[Seq]Row) error {
	n, bytes := uint64(0), uint64(0)
	for s, row := range rows {
		if row.Place.Tag == (Tag{}) {
			continue
		}
		n++
		bytes += uint64(row.Place.Size)
		when := be(uint64(row.Place.Time))
		v, err := rd.Get(key(tableTag, row.Place.Tag[:], be(uint64(s))))
		if err != nil || binary.BigEndian.Uint64(v) != uint64(row.Place.Time) {
			return fmt.Errorf("row %d is not in its conversation: %w", s, err)
		}
		if _, err := rd.Get(key(tableTime, row.Place.Tag[:], when, be(uint64(s)))); err != nil {
			return fmt.Errorf("row %d is not under its time: %w", s, err)
		}
	}
	found := uint64(0)
	for _, table := range []byte{tableTag, tableTime} {
		if err := rd.Scan(kv.Scan{Prefix: key(table), KeysOnly: true}, func([]byte, []byte) error { found++; return nil }); err != nil {
			return err
		}
	}
	if found != 2*n || m.messages != n || m.bytes != bytes {
		return fmt.Errorf("%d places of %d rows; counted %d, %d bytes of %d", found, n, m.messages, m.bytes, bytes)
	}
	return nil
}
