package relay

import (
	"io"

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
	mark := s.bytes(key(prefixDedup, ix[:], content[:]))
	if mark != nil && s.liveMark(mark) {
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
	var id mailbox.RowID
	if !s.fresh(random, id[:], prefixRow) {
		return RefusedInternal
	}
	sealed, err := seal.seal(random, id, ix, raw)
	if err != nil {
		s.fail(err)
		return RefusedInternal
	}
	if len(mark) == markSize { // its time is over, and the row takes its place
		s.forgetMark(key(prefixDedupExp, mark, ix[:], content[:]))
	}
	s.addRow(id, &row{
		Index: ix, Owner: c, Content: content, Size: size,
		Expires: s.now + uint64(s.limits.EnvelopeTTL.Seconds()),
	}, sealed)
	return Accepted
}

// markSize is the bytes of the mark of an acknowledged envelope, a time; that of a live one
// is a row id.
const markSize = 8

// liveMark tells whether a deduplication mark still stands: a row that has not
// expired, or an acknowledged envelope within its hour.
func (s *state) liveMark(mark []byte) bool {
	if len(mark) == markSize { // the time until which an acknowledged one is remembered
		return !s.over(beTime(mark), profile.DedupTTL)
	}
	var r row
	return s.get(key(prefixRow, mark), &r, "row") && r.Expires > s.now
}

func beTime(b []byte) uint64 { return keyTime(append([]byte{0}, b...)) }

// fresh fills id with random bytes that name nothing yet and are not zero.
func (s *state) fresh(random io.Reader, id []byte, prefix byte) bool {
	for range 4 {
		if _, err := io.ReadFull(random, id); err != nil {
			s.fail(err)
			return false
		}
		zero := true
		for _, c := range id {
			zero = zero && c == 0
		}
		if !zero && s.bytes(key(prefix, id)) == nil {
			return s.err == nil
		}
	}
	s.fail(errRandom)
	return false
}
