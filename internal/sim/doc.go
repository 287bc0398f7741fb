// Package sim runs whole networks in fake time: real nodes (p2p, gossip, graph) over
// memory stores and the simulated network of p2p/p2ptest, for days, with everything
// going wrong that does in life: nodes that leave, crash and come back on the same
// store, partitions, connections that break, clocks that disagree, rotations, and
// stock peers in between. At the end it heals the network, lets it rest, and checks
// that every node holds the same events in every retained slot, that nothing which was
// stored anywhere was lost, and that nobody struck or banned anybody.
//
// A [World] is made and run inside a testing/synctest bubble. What happens when is
// drawn from a seed: the same seed gives the same script. (Which of two goroutines that
// are ready at the same instant runs first is the scheduler's choice, so a failure that
// depends on that may need a few runs of its seed.)
//
// It knows nothing of messages; it sees nodes from outside. A World's goroutines are
// those of its nodes and peers, which World.Close ends.
package sim
