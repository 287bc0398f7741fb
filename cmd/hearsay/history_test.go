package main

import (
	"strings"
	"testing"

	"hearsay/internal/arrival"
	"hearsay/internal/config"
	"hearsay/outbound"
)

// An accepted message has its place in history from the transaction that accepts it; what is no message
// has none. Cursors beyond the order of arrival are gone when the store is opened (decisions 0200, 0203).
func TestHistoryOfCustody(t *testing.T) {
	cfg := solo(t, "")
	c, err := openCustodyOf(cfg)
	if err != nil {
		t.Fatal(err)
	}
	record := "\x02\x01" + strings.Repeat("\x00", 16) + "\x04#dev\x05alice\x02hi"
	if _, err := c.queue.Enqueue(t.Context(), outbound.Draft{Payload: outbound.Payload(record)}, outbound.Draft{Payload: outbound.Payload("x")}); err != nil {
		t.Fatal(err)
	}
	if x, err := c.arrivals.Extent(); err != nil || x.Messages != 1 || x.Bytes != 2 {
		t.Errorf("%+v, %v", x, err)
	}
	if row, ok, err := c.arrivals.Row(1); !ok || !row.Place.Notice || err != nil {
		t.Errorf("%+v, %v", row, err)
	}
	if err := c.reads.Advance("me@phone", map[string]arrival.Seq{"a": 2, "b": 3}); err != nil {
		t.Fatal(err)
	}
	if err := c.store.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err = openCustodyOf(cfg); err != nil {
		t.Fatal(err)
	}
	defer c.store.Close()
	if at := c.reads.Cursors("me@phone"); len(at) != 1 || at["a"] != 2 {
		t.Error(at)
	}
}

// What HISTORY of *status says about how long texts stay.
func TestKeeps(t *testing.T) {
	if got := keeps(config.Slots{Retain: 24}); !strings.Contains(got, "for 24 hours") {
		t.Error(got)
	}
	if got := keeps(config.Slots{Retain: 24, Archive: true}); !strings.Contains(got, "for ever") {
		t.Error(got)
	}
}
