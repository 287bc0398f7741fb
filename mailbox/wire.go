package mailbox

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// Octets is a byte string that the wire writes as an array of unsigned integers
// (spec/mailbox.md, codec).
type Octets []byte

// Requests. Exactly one field of a Request is set.
type (
	// Request is a map with one entry: the variant's name to its fields.
	Request struct {
		Deposit    *Deposit    `cbor:"Deposit,omitempty"`
		Lease      *Lease      `cbor:"Lease,omitempty"`
		AckLease   *AckLease   `cbor:"AckLease,omitempty"`
		Info       *Info       `cbor:"Info,omitempty"`       // extension
		RefuseRows *RefuseRows `cbor:"RefuseRows,omitempty"` // extension
		// ClaimTokens is an extension.
		ClaimTokens *ClaimTokens `cbor:"ClaimTokens,omitempty"`
	}
	// Deposit asks the relay to keep an envelope.
	Deposit struct {
		Envelope Octets `cbor:"envelope"`
	}
	// Lease registers tokens, or refreshes them, and asks for a page of their rows.
	Lease struct {
		Tokens []Token `cbor:"tokens"`
	}
	// AckLease names the rows of a lease that are durable at the recipient.
	AckLease struct {
		LeaseID LeaseID `cbor:"lease_id"`
		RowIDs  []RowID `cbor:"row_ids"`
	}
	// Info asks for what a relay publishes (MB-33).
	Info struct{}
	// RefuseRows says why rows of a lease are not taken. It deletes nothing (MB-14).
	RefuseRows struct {
		LeaseID LeaseID      `cbor:"lease_id"`
		RowIDs  []RowID      `cbor:"row_ids"`
		Reason  RefuseReason `cbor:"reason"`
	}
	// ClaimTokens registers tokens for the client, those included that another client
	// has registered, by proof that it can derive them (MB-29).
	ClaimTokens struct {
		Proofs []Proof `cbor:"proofs"`
	}
)

// Extension tells whether the request is one of ProtocolHearsay alone.
func (r *Request) Extension() bool {
	return r.Info != nil || r.RefuseRows != nil || r.ClaimTokens != nil
}

// Responses. Exactly one field of a Response is set: the one of the request.
type (
	// Response is a map with one entry: the variant's name to its fields.
	Response struct {
		Deposit    *Accepted  `cbor:"Deposit,omitempty"`
		Lease      *Page      `cbor:"Lease,omitempty"`
		AckLease   *Accepted  `cbor:"AckLease,omitempty"`
		Info       *RelayInfo `cbor:"Info,omitempty"`
		RefuseRows *Accepted  `cbor:"RefuseRows,omitempty"`
		// ClaimTokens: whether all the tokens are now the client's.
		ClaimTokens *Accepted `cbor:"ClaimTokens,omitempty"`
	}
	// Accepted says yes, or an uninformative no.
	Accepted struct {
		Accepted bool `cbor:"accepted"`
	}
	// Page is a lease: its id, when it ends, and the rows held under it. A miss and a
	// refusal look alike: not serving, everything else zero.
	Page struct {
		Serving   bool    `cbor:"serving"`
		LeaseID   LeaseID `cbor:"lease_id"`
		ExpiresAt uint64  `cbor:"expires_at"` // s since the UNIX epoch, by the relay's clock
		Rows      []Row   `cbor:"rows"`
	}
	// Row is one leased envelope.
	Row struct {
		RowID    RowID  `cbor:"row_id"`
		Envelope Octets `cbor:"envelope"`
	}
	// RelayInfo is what a relay publishes, and the asking client's own standing.
	RelayInfo struct {
		Version         string `cbor:"version"`
		Contact         string `cbor:"contact"`
		Policy          string `cbor:"policy"`
		EnvelopeSeconds uint64 `cbor:"envelope_seconds"`
		TokenSeconds    uint64 `cbor:"registration_seconds"`
		LeaseSeconds    uint64 `cbor:"lease_seconds"`
		CapacityItems   uint64 `cbor:"capacity_items"`
		CapacityBytes   uint64 `cbor:"capacity_bytes"`
		UsedItems       uint64 `cbor:"used_items"`
		UsedBytes       uint64 `cbor:"used_bytes"`
		ClientTokens    uint64 `cbor:"client_tokens"`
		ClientRows      uint64 `cbor:"client_rows"`
		MaxClientTokens uint64 `cbor:"max_client_tokens"`
		RequestsAMinute uint64 `cbor:"requests_a_minute"`
		Draining        bool   `cbor:"draining"`
		Claims          bool   `cbor:"claims"` // ClaimTokens is served
	}
)

// A RefuseReason is why a recipient does not take a row: a closed list.
type RefuseReason uint8

// Reasons.
const (
	RefuseMalformed RefuseReason = iota + 1 // not an envelope, or under another token
	RefuseUnopened                          // no key of ours opens it
	RefuseOverQuota                         // the inbox is full
)

