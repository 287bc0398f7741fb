package ircd

import (
	"context"
	"encoding/hex"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/arrival"
	"hearsay/internal/privmsg"
	"hearsay/outbound"
)

// ArrivalConfig configures an ArrivalLog. Log, Queue, Graph and Keys are required.
type ArrivalConfig struct {
	Log   *arrival.Log
	Queue *outbound.Queue
	Graph EventSource
	Keys  *Keys
	// Mail reads a message that came by a mailbox: its content, an encoded privmsg, and
	// what its author's clock said. nil: there are none.
	Mail func(id arrival.ID) (content []byte, written time.Time, ok bool)
	// MaxAge is the age from which on arrivals are not shown unasked, and not opened again at
	// each start: an archive holds many of them. Default 24 h, that of Config.HistoryAge.
	MaxAge time.Duration
	// Now is the wall clock that ages are measured with; default time.Now.
	Now func() time.Time
	// Logger: default discards.
	Logger *slog.Logger
}

// An EventSource is what an ArrivalLog needs of the event graph.
type EventSource interface {
	Subscribe(ctx context.Context, from eventgraph.Seq) iter.Seq2[eventgraph.Arrival, error]
	Last() eventgraph.Seq
	// Arrival finds a stored event: eventgraph.ErrNotFound where it is none.
	Arrival(id eventgraph.ID) (eventgraph.Arrival, error)
}

var _ EventSource = (*eventgraph.Graph)(nil)

// An ArrivalLog is the Log of a node: the durable order of arrival, with the texts
// from where they are: the queue, the graph, the mailbox.
//
// Run follows the graph and enters what is a message for us. It begins at the graph's
// first stored arrival whenever the keys are set: what is entered already is recognised,
// and what a new key opens is found. The others may be called from any goroutine.
type ArrivalLog struct {
	cfg ArrivalConfig

	mu    sync.Mutex
	ready *privmsg.Keyring // with these keys everything stored has been looked at
}

var _ Log = (*ArrivalLog)(nil)

// NewArrivalLog makes an ArrivalLog and starts nothing.
func NewArrivalLog(cfg ArrivalConfig) *ArrivalLog {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxAge == 0 {
		cfg.MaxAge = 24 * time.Hour
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &ArrivalLog{cfg: cfg}
}

// Changed implements Log.
func (l *ArrivalLog) Changed() <-chan struct{} { return l.cfg.Log.Changed() }

// Complete implements Log.
func (l *ArrivalLog) Complete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready == l.cfg.Keys.get()
}

func (l *ArrivalLog) complete(ring *privmsg.Keyring) {
	l.mu.Lock()
	l.ready = ring
	l.mu.Unlock()
	l.cfg.Log.Notify()
}

// Read implements Log.
func (l *ArrivalLog) Read(from arrival.Seq, limit int) (page []Arrival, next arrival.Seq, err error) {
	rows, err := l.cfg.Log.Read(from, false, limit)
	if err != nil {
		return nil, from, err
	}
	next = from
	horizon := l.cfg.Now().Add(-l.cfg.MaxAge)
	for i := range rows {
		if next = rows[i].Seq; rows[i].Time().Before(horizon) {
			continue
		}
		a, ok, err := l.message(&rows[i])
		if err != nil {
			return nil, from, err
		}
		if ok {
			page = append(page, a)
		}
	}
	return page, next, nil
}

// Last implements Log.
func (l *ArrivalLog) Last() (arrival.Seq, error) {
	rows, err := l.cfg.Log.Read(0, true, 1)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return rows[0].Seq, nil
}

// Page implements Log.
func (l *ArrivalLog) Page(of arrival.Tag, sp arrival.Span) ([]arrival.Mark, error) {
	return l.cfg.Log.Page(of, sp)
}

// Newest implements Log.
func (l *ArrivalLog) Newest(of arrival.Tag, last arrival.Seq) (came time.Time, ok bool, err error) {
	return l.cfg.Log.Newest(of, last)
}

