// Command hearsay is a node of DarkIRC's event-graph network that speaks IRC to
// its user.
//
// Each file is a subcommand, but for these: main.go has the table of commands and
// the exit codes; wire.go is the only file that sees every package, and turns a
// config.Config into theirs; run.go is the daemon's life, from locks to a clean
// stop; custody.go is the store of what this node owes its users, with everything
// that lives in it; network.go is the graph and its peers as the outbound queue's
// worker sees them; log.go is the only place where zerolog is known.
//
// What people and scripts rely on (names, exit codes, the schema of the status)
// is told by the help texts and the README; testdata/script holds the examples
// that are checked.
package main
