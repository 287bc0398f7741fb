package ircd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hearsay/internal/arrival"
	"hearsay/internal/privmsg"
	"hearsay/outbound"
)

// A Server is an IRC server in front of a Log and an Outbox.
type Server struct {
	cfg Config
	log *slog.Logger

	events chan event    // to the loop
	done   chan struct{} // closed when the loop has ended: nobody reads events any more
	wg     sync.WaitGroup

	mu        sync.Mutex // guards the two below: set up before Run, then unchanged
	listeners []listener
	bound     bool

	conns    atomic.Int64 // open connections
	certs    certificates
	throttle throttle
	shaking  crowd
	hashing  chan struct{} // one password check at a time: bcrypt is slow on purpose
	reading  chan struct{} // so many readings of older messages at a time

	noticesMu sync.Mutex
	notices   []outbound.Notice // guarded by noticesMu; to be told at the next tick
	reloads   []string          // the same

	state // owned by the loop
}

type listener struct {
	net.Listener
	tls *tls.Config // nil: plain
}

// state is what the loop owns. Before Run it belongs to New.
type state struct {
	settings Settings
	ring     *privmsg.Keyring

	clients map[*client]struct{} // every open connection
	nicks   map[string]*client   // registered ones, by folded nick
	doomed  []doomed             // to be removed when the event in hand is done
	serial  uint64               // of the newest connection

	convs    map[string]*conversation // by folded name
	logBytes int                      // of all conversations' logs
	revoked  map[string]bool          // folded names of channels that lost their secret (T22)

	own      map[string]bool // logical ids that were shown
	ownOrder []string        // the same, oldest first
	ticket   int             // of the newest accept under way
	accepts  map[int]bool    // accepts under way
	held     []heldArrival   // own arrivals that may belong to an accept under way

	feed     int // generation of the feed
	feedStop context.CancelFunc
	failFeed context.CancelCauseFunc
	caughtUp bool        // the first feed has caught up
	feedAt   arrival.Seq // the feed has handed over everything up to here
	readers  []waiter    // requests that wait for the feed to get somewhere
	unproven []unproven  // proofs that are ahead of their cursor

	batch     int // the newest batch reference
	mostUsers int // registered at once
	started   time.Time
	network   NetworkState // as clients were last told
	troubles  []string     // as clients were last told
	told      time.Time    // when that was
	sync      SyncProgress // as clients were last told
	syncTold  bool         // clients know of a sync under way
	pasts     []past       // for WHOWAS, oldest first
}

type doomed struct {
	c      *client
	reason string
}

type heldArrival struct {
	in     incoming
	ticket int // the newest accept under way when it came
}

// New checks cfg. It listens on nothing and starts nothing.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg:     cfg,
		log:     cfg.Logger,
		events:  make(chan event, 64),
		done:    make(chan struct{}),
		hashing: make(chan struct{}, 1),
		reading: make(chan struct{}, maxReading),
		state: state{
			clients: map[*client]struct{}{},
			nicks:   map[string]*client{},
			convs:   map[string]*conversation{},
			revoked: map[string]bool{},
			own:     map[string]bool{},
			accepts: map[int]bool{},
			started: cfg.Now(),
		},
	}
	if err := s.cfg.Keys.Set(cfg.Settings); err != nil {
		return nil, err
	}
	s.adopt(cfg.Settings)
	return s, nil
}

// AddListener serves l too, without TLS. Call it before Run, which closes l.
func (s *Server) AddListener(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, listener{Listener: l})
}

// Listen binds all configured addresses, so that a taken port is an error before
// anything else starts. Run does it where it was not done.
func (s *Server) Listen(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bound {
		return nil
	}
	if _, err := s.certs.load(s.cfg.Listen); err != nil {
		return err
	}
	var opened []listener
	for _, l := range s.cfg.Listen {
		nl, err := new(net.ListenConfig).Listen(ctx, "tcp", l.Address)
		if err != nil {
			for _, o := range opened {
				_ = o.Close() // the error to report is the other one
			}
			return fmt.Errorf("ircd: listen: %w", err)
		}
		opened = append(opened, listener{nl, s.certs.config(l)})
	}
	s.listeners = append(s.listeners, opened...)
	s.bound = true
	return nil
}

