package ircd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hearsay/internal/privmsg"
)

// services are the nicks of this daemon itself, by folded name.
var services = map[string]string{
	"*status":  "*status",
	"chanserv": "ChanServ",
	"nickserv": "NickServ",
}

// disguises are nicks that a remote "*status" could be taken for: a nick has no '*'.
var disguises = map[string]bool{"_status": true}

// serviceUser is the user part of a service.
func serviceUser(name string) string { return strings.TrimPrefix(name, "*") }

func servicePrefix(name string) string { return name + "!" + serviceUser(name) + "@" + localHost }

// A StatusCommand is something that can be asked of "*status". The node adds its own
// with [Config.StatusCommands]; one with the name of a built-in command replaces it.
type StatusCommand struct {
	// Name is one word in upper case.
	Name string
	// Usage is the command with its parameters, for HELP, e.g. "QUEUE LIST|CANCEL id".
	Usage string
	// Help is one line that says what it does.
	Help string
	// Run answers with lines of text. args are the words after the name, rest the same
	// as typed. It may block for a disk, not for the network: the client that asks waits
	// for it and nobody else. An error is told to the client, in its words.
	Run func(ctx context.Context, args []string, rest string) ([]string, error)
}

// A Peered is a Network that can say who its peers are.
type Peered interface {
	Network
	// Peers must not block.
	Peers() []Peer
}

// A Peer is a connection of the node, for people to look at.
type Peer struct {
	ID        string // names the connection, not the other side
	Session   string // "inbound", "outbound", "manual"
	Transport string // "quic", "tcp+tls", "tor", …
}

// service answers PRIVMSG to a service. A NOTICE to one is not answered.
func (s *Server) service(rq *request, folded string) {
	if rq.msg.Command == "NOTICE" {
		return
	}
	name, text := services[folded], rq.param(1)
	if rq.c.caps.has(capEchoMessage) {
		for _, piece := range wrap(text, room(rq.c.prefix(), "PRIVMSG", name)) {
			rq.send(free(rq.c.prefix(), "PRIVMSG", name, piece))
		}
	}
	if privmsg.IsCTCP(text) {
		return
	}
	if name != "*status" {
		rq.say(name, "Rate limiting (RLN) is off here: there are no identities to manage, and nothing to "+serviceVerb(text))
		return
	}
	s.status(rq, text)
}

// serviceVerb is what somebody asked of darkirc's NickServ, as far as it is a command.
func serviceVerb(text string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	switch word = strings.ToUpper(word); word {
	case "INFO":
		return "show"
	case "REGISTER", "SET", "DEREGISTER", "SLASH":
		return strings.ToLower(word)
	}
	return "do"
}

// say adds a NOTICE of a service to the answer.
func (rq *request) say(name, text string) {
	for _, piece := range wrap(clean(text), maxReply) {
		rq.send(free(servicePrefix(name), "NOTICE", rq.c.nick, piece))
	}
}

// sayAll says lines of "*status", at most maxListed.
func (rq *request) sayAll(lines []string) {
	for i, l := range lines {
		if i == maxListed {
			rq.say("*status", fmt.Sprintf("… and %d more", len(lines)-i))
			break
		}
		rq.say("*status", l)
	}
}

// A builtin is a command of "*status" that the loop answers itself.
type builtin struct {
	name, help string
	answer     func(s *Server) []string // nil: status does more than answer
}

// builtins are in the order of HELP.
var builtins = []builtin{
	{"STATUS", "how this node is doing", (*Server).statusLines},
	{"PEERS", "the node's connections", (*Server).peerLines},
	{"CHANNELS", "the channels that are known here; CHANNELS ADD #name [secret] and REMOVE #name, for encrypted ones", (*Server).channelLines},
	{"CONTACTS", "your contacts; CONTACTS ADD name [their key], REMOVE name, CARD name", (*Server).contactLines},
	{"CLIENTS", "who is connected to this node", (*Server).clientLines},
	{"REHASH", "read the configuration again", nil},
	{"VERSION", "the version of this program", func(s *Server) []string { return []string{s.cfg.Version} }},
	{"HELP", "this", nil},
}

// status is a command to "*status".
func (s *Server) status(rq *request, text string) {
	args := strings.Fields(text)
	if len(args) == 0 {
		args = []string{"HELP"}
	}
	name := strings.ToUpper(args[0])
	for _, c := range s.cfg.StatusCommands {
		if c.Name == name {
			_, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
			s.runStatus(rq, c, args[1:], strings.TrimSpace(rest))
			return
		}
	}
	i := slices.IndexFunc(builtins, func(b builtin) bool { return b.name == name })
	switch {
	case name == "HELP":
		rq.sayAll(s.statusHelp())
	case name == "REHASH" && s.cfg.Reload == nil:
		rq.say("*status", "This server cannot re-read its configuration")
	case name == "REHASH":
		rq.job = func(ctx context.Context) event {
			sum, err := s.cfg.Reload(ctx)
			return evAnswer{rq, func() { rq.sayAll(rehashLines(sum, err)) }}
		}
	case len(args) > 1 && (name == "CONTACTS" || name == "CHANNELS"):
		s.editStatus(rq, name, args[1:])
	case i >= 0:
		rq.sayAll(builtins[i].answer(s))
	default:
		rq.say("*status", "Unknown command "+token(args[0])+". Try HELP")
	}
}

