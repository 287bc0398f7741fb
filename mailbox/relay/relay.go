package relay

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

var errRandom = errors.New("relay: the random source repeats itself")

// An Outcome is what became of a request: counted, never told in detail (MB-05).
type Outcome uint8

// Outcomes.
const (
	Accepted Outcome = iota + 1
	RefusedRate
	RefusedMalformed
	RefusedUnregistered
	RefusedClientQuota
	RefusedTokenQuota
	RefusedFull
	RefusedDraining
	RefusedDisk
	RefusedLease
	RefusedRow
	RefusedInternal
	RefusedClaim
	RefusedClient
	outcomes // their number, plus one
)

// String names the outcome as metrics do.
func (o Outcome) String() string {
	return [...]string{
		"", "accepted", "rate", "malformed", "unregistered", "client_quota", "token_quota", "full",
		"draining", "disk", "lease", "row", "internal", "claim", "client",
	}[o%outcomes]
}

// Config configures a Relay.
type Config struct {
	Store  kv.Store      // required; durable for a relay that keeps its word
	Key    [KeySize]byte // mailbox-v2.key: derives indexes and seals
	Limits Limits        // zero fields: the profile of MB-50
	Drain  bool          // no new deposits, everything else goes on
	// Allow, if not nil, says whose requests are served at all; what the relay publishes
	// is for everybody.
	Allow func(transportKey []byte) bool
	// Identity is the relay's public transport key, which proofs of tokens are made
	// for. Without it, or with NoClaims, a registration stays with its first client
	// until it expires (MB-29).
	Identity ed25519.PublicKey
	NoClaims bool
	// AllowV1Compat makes a server speak version 1 as well, which can lose mail: see
	// WarningV1 (MB-40).
	AllowV1Compat bool

	Version string           // published (MB-33)
	Contact string           // published
	Policy  string           // published
	Now     func() time.Time // wall clock: expiry is data; default time.Now
	Random  io.Reader        // default crypto/rand
	Logger  *slog.Logger     // default: discard

	// Respond, if not nil, is called in place of writing an answer to its client, and
	// calls write: what it does before and after is a crash point (MB-60).
	Respond func(req mailbox.Request, resp mailbox.Response, write func() error) error
}

// A Relay serves requests over a store. It is safe for concurrent use.
type Relay struct {
	cfg    Config
	limits Limits
	seal   *sealer
	heads  heads

	mu      sync.Mutex
	counts  map[string][outcomes]uint64 // by request, then outcome; since the start
	expired swept                       // since the start
}

