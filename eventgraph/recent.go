package eventgraph

import (
	"sync"
	"time"
)

// recentRecords holds the records whose headers were just listed: who asks for a page
// of headers asks for the bodies next, and a record holds both. A record is let go when
// it is used, a page when two more were listed, everything after a pause.
type recentRecords struct {
	mu    sync.Mutex
	gens  [2]map[ID]recentRecord // newer, older
	bytes int                    // of the newer
	used  time.Time
}

type recentRecord struct {
	slot Slot
	raw  []byte // with a body, so it does not change any more
}

// open makes room for a page.
func (c *recentRecords) open(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gens[0], c.gens[1], c.bytes, c.used = make(map[ID]recentRecord), c.gens[0], 0, now
}

// put keeps a record, if there is room in the page.
func (c *recentRecords) put(slot Slot, id ID, raw []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gens[0] != nil && c.bytes+len(raw) <= maxRecentBytes && len(c.gens[0]) < MaxHeaders {
		c.gens[0][id] = recentRecord{slot, raw}
		c.bytes += len(raw)
	}
}

// take returns a record and forgets it; nil where it is not here.
func (c *recentRecords) take(slot Slot, id *ID, now time.Time) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.gens {
		if r, ok := c.gens[i][*id]; ok && r.slot == slot {
			delete(c.gens[i], *id)
			c.used = now
			return r.raw
		}
	}
	return nil
}

// dropIdle forgets everything that nobody has used for a while.
func (c *recentRecords) dropIdle(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.used) > recentIdle {
		c.gens, c.bytes = [2]map[ID]recentRecord{}, 0
	}
}
