package relay

import (
	"errors"
	"fmt"
	"slices"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// counted is a whole relay's store, as Recount reads it.
type counted struct {
	have     totals
	tokens   map[index]token
	passes   map[index]passes
	accounts map[client]account
	leases   map[mailbox.LeaseID]lease
	rows     map[uint64]row // by number
	marks    map[named]mark
	batches  map[named]bool // what acknowledgements named
	sets     map[string]mailbox.LeaseID
	indexed  map[string]bool // keys of the indexes by expiry
	dedups   uint64
	windows  uint64
	ages     uint64
}

// Recount compares every counter and index of a relay's store with the rows, leases and
// registrations that are there (MB-39), and names the first difference. It reads the whole
// store: for tests, and for whoever doubts one. No request does that.
func Recount(store kv.Store) error {
	c := counted{
		tokens: map[index]token{}, passes: map[index]passes{}, accounts: map[client]account{}, leases: map[mailbox.LeaseID]lease{},
		rows: map[uint64]row{}, marks: map[named]mark{}, batches: map[named]bool{}, sets: map[string]mailbox.LeaseID{}, indexed: map[string]bool{},
	}
	if err := store.View(func(rd kv.Reader) error { return rd.Scan(kv.Scan{}, c.read) }); err != nil {
		return err
	}
	return c.check()
}

// into decodes a value into a table.
func into[K comparable, T any, R interface {
	*T
	record
}](m map[K]T, id K, b []byte) error {
	var v T
	err := R(&v).decode(b)
	m[id] = v
	return err
}

// keySizes are the bytes of keys.
var keySizes = map[byte]int{
	prefixTotals: 1, prefixKeyCheck: 1, prefixToken: 33, prefixPasses: 33, prefixClient: 33, prefixWindow: 33, prefixWindowAge: 41, prefixRow: rowKeySize,
	prefixDedup: 49, prefixLease: 17, prefixLeaseSet: 65, prefixRowExpiry: 41, prefixLeaseExp: 25, prefixTokenExp: 41, prefixDedupExp: 17,
}

func (c *counted) read(k, v []byte) error {
	if len(k) != keySizes[k[0]] {
		return fmt.Errorf("unknown key %x", k)
	}
	switch k[0] {
	case prefixTotals:
		return c.have.decode(v)
	case prefixKeyCheck:
		if len(v) != KeySize {
			return corrupt("key check")
		}
	case prefixToken:
		return into(c.tokens, index(k[1:]), v)
	case prefixPasses:
		return into(c.passes, index(k[1:]), v)
	case prefixClient:
		return into(c.accounts, client(k[1:]), v)
	case prefixLease:
		return into(c.leases, mailbox.LeaseID(k[1:]), v)
	case prefixDedup:
		return into(c.marks, named{Index: index(k[1:33]), Content: content(k[33:])}, v)
	case prefixLeaseSet:
		if len(v) != 16 {
			return corrupt("lease of a set")
		}
		c.sets[string(k[1:])] = mailbox.LeaseID(v)
	case prefixRow:
		var w row
		sealed, err := w.setValue(v)
		if err := errors.Join(err, w.setKey(k)); err != nil {
			return err
		}
		if uint64(len(sealed)) != w.Size+sealOverhead {
			return errors.New("a row is not of its size")
		}
		if _, ok := c.rows[w.Seq]; ok {
			return errors.New("two rows have one number")
		}
		c.rows[w.Seq] = w
	case prefixDedupExp:
		var b batch
		if err := b.decode(v); err != nil || len(b) == 0 {
			return corrupt("marks")
		}
		for _, n := range b {
			if c.batches[n] {
				return errors.New("a deposit was acknowledged twice")
			}
			c.batches[n] = true
		}
		c.dedups += uint64(len(b))
	case prefixWindow:
		c.windows++
	case prefixWindowAge:
		c.ages++
	default:
		c.indexed[string(k)] = true
	}
	return nil
}

func (c *counted) check() error {
	want := totals{Windows: c.windows, Dedups: c.dedups}
	indexed := map[string]bool{}
	tokens, accounts := map[index]token{}, map[client]account{}
	byRow := map[uint64]mailbox.LeaseID{}
	ids := map[mailbox.RowID]bool{}
	for seq, w := range c.rows {
		want.Rows++
		want.Bytes += w.Size
		t, a := tokens[w.Index], accounts[w.Owner]
		t.Rows, t.Bytes = t.Rows+1, t.Bytes+w.Size
		if t.Due == 0 || w.Expires < t.Due {
			t.Due = w.Expires
		}
		a.Rows, a.Bytes = a.Rows+1, a.Bytes+w.Size
		tokens[w.Index], accounts[w.Owner] = t, a
		if seq >= c.have.NextSeq || w.Expires > c.have.Latest || ids[w.ID] {
			return errors.New("a row is numbered ahead, expires after the latest, or has another's id")
		}
		ids[w.ID] = true
	}
	for id, l := range c.leases {
		indexed[string(key(prefixLeaseExp, be64(l.Expires), id[:]))] = true
		if l.Done {
			want.Acked++
			continue
		}
		want.Leases++
		a := accounts[l.Client]
		a.Leases = append(a.Leases, id)
		accounts[l.Client] = a
		for _, ix := range l.Tokens {
			t := tokens[ix]
			t.Leases = append(t.Leases, id)
			tokens[ix] = t
		}
		for _, held := range l.Rows {
			w, there := c.rows[held.Seq]
			gone := held.Gone
			held.Gone = false
			switch _, twice := byRow[held.Seq]; {
			case gone && there:
				return errors.New("a lease says that a row is gone that is there")
			case gone:
				continue
			case !there || w != held:
				return errors.New("a lease holds a row that is not there, or not like this")
			case twice:
				return errors.New("a row is in two leases")
			}
			byRow[held.Seq] = id
		}
	}
	for ix, list := range c.passes {
		t, last := tokens[ix], -1
		for _, p := range list {
			if w, ok := c.rows[p.Seq]; !ok || w.Index != ix || int(p.Seq) <= last || p.Pass == 0 {
				return errors.New("what came back is not there")
			}
			last = int(p.Seq)
			t.Passed++
			if p.Pass == passBoxed {
				t.Boxed++
			}
		}
		if len(list) == 0 {
			return errors.New("an empty list of what came back")
		}
		tokens[ix] = t
	}
	for key, id := range c.sets {
		if l, ok := c.leases[id]; !ok || l.Done || key != string(l.Client[:])+string(l.Set[:]) {
			return errors.New("a set of tokens is answered with a lease that is not its own")
		}
	}
	for n := range c.batches {
		if _, there := c.rows[n.Seq]; there {
			return errors.New("an acknowledged deposit is still there")
		}
	}
	for n, m := range c.marks {
		w, ok := c.rows[m.Seq]
		switch n.Seq = m.Seq; {
		case !ok && !c.batches[n]:
			return errors.New("a mark is never forgotten")
		case ok && (w.Index != n.Index || w.Content != n.Content || w.Expires != m.Expires || w.ID != m.ID):
			return errors.New("a mark is not of its row")
		}
	}
	if err := c.checkTokens(tokens, accounts, indexed, &want); err != nil {
		return err
	}
	if err := c.checkAccounts(accounts); err != nil {
		return err
	}
	for k := range c.indexed {
		if !indexed[k] {
			return fmt.Errorf("nothing leads to the index entry %x", k)
		}
	}
	if len(c.indexed) != len(indexed) || c.ages != c.windows {
		return fmt.Errorf("%d index entries, %d are due; %d windows, %d ages", len(c.indexed), len(indexed), c.windows, c.ages)
	}
	want.NextSeq, want.Latest = c.have.NextSeq, c.have.Latest
	want.WindowStart, want.WindowCount = c.have.WindowStart, c.have.WindowCount
	if c.have != want {
		return fmt.Errorf("totals are %+v, recounted %+v", c.have, want)
	}
	return nil
}

// checkTokens compares the tokens with what was counted for them, counts registrations,
// and notes what the indexes must hold.
func (c *counted) checkTokens(counted map[index]token, accounts map[client]account, indexed map[string]bool, want *totals) error {
	for ix := range counted {
		if _, ok := c.tokens[ix]; !ok {
			return errors.New("rows or leases are under a token that is not there")
		}
	}
	for ix, t := range c.tokens {
		n := counted[ix]
		if t.Expires != 0 {
			want.Tokens++
			a := accounts[t.Client]
			a.Tokens++
			accounts[t.Client] = a
			indexed[string(key(prefixTokenExp, be64(t.Expires), ix[:]))] = true
		}
		if t.Due != 0 {
			indexed[string(key(prefixRowExpiry, be64(t.Due), ix[:]))] = true
		}
		if (t.Due == 0) != (n.Due == 0) || t.Due > n.Due {
			return fmt.Errorf("a token's rows are looked at from %d on, one expires at %d", t.Due, n.Due)
		}
		if t.Rows != n.Rows || t.Bytes != n.Bytes || t.Passed != n.Passed || t.Boxed != n.Boxed || !sameLeases(t.Leases, n.Leases) {
			return fmt.Errorf("a token counts %+v; there is %+v", t, n)
		}
	}
	return nil
}

func (c *counted) checkAccounts(counted map[client]account) error {
	for id := range counted {
		if _, ok := c.accounts[id]; !ok {
			return errors.New("something is of a client that is not there")
		}
	}
	for id, a := range c.accounts {
		n := counted[id]
		if a.Rows != n.Rows || a.Bytes != n.Bytes || a.Tokens != n.Tokens || !sameLeases(a.Leases, n.Leases) {
			return fmt.Errorf("a client counts %+v; there is %+v", a, n)
		}
	}
	return nil
}

func sameLeases(a, b []mailbox.LeaseID) bool {
	cmp := func(a, b mailbox.LeaseID) int { return slices.Compare(a[:], b[:]) }
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, cmp)
	slices.SortFunc(b, cmp)
	return slices.Equal(a, b)
}
