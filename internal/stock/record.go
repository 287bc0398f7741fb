package stock

import (
	"fmt"
	"slices"
	"time"
)

// A Cost is what a rule's violation costs on an unmodified node.
type Cost uint8

// Costs.
const (
	Silent Cost = iota // nothing happens; upstream does not even notice
	Strike             // one of five
	Close              // the connection
	Ban                // the connection, and the address
)

func (c Cost) String() string { return [...]string{"silent", "strike", "close", "ban"}[c] }

// A Rule names what was broken.
type Rule string

// Rules, with the section that states them.
const (
	RuleUnknownCommand  Rule = "unknown command"                         // p2p 2.5
	RuleMagic           Rule = "wrong magic"                             // p2p 2.5
	RuleCommandLength   Rule = "command longer than 255"                 // p2p 2.5
	RuleCommand         Rule = "malformed command"                       // p2p 2.5
	RuleLength          Rule = "malformed or cut payload length"         // p2p 2.5
	RuleTooLong         Rule = "payload above the type's maximum"        // p2p 2.3
	RuleUndecodable     Rule = "payload does not decode, or was cut"     // p2p 2.5
	RuleTrailing        Rule = "payload longer than its content"         // p2p 1.5
	RuleMetering        Rule = "more than 28 base messages in 10 s"      // p2p 2.4
	RuleMismatch        Rule = "verack of another application"           // p2p 3.3
	RuleHandshake       Rule = "no handshake in time"                    // p2p 3.2
	RuleEarly           Rule = "message before version and verack"       // p2p 3.1
	RuleSecondHandshake Rule = "second version or verack"                // p2p 3.1
	RulePong            Rule = "pong missing, unsolicited or wrong"      // p2p 4.2
	RuleAddrMany        Rule = "more addresses than asked for"           // p2p 4.3
	RuleURL             Rule = "URL not in canonical form"               // p2p 1.4
	RuleFlood           Rule = "more than 200 new events in 60 s"        // eventgraph 4.6
	RuleFresh           Rule = "event stale, from the future or unsound" // eventgraph 4.6 step 7
	RuleEvent           Rule = "event fails the full check"              // eventgraph 4.6 steps 10, 12
	RuleReply           Rule = "EventRep does not match the request"     // eventgraph 4.7
	RuleDepth           Rule = "parents without end"                     // eventgraph 4.7
	RuleUnserved        Rule = "parents of a put not served"             // eventgraph 4.7
	RuleStatic          Rule = "bad StaticPut"                           // eventgraph 4.10
	RuleMany            Rule = "more than 128 ids in EventReq"           // eventgraph 5.4
	RuleReveal          Rule = "EventReq for an id never revealed"       // eventgraph 5.4
	RuleTips            Rule = "more than 1024 tips in HeaderReq"        // eventgraph 5.4
	RuleHeaderPut       Rule = "HeaderPut is reserved"                   // eventgraph 5.1
	RuleUnsolicited     Rule = "reply that nobody asked for"             // eventgraph 5.1
	RuleFifthStrike     Rule = "fifth strike"                            // eventgraph 4.9
	RuleBadHeaders      Rule = "HeaderRep fails the whole sync"          // eventgraph 6.1
	RuleSyncReply       Rule = "reply to a sync request is ignored"      // eventgraph 5.6, 6.2
	RuleGenesisPut      Rule = "genesis pushed"                          // eventgraph trap 44
	RulePuts            Rule = "own and relayed puts above 180 in 60 s"  // the pace that keeps clear of the flood rule
)

// A Violation is one thing that the other side did wrong.
type Violation struct {
	Time    time.Time // by the peer's clock
	Remote  string
	Session Session
	Rule    Rule
	Cost    Cost
	Detail  string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s %s %s: %s (%s) %s", v.Time.UTC().Format("2006-01-02 15:04:05.000"), v.Remote, v.Session, v.Rule, v.Cost, v.Detail)
}

// Counts are things that are no violations.
type Counts struct {
	Puts         int // EventPuts received
	PutsUnsynced int // swallowed because this peer is not synced
	PutsKnown    int // body already here
	PutsOld      int // stamped before the current slot: dropped without a strike
	PutsStored   int
	Fetches      int // parent fetches
	FetchesLost  int // parent fetches that failed without anybody's fault
	Relayed      int // events handed to broadcasts
	RelaysLost   int // relay queue or broadcast jobs full
	Sent         int // frames
	Received     int
	SyncRounds   int
	SyncFailures int
}

// A Record is what a peer has to say about the others.
type Record struct {
	violations []Violation
	bans       []string
	strikes    int
	counts     Counts
}

// Violations lists what the other sides did wrong and what it cost them, oldest
// first.
func (p *Peer) Violations() []Violation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.record.violations)
}

// Costly is Violations without those that are silent.
func (p *Peer) Costly() []Violation {
	return slices.DeleteFunc(p.Violations(), func(v Violation) bool { return v.Cost == Silent })
}

// Strikes is the number of strikes given.
func (p *Peer) Strikes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.record.strikes
}

// Bans lists the black-list entries that were asked for, enforced or not.
func (p *Peer) Bans() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.record.bans)
}

// Counts are the peer's counters.
func (p *Peer) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.record.counts
}

func (p *Peer) count(f func(*Counts)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.record.counts)
}

// violation records one.
func (c *channel) violation(rule Rule, cost Cost, format string, args ...any) {
	c.peer.mu.Lock()
	defer c.peer.mu.Unlock()
	c.peer.record.violations = append(c.peer.record.violations, Violation{
		c.peer.cfg.Now(), c.url.String(), c.session, rule, cost, fmt.Sprintf(format, args...),
	})
}
