package rpc

import (
	"encoding/json"
	"sync"
	"sync/atomic"
)

// A Feed hands notifications to subscribers. Publish never waits: a subscriber
// whose backlog is full is cut off, and its connection with it.
type Feed struct {
	method string // the name that notifications carry
	on     atomic.Bool

	mu   sync.Mutex
	subs map[*subscriber]struct{} // guarded by mu
}

type subscriber struct {
	lines chan []byte   // closed by nobody
	cut   chan struct{} // closed when the backlog was full
}

// NewFeed makes a feed that is switched off.
func NewFeed(method string) *Feed {
	return &Feed{method: method, subs: map[*subscriber]struct{}{}}
}

// Switch turns the feed on or off; subscribers stay.
func (f *Feed) Switch(on bool) { f.on.Store(on) }

// On tells whether publishing has any effect, so that callers can save the work
// of describing what happened.
func (f *Feed) On() bool { return f.on.Load() }

// Publish sends one notification whose only parameter is v.
func (f *Feed) Publish(v any) {
	if !f.On() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.subs) == 0 {
		return
	}
	line, err := json.Marshal(struct {
		Version string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  []any  `json:"params"`
	}{"2.0", f.method, []any{v}})
	if err != nil {
		panic("rpc: notification of our own cannot be encoded: " + err.Error())
	}
	line = append(line, "\r\n"...)
	for s := range f.subs {
		select {
		case s.lines <- line:
		default:
			delete(f.subs, s)
			close(s.cut)
		}
	}
}

func (f *Feed) subscribe() *subscriber {
	s := &subscriber{lines: make(chan []byte, feedBacklog), cut: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subs[s] = struct{}{}
	return s
}

func (f *Feed) unsubscribe(s *subscriber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subs, s)
}
