package ircd

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ergochat/irc-go/ircmsg"
)

// A command is a row of the command table.
type command struct {
	handler   func(s *Server, rq *request) error
	minParams int
	anytime   bool // may be used before registration
	long      bool // lines may be longer than maxLine
}

// commands is every command that is known. What is missing is answered 421.
var commands = map[string]command{
	"ADMIN":        {handler: here(0, (*Server).admin)},
	"AUTHENTICATE": {handler: cmdAuthenticate, minParams: 1, anytime: true},
	"AWAY":         {handler: cmdAway},
	"CAP":          {handler: cmdCap, minParams: 1, anytime: true},
	"CHATHISTORY":  {handler: cmdChathistory},
	"CONNECT":      {handler: cmdOperOnly, minParams: 1},
	"DIE":          {handler: cmdOperOnly},
	"HELP":         {handler: cmdHelp},
	"HELPOP":       {handler: cmdHelp},
	"INFO":         {handler: here(0, (*Server).info)},
	"INVITE":       {handler: cmdInvite, minParams: 2},
	"ISON":         {handler: cmdIson, minParams: 1},
	"JOIN":         {handler: cmdJoin, minParams: 1},
	"KICK":         {handler: cmdKick, minParams: 2},
	"KILL":         {handler: cmdOperOnly, minParams: 2},
	"LINKS":        {handler: cmdLinks},
	"LIST":         {handler: cmdList},
	"LUSERS":       {handler: here(1, (*Server).lusers)},
	"MAP":          {handler: cmdMap},
	"MARKREAD":     {handler: cmdMarkread},
	"MODE":         {handler: cmdMode, minParams: 1},
	"MONITOR":      {handler: cmdMonitor, minParams: 1},
	"MOTD":         {handler: here(0, (*Server).motd)},
	"NAMES":        {handler: cmdNames},
	"NICK":         {handler: cmdNick, anytime: true},
	"NOTICE":       {handler: cmdNotice, long: true},
	"OPER":         {handler: cmdOper, minParams: 2},
	"PART":         {handler: cmdPart, minParams: 1},
	"PASS":         {handler: cmdPass, minParams: 1, anytime: true},
	"PING":         {handler: cmdPing, anytime: true},
	"PONG":         {handler: cmdPong, anytime: true},
	"PRIVMSG":      {handler: cmdPrivmsg, long: true},
	"QUIT":         {handler: cmdQuit, anytime: true},
	"REHASH":       {handler: cmdRehash},
	"RESTART":      {handler: cmdOperOnly},
	"SETNAME":      {handler: cmdSetname, minParams: 1},
	"SQUIT":        {handler: cmdOperOnly, minParams: 1},
	"STATS":        {handler: cmdStats},
	"SUMMON":       {handler: cmdSummon},
	"TAGMSG":       {handler: cmdTagmsg},
	"TIME":         {handler: here(0, (*Server).time)},
	"TOPIC":        {handler: cmdTopic, minParams: 1},
	"USER":         {handler: cmdUser, minParams: 4, anytime: true},
	"USERHOST":     {handler: cmdUserhost, minParams: 1},
	"USERS":        {handler: cmdUsers},
	"VERSION":      {handler: here(0, (*Server).version)},
	"WALLOPS":      {handler: cmdOperOnly, minParams: 1},
	"WHO":          {handler: cmdWho},
	"WHOIS":        {handler: cmdWhois},
	"WHOWAS":       {handler: cmdWhowas},
}

// dispatch handles one line of c, whose reader waits on c.resume.
func (s *Server) dispatch(c *client, text string) {
	if c.gone || !c.open {
		c.resume <- nil
		return
	}
	c.heard, c.pinged = time.Now(), time.Time{}
	rq := s.parse(c, text)
	if rq == nil {
		c.resume <- nil
		return
	}
	if err := s.run(rq); err != nil {
		rq.refuse(err)
	}
	s.finish(rq)
}

// finish completes the answer, or leaves that to the event of a job.
func (s *Server) finish(rq *request) {
	if rq.job != nil {
		j := rq.job
		rq.job = nil
		rq.c.resume <- j
		return
	}
	rq.flush()
	s.pump(rq.c)
	rq.c.resume <- nil
}

func (rq *request) refuse(err error) {
	var r *reply
	if errors.As(err, &r) {
		rq.reply(r.numeric, r.params...)
		return
	}
	rq.s.log.Error("command failed", "command", rq.msg.Command, "error", err)
	rq.reply(errUnknownError, rq.msg.Command, "Internal error")
}

// parse makes a request of a line, or answers a line that is none.
func (s *Server) parse(c *client, text string) *request {
	rq := &request{s: s, c: c}
	if strings.Trim(text, " ") == "" {
		return nil
	}
	msg, err := ircmsg.ParseLineStrict(text, true, 0)
	rq.msg = msg
	switch {
	case errors.Is(err, ircmsg.ErrorTagsTooLong):
		rq.reply(errInputTooLong, "Input line was too long")
		return nil
	case errors.Is(err, ircmsg.ErrorLineIsEmpty):
		return nil
	case !utf8.ValidString(text):
		rq.labelled()
		rq.invalidUTF8()
		rq.flush()
		return nil
	case err != nil:
		rq.reply(errUnknownError, commandOf(msg.Command), "Malformed line")
		return nil
	}
	rq.labelled()
	body := len(text)
	if text[0] == '@' {
		body = len(strings.TrimLeft(text[strings.IndexByte(text, ' '):], " "))
	}
	if !commands[msg.Command].long && body+len("\r\n") > maxLine {
		rq.reply(errInputTooLong, "Input line was too long")
		rq.flush()
		return nil
	}
	return rq
}

// labelled takes over the line's label, if it is one.
func (rq *request) labelled() {
	if _, label := rq.msg.GetTag("label"); rq.c.caps.has(capLabeledResponse) && len(label) <= maxLabel && utf8.ValidString(label) {
		rq.label = label
	}
}

// invalidUTF8 is the answer that UTF8ONLY demands, also for clients that did not ask for
// standard replies: there is no numeric for it (IRCv3 utf8only).
func (rq *request) invalidUTF8() {
	rq.send(free(rq.s.cfg.ServerName, "FAIL", commandOf(rq.msg.Command), "INVALID_UTF8", "Message rejected, it is not UTF-8"))
}

// commandOf is a command as far as it can be repeated to its sender.
func commandOf(command string) string {
	if command == "" {
		return "*"
	}
	return token(strings.ToValidUTF8(command, "?"))
}

func (s *Server) run(rq *request) error {
	cmd, known := commands[rq.msg.Command]
	switch {
	case !rq.c.registered && !cmd.anytime: // also for commands that do not exist (T6)
		return numeric(errNotRegistered, "You have not registered")
	case !known:
		return numeric(errUnknownCommand, commandOf(rq.msg.Command), "Unknown command")
	case len(rq.msg.Params) < cmd.minParams:
		return numeric(errNeedMoreParams, rq.msg.Command, "Not enough parameters")
	}
	return cmd.handler(s, rq)
}
