package ircd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hearsay/internal/privmsg"
)

// whoxFields are the fields of WHOX in the order in which a reply has them, whatever
// order they were asked in.
const whoxFields = "tcuihsnfdlaor"

// A whox is what a client asked for with "%fields,token". The zero value is plain WHO.
type whox struct {
	fields string
	token  string
}

// parseWhox reads the second parameter of WHO. What comes before '%' are search flags,
// which mean nothing here.
func parseWhox(s string) whox {
	_, spec, ok := strings.Cut(s, "%")
	if !ok {
		return whox{}
	}
	fields, tok, _ := strings.Cut(spec, ",")
	if tok == "" || len(tok) > 3 || strings.Trim(tok, "0123456789") != "" {
		tok = "0"
	}
	return whox{fields, tok}
}

// cmdWho is WHO and WHOX: a channel's people, or who has the nick, or the local clients
// that the mask matches.
func cmdWho(s *Server, rq *request) error {
	mask := rq.param(0)
	if mask == "" || mask == "0" {
		mask = "*"
	}
	x, opers := parseWhox(rq.param(1)), rq.param(1) == "o"
	folded, n := privmsg.Fold(mask), 0
	who := func(channel string, p present) {
		if n++; n <= maxListed {
			s.whoReply(rq, x, channel, p)
		}
	}
	switch cv := s.convs[folded]; {
	case opers: // there are none
	case cv != nil && cv.isChannel():
		for _, p := range s.visible(rq.c, cv) {
			who(cv.name, p)
		}
	case strings.HasPrefix(mask, "#"):
	case s.nicks[folded] != nil:
		who("*", present{s.nicks[folded].nick, s.nicks[folded]})
	case cv != nil: // a contact
		who("*", present{cv.name, nil})
	default:
		for _, c := range s.localClients() {
			if s.whoMatches(folded, c) && (!c.invisible || c == rq.c || s.shareChannel(c, rq.c)) {
				who("*", present{c.nick, c})
			}
		}
		if last, ok := s.lastSpoke(folded); ok && n == 0 {
			who("*", present{s.remoteNick(last.nick), nil})
		}
	}
	if rq.param(0) != "" {
		mask = token(rq.param(0)) // as it was sent
	}
	rq.reply(rplEndOfWho, mask, "End of WHO list")
	return nil
}

// whoMatches holds a mask against what WHO shows of c (RFC 1459 4.5.1).
func (s *Server) whoMatches(mask string, c *client) bool {
	for _, shown := range []string{c.nick, "~" + c.user, localHost, s.cfg.ServerName, c.realname} {
		if matchMask(mask, privmsg.Fold(shown)) {
			return true
		}
	}
	return false
}

// whoReply is one 352 or 354.
func (s *Server) whoReply(rq *request, x whox, channel string, p present) {
	user, host, flags, idle, real := remoteUser, remoteHost, "H", 0, "on the network"
	if c := p.client; c != nil {
		user, host, real = "~"+c.user, localHost, c.realname
		idle = int(time.Since(c.spoke) / time.Second)
		if c.away != "" {
			flags = "G"
		}
		if c.bot {
			flags += "B"
		}
	}
	if x.token == "" {
		rq.reply(rplWhoReply, channel, user, host, s.cfg.ServerName, p.nick, flags, "0 "+real)
		return
	}
	var params []string
	for _, f := range whoxFields {
		if !strings.ContainsRune(x.fields, f) {
			continue
		}
		params = append(params, map[rune]string{
			't': x.token, 'c': channel, 'u': user,
			'i': "255.255.255.255", // no address is ever shown
			'h': host, 's': s.cfg.ServerName, 'n': p.nick, 'f': flags, 'd': "0", 'l': strconv.Itoa(idle),
			'a': "0", 'o': "n/a", 'r': real,
		}[f])
	}
	if strings.ContainsRune(x.fields, 'r') {
		rq.reply(rplWhoSpecial, params...)
	} else {
		rq.replyPlain(rplWhoSpecial, params...)
	}
}

// shareChannel tells whether two clients are in a channel together.
func (s *Server) shareChannel(a, b *client) bool {
	for cv := range a.joined {
		if b.joined[cv] {
			return true
		}
	}
	return false
}

// localClients are the registered ones by nick.
func (s *Server) localClients() []*client {
	var all []*client
	for _, c := range s.nicks {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *client) int { return cmp.Compare(a.nick, b.nick) })
	return all
}

// matchMask tells whether s matches an IRC mask of '*' and '?', in time linear in the
// product of their lengths whatever the mask.
func matchMask(mask, s string) bool {
	star, back := -1, 0
	i, j := 0, 0
	for j < len(s) {
		switch {
		case i < len(mask) && mask[i] == '*':
			star, back = i, j
			i++
		case i < len(mask) && (mask[i] == '?' || mask[i] == s[j]):
			i++
			j++
		case star >= 0:
			back++
			i, j = star+1, back
		default:
			return false
		}
	}
	return strings.Trim(mask[i:], "*") == ""
}
