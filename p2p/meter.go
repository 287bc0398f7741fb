package p2p

import "time"

// A meterState counts the messages of one command on one connection over a sliding
// window (spec/wire.md, section 4). Every message scores 1. It is pure: callers bring
// the time, and serialise calls.
type meterState struct {
	Meter
	times []time.Time // oldest first
}

// add notes one message.
func (m *meterState) add(now time.Time) {
	if m.Threshold == 0 {
		return
	}
	m.expire(now)
	m.times = append(m.times, now)
}

// expire drops what is older than the window, and what a clock that went back left
// in the future.
func (m *meterState) expire(now time.Time) {
	window := time.Duration(m.ExpiryMS) * time.Millisecond
	n := 0
	for n < len(m.times) && (now.Sub(m.times[n]) > window || m.times[n].After(now)) {
		n++
	}
	m.times = m.times[:copy(m.times, m.times[n:])]
}

// total is the score inside the window.
func (m *meterState) total(now time.Time) int {
	m.expire(now)
	return len(m.times)
}

// sleep is how long the network's rule delays the message added last.
func (m *meterState) sleep() time.Duration {
	if m.Threshold == 0 || len(m.times) < m.Threshold {
		return 0
	}
	return time.Duration((len(m.times)-m.Threshold)*m.StepMS) * time.Millisecond
}

// A meterBank is the receiving side of one connection: one meter per command, and
// the hard limit over their sum.
type meterBank struct {
	meters map[string]*meterState
	limit  int // sum of the thresholds
}

func newMeterBank() *meterBank { return &meterBank{meters: make(map[string]*meterState)} }

// register adds a command. A command is registered once.
func (b *meterBank) register(command string, m Meter) {
	if m.Threshold > 0 {
		b.meters[command] = &meterState{Meter: m}
		b.limit += m.Threshold
	}
}

// add notes one message of a command and tells whether the sum is still within the
// limit.
func (b *meterBank) add(command string, now time.Time) bool {
	m := b.meters[command]
	if m == nil {
		return true // scores 0, and the sum cannot have grown
	}
	m.add(now)
	sum := 0
	for _, m := range b.meters {
		sum += m.total(now)
	}
	return sum <= b.limit
}

// A sendPacer is the sending side of one connection: the network's doubled sleep per
// command, and a window over all base messages that keeps us below the receiver's
// hard limit. Callers serialise calls.
type sendPacer struct {
	meters map[string]*meterState
	sent   []time.Time // when base messages went or will go out, oldest first
}

func newSendPacer() *sendPacer { return &sendPacer{meters: make(map[string]*meterState)} }

// ready notes a message of an application command if it may go out now.
func (s *sendPacer) ready(command string, m Meter, now time.Time) bool {
	if st := s.meters[command]; st != nil && st.total(now) >= m.Threshold {
		return false
	}
	s.delay(command, m, false, now)
	return true
}

// delay notes a message of a command and returns how long its sender must sleep.
// base: the command counts against the receiver's hard limit.
func (s *sendPacer) delay(command string, m Meter, base bool, now time.Time) time.Duration {
	var d time.Duration
	if m.Threshold > 0 {
		st := s.meters[command]
		if st == nil {
			st = &meterState{Meter: m}
			s.meters[command] = st
		}
		st.add(now)
		d = 2 * st.sleep()
	}
	if !base {
		return d
	}
	at := now.Add(d)
	n := 0
	for n < len(s.sent) && now.Sub(s.sent[n]) > baseSendWindow {
		n++
	}
	s.sent = s.sent[:copy(s.sent, s.sent[n:])]
	if over := len(s.sent) - baseSendLimit; over >= 0 {
		if earliest := s.sent[over].Add(baseSendWindow); earliest.After(at) {
			at = earliest
		}
	}
	// Keep the order sorted: a short sleep may overtake a long one.
	i := len(s.sent)
	for i > 0 && s.sent[i-1].After(at) {
		i--
	}
	s.sent = append(s.sent, time.Time{})
	copy(s.sent[i+1:], s.sent[i:])
	s.sent[i] = at
	return at.Sub(now)
}
