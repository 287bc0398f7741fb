package sim

import (
	"context"
	"fmt"
	"time"

	"hearsay/eventgraph"
	"hearsay/p2p/p2ptest"
)

// Nothing is published in the last and the first seconds of a slot, by the author's
// clock: a rule of the application above the graph (DS-87), which tells it to the graph's
// users because nothing below can repair an event whose slot is over everywhere.
const (
	quietBefore = 10 * time.Second
	quietAfter  = 5 * time.Second
)

// Run plays the script and then lets the network rest. Stock peers run until it ends.
func (w *World) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	for _, s := range w.stocks {
		go func() {
			_ = s.Run(ctx) // ends with ctx
			done <- struct{}{}
		}()
	}
	defer func() {
		cancel()
		for range w.stocks {
			<-done
		}
	}()

	end := time.Now().Add(w.cfg.Duration)
	event, trouble := w.after(w.cfg.Gap), w.after(w.cfg.Trouble)
	for time.Now().Before(end) {
		next := event
		if trouble.Before(next) {
			next = trouble
		}
		for _, n := range w.nodes {
			if !n.up() && n.away.Before(next) {
				next = n.away
			}
		}
		time.Sleep(min(time.Until(next), time.Until(end)))
		for _, n := range w.nodes {
			if !n.up() && !time.Now().Before(n.away) {
				w.note("%s is back", n.name)
				n.start()
			}
		}
		if !time.Now().Before(event) {
			w.publish()
			event = w.after(w.cfg.Gap)
		}
		if !time.Now().Before(trouble) {
			w.makeTrouble()
			trouble = w.after(w.cfg.Trouble)
		}
	}
	w.note("the network heals")
	w.net.Heal()
	for _, n := range w.nodes {
		if !n.up() {
			n.start()
		}
	}
	time.Sleep(w.cfg.Rest)
	// All clocks in the middle of one slot.
	now := time.Now()
	slot := Params.SlotAt(now)
	if half := slot.Time().Add(Params.Rotation / 2); now.Before(half) {
		time.Sleep(half.Sub(now))
	} else if left := slot.Time().Add(Params.Rotation).Sub(now); left < time.Minute {
		time.Sleep(left + Params.Rotation/2)
	}
	w.check()
}

// after draws the time of the next of something that happens every mean.
func (w *World) after(mean time.Duration) time.Time {
	if mean == 0 {
		return time.Now().Add(1000 * time.Hour)
	}
	return time.Now().Add(time.Duration(w.random.ExpFloat64() * float64(mean)))
}

func (w *World) count(what string) { w.counts[what]++ }

// publish makes one event, or a burst, somewhere.
func (w *World) publish() {
	burst := 1
	if w.random.IntN(10) == 0 {
		burst = 1 + w.random.IntN(8)
	}
	at := w.random.IntN(len(w.nodes) + len(w.stocks))
	for range burst {
		content := fmt.Appendf(nil, "event %d", len(w.published))
		if at >= len(w.nodes) {
			s := w.stocks[at-len(w.nodes)]
			if quiet(time.Now()) {
				return
			}
			e, err := s.Publish(content)
			if err != nil {
				w.t.Errorf("%s: %v", s.name, err)
			}
			w.published[e.ID()] = 0 // stock peers may lose theirs: RLN-less upstream has no retry
			w.count("stock event")
			continue
		}
		n := w.nodes[at]
		if !n.up() || !n.gossip.Synced() || quiet(n.Now()) {
			w.count("no event")
			return
		}
		e, err := n.graph.Publish(w.t.Context(), content)
		if err != nil {
			w.t.Errorf("%s: %v", n.name, err)
			return
		}
		w.published[e.ID()] = Params.SlotAt(eventgraph.Slot(e.Timestamp).Time())
		w.count("event")
	}
}

func quiet(now time.Time) bool {
	slot := Params.SlotAt(now)
	in := now.Sub(slot.Time())
	return in < quietAfter || Params.Rotation-in < quietBefore
}

// makeTrouble does one of the things that go wrong.
func (w *World) makeTrouble() {
	n := w.nodes[w.random.IntN(len(w.nodes))]
	switch k := w.random.IntN(100); {
	case k < 25: // a restart
		w.leave(n, "restarts", false, time.Duration(w.random.Int64N(int64(2*time.Minute))))
	case k < 40:
		w.leave(n, "crashes", true, time.Duration(w.random.Int64N(int64(10*time.Minute))))
	case k < 55: // away for hours
		w.leave(n, "leaves", false, time.Duration(w.random.Int64N(int64(8*time.Hour))))
	case k < 58: // away for longer than anything is kept
		w.leave(n, "leaves for days", false, Window*time.Hour+time.Duration(w.random.Int64N(int64(12*time.Hour))))
	case k < 75:
		w.partition()
	case k < 90:
		m := w.nodes[w.random.IntN(len(w.nodes))]
		w.net.Break(n.host, m.host)
		w.count("break")
	default:
		skew := w.drawSkew()
		w.note("%s sets its clock from %v to %v", n.name, n.skew, skew)
		n.setSkew(skew)
		w.count("clock")
	}
}

func (w *World) leave(n *Node, how string, crash bool, pause time.Duration) {
	if !n.up() {
		return
	}
	w.note("%s %s for %v", n.name, how, pause)
	w.count(how)
	n.stop(crash)
	n.away = time.Now().Add(pause)
}

// partition splits the network in two, or heals it.
func (w *World) partition() {
	if w.random.IntN(2) == 0 {
		w.note("partitions heal")
		w.net.Heal()
		w.count("heal")
		return
	}
	var groups [2][]*p2ptest.Host
	for _, n := range w.nodes {
		k := w.random.IntN(2)
		groups[k] = append(groups[k], n.host)
	}
	for _, s := range w.stocks {
		k := w.random.IntN(2)
		groups[k] = append(groups[k], w.net.Host(s.name))
	}
	w.note("the network splits, %d to %d", len(groups[0]), len(groups[1]))
	w.net.Partition(groups[0], groups[1])
	w.count("partition")
}
