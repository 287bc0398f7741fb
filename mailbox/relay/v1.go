package relay

import (
	"io"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// Version 1 of the protocol (MB-40): version 2's codec, but a page is deleted as it is
// made. A response that is lost on the way is lost for ever: after the deletion here and
// before custody at the recipient nobody has the envelopes. A version 1 response never
// counts as durable custody. It exists for operators of this library who decide to serve
// old clients all the same and tell them so; hearsay's daemon has no way to switch it on.

// WarningV1 is what a relay that serves version 1 says when it starts.
const WarningV1 = "mailbox version 1 is served: its responses can be lost after deletion at the relay and before custody at the recipient"

var opLeaseV1 = kv.Op{Name: "relay/lease-v1", Class: kv.ClassRelease}

// handleV1 is Handle for a client that negotiated version 1.
func (r *Relay) handleV1(transportKey []byte, req mailbox.Request) (mailbox.Response, error) {
	if req.Lease == nil {
		return r.Handle(transportKey, req)
	}
	page := &mailbox.Page{Rows: []mailbox.Row{}}
	_, err := r.transact(opLeaseV1, "lease_v1", transportKey, func(s *state, c client) Outcome {
		if p := s.collectV1(r.seal, r.cfg.Random, c, req.Lease.Tokens); p != nil {
			page = p
		}
		return Accepted
	})
	if err != nil {
		return mailbox.Response{}, err
	}
	return mailbox.Response{Lease: page}, nil
}

// collectV1 makes a page of what is available and deletes it.
func (s *state) collectV1(seal *sealer, random io.Reader, c client, tokens []mailbox.Token) *mailbox.Page {
	if len(tokens) == 0 || len(tokens) > s.limits.RequestTokens {
		return nil
	}
	page := &mailbox.Page{Serving: true, ExpiresAt: s.now}
	s.clearAway(c)
	var gone batch
	for _, p := range s.pick(random, s.register(c, indexes(seal, tokens))) {
		if !s.open(page, seal, &p) {
			continue
		}
		s.dropRow(&p.row)
		gone = append(gone, named{p.row.Index, p.row.Content, p.row.Seq})
	}
	s.remember(gone)
	if len(page.Rows) == 0 {
		return nil
	}
	var ok bool
	if page.LeaseID, ok = s.freshLease(random); !ok {
		return nil
	}
	return page
}