// runStatus runs a command of the node's on the reader's goroutine.
func (s *Server) runStatus(rq *request, c StatusCommand, args []string, rest string) {
	rq.job = func(ctx context.Context) event {
		lines, err := c.Run(ctx, args, rest)
		return evAnswer{rq, func() {
			rq.sayAll(lines)
			if err != nil {
				for l := range strings.Lines(err.Error()) {
					rq.say("*status", c.Name+" failed: "+clean(l))
				}
			}
		}}
	}
}

func (s *Server) statusHelp() []string {
	lines := []string{"Commands, as /msg *status COMMAND:"}
	for _, c := range s.cfg.StatusCommands {
		lines = append(lines, c.Usage+": "+c.Help)
	}
	for _, b := range builtins {
		if !slices.ContainsFunc(s.cfg.StatusCommands, func(c StatusCommand) bool { return c.Name == b.name }) {
			lines = append(lines, b.name+": "+b.help)
		}
	}
	return lines
}

func (s *Server) statusLines() []string {
	lines := []string{fmt.Sprintf("%s, up %s, %d clients, %d conversations",
		s.cfg.Version, s.cfg.Now().Sub(s.started).Truncate(time.Second), len(s.nicks), len(s.convs))}
	if s.cfg.Network == nil {
		return append(lines, "There is no network")
	}
	lines = append(lines, s.cfg.Network.State().String())
	lines = append(lines, s.currentTroubles()...)
	if text, ok := s.blocked(); ok {
		lines = append(lines, text)
	}
	return lines
}

func (s *Server) peerLines() []string {
	p, ok := s.cfg.Network.(Peered)
	if !ok {
		return []string{"This node does not tell about its peers"}
	}
	peers := p.Peers()
	if len(peers) == 0 {
		return []string{"There are no peers"}
	}
	var lines []string
	for _, p := range peers {
		lines = append(lines, fmt.Sprintf("%s: %s, %s", p.ID, p.Session, p.Transport))
	}
	return lines
}

func (s *Server) channelLines() []string {
	var lines []string
	for _, cv := range s.listed() {
		kind := "public"
		if cv.kind == privmsg.Channel {
			kind = "encrypted"
		}
		if cv.configured {
			kind += ", configured"
		}
		lines = append(lines, fmt.Sprintf("%s: %s, %d here or heard, %d messages kept", cv.name, kind, len(s.present(cv)), len(cv.log)))
	}
	if len(lines) == 0 {
		return []string{"There are no channels yet: JOIN one"}
	}
	return lines
}

func (s *Server) contactLines() []string {
	var lines []string
	for _, c := range s.settings.Contacts {
		lines = append(lines, fmt.Sprintf("%s: their key %s, yours for them %s", c.Label, c.Public.Base58(), c.Secret.Public().Base58()))
	}
	if len(lines) == 0 {
		lines = append(lines, "You have no contacts")
	}
	return append(lines, `To add one: CONTACTS ADD name makes a card for them; CONTACTS ADD name their-key takes theirs. CONTACTS REMOVE name, CONTACTS CARD name`)
}

func (s *Server) clientLines() []string {
	var lines []string
	for _, c := range s.localClients() {
		l := c.nick + ": since " + c.signon.UTC().Format("2006-01-02 15:04:05 UTC")
		if c.who.device != "" {
			l += ", device " + c.who.device
		}
		if c.secure {
			l += ", TLS"
		}
		lines = append(lines, l)
	}
	return lines
}

// rehashLines tells how a reload ended.
func rehashLines(sum Summary, err error) []string {
	var lines []string
	if err != nil {
		for l := range strings.Lines(err.Error()) {
			lines = append(lines, "REHASH failed, nothing was changed: "+clean(l))
		}
		return lines
	}
	if lines = sum.lines("REHASH: "); len(lines) == 0 {
		lines = append(lines, "REHASH: nothing has changed")
	}
	return lines
}

// validateStatusCommands checks what the node adds.
func validateStatusCommands(all []StatusCommand) error {
	seen := map[string]bool{}
	for _, c := range all {
		if c.Name == "" || c.Run == nil || c.Name != strings.ToUpper(c.Name) || strings.ContainsAny(c.Name, " \r\n") || seen[c.Name] {
			return errors.New("a status command needs a name of its own, in upper case, and Run")
		}
		seen[c.Name] = true
	}
	return nil
}
