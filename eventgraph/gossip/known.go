package gossip

import (
	"sync"

	"hearsay/eventgraph"
)

// A knownSet remembers which events a peer has, since it pushed them or said so:
// they are not relayed to it. It forgets the older half when it is full; forgetting
// costs one needless put.
type knownSet struct {
	mu   sync.Mutex
	gens [2]map[eventgraph.ID]struct{}
}

func (k *knownSet) add(id eventgraph.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.gens[0]) >= maxKnown {
		k.gens[0], k.gens[1] = nil, k.gens[0]
	}
	if k.gens[0] == nil {
		k.gens[0] = make(map[eventgraph.ID]struct{})
	}
	k.gens[0][id] = struct{}{}
}

func (k *knownSet) has(id eventgraph.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, g := range k.gens {
		if _, ok := g[id]; ok {
			return true
		}
	}
	return false
}
