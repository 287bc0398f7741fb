package relay

import (
	"bytes"
	"testing"

	"hearsay/mailbox"
)

// TestMissAndRefusalLookAlike (MB-05; mailbox-wire 2): whoever gets no page learns nothing about why:
// the answer is the same, byte for byte, for an empty mailbox, for somebody else's, past a
// budget, past the bound of leases, and for who is not allowed.
func TestMissAndRefusalLookAlike(t *testing.T) {
	want, err := (&mailbox.Response{Lease: &mailbox.Page{Rows: []mailbox.Row{}}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	fill := func(r *rig) {
		r.lease("bob", t1, t2)
		r.put("alice", t1, "1")
		r.put("alice", t2, "2")
	}
	for name, c := range map[string]struct {
		limits Limits
		before func(*rig)
		tokens []mailbox.Token
	}{
		"empty":          {Limits{}, func(*rig) {}, []mailbox.Token{t1}},
		"somebody's":     {Limits{}, func(r *rig) { r.lease("carol", t1); r.put("alice", t1, "x") }, []mailbox.Token{t1}},
		"over budget":    {Limits{ClientRequests: 3}, func(r *rig) { fill(r); r.lease("bob", t3); r.lease("bob", t3) }, []mailbox.Token{t1}},
		"relay's budget": {Limits{RelayRequests: 3}, fill, []mailbox.Token{t1}},
		"leases":         {Limits{ClientLeases: 1}, func(r *rig) { fill(r); r.lease("bob", t1) }, []mailbox.Token{t2}},
		"a token's":      {Limits{TokenLeases: 1, PageRows: 1}, func(r *rig) { fill(r); r.put("alice", t1, "3"); r.lease("bob", t1) }, []mailbox.Token{t1, t3}},
		"relay's leases": {Limits{RelayLeases: 1}, func(r *rig) { fill(r); r.lease("bob", t1) }, []mailbox.Token{t2}},
		"not allowed":    {Limits{}, func(r *rig) { fill(r); r.cfg.Allow = func([]byte) bool { return false } }, []mailbox.Token{t1}},
		"too many":       {Limits{RequestTokens: 1}, func(r *rig) { r.lease("bob", t1); r.put("alice", t1, "1") }, []mailbox.Token{t1, t2}},
	} {
		r := newRig(t, c.limits)
		c.before(r)
		resp := r.do("bob", mailbox.Request{Lease: &mailbox.Lease{Tokens: c.tokens}})
		got, err := resp.Encode()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %x, %v", name, got, err)
		}
	}
}
