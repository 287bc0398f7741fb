package p2p

import (
	"testing"
	"time"
)

var meterStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func pingMeter() Meter { return baseCommands[2].Meter }

// The example of the facts page 2.4: four pings are free, the fifth costs 1 s, the
// sixth 2 s; a sender sleeps twice that.
func TestMeterSleep(t *testing.T) {
	m := meterState{Meter: pingMeter()}
	s := newSendPacer()
	for i, want := range []time.Duration{0, 0, 0, 0, time.Second, 2 * time.Second} {
		m.add(meterStart)
		if got := m.sleep(); got != want {
			t.Errorf("message %d: %v", i+1, got)
		}
		if got := s.delay(cmdPing, pingMeter(), true, meterStart); got != 2*want {
			t.Errorf("message %d: sender sleeps %v", i+1, got)
		}
	}
	// The window: 10 s later the entries still count, a moment later not.
	if got := m.total(meterStart.Add(10 * time.Second)); got != 6 {
		t.Errorf("at 10 s: %d", got)
	}
	if got := m.total(meterStart.Add(10*time.Second + 1)); got != 0 {
		t.Errorf("past 10 s: %d", got)
	}
	m.add(meterStart.Add(time.Hour))
	if got := m.total(meterStart); got != 0 {
		t.Errorf("clock went back: %d", got)
	}
	off := meterState{}
	for range 100 {
		off.add(meterStart)
	}
	if off.sleep() != 0 || len(off.times) != 0 {
		t.Error("a meter with threshold 0 counts")
	}
}

// 28 base messages in ten seconds are the limit, the 29th is over it; event-graph
// messages score nothing.
func TestMeterHardLimit(t *testing.T) {
	b := newMeterBank()
	for _, c := range baseCommands {
		b.register(c.Name, c.Meter)
	}
	b.register("EventGraph::EventPut", Meter{})
	if b.limit != 28 {
		t.Fatalf("limit %d", b.limit)
	}
	for i := range 28 {
		if !b.add(baseCommands[i%6].Name, meterStart.Add(time.Duration(i)*10*time.Millisecond)) {
			t.Fatalf("message %d is over the limit", i+1)
		}
		if !b.add("EventGraph::EventPut", meterStart) {
			t.Fatal("an application message is over the limit")
		}
	}
	if b.add(cmdPing, meterStart.Add(time.Second)) {
		t.Error("message 29 is within the limit")
	}
	if !b.add(cmdPing, meterStart.Add(11*time.Second)) {
		t.Error("a message after the window is over the limit")
	}
}

// Whatever we are asked to send, the receiver's hard limit is out of reach.
func TestSendPacerStaysBelowTheHardLimit(t *testing.T) {
	s, b := newSendPacer(), newMeterBank()
	for _, c := range baseCommands {
		b.register(c.Name, c.Meter)
	}
	type send struct {
		at      time.Time
		command string
	}
	var sends []send
	now := meterStart
	for i := range 400 { // as fast as sleeping senders can
		c := baseCommands[2+i%4]
		d := s.delay(c.Name, c.Meter, true, now)
		sends = append(sends, send{now.Add(d), c.Name})
		if i%4 == 3 {
			now = now.Add(d)
		}
	}
	for i := range sends { // the receiver sees them in order of time
		n := 2 // version and verack, not paced, at the worst moment
		for j := range sends {
			if d := sends[j].at.Sub(sends[i].at); d >= 0 && d <= 10*time.Second {
				n++
			}
		}
		if n > b.limit {
			t.Fatalf("%d messages within 10 s", n)
		}
	}
}

func TestSendPacerReady(t *testing.T) {
	s := newSendPacer()
	m := Meter{Threshold: 2, StepMS: 1000, ExpiryMS: 10_000}
	for i, want := range []bool{true, true, false, false} {
		if got := s.ready("x", m, meterStart); got != want {
			t.Errorf("message %d: %v", i+1, got)
		}
	}
	if !s.ready("x", m, meterStart.Add(11*time.Second)) {
		t.Error("not ready after the window")
	}
}