// New checks cfg. It starts nothing; see Run. It fails without a store, with a limit
// above its bound, or with a published text of more than mailbox.MaxInfoText bytes.
func New(cfg Config) (*Relay, error) {
	if cfg.Store == nil {
		return nil, errors.New("relay: no store")
	}
	limits, err := cfg.Limits.withDefaults()
	if err != nil {
		return nil, err
	}
	for _, text := range []string{cfg.Version, cfg.Contact, cfg.Policy} {
		if len(text) > mailbox.MaxInfoText {
			return nil, fmt.Errorf("relay: published text over %d bytes", mailbox.MaxInfoText)
		}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Random == nil {
		cfg.Random = rand.Reader
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	seal, err := newSealer(cfg.Key)
	if err != nil {
		return nil, err
	}
	return &Relay{cfg: cfg, limits: limits, seal: seal, counts: map[string][outcomes]uint64{}}, nil
}

// Names of the commits: the crash points of the tests.
var (
	opDeposit = kv.Op{Name: "relay/deposit", Class: kv.ClassEnqueue}
	opLease   = kv.Op{Name: "relay/lease", Class: kv.ClassRelease} // MB-39: goes on when the disk is full
	opAck     = kv.Op{Name: "relay/ack", Class: kv.ClassRelease}
	opRefuse  = kv.Op{Name: "relay/refuse", Class: kv.ClassRelease}
	opClaim   = kv.Op{Name: "relay/claim", Class: kv.ClassRelease}
	opInfo    = kv.Op{Name: "relay/info", Class: kv.ClassRelease}
	opSweep   = kv.Op{Name: "relay/sweep", Class: kv.ClassRelease}
)

// transact runs fn on the state of one transaction after the request was admitted,
// and counts the outcome. An error is a failure of the store: the request was
// refused, unless the error is kv.ErrUnknown, after which nobody knows.
func (r *Relay) transact(op kv.Op, name string, transportKey []byte, fn func(*state, client) Outcome) (Outcome, error) {
	if r.cfg.Allow != nil && op != opInfo && !r.cfg.Allow(transportKey) {
		r.count(name, RefusedClient)
		return RefusedClient, nil
	}
	c := r.seal.client(transportKey)
	out := RefusedInternal
	var found map[index]uint64
	err := r.cfg.Store.Update(op, func(tx kv.Txn) error {
		out, found = RefusedInternal, nil
		s := load(tx, seconds(r.cfg.Now()), &r.limits, &r.heads)
		if !s.admit(c) {
			out = RefusedRate
			return s.err // nothing of a refused request is written
		}
		out = fn(s, c)
		found = s.found
		return s.save()
	})
	if err == nil && found != nil {
		r.heads.learn(found)
	}
	switch {
	case errors.Is(err, kv.ErrDiskFull):
		out, err = RefusedDisk, nil
	case err != nil:
		out = RefusedInternal
	}
	r.count(name, out)
	return out, err
}

func (r *Relay) count(name string, out Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.counts[name]
	c[out]++
	r.counts[name] = c
}

// Handle answers one request of the client with that transport key. The response is
// complete and durable when it returns (MB-03). An error means that the store
// failed; the caller answers nothing, closes, and ends the process where the error
// is kv.ErrUnknown.
func (r *Relay) Handle(transportKey []byte, req mailbox.Request) (mailbox.Response, error) {
	accepted := func(out Outcome, err error) (*mailbox.Accepted, error) {
		return &mailbox.Accepted{Accepted: out == Accepted}, err
	}
	var resp mailbox.Response
	var err error
	switch {
	case req.Deposit != nil:
		resp.Deposit, err = accepted(r.transact(opDeposit, "deposit", transportKey, func(s *state, c client) Outcome {
			return s.deposit(r.seal, r.cfg.Random, c, req.Deposit.Envelope, r.cfg.Drain)
		}))
	case req.Lease != nil:
		resp.Lease = &mailbox.Page{Rows: []mailbox.Row{}}
		_, err = r.transact(opLease, "lease", transportKey, func(s *state, c client) Outcome {
			if page := s.checkIn(r.seal, r.cfg.Random, c, req.Lease.Tokens); page != nil {
				resp.Lease = page
			}
			return Accepted
		})
	case req.AckLease != nil:
		resp.AckLease, err = accepted(r.transact(opAck, "ack", transportKey, func(s *state, c client) Outcome {
			return s.ack(c, req.AckLease.LeaseID, req.AckLease.RowIDs)
		}))
	case req.RefuseRows != nil:
		resp.RefuseRows, err = accepted(r.transact(opRefuse, "refuse", transportKey, func(s *state, c client) Outcome {
			return s.refuse(c, req.RefuseRows.LeaseID, req.RefuseRows.RowIDs, req.RefuseRows.Reason)
		}))
	case req.ClaimTokens != nil:
		resp.ClaimTokens, err = accepted(r.transact(opClaim, "claim", transportKey, func(s *state, c client) Outcome {
			return s.claim(r.seal, c, r.cfg.Identity, transportKey, req.ClaimTokens.Proofs, r.claims())
		}))
	case req.Info != nil:
		resp.Info = &mailbox.RelayInfo{}
		_, err = r.transact(opInfo, "info", transportKey, func(s *state, c client) Outcome {
			resp.Info = r.info(s, c)
			return Accepted
		})
	default:
		return mailbox.Response{}, mailbox.ErrMalformed
	}
	if err != nil {
		return mailbox.Response{}, fmt.Errorf("relay: %w", err)
	}
	return resp, nil
}

// Malformed charges the client for a request that was no canonical message: it was
// work all the same. It tells whether the client still has a budget.
func (r *Relay) Malformed(transportKey []byte) (bool, error) {
	out, err := r.transact(opInfo, "malformed", transportKey, func(*state, client) Outcome { return RefusedMalformed })
	return out != RefusedRate, err
}

// info is what the relay publishes, and the asking client's standing (MB-33).
func (r *Relay) info(s *state, c client) *mailbox.RelayInfo {
	a, l := s.account(c), r.limits
	return &mailbox.RelayInfo{
		Version: r.cfg.Version, Contact: r.cfg.Contact, Policy: r.cfg.Policy,
		EnvelopeSeconds: uint64(l.EnvelopeTTL.Seconds()), TokenSeconds: uint64(l.TokenTTL.Seconds()),
		LeaseSeconds:  uint64(l.LeaseTTL.Seconds()),
		CapacityItems: uint64(l.RelayRows), CapacityBytes: uint64(l.RelayBytes),
		UsedItems: s.totals.Rows, UsedBytes: s.totals.Bytes,
		ClientTokens: a.Tokens, ClientRows: a.Rows, MaxClientTokens: uint64(l.ClientTokens),
		RequestsAMinute: uint64(l.ClientRequests), Draining: r.cfg.Drain, Claims: r.claims(),
	}
}

func (r *Relay) claims() bool { return len(r.cfg.Identity) == ed25519.PublicKeySize && !r.cfg.NoClaims }

// Sweeping: how often, how much in one transaction.
const (
	sweepInterval = 10 * time.Second
	sweepBatch    = 256
)

// Run sweeps what expired, every 10 s, until ctx ends. It returns ctx's error, or the
// store's.
func (r *Relay) Run(ctx context.Context) error {
	if r.cfg.AllowV1Compat {
		r.cfg.Logger.Warn(WarningV1)
	}
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for ; ; sleepUntil(ctx, tick.C) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for more := true; more && ctx.Err() == nil; {
			n, err := r.Sweep()
			if err != nil {
				return err
			}
			more = n
		}
	}
}

func sleepUntil(ctx context.Context, tick <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-tick:
	}
}

