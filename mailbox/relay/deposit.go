package relay

import (
	"io"
	"slices"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// deposit takes custody of an envelope, or says why not. In order: a registered
// token, the repeat of a known envelope, every quota, then the row (MB-01 to
// MB-05, MB-28). The reason stays inside; the wire says accepted or not.
func (s *state) deposit(seal *sealer, random io.Reader, c client, raw []byte, drain bool) Outcome {
	env, err := mailbox.ParseEnvelope(raw)
	if err != nil {
		return RefusedMalformed
	}
	ix := seal.index(env.Token)
	t := s.token(ix)
	if t.Expires <= s.now {
		return RefusedUnregistered
	}
	content := seal.content(raw)
	var m mark
	if s.get(key(prefixDedup, ix[:], content[:]), &m, "mark") && s.stands(ix, uint64(len(raw)), &m) {
		return Accepted
	}
	size, a := uint64(len(raw)), s.account(c)
	switch {
	case drain:
		return RefusedDraining
	case a.Rows >= uint64(s.limits.ClientRows), a.Bytes+size > uint64(s.limits.ClientBytes):
		return RefusedClientQuota
	case t.Rows >= uint64(s.limits.TokenRows), t.Bytes+size > uint64(s.limits.TokenBytes):
		return RefusedTokenQuota
	case s.totals.Rows >= uint64(s.limits.RelayRows), s.totals.Bytes+size > uint64(s.limits.RelayBytes):
		return RefusedFull
	}
	r := row{
		Index: ix, Owner: c, Content: content, Size: size,
		Expires: s.now + wholeSeconds(s.limits.EnvelopeTTL),
	}
	if !s.random(random, r.ID[:]) {
		return RefusedInternal
	}
	sealed, err := seal.seal(random, r.ID, ix, raw)
	if err != nil {
		s.fail(err)
		return RefusedInternal
	}
	s.addRow(&r, sealed) // its mark takes the place of one whose time is over
	return Accepted
}

// stands tells whether a mark still does: its row has not expired or, if it is gone, was
// acknowledged within the hour.
func (s *state) stands(ix index, size uint64, m *mark) bool {
	r := row{Index: ix, Seq: m.Seq, Expires: m.Expires, Size: size, ID: m.ID}
	if s.bytes(r.key()) != nil {
		return m.Expires > s.now
	}
	return !s.forgotten(m.Seq)
}

// forgotten tells whether an acknowledged deposit is in a batch that is over and not yet
// swept. There are few of these at a time.
func (s *state) forgotten(seq uint64) (found bool) {
	for _, sc := range []kv.Scan{
		{Prefix: []byte{prefixDedupExp}},
		{Prefix: []byte{prefixDedupExp}, Start: key(prefixDedupExp, be64(s.now+wholeSeconds(profile.DedupTTL)+1))},
	} {
		if s.err != nil {
			return false
		}
		s.fail(s.tx.Scan(sc, func(k, v []byte) error {
			if !s.over(keyTime(k), profile.DedupTTL) {
				return kv.ErrStop
			}
			var b batch
			if b.decode(v) != nil {
				return corrupt("marks")
			}
			found = found || slices.ContainsFunc(b, func(n named) bool { return n.Seq == seq })
			return nil
		}))
	}
	return found
}

func beTime(b []byte) uint64 { return keyTime(append([]byte{0}, b...)) }

// random fills id with random bytes that are not all zero. So many of them name nothing
// else.
func (s *state) random(random io.Reader, id []byte) bool {
	for range 4 {
		if _, err := io.ReadFull(random, id); err != nil {
			s.fail(err)
			return false
		}
		for _, c := range id {
			if c != 0 {
				return s.err == nil
			}
		}
	}
	s.fail(errRandom)
	return false
}

// freshLease makes an id that names no lease yet.
func (s *state) freshLease(random io.Reader) (id mailbox.LeaseID, ok bool) {
	for range 4 {
		if !s.random(random, id[:]) {
			return id, false
		}
		if s.lease(id) == nil {
			return id, s.err == nil
		}
	}
	s.fail(errRandom)
	return id, false
}
