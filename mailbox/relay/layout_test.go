package relay

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// TestOldSchema: a store of the layout before is refused with what it is and what
// is asked for, and nothing in it changes.
func TestOldSchema(t *testing.T) {
	o := kv.Options{Dir: filepath.Join(t.TempDir(), StoreName), Kind: "relay", Schema: 1}
	old, err := kv.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	o.Schema = Schema
	_, err = kv.Open(o)
	if !errors.Is(err, kv.ErrSchema) || !strings.Contains(err.Error(), "schema 1") {
		t.Errorf("a store of schema 1: %v", err)
	}
	o.Schema = 1
	if old, err = kv.Open(o); err != nil {
		t.Fatal(err)
	}
	_ = old.Close()
}

// countingStore counts what its transactions write and read one by one.
type countingStore struct {
	kv.Store
	sets, dels, gets int
}

type countingTxn struct {
	kv.Txn
	c *countingStore
}

func (c *countingStore) Update(op kv.Op, fn func(kv.Txn) error) error {
	return c.Store.Update(op, func(tx kv.Txn) error { return fn(countingTxn{tx, c}) })
}

func (t countingTxn) Set(k, v []byte) error        { t.c.sets++; return t.Txn.Set(k, v) }
func (t countingTxn) Delete(k []byte) error        { t.c.dels++; return t.Txn.Delete(k) }
func (t countingTxn) Get(k []byte) ([]byte, error) { t.c.gets++; return t.Txn.Get(k) }

// TestWhatAPageWrites (MB-23): a full page is leased with a handful of writes and reads,
// however many rows it has; its acknowledgement deletes each row, and writes a handful more.
func TestWhatAPageWrites(t *testing.T) {
	r := newRig(t, Limits{})
	c := &countingStore{Store: kv.OpenMemory()}
	r.store = c
	r.open(Limits{})
	r.must("bob", mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{t1}}})
	for i := range mailbox.MaxPageRows {
		r.must("alice", mailbox.Request{Deposit: &mailbox.Deposit{Envelope: envelope(t1, fmt.Sprint(i))}})
	}
	const few = 16
	c.sets, c.dels, c.gets = 0, 0, 0
	p := r.lease("bob", t1)
	if len(p.Rows) != mailbox.MaxPageRows || c.sets+c.dels+c.gets > few {
		t.Errorf("a lease of %d rows: %d writes, %d deletions, %d reads", len(p.Rows), c.sets, c.dels, c.gets)
	}
	c.sets, c.dels, c.gets = 0, 0, 0
	r.ackRows("bob", p.LeaseID, ids(p)...)
	if c.dels < mailbox.MaxPageRows || c.dels > mailbox.MaxPageRows+few || c.sets+c.gets > few {
		t.Errorf("its acknowledgement: %d writes, %d deletions, %d reads", c.sets, c.dels, c.gets)
	}
}

// TestMarksOfAPage (MB-28): the bound holds inside of one acknowledgement too; the oldest
// of an earlier one go first; one that lies too far ahead is over, swept or not.
func TestMarksOfAPage(t *testing.T) {
	r := newRig(t, Limits{DedupRows: 3})
	r.lease("bob", t1)
	collect := func(texts ...string) {
		for _, s := range texts {
			r.put("alice", t1, s)
		}
		p := r.lease("bob", t1)
		if len(p.Rows) != len(texts) || !r.ackRows("bob", p.LeaseID, ids(p)...) {
			t.Fatalf("a page of %d rows", len(p.Rows))
		}
	}
	remembered := func(s string) bool {
		before, _ := r.Stats()
		r.put("alice", t1, s)
		after, _ := r.Stats()
		return before.Rows == after.Rows
	}
	collect("a", "b", "c", "d") // one more than are remembered
	collect("e", "f")           // two of them make room
	for s, want := range map[string]bool{"a": false, "b": false, "c": false, "d": true, "e": true, "f": true} {
		if remembered(s) != want {
			t.Errorf("%s is remembered: %t", s, !want)
		}
	}
	if st, _ := r.Stats(); st.Remembered != 3 {
		t.Errorf("%d are remembered", st.Remembered)
	}
	r.pass(-2 * time.Hour)
	if remembered("f") {
		t.Error("a mark of the future stands")
	}
}

