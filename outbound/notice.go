package outbound

import "time"

// A Notice tells users that the head is blocked, without a claim of failure, or that
// it no longer is (DS-76). It names no message.
type Notice struct {
	Reason  Reason
	Cleared bool      // the block of Reason, told before, is over
	Since   time.Time // when the block began
	Have    int       // connections that can take a put
	Want    int       // K
	Rounds  int       // of the active generation
}

// blocked follows why the head does not move and says when to tell of it: after 30 s,
// each reason at most hourly, one line when it is over. It is pure.
type blocked struct {
	reason Reason
	since  instant                  // when the head became blocked, for whatever reason
	told   Reason                   // what was told last in this episode
	toldAt [ReasonNoAck + 1]instant // when each reason was told in this episode
}

// step takes the present reason and returns what to tell, if anything.
func (b *blocked) step(now instant, reason Reason) (n Notice, ok bool) {
	if reason == ReasonNone {
		n = Notice{Reason: b.told, Cleared: true, Since: b.since.time()}
		ok = b.told != ReasonNone
		*b = blocked{}
		return n, ok
	}
	if b.reason == ReasonNone {
		b.since = now
	}
	b.reason = reason
	b.since = min(b.since, now) // the clock may have gone back
	b.toldAt[reason] = min(b.toldAt[reason], now)
	if now < b.next() {
		return Notice{}, false
	}
	b.told, b.toldAt[reason] = reason, now
	return Notice{Reason: reason, Since: b.since.time()}, true
}

// next is when there is something to tell if nothing changes; zero: never.
func (b *blocked) next() instant {
	if b.reason == ReasonNone {
		return 0
	}
	at := b.since.add(noticeAfter)
	if t := b.toldAt[b.reason]; t != 0 {
		at = max(at, t.add(noticeEvery))
	}
	return at
}

// current is what a user who connects at now is told; ok is false if nothing.
func (b *blocked) current(now instant) (n Notice, ok bool) {
	if b.reason == ReasonNone || now < b.since.add(noticeAfter) {
		return Notice{}, false
	}
	return Notice{Reason: b.reason, Since: b.since.time()}, true
}
