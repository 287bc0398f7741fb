package relay

// windowSeconds is the length of the fixed request window.
const windowSeconds = 60

// admit counts a request of c against its budget and the relay's, and tells
// whether both had room (MB-05, MB-37). A client over its own budget does not spend
// the relay's. A window that lies in the future, after the clock was set back,
// counts as over: nobody is blocked for longer than one window.
func (s *state) admit(c client) bool {
	w, known := window{}, false
	known = s.get(key(prefixWindow, c[:]), &w, "window")
	old := w
	if known && !s.current(w.Start) {
		w = window{Start: s.now}
	}
	if !known {
		w = window{Start: s.now}
	}
	if w.Count >= uint64(s.limits.ClientRequests) {
		return false
	}
	if !s.current(s.totals.WindowStart) {
		s.totals.WindowStart, s.totals.WindowCount = s.now, 0
	}
	if s.totals.WindowCount >= uint64(s.limits.RelayRequests) {
		return false
	}
	if !known {
		if s.totals.Windows >= uint64(s.limits.RateRows) && !s.forgetWindow() {
			return false
		}
		s.totals.Windows++
	} else if old.Start != w.Start {
		s.del(key(prefixWindowAge, be64(old.Start), c[:]))
	}
	if !known || old.Start != w.Start {
		s.put(key(prefixWindowAge, be64(w.Start), c[:]), nil)
	}
	w.Count++
	s.totals.WindowCount++
	s.set(key(prefixWindow, c[:]), &w)
	return s.err == nil
}

// current tells whether a window that began at start is still running.
func (s *state) current(start uint64) bool { return start <= s.now && s.now-start < windowSeconds }

// forgetWindow makes room for a new client by forgetting one whose window is over
// (MB-07: expired ones go first, then new ones are refused).
func (s *state) forgetWindow() (ok bool) {
	var victim []byte
	pick := func(k, _ []byte) bool {
		if start := keyTime(k); !s.current(start) {
			victim = append([]byte(nil), k...)
		}
		return false // the first key is the oldest
	}
	s.scan([]byte{prefixWindowAge}, pick)
	if victim == nil { // none is old; one may lie in the future of a clock that was set back
		s.fail(lastKey(s.tx, prefixWindowAge, func(k []byte) { pick(k, nil) }))
	}
	if victim == nil || s.err != nil {
		return false
	}
	s.del(victim)
	s.del(key(prefixWindow, victim[9:]))
	s.totals.Windows--
	return true
}