// TestClampOfAHeldRow (MB-37, MB-50): of two rows of a token, one was made while the clock ran ten days
// ahead. The sweep finds it behind the other, shortens it while a lease holds it, and the
// lease goes on: the same page, a repeat that is recognised, an acknowledgement.
func TestClampOfAHeldRow(t *testing.T) {
	r := newRig(t, Limits{})
	r.lease("bob", t1)
	r.put("alice", t1, "first")
	r.pass(10 * 24 * time.Hour)
	r.put("alice", t1, "ahead")
	r.pass(-10 * 24 * time.Hour)
	p := r.lease("bob", t1)
	if len(p.Rows) != 2 {
		t.Fatalf("a page of %d rows", len(p.Rows))
	}
	r.pass(time.Second)
	for more := true; more; {
		var err error
		if more, err = r.Sweep(); err != nil {
			t.Fatal(err)
		}
		r.checkInvariants()
	}
	for _, w := range storedRows(t, r.store) {
		if life := w.Expires - seconds(r.now); life > 30*24*60*60 {
			t.Errorf("a row lasts %d s", life)
		}
	}
	if again := r.lease("bob", t1); again.LeaseID != p.LeaseID || !slices.Equal(texts(t, again), []string{"first", "ahead"}) {
		t.Errorf("the page is now %q", texts(t, again))
	}
	if !r.put("alice", t1, "ahead") || !r.ackRows("bob", p.LeaseID, ids(p)...) {
		t.Error("refused after the sweep")
	}
	if st, _ := r.Stats(); st.Rows != 0 {
		t.Errorf("%d rows are left", st.Rows)
	}
}

// TestPagesOfLargeTokens (MB-23, MB-36): the page is the same whether the rows of a token
// are read with it or, being more than a page, by their keys; what came back is behind.
func TestPagesOfLargeTokens(t *testing.T) {
	size := len(envelope(t1, "00"))
	var want [][]string
	for i, bytes := range []int{mailbox.MaxPageBytes, 4 * size} {
		r := newRig(t, Limits{PageRows: 3, PageBytes: bytes})
		r.lease("bob", t1)
		for i := range 7 {
			r.put("alice", t1, fmt.Sprintf("%02d", i))
		}
		var got [][]string
		for range 3 {
			p := r.lease("bob", t1)
			got = append(got, texts(t, p))
			r.ackRows("bob", p.LeaseID, ids(p)[1:]...) // the first stays
			r.pass(leaseTTL)
		}
		if want == nil {
			want = [][]string{{"00", "01", "02"}, {"03", "04", "05"}, {"06", "00", "03"}}
		}
		if !slices.EqualFunc(got, want, slices.Equal[[]string]) {
			t.Errorf("way %d: pages %q, want %q", i, got, want)
		}
	}
}

// TestMarkOfALaterRow (MB-04): an envelope that expired and was deposited again before the
// sweep: the sweep, and the acknowledgement of both, leave the mark of the later one.
func TestMarkOfALaterRow(t *testing.T) {
	r := newRig(t, Limits{EnvelopeTTL: time.Minute})
	r.lease("bob", t1)
	for range 2 {
		r.put("alice", t1, "same")
		r.pass(time.Minute)
	}
	r.put("alice", t1, "same")
	if st, _ := r.Stats(); st.Rows != 3 {
		t.Fatalf("%d rows, two of them expired", st.Rows)
	}
	for range 2 {
		if _, err := r.Sweep(); err != nil {
			t.Fatal(err)
		}
		r.put("alice", t1, "same")
		if st, _ := r.Stats(); st.Rows != 1 {
			t.Fatalf("%d rows: the repeat of a row that waits is a new one", st.Rows)
		}
	}
	p := r.lease("bob", t1)
	r.ackRows("bob", p.LeaseID, ids(p)...)
	r.pass(2 * time.Minute)
	r.put("alice", t1, "same")
	if st, _ := r.Stats(); st.Rows != 0 {
		t.Error("an acknowledged envelope is forgotten with the expiry of its row")
	}
}
