package ircd

import (
	"strconv"

	"hearsay/internal/privmsg"
)

// isupport is 005, in lines of at most ten tokens. Everything in it is true.
// There is no PREFIX: an empty one, which the specifications want, ends catgirl
// (decision 0205).
func (s *Server) isupport() [][]string {
	n := strconv.Itoa
	few := n(maxTargets)
	tokens := []string{
		"AWAYLEN=" + n(maxAway),
		"BOT=B",
		"CASEMAPPING=ascii",
		"CHANLIMIT=#:" + n(maxJoined),
		"CHANMODES=b,,,",
		"CHANNELLEN=" + n(privmsg.MaxChannel),
		"CHANTYPES=#",
		"CHATHISTORY=" + n(maxChathistory),
		"ELIST=MNTU",
		"LINELEN=" + n(maxLine),
		"MAXTARGETS=" + few,
		"MODES=1",
		"MONITOR=" + n(maxMonitored),
		"MSGREFTYPES=msgid,timestamp",
		"NAMELEN=" + n(maxReason),
		"NETWORK=" + s.cfg.NetworkName,
		"NICKLEN=" + n(privmsg.MaxNick),
		"SAFELIST",
		"TARGMAX=JOIN:,LIST:,MONITOR:,NAMES:1,NOTICE:" + few + ",PART:,PRIVMSG:" + few + ",TAGMSG:" + few + ",WHOIS:1,WHOWAS:1",
		"TOPICLEN=" + n(maxTopic),
		"USERLEN=" + n(maxUser),
		"UTF8ONLY",
		"WHOX",
	}
	var lines [][]string
	for len(tokens) > 10 {
		lines, tokens = append(lines, tokens[:10:10]), tokens[10:]
	}
	return append(lines, tokens)
}