// Sweep ends what expired, in one transaction at most 256 of a kind, and tells whether there
// was anything.
func (r *Relay) Sweep() (more bool, err error) {
	var n swept
	err = r.cfg.Store.Update(opSweep, func(tx kv.Txn) error {
		s := load(tx, seconds(r.cfg.Now()), &r.limits, &r.heads)
		n = s.sweep(sweepBatch)
		return s.save()
	})
	if err != nil {
		return false, fmt.Errorf("relay: sweep: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expired.Leases += n.Leases
	r.expired.Rows += n.Rows
	r.expired.Tokens += n.Tokens
	r.expired.Marks += n.Marks
	return n.any(), nil
}

// Stats are aggregates: nothing in them names anybody (MB-31, MB-54).
type Stats struct {
	Rows, Bytes, Leases, Registrations uint64
	CapacityRows, CapacityBytes        uint64
	OldestLease                        time.Duration                // age of the oldest live lease
	Requests                           map[string]map[string]uint64 // request, outcome: count since the start
	ExpiredRows, ExpiredLeases         uint64                       // since the start
	ExpiredRegistrations               uint64                       // since the start
	RequestWindows, Remembered         uint64                       // clients that are counted; acknowledged envelopes that are recognised
	Draining                           bool
	Schema                             int
}

// Stats reads the counters.
func (r *Relay) Stats() (Stats, error) {
	st := Stats{
		CapacityRows: uint64(r.limits.RelayRows), CapacityBytes: uint64(r.limits.RelayBytes),
		Schema: Schema, Draining: r.cfg.Drain, Requests: map[string]map[string]uint64{},
	}
	err := r.cfg.Store.View(func(rd kv.Reader) error {
		var t totals
		b, err := rd.Get(key(prefixTotals))
		if errors.Is(err, kv.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if t.decode(b) != nil {
			return corrupt("totals")
		}
		st.Rows, st.Bytes, st.Leases, st.Registrations = t.Rows, t.Bytes, t.Leases, t.Tokens
		st.RequestWindows, st.Remembered = t.Windows, t.Dedups
		now, ttl := seconds(r.cfg.Now()), uint64(r.limits.LeaseTTL.Seconds())
		return rd.Scan(kv.Scan{Prefix: []byte{prefixLeaseExp}, KeysOnly: true}, func(k, _ []byte) error {
			e := keyTime(k)
			if e <= now {
				return nil
			}
			b, err := rd.Get(key(prefixLease, k[9:]))
			if err != nil {
				return err
			}
			var l lease
			switch {
			case l.decode(b) != nil:
				return corrupt("lease")
			case l.Done: // remembered, not live
				return nil
			case e-now <= ttl:
				st.OldestLease = time.Duration(ttl-(e-now)) * time.Second
			}
			return kv.ErrStop
		})
	})
	if err != nil {
		return Stats{}, fmt.Errorf("relay: stats: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, counts := range r.counts {
		m := map[string]uint64{}
		for o := Accepted; o < outcomes; o++ {
			if counts[o] > 0 {
				m[o.String()] = counts[o]
			}
		}
		st.Requests[name] = m
	}
	st.ExpiredRows, st.ExpiredLeases, st.ExpiredRegistrations = uint64(r.expired.Rows), uint64(r.expired.Leases), uint64(r.expired.Tokens)
	return st, nil
}

// lastKey calls fn with the highest key under prefix, if there is one.
func lastKey(rd kv.Reader, prefix byte, fn func(k []byte)) error {
	return rd.Scan(kv.Scan{Prefix: []byte{prefix}, Reverse: true, KeysOnly: true}, func(k, _ []byte) error {
		fn(k)
		return kv.ErrStop
	})
}
