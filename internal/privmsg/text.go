package privmsg

import (
	"strings"
	"unicode/utf8"
)

// CTCP frames a command inside a text; ACTION ("/me") is the only one that travels.
const (
	ctcpMark     = "\x01"
	actionPrefix = "\x01ACTION "
)

// IsCTCP tells whether text is a CTCP message.
func IsCTCP(text string) bool { return strings.HasPrefix(text, ctcpMark) }

// IsAction tells whether text is a CTCP ACTION.
func IsAction(text string) bool {
	return strings.HasPrefix(text, actionPrefix) || text == "\x01ACTION\x01"
}

// Lines makes IRC texts out of what a peer sent (facts 1.5): split at every CR and LF,
// without NUL, without empty lines, invalid UTF-8 replaced. CTCP other than ACTION
// is left out, and the CTCP mark stays only around an ACTION. At most [MaxLines]
// come back; whether there were more is in cut.
func Lines(text string) (lines []string, cut bool) {
	for len(text) > 0 {
		line := text
		if i := strings.IndexAny(text, "\r\n"); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = ""
		}
		if line = cleanLine(line); line == "" {
			continue
		}
		if len(lines) == MaxLines {
			return lines, true
		}
		lines = append(lines, line)
	}
	return lines, false
}

func cleanLine(line string) string {
	line = strings.ToValidUTF8(strings.ReplaceAll(line, "\x00", ""), "\uFFFD")
	switch {
	case !strings.Contains(line, ctcpMark):
		return line
	case !IsCTCP(line):
		return strings.ReplaceAll(line, ctcpMark, "")
	case !IsAction(line):
		return ""
	}
	body := strings.ReplaceAll(line[len(ctcpMark):], ctcpMark, "") // upstream's cut can remove the closing mark
	return ctcpMark + body + ctcpMark
}

// Split cuts text into pieces of at most limit bytes which, joined, are text again.
// It never cuts inside a code point, and cuts after a space where there is one in
// the last quarter of a piece. An ACTION becomes several ACTIONs, whose bodies join
// likewise. Limit must leave room for a code point beside the ACTION frame: at least
// 16. Invalid UTF-8 is cut between its bytes.
func Split(text string, limit int) []string {
	if len(text) <= limit {
		return []string{text}
	}
	if !strings.HasPrefix(text, actionPrefix) {
		return cutText(text, limit)
	}
	body := strings.TrimSuffix(text[len(actionPrefix):], ctcpMark)
	pieces := cutText(body, limit-len(actionPrefix)-len(ctcpMark))
	for i, p := range pieces {
		pieces[i] = actionPrefix + p + ctcpMark
	}
	return pieces
}

func cutText(text string, limit int) []string {
	var pieces []string
	for len(text) > limit {
		n := limit
		for n > limit-utf8.UTFMax && n > 1 && !utf8.RuneStart(text[n]) {
			n--
		}
		if sp := strings.LastIndexByte(text[:n], ' '); sp+1 > n-n/4 {
			n = sp + 1
		}
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return append(pieces, text)
}