// encMode writes structs in field order, integers in their shortest form.
var encMode = must(cbor.EncOptions{
	Sort:          cbor.SortNone,
	IndefLength:   cbor.IndefLengthForbidden,
	TagsMd:        cbor.TagsForbidden,
	NilContainers: cbor.NilContainerAsEmpty,
	ShortestFloat: cbor.ShortestFloatNone,
}.EncMode())

// decMode refuses what the re-encoding comparison would refuse anyway, before it
// allocates for it.
var decMode = must(cbor.DecOptions{
	DupMapKey:         cbor.DupMapKeyEnforcedAPF,
	IndefLength:       cbor.IndefLengthForbidden,
	TagsMd:            cbor.TagsForbidden,
	ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
	FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
	MaxNestedLevels:   8,
	MaxArrayElements:  MaxEnvelope,
	MaxMapPairs:       32,
	UTF8:              cbor.UTF8RejectInvalid,
}.DecMode())

func must[T any](v T, err error) T {
	if err != nil {
		panic("mailbox: codec options: " + err.Error())
	}
	return v
}

// Encode is the canonical encoding. It fails with ErrTooLarge past MaxRequest
// bytes, and with ErrMalformed where the request breaks a rule of its own.
func (r *Request) Encode() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	return encode(r, MaxRequest)
}

// Encode is the canonical encoding. It fails as Request's does, past MaxResponse.
func (r *Response) Encode() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	return encode(r, MaxResponse)
}

func encode(v any, limit int) ([]byte, error) {
	b, err := encMode.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("mailbox: encode: %w", err)
	}
	if len(b) > limit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(b), limit)
	}
	return b, nil
}

// DecodeRequest is the inverse of Request.Encode, and refuses everything else:
// other key orders, longer integers, unknown fields, trailing bytes.
func DecodeRequest(b []byte) (Request, error) {
	var r Request
	if err := decode(b, MaxRequest, &r); err != nil {
		return Request{}, err
	}
	if err := r.check(); err != nil {
		return Request{}, err
	}
	return r, nil
}

// DecodeResponse is the inverse of Response.Encode.
func DecodeResponse(b []byte) (Response, error) {
	var r Response
	if err := decode(b, MaxResponse, &r); err != nil {
		return Response{}, err
	}
	if err := r.check(); err != nil {
		return Response{}, err
	}
	return r, nil
}

func decode(b []byte, limit int, v any) error {
	if len(b) > limit {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(b), limit)
	}
	if err := decMode.Unmarshal(b, v); err != nil {
		return ErrMalformed // the library's text can hold pieces of the input
	}
	again, err := encMode.Marshal(v)
	if err != nil || !bytes.Equal(again, b) {
		return ErrMalformed
	}
	return nil
}

// check applies the rules that the shape does not say.
func (r *Request) check() error {
	n := 0
	if d := r.Deposit; d != nil {
		n++
		if len(d.Envelope) > MaxEnvelope {
			return fmt.Errorf("%w: envelope of %d bytes", ErrTooLarge, len(d.Envelope))
		}
	}
	if l := r.Lease; l != nil {
		n++
		if len(l.Tokens) > MaxTokens {
			return fmt.Errorf("%w: %d tokens, at most %d", ErrTooLarge, len(l.Tokens), MaxTokens)
		}
	}
	if a := r.AckLease; a != nil {
		n++
		if err := checkRows(a.RowIDs); err != nil {
			return err
		}
	}
	if r.Info != nil {
		n++
	}
	if f := r.RefuseRows; f != nil {
		n++
		if err := checkRows(f.RowIDs); err != nil {
			return err
		}
		if f.Reason < RefuseMalformed || f.Reason > RefuseOverQuota {
			return ErrMalformed
		}
	}
	if c := r.ClaimTokens; c != nil {
		n++
		if err := checkProofs(c.Proofs); err != nil {
			return err
		}
	}
	return exactlyOne(n)
}

func (r *Response) check() error {
	n := 0
	for _, a := range []*Accepted{r.Deposit, r.AckLease, r.RefuseRows, r.ClaimTokens} {
		if a != nil {
			n++
		}
	}
	if p := r.Lease; p != nil {
		n++
		if err := p.check(); err != nil {
			return err
		}
	}
	if i := r.Info; i != nil {
		n++
		for _, s := range []string{i.Version, i.Contact, i.Policy} {
			if len(s) > MaxInfoText {
				return fmt.Errorf("%w: text of %d bytes", ErrTooLarge, len(s))
			}
		}
	}
	return exactlyOne(n)
}