// Addrs are the addresses that Listen bound, in the order of the configuration,
// after those of AddListener.
func (s *Server) Addrs() []net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []net.Addr
	for _, l := range s.listeners {
		all = append(all, l.Addr())
	}
	return all
}

// Run serves until ctx ends: clients are told, their queues flushed for up to two
// seconds. It returns when its last goroutine has ended, and never returns nil. It
// may be called once.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(ctx); err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	s.mu.Lock()
	listeners := slices.Clone(s.listeners)
	s.mu.Unlock()
	for _, l := range listeners {
		s.wg.Go(func() {
			if err := s.accept(ctx, l); err != nil {
				fail(fmt.Errorf("ircd: accept: %w", err))
			}
		})
	}
	s.startFeed(ctx, fail)
	s.loop(ctx)
	for _, l := range listeners {
		_ = l.Close() // accept has closed it already
	}
	close(s.done)
	s.wg.Wait()
	return context.Cause(ctx)
}

// loop handles events until ctx ends, then says goodbye.
func (s *Server) loop(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case ev := <-s.events:
			s.handle(ctx, ev)
		case now := <-ticker.C:
			s.handle(ctx, evTick{now})
		case <-ctx.Done():
			for c := range s.clients {
				s.drop(c, "Server shutting down")
			}
			s.bury()
			return
		}
	}
}

func (s *Server) handle(ctx context.Context, ev event) {
	switch ev := ev.(type) {
	case evOpen:
		s.open(ev.c)
	case evLine:
		s.dispatch(ev.c, ev.line)
	case evGone:
		s.drop(ev.c, ev.reason)
	case evDrained:
		s.pump(ev.c)
	case evArrival:
		if ev.feed == s.feed {
			s.arrive(ev.incoming)
		}
	case evRead:
		if ev.feed == s.feed {
			s.readTo(ev.at)
		}
	case evCaughtUp:
		if ev.feed == s.feed {
			s.catchUp()
		}
	case evOlder:
		s.olderRead(ev)
	case evAccepted:
		s.accepted(ev)
	case evPassword:
		s.passwordChecked(ev)
	case evReloaded:
		s.reloaded(ev)
	case evAnswer:
		ev.then()
		s.finish(ev.rq)
	case evApply:
		s.apply(ctx, ev)
	case evTick:
		s.tick(ev.now)
	}
	s.bury()
}

// post hands ev to the loop; false if there is no loop any more.
func (s *Server) post(ev event) bool {
	select {
	case s.events <- ev:
		return true
	case <-s.done:
		return false
	}
}

// accept takes connections until l is closed. An error of one connection does not end
// it; only a listener that fails by itself does.
func (s *Server) accept(ctx context.Context, l listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	pause := 5 * time.Millisecond
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default: // out of file descriptors, a connection that died in the queue, …
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil
			}
			pause = min(2*pause, time.Second)
			continue
		}
		pause = 5 * time.Millisecond
		if n := s.conns.Add(1); n > int64(s.cfg.MaxClients) {
			s.conns.Add(-1)
			refuse(conn, l.tls == nil)
			continue
		}
		if l.tls != nil {
			s.shaking.enter(conn, maxHandshakes) // here: in the order of arrival
		}
		s.wg.Go(func() {
			defer s.conns.Add(-1)
			s.serve(ctx, conn, l.tls)
		})
	}
}

// refuse closes a connection beyond the bound without a goroutine of its own.
func refuse(conn net.Conn, plain bool) {
	if plain {
		conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)) //nolint:errcheck // closed next
		conn.Write([]byte("ERROR :Too many connections\r\n"))        //nolint:errcheck // closed next
	}
	_ = conn.Close() // nothing of ours is in it
}

// tick looks at timeouts and at the network.
func (s *Server) tick(now time.Time) {
	for c := range s.clients {
		s.checkAlive(c, now)
		s.probe(c, now)
	}
	s.watchNetwork(now)
	s.tellNotices()
}
