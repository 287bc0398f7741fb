package ircd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hearsay/internal/privmsg"
	"hearsay/outbound"
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

// ErrUsage, from [StatusCommand.Run]: the command cannot be asked in this way. The client
// is told how it can.
var ErrUsage = errors.New("ircd: no use of this command")

// A StatusCommand is something that can be asked of "*status". The node adds its own
// with [Config.StatusCommands]; one with the name of a built-in command replaces it.
type StatusCommand struct {
	// Name is one word in upper case. Alias is another one that HELP does not list; "": none.
	Name, Alias string
	// Usage is the command with its parameters, for HELP, e.g. "QUEUE LIST|CANCEL id".
	Usage string
	// Help is one line that says what it does.
	Help string
	// More are further lines, for HELP with the command's name.
	More []string
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

// A builtin is a command of "*status" that this package answers.
type builtin struct {
	StatusCommand
	answer func(s *Server, rq *request, args []string) // on the loop; args has what Usage allows
}

// lines answers with lines that the loop knows, and takes no parameters.
func lines(of func(s *Server) []string) func(*Server, *request, []string) {
	return func(s *Server, rq *request, args []string) {
		if len(args) > 0 {
			rq.say("*status", usageText(builtinOf(rq.word)))
			return
		}
		rq.sayAll(of(s))
	}
}

// builtins are in the order of HELP.
func builtins() []builtin {
	return []builtin{
		{StatusCommand{Name: "STATUS", Usage: "STATUS", Help: "how this node is doing", More: []string{
			"The network: whether anybody is connected, and whether the recent history is here.",
			"Your messages: where nothing waits the network has all of them. If nobody answers then, nobody has written.",
		}}, (*Server).answerStatus},
		{StatusCommand{Name: "PEERS", Usage: "PEERS", Help: "the node's connections"}, lines((*Server).peerLines)},
		{StatusCommand{Name: "CHANNELS", Usage: "CHANNELS [ADD #name [secret]|CARD #name|REMOVE #name]", Help: "the channels that are known here; encrypted ones", More: []string{
			"CHANNELS ADD #name: makes an encrypted channel, and its card for everybody who may read it.",
			"CHANNELS ADD #name secret: takes the secret from somebody's card.",
			"CHANNELS CARD #name: the card again.",
			"CHANNELS REMOVE #name: forgets the channel and its secret.",
		}}, (*Server).channels},
		{StatusCommand{Name: "CONTACTS", Usage: "CONTACTS [ADD name [their-key]|CARD name|REMOVE name]", Help: "whom you exchange direct messages with", More: []string{
			"CONTACTS ADD name: makes a key for a new contact, and your card for them.",
			"CONTACTS ADD name their-key: takes the key from their card. When both of you have done so you can write to each other.",
			"CONTACTS CARD name: your card for them again.",
			"CONTACTS REMOVE name: forgets them, with your key for them.",
		}}, (*Server).contacts},
		{historyCommand, (*Server).history},
		{StatusCommand{Name: "CLIENTS", Usage: "CLIENTS", Help: "who is connected to this node"}, lines((*Server).clientLines)},
		{StatusCommand{Name: "REHASH", Usage: "REHASH", Help: "read the configuration again"}, (*Server).rehash},
		{StatusCommand{Name: "VERSION", Usage: "VERSION", Help: "the version of this program"}, lines(func(s *Server) []string { return []string{s.cfg.Version} })},
		{StatusCommand{Name: "HELP", Usage: "HELP [command]", Help: "this, or more of one command"}, (*Server).statusHelp},
	}
}

// builtinOf finds a command by its name.
func builtinOf(name string) (c StatusCommand) {
	for _, b := range builtins() {
		if b.Name == name {
			return b.StatusCommand
		}
	}
	return c
}

func usageText(c StatusCommand) string { return "Usage: " + c.Usage }

// status is a command to "*status".
func (s *Server) status(rq *request, text string) {
	args := strings.Fields(text)
	if len(args) == 0 {
		args = []string{"HELP"}
	}
	rq.word = strings.ToUpper(args[0])
	for _, c := range s.cfg.StatusCommands {
		if rq.word == c.Name || rq.word == c.Alias {
			_, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
			s.runStatus(rq, c, args[1:], strings.TrimSpace(rest))
			return
		}
	}
	for _, b := range builtins() {
		if b.Name == rq.word {
			b.answer(s, rq, args[1:])
			return
		}
	}
	rq.say("*status", "There is no command "+token(args[0])+"; HELP lists them")
}

// runStatus runs a command of the node's on the reader's goroutine.
func (s *Server) runStatus(rq *request, c StatusCommand, args []string, rest string) {
	rq.job = func(ctx context.Context) event {
		lines, err := c.Run(ctx, args, rest)
		return evAnswer{rq, func() {
			rq.sayAll(lines)
			switch {
			case errors.Is(err, ErrUsage):
				rq.say("*status", usageText(c))
			case err != nil:
				rq.sayAll(failed(c.Name, err))
			}
		}}
	}
}

// failed tells an error in its own words.
func failed(what string, err error) (lines []string) {
	for l := range strings.Lines(err.Error()) {
		lines = append(lines, what+" failed: "+clean(l))
	}
	return lines
}

// statusHelp is HELP.
func (s *Server) statusHelp(rq *request, args []string) {
	var all []StatusCommand
	for i, b := range builtins() {
		if !slices.ContainsFunc(s.cfg.StatusCommands, func(c StatusCommand) bool { return c.Name == b.Name }) {
			all = append(all, b.StatusCommand)
		}
		if i == 0 { // after STATUS
			all = append(all, s.cfg.StatusCommands...)
		}
	}
	if len(args) == 0 {
		rq.say("*status", "Commands, as /msg *status COMMAND:")
		for _, c := range all {
			rq.say("*status", c.Usage+": "+c.Help)
		}
		return
	}
	name := strings.ToUpper(args[0])
	i := slices.IndexFunc(all, func(c StatusCommand) bool { return name == c.Name || name == c.Alias })
	if i < 0 {
		rq.say("*status", "There is no command "+token(args[0])+"; HELP lists them")
		return
	}
	rq.sayAll(append([]string{all[i].Usage + ": " + all[i].Help}, all[i].More...))
}

// rehash is REHASH, as a command to "*status".
func (s *Server) rehash(rq *request, args []string) {
	switch {
	case len(args) > 0:
		rq.say("*status", usageText(builtinOf("REHASH")))
	case s.cfg.Reload == nil:
		rq.say("*status", "This server cannot re-read its configuration")
	default:
		rq.job = func(ctx context.Context) event {
			sum, err := s.cfg.Reload(ctx)
			return evAnswer{rq, func() { rq.sayAll(rehashLines(sum, err)) }}
		}
	}
}

// A Queueing is a Network that knows how far this node's own messages have got.
type Queueing interface {
	Network
	// QueueLine says it in a line. It may block for a disk.
	QueueLine() (string, error)
}

// answerStatus is STATUS.
func (s *Server) answerStatus(rq *request, args []string) {
	if len(args) > 0 {
		rq.say("*status", usageText(builtinOf("STATUS")))
		return
	}
	rq.sayAll(s.statusLines())
	if q, ok := s.cfg.Network.(Queueing); ok {
		rq.job = func(context.Context) event {
			text, err := q.QueueLine()
			return evAnswer{rq, func() {
				if err != nil {
					rq.sayAll(failed("STATUS", err))
					return
				}
				rq.say("*status", text)
			}}
		}
	}
}

func (s *Server) statusLines() []string {
	lines := []string{fmt.Sprintf("%s, up %s, %s, %s",
		s.cfg.Version, s.cfg.Now().Sub(s.started).Truncate(time.Second), plural(len(s.nicks), "client"), plural(len(s.convs), "conversation"))}
	if s.cfg.Network == nil {
		return append(lines, "There is no network")
	}
	lines = append(lines, s.cfg.Network.State().String())
	lines = append(lines, s.currentTroubles()...)
	if text, ok := s.blocked(); ok && !s.saidOfTheQueue() {
		lines = append(lines, text)
	}
	return lines
}

// saidOfTheQueue tells whether QueueLine and the network's state say all that the notice of
// what holds messages up would.
func (s *Server) saidOfTheQueue() bool {
	_, tells := s.cfg.Network.(Queueing)
	b, ok := s.cfg.Network.(Blockable)
	if !tells || !ok {
		return false
	}
	switch n, _ := b.Blocked(); n.Reason {
	case outbound.ReasonNotSynced, outbound.ReasonConnections, outbound.ReasonNoAck:
		return true
	default: // what a person has to do is only in the notice
		return false
	}
}

// plural counts things with a regular name.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (s *Server) peerLines() []string {
	p, ok := s.cfg.Network.(Peered)
	if !ok {
		return []string{"This node does not tell about its peers"}
	}
	peers := p.Peers()
	if len(peers) == 0 {
		return []string{"No peer is connected"}
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
		lines = append(lines, fmt.Sprintf("%s: %s, %d here or heard, %s kept", cv.name, kind, len(s.present(cv)), plural(len(cv.log), "message")))
	}
	if len(lines) == 0 {
		return []string{"There are no channels yet: JOIN one"}
	}
	return lines
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
func rehashLines(sum Summary, err error) (lines []string) {
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
		for _, name := range []string{c.Name, c.Alias} {
			if name != strings.ToUpper(name) || strings.ContainsAny(name, " \r\n") || seen[name] {
				return errors.New("a status command needs names of its own, in upper case")
			}
			seen[name] = name != ""
		}
		if c.Name == "" || c.Run == nil {
			return errors.New("a status command needs a name and Run")
		}
	}
	return nil
}