// check bounds a page, and refuses a lease that is neither one nor a miss.
func (p *Page) check() error {
	if !p.Serving {
		if !p.LeaseID.IsZero() || p.ExpiresAt != 0 || len(p.Rows) != 0 {
			return ErrMalformed
		}
		return nil
	}
	if p.LeaseID.IsZero() {
		return ErrMalformed
	}
	if len(p.Rows) > MaxPageRows {
		return fmt.Errorf("%w: %d rows, at most %d", ErrTooLarge, len(p.Rows), MaxPageRows)
	}
	ids, total := make([]RowID, len(p.Rows)), 0
	for i, row := range p.Rows {
		ids[i] = row.RowID
		total += len(row.Envelope)
		if len(row.Envelope) > MaxEnvelope {
			return fmt.Errorf("%w: envelope of %d bytes", ErrTooLarge, len(row.Envelope))
		}
	}
	if total > MaxPageBytes {
		return fmt.Errorf("%w: page of %d bytes, at most %d", ErrTooLarge, total, MaxPageBytes)
	}
	return checkRows(ids)
}

// checkRows: at most a page of ids, none zero, none twice.
func checkRows(ids []RowID) error {
	if len(ids) > MaxPageRows {
		return fmt.Errorf("%w: %d row ids, at most %d", ErrTooLarge, len(ids), MaxPageRows)
	}
	seen := make(map[RowID]bool, len(ids))
	for _, id := range ids {
		if id.IsZero() || seen[id] {
			return ErrMalformed
		}
		seen[id] = true
	}
	return nil
}

func exactlyOne(n int) error {
	if n != 1 {
		return ErrMalformed
	}
	return nil
}

// errOctets is seen by no caller: decode turns it into ErrMalformed.
var errOctets = errors.New("not an array of bytes")

// MarshalCBOR writes an array of unsigned integers.
func (o Octets) MarshalCBOR() ([]byte, error) { return octets(o), nil }

// UnmarshalCBOR reads an array of unsigned integers, at most MaxEnvelope.
func (o *Octets) UnmarshalCBOR(b []byte) (err error) {
	*o, err = readOctets(b, MaxEnvelope)
	return err
}

// The ids are arrays of fixed length.

// MarshalCBOR writes an array of 32 unsigned integers.
func (t Token) MarshalCBOR() ([]byte, error) { return octets(t[:]), nil }

// UnmarshalCBOR reads an array of 32 unsigned integers.
func (t *Token) UnmarshalCBOR(b []byte) error { return readFixed(b, t[:]) }

// MarshalCBOR writes an array of 16 unsigned integers.
func (id LeaseID) MarshalCBOR() ([]byte, error) { return octets(id[:]), nil }

// UnmarshalCBOR reads an array of 16 unsigned integers.
func (id *LeaseID) UnmarshalCBOR(b []byte) error { return readFixed(b, id[:]) }

// MarshalCBOR writes an array of 16 unsigned integers.
func (id RowID) MarshalCBOR() ([]byte, error) { return octets(id[:]), nil }

// UnmarshalCBOR reads an array of 16 unsigned integers.
func (id *RowID) UnmarshalCBOR(b []byte) error { return readFixed(b, id[:]) }

// octets writes the shortest array head and, for each byte, the shortest unsigned
// integer: one byte below 24, else two.
func octets(v []byte) []byte {
	b := make([]byte, 0, 5+2*len(v))
	switch n := len(v); {
	case n < 24:
		b = append(b, 0x80|byte(n))
	case n < 1<<8:
		b = append(b, 0x98, byte(n))
	case n < 1<<16:
		b = append(b, 0x99, byte(n>>8), byte(n))
	default:
		b = append(b, 0x9a, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	for _, c := range v {
		if c >= 24 {
			b = append(b, 0x18)
		}
		b = append(b, c)
	}
	return b
}

// readOctets reads what octets writes. It allocates at most what b can hold.
func readOctets(b []byte, limit int) ([]byte, error) {
	if len(b) == 0 {
		return nil, errOctets
	}
	n, head := 0, b[0]
	b = b[1:]
	take := func(k int) bool {
		if len(b) < k {
			return false
		}
		for _, c := range b[:k] {
			n = n<<8 | int(c)
		}
		b = b[k:]
		return true
	}
	switch {
	case head >= 0x80 && head < 0x98:
		n = int(head & 0x1f)
	case head == 0x98 && take(1):
	case head == 0x99 && take(2):
	case head == 0x9a && take(4):
	default:
		return nil, errOctets
	}
	if n > limit || n > len(b) {
		return nil, errOctets
	}
	out := make([]byte, 0, n)
	for len(out) < n {
		if len(b) == 0 {
			return nil, errOctets
		}
		c := b[0]
		b = b[1:]
		if c == 0x18 {
			if len(b) == 0 || b[0] < 24 {
				return nil, errOctets
			}
			c, b = b[0], b[1:]
		} else if c >= 24 {
			return nil, errOctets
		}
		out = append(out, c)
	}
	if len(b) != 0 {
		return nil, errOctets
	}
	return out, nil
}

func readFixed(b, into []byte) error {
	v, err := readOctets(b, len(into))
	if err != nil {
		return err
	}
	if len(v) != len(into) {
		return errOctets
	}
	copy(into, v)
	return nil
}
