package outbound

import "sync/atomic"

// Counters are totals since the process started: no label, nothing of any message.
type Counters struct {
	Accepted     uint64 // messages enqueued
	Refused      uint64 // enqueues refused
	Generations  uint64 // events made and committed
	Replacements uint64 // of these, not the first of their message
	Sends        uint64 // puts handed to the network, first ones and rounds
	EmptySends   uint64 // of these, written to nobody
	Acked        uint64 // messages removed by evidence
	Parked       uint64 // times that a generation could not be made, kept or inserted
	Failures     uint64 // commits that failed
}

type counters struct {
	accepted, refused, generations, replacements, sends, emptySends, acked, parked, failures atomic.Uint64
}

// Counters reads the totals.
func (q *Queue) Counters() Counters {
	c := &q.count
	return Counters{
		Accepted: c.accepted.Load(), Refused: c.refused.Load(),
		Generations: c.generations.Load(), Replacements: c.replacements.Load(),
		Sends: c.sends.Load(), EmptySends: c.emptySends.Load(),
		Acked: c.acked.Load(), Parked: c.parked.Load(), Failures: c.failures.Load(),
	}
}