// Extent implements Log.
func (l *ArrivalLog) Extent() (arrival.Extent, error) { return l.cfg.Log.Extent() }

// Get implements Log.
func (l *ArrivalLog) Get(at arrival.Seq) (a Arrival, ok bool, err error) {
	row, ok, err := l.cfg.Log.Row(at)
	if err != nil || !ok {
		return a, false, err
	}
	return l.message(&row)
}

// Find implements Log: an event's id has 32 bytes, the others have 16.
func (l *ArrivalLog) Find(id string) (at arrival.Mark, ok bool, err error) {
	raw, err := hex.DecodeString(id)
	if err != nil {
		return at, false, nil //nolint:nilerr // what is no id names nothing
	}
	var row arrival.Row
	switch len(raw) {
	case len(eventgraph.ID{}):
		row, err = l.cfg.Log.ByEvent(eventgraph.ID(raw))
	case len(arrival.ID{}):
		row, err = l.cfg.Log.ByID(arrival.ID(raw))
	default:
		return at, false, nil
	}
	if errors.Is(err, arrival.ErrNotFound) {
		return at, false, nil
	}
	at = arrival.Mark{Seq: row.Seq, Time: row.Place.Time}
	if row.Place.Tag == (arrival.Tag{}) {
		at.Time = row.At // not in history; a reference all the same
	}
	return at, err == nil, err
}

// message finds the text of a row; ok is false where it is gone.
func (l *ArrivalLog) message(row *arrival.Row) (a Arrival, ok bool, err error) {
	a = Arrival{Seq: row.Seq, Came: row.Time(), Own: row.Kind == arrival.Own, Notice: row.Place.Notice}
	switch row.Kind {
	case arrival.Own:
		a.ID, a.Time = hex.EncodeToString(row.ID[:]), row.Time()
		// The queue first: what leaves it has been in the graph before.
		e, err := l.cfg.Queue.Entry(outbound.Position(row.Position))
		if err == nil && e.ID == outbound.LogicalID(row.ID) {
			m, err := DecodeMessage(e.Payload)
			a.Message = &m
			return a, err == nil, nil
		}
		if err != nil && !errors.Is(err, outbound.ErrNotFound) {
			return a, false, err
		}
	case arrival.Mail:
		if l.cfg.Mail == nil {
			return a, false, nil
		}
		a.ID = hex.EncodeToString(row.ID[:])
		a.Content, a.Time, ok = l.cfg.Mail(row.ID)
		a.Time = earlier(a.Time, a.Came)
		return a, ok, nil
	case arrival.Foreign:
	}
	for _, id := range row.Events() {
		in, err := l.cfg.Graph.Arrival(id)
		if errors.Is(err, eventgraph.ErrNotFound) {
			continue
		}
		if err != nil {
			return a, false, err
		}
		a.Content, a.Event = in.Event.Content, id
		if !a.Own {
			a.ID, a.Time = id.String(), earlier(msTime(in.Event.Timestamp), a.Came)
			a.Own = !in.Source.Foreign() // from a node without a queue, on this very store
		}
		return a, true, nil
	}
	return a, false, nil
}

// earlier is never later than its arrival.
func earlier(written, came time.Time) time.Time {
	if written.After(came) {
		return came
	}
	return written
}

const (
	// ingestBytes bounds the contents that wait for one transaction.
	ingestBytes = 1 << 20
	// ingestIdle is the silence after which the stored arrivals count as read: where
	// the newest ones were pruned, nothing says that they are through.
	ingestIdle = 250 * time.Millisecond
	// ingestRetry is the wait for a disk that is too full.
	ingestRetry = 5 * time.Second
)

// Run enters the graph's arrivals until ctx ends. An error means that a store failed.
func (l *ArrivalLog) Run(ctx context.Context) error {
	for {
		ring, name, changed := l.cfg.Keys.named()
		if err := l.follow(ctx, ring, name, changed); err != nil {
			return err
		}
	}
}

