package gossip

import "sync"

// A request is one that the peer wants answered. It was checked, and is kept as it
// came: decoded it takes several times as much.
type request struct {
	command string
	payload []byte
}

// A requestQueue holds the requests of one connection between its reader and runServe.
type requestQueue struct {
	more  chan struct{} // a hint for runServe
	mu    sync.Mutex
	items []request // at most maxInboxRequests
	bytes int       // of items and of what was taken and is not done; at most maxQuestionBytes
}

func newRequestQueue() *requestQueue { return &requestQueue{more: make(chan struct{}, 1)} }

// full tells whether there is no room for a request of n bytes: then it need not be
// looked at.
func (q *requestQueue) full(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fullLocked(n)
}

// One request of any size that may be read passes an empty queue.
func (q *requestQueue) fullLocked(n int) bool {
	return len(q.items) >= maxInboxRequests || q.bytes > 0 && q.bytes+n > maxQuestionBytes
}

// push queues r, or says that there is no room.
func (q *requestQueue) push(r request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fullLocked(len(r.payload)) {
		return false
	}
	q.items = append(q.items, r)
	q.bytes += len(r.payload)
	hint(q.more)
	return true
}

// take returns the oldest request, which counts until done.
func (q *requestQueue) take() (r request, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return request{}, false
	}
	r, q.items[0] = q.items[0], request{}
	if q.items = q.items[1:]; len(q.items) == 0 {
		q.items = nil
	}
	return r, true
}

// done counts n bytes of a request out that was taken.
func (q *requestQueue) done(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= n
}
