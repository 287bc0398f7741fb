package ircd

import (
	"maps"
	"slices"
	"strings"
)

// helpTopics is what HELP says, by subject; the first line is a heading. There is one
// for every command.
var helpTopics = map[string][]string{
	"*": {
		"Help on this server",
		"Channels and contacts are conversations on the network; a nick that is connected to this node is written to here.",
		"/msg *status HELP says what can be asked of the node.",
	},
	"CONTACTS": {
		"Direct messages",
		"Direct messages go to contacts: somebody whose public key is in the configuration, as [contact.\"name\"].",
		"Write to one with PRIVMSG name :text. /msg *status CONTACTS lists them and says how to add one.",
	},
	"ADMIN":        {"ADMIN [server]", "Who runs this server."},
	"AUTHENTICATE": {"AUTHENTICATE PLAIN", "Gives the daemon's password by SASL; clients do it by themselves."},
	"AWAY":         {"AWAY [:text]", "Marks you as away, or back. Only clients of this node see it."},
	"CAP":          {"CAP LS|LIST|REQ|END", "Negotiates capabilities; clients do it by themselves."},
	"CHATHISTORY":  {"CHATHISTORY LATEST|BEFORE|AFTER|AROUND|BETWEEN|TARGETS …", "Asks for earlier messages; clients with draft/chathistory do it by themselves."},
	"CONNECT":      {"CONNECT", "Not available: there are no operators here."},
	"DIE":          {"DIE", "Not available: there are no operators here."},
	"HELP":         {"HELP [subject]", "This."},
	"HELPOP":       {"HELPOP [subject]", "HELP."},
	"INFO":         {"INFO [server]", "What this server is."},
	"INVITE":       {"INVITE nick #channel", "Invites a client of this node. Whoever knows a channel's name or secret needs no invitation."},
	"ISON":         {"ISON nick …", "Which of these can be written to: clients of this node, and contacts."},
	"JOIN":         {"JOIN #channel[,#channel …]", "Shows a channel, and its recent past. A channel's secret is in the configuration, not a key here."},
	"KICK":         {"KICK", "Not available: there are no channel operators here."},
	"KILL":         {"KILL", "Not available: there are no operators here."},
	"LINKS":        {"LINKS [[server] mask]", "This server: peers are not servers."},
	"LIST":         {"LIST [mask|!mask|>users|<users|T>minutes|T<minutes]", "Channels that are configured, joined here, or were heard of lately."},
	"LUSERS":       {"LUSERS", "How many clients this node has."},
	"MAP":          {"MAP", "This server: peers are not servers."},
	"MARKREAD":     {"MARKREAD target [timestamp=…]", "Up to when a conversation was read; clients with draft/read-marker do it by themselves."},
	"MODE":         {"MODE nick [+i|+B] or MODE #channel", "Your user modes: i hides you from WHO and WHOIS, B marks a bot. Channels have no modes."},
	"MONITOR":      {"MONITOR +|- nick,… or MONITOR C|L|S", "Tells when clients of this node come and go. Contacts always count as there."},
	"MOTD":         {"MOTD [server]", "The message of the day."},
	"NAMES":        {"NAMES [#channel]", "Clients of this node in the channel, and who spoke in it in the last 24 hours. Without a channel: in all."},
	"NICK":         {"NICK nick", "Changes your nick: letters, digits and -_[]{}\\`^|, at most 24."},
	"NOTICE":       {"NOTICE target :text", "Sends a text. The network has no notices: there it is a message."},
	"OPER":         {"OPER", "Not available: there are no operators here."},
	"PART":         {"PART #channel[,#channel …] [:reason]", "Leaves channels. The network is not told: who is there is not known to it."},
	"PASS":         {"PASS password", "Gives the daemon's password, before NICK and USER."},
	"PING":         {"PING token", "Asks for a PONG with the token."},
	"PONG":         {"PONG token", "Answers a PING."},
	"PRIVMSG": {
		"PRIVMSG target :text",
		"Sends a text to a channel, a contact, or a nick that is connected to this node. It is kept until it went out.",
		"A text of more than 512 bytes becomes several messages; the limit is 8192.",
	},
	"QUIT":     {"QUIT [:reason]", "Ends the connection."},
	"REHASH":   {"REHASH", "Reads the configuration again. With an error in it, nothing changes."},
	"RESTART":  {"RESTART", "Not available: there are no operators here."},
	"SETNAME":  {"SETNAME :name", "Changes your real name. Only clients of this node see it."},
	"SQUIT":    {"SQUIT", "Not available: there are no operators here."},
	"STATS":    {"STATS u", "How long this server has been up."},
	"SUMMON":   {"SUMMON", "Not available."},
	"TAGMSG":   {"TAGMSG target", "Sends client-only tags to clients of this node. The network has no tags."},
	"TIME":     {"TIME [server]", "The server's time."},
	"TOPIC":    {"TOPIC #channel [:text]", "Shows or sets the topic. It is known on this node only."},
	"USER":     {"USER name 0 * :real name", "Registers, with NICK. name@device tells several clients of one person apart."},
	"USERHOST": {"USERHOST nick …", "Addresses, as far as there are any."},
	"USERS":    {"USERS", "Not available."},
	"VERSION":  {"VERSION [server]", "The version, and what this server supports."},
	"WALLOPS":  {"WALLOPS", "Not available: there are no operators here."},
	"WHO":      {"WHO #channel|nick|mask [%fields[,token]]", "People, with WHOX. A mask is held against nick, user, host, server and real name."},
	"WHOIS":    {"WHOIS nick", "What is known about a nick. On the network, a nick proves nothing."},
	"WHOWAS":   {"WHOWAS nick [count]", "Clients of this node that are gone."},
}

// helpSubjects are the subjects by name.
func helpSubjects() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(helpTopics)), func(s string) bool { return s == "*" })
}

// cmdHelp is HELP and HELPOP.
func cmdHelp(_ *Server, rq *request) error {
	subject := strings.ToUpper(rq.param(0))
	if subject == "" {
		subject = "*"
	}
	text, ok := helpTopics[subject]
	if !ok {
		return numeric(errHelpNotFound, token(rq.param(0)), "No help on this; HELP without a subject lists what there is")
	}
	if subject == "*" {
		text = append(text[:len(text):len(text)], wrap("Subjects: "+strings.Join(helpSubjects(), " "), maxReply)...)
	}
	rq.reply(rplHelpStart, subject, text[0])
	for _, l := range text[1:] {
		rq.reply(rplHelpTxt, subject, l)
	}
	rq.reply(rplEndOfHelp, subject, "End of /HELP")
	return nil
}