// follow returns nil when the keys changed.
func (l *ArrivalLog) follow(ctx context.Context, ring *privmsg.Keyring, name [16]byte, changed <-chan struct{}) error {
	ctx, stop := context.WithCancel(ctx)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer stop()
	before, err := l.cfg.Log.Keys()
	if err != nil {
		return err
	}
	in := intake{ring: ring}
	if before == name {
		if in.seen, err = l.cfg.Log.Cursor(); err != nil {
			return err
		}
	}
	until := l.cfg.Graph.Last()
	arrivals, failed := make(chan eventgraph.Arrival, 64), make(chan error, 1)
	reader.Go(func() {
		for a, err := range l.cfg.Graph.Subscribe(ctx, 0) {
			if err != nil {
				failed <- err
				return
			}
			select {
			case arrivals <- a:
			case <-ctx.Done():
				return
			}
		}
	})
	ready := false
	through := func() error {
		if ready {
			return nil
		}
		ready = true
		if before != name {
			// A disk that is too full costs another look at the next start.
			if err := l.cfg.Log.SetKeys(name); err != nil && !errors.Is(err, arrival.ErrBusy) {
				return err
			}
		}
		l.complete(ring)
		return nil
	}
	if until == 0 {
		if err := through(); err != nil {
			return err
		}
	}
	idle := time.NewTimer(ingestIdle)
	defer idle.Stop()
	for {
		select {
		case <-changed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		case <-idle.C:
			if err := through(); err != nil {
				return err
			}
			continue
		case a := <-arrivals:
			batch := more(arrivals, a)
			if err := l.ingest(ctx, &in, batch); err != nil {
				return err
			}
			if batch[len(batch)-1].Seq >= until {
				if err := through(); err != nil {
					return err
				}
			}
		}
		idle.Reset(ingestIdle)
	}
}

// An intake decides what of the graph is a message for us.
type intake struct {
	ring    *privmsg.Keyring
	seen    eventgraph.Seq // up to here everything was looked at with these keys
	replays privmsg.Replays
}

// look opens an arrival and tells where it belongs.
func (in *intake) look(a *eventgraph.Arrival, horizon time.Time) (p arrival.Place, ok bool) {
	if a.Seq <= in.seen && a.Time.Before(horizon) {
		return p, false
	}
	m, err := privmsg.Decode(a.Event.Content)
	if err != nil {
		return p, false
	}
	o, err := in.ring.Open(m)
	if err != nil {
		return p, false
	}
	if o.Kind != privmsg.Public && !in.replays.First(o.Nonce, a.Event.Header.ID()) { // T24
		return p, false
	}
	p = place(in.ring, o)
	p.Time = earlier(msTime(a.Event.Timestamp), a.Time).UnixMilli()
	return p, true
}

// more adds to first what is there without waiting.
func more(from <-chan eventgraph.Arrival, first eventgraph.Arrival) []eventgraph.Arrival {
	batch, size := []eventgraph.Arrival{first}, first.Event.Size()
	for len(batch) < arrival.MaxIngest && size < ingestBytes {
		select {
		case a := <-from:
			batch, size = append(batch, a), size+a.Event.Size()
		default:
			return batch
		}
	}
	return batch
}

// ingest enters a batch, however long the disk is too full for it.
func (l *ArrivalLog) ingest(ctx context.Context, in *intake, batch []eventgraph.Arrival) error {
	horizon := l.cfg.Now().Add(-l.cfg.MaxAge)
	for {
		err := l.cfg.Log.Ingest(batch, func(a *eventgraph.Arrival) (arrival.Place, bool) { return in.look(a, horizon) })
		if !errors.Is(err, arrival.ErrBusy) {
			return err
		}
		l.cfg.Logger.Warn("the disk is too full to note what arrives")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(ingestRetry):
		}
	}
}
