package endpoint

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"hearsay/internal/box"
	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// A Contact is somebody to exchange mail with.
type Contact struct {
	ID     ContactID
	Pair   *box.Box      // between my secret and their public key
	Mine   box.PublicKey // of the secret that the pair is made with
	Theirs box.PublicKey
	Relays []RelayID // where the contact collects; none: no mail to them
}

// A Requester does one request at one relay: a *Client, or a test's stand-in.
type Requester interface {
	Do(ctx context.Context, req mailbox.Request) (mailbox.Response, error)
}

// A Role is why a relay is asked: a node has another identity for each, so that a relay
// cannot link what it sends with what it collects.
type Role uint8

// Roles.
const (
	RoleDeposit Role = iota + 1
	RoleCollect
)

// A NoticeKind says what a user is told.
type NoticeKind uint8

// Notices.
const (
	// NoticeUnknown: the relay has refused for a day: it does not know the contact yet.
	NoticeUnknown NoticeKind = iota + 1
	// NoticeUnread: no receipt for 30 days; it goes out again under this week's token.
	NoticeUnread
)

// Config configures an Endpoint.
type Config struct {
	Store kv.Store // the custody store; required
	// Contacts lists the contacts of the moment; required.
	Contacts func() []Contact
	// Own lists the relays that this node collects from, at most MaxMailboxes.
	Own []RelayID
	// Relay returns who asks a relay in a role; nil where the relay is not configured
	// any more, or must not be reached (MB-47). Required.
	Relay func(RelayID, Role) Requester
	// Stage is called in the transaction that stages a message, before its receipt is
	// owed: the application enters it into its log and says whether it needs the
	// content kept, which it does not if the graph has the event. Required.
	Stage func(tx kv.Txn, c Contact, m Message) (keep bool, err error)
	// Alias is called in the transaction that takes an alias. May be nil.
	Alias func(tx kv.Txn, c Contact, a Alias) error
	// Staged is called after such transactions; it must not block. May be nil.
	Staged func()
	// Notify tells the user something about a contact's mail; it must not block. May be
	// nil.
	Notify func(NoticeKind, ContactID)
	// Registered is told now and then how many of this node's tokens a relay has
	// registered, of those that it was asked to; it must not block. nil: no relay is asked.
	Registered func(relay RelayID, have, want int)
	Interval   time.Duration    // between passes; default 60 s
	Retry      time.Duration    // the first wait after a relay failed or refused, doubling to an hour; default 10 s
	Now        func() time.Time // wall clock; default time.Now
	Rand       *rand.Rand       // jitter; default a seeded one
	Logger     *slog.Logger     // default: discard
}

// An Endpoint deposits and collects. Its methods may be called from any goroutine;
// Run owns the goroutines.
type Endpoint struct {
	cfg   Config
	store kv.Store
	now   func() time.Time
	log   *slog.Logger
	wake  chan struct{} // a parcel may be due

	jitter chan *rand.Rand // holds the one source

	// Owned by the collector.
	nextMailbox int
	cursor      map[RelayID]int
	failures    map[RelayID]int
	notBefore   map[RelayID]time.Time // monotonic
	claims      map[RelayID]claiming
	asked       map[RelayID]time.Time // monotonic: when to ask what is registered again
	bags        map[bagKey]dailyBag
}

// bagKey names the tokens of a contact; they change with either side's key.
type bagKey struct {
	contact ContactID
	mine    box.PublicKey
}

// dailyBag is tokens derived on one day; a day is less than a week, so they are right.
type dailyBag struct {
	day int64
	mailbag
}

// New checks cfg and starts nothing. It fails where something required is missing, or
// Own has more than MaxMailboxes relays.
func New(cfg Config) (*Endpoint, error) {
	if cfg.Store == nil || cfg.Contacts == nil || cfg.Relay == nil || cfg.Stage == nil {
		return nil, errors.New("endpoint: store, contacts, relays and stage are needed")
	}
	if len(cfg.Own) > MaxMailboxes {
		return nil, errors.New("endpoint: too many own relays")
	}
	if cfg.Interval == 0 {
		cfg.Interval = time.Minute
	}
	if cfg.Retry == 0 {
		cfg.Retry = retryInitial
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Endpoint{
		cfg: cfg, store: cfg.Store, now: cfg.Now, log: cfg.Logger,
		wake: make(chan struct{}, 1), jitter: make(chan *rand.Rand, 1),
		cursor: map[RelayID]int{}, failures: map[RelayID]int{}, notBefore: map[RelayID]time.Time{},
		claims: map[RelayID]claiming{}, asked: map[RelayID]time.Time{}, bags: map[bagKey]dailyBag{},
	}
	e.jitter <- cfg.Rand
	return e, nil
}

// Run deposits and collects until ctx ends or the store fails. It never returns nil.
func (e *Endpoint) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return e.deposits(ctx) })
	g.Go(func() error { return e.collects(ctx) })
	return g.Wait()
}

// Wake says that a transaction added a message.
func (e *Endpoint) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// around spreads d over [d/2, 3d/2].
func (e *Endpoint) around(d time.Duration) time.Duration {
	r := <-e.jitter
	defer func() { e.jitter <- r }()
	return d/2 + time.Duration(r.Int64N(int64(d)+1))
}

// contact finds a contact of the moment by its id.
func (e *Endpoint) contact(id ContactID) (Contact, bool) {
	for _, c := range e.cfg.Contacts() {
		if c.ID == id {
			return c, true
		}
	}
	return Contact{}, false
}

// sleep waits for d, for a wake-up, or for the end.
func (e *Endpoint) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-wake:
	case <-t.C:
	}
	return nil
}
