package main

import "hearsay/ircd"

// What "*status" and the welcome of IRC clients tell beyond the state of the network.

// Peers are the node's connections, without addresses (DS-51).
func (d *daemon) Peers() []ircd.Peer {
	var all []ircd.Peer
	for _, c := range d.node.Info().Connections {
		all = append(all, ircd.Peer{ID: connID(c.ID), Session: c.Session.String(), Transport: c.Transport})
	}
	return all
}

// Sync is how much of the recent history is there.
func (d *daemon) Sync() ircd.SyncProgress {
	done, of := d.gossip.Progress()
	return ircd.SyncProgress{Done: done, Of: of}
}

var (
	_ ircd.Peered  = (*daemon)(nil)
	_ ircd.Syncing = (*daemon)(nil)
)
