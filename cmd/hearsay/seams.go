package main

import (
	"hearsay/mailbox/endpoint"
	"hearsay/mailbox/relay"
)

// seams are where crash tests put themselves between the parts of this binary (decision
// 0190). No build sets them.
var seams struct {
	custody  func(runStore) runStore // below the tables of the custody store
	endpoint func(*endpoint.Config)
	relay    func(*relay.Config)
}
