package privmsg

import "strings"

// nickSymbols are the characters of a nick beside ASCII letters and digits.
const nickSymbols = "-_[]{}\\`^|"

func isNickByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte(nickSymbols, c) >= 0
}

// ValidNick is upstream's rule for nicks and contact labels (facts 1.3): 1 to 24 of
// letters, digits and -_[]{}\`^|, in any order.
func ValidNick(s string) bool {
	if len(s) == 0 || len(s) > MaxNick {
		return false
	}
	for i := range len(s) {
		if !isNickByte(s[i]) {
			return false
		}
	}
	return true
}

// ValidChannel is upstream's rule for channels (facts 1.3): 2 to 24 bytes, '#'
// first and not second, printable ASCII without space and comma.
func ValidChannel(s string) bool {
	if len(s) < 2 || len(s) > MaxChannel || s[0] != '#' || s[1] == '#' {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == ',' {
			return false
		}
	}
	return true
}

// Fold is CASEMAPPING=ascii: names that are equal after it are the same to an IRC
// client (T19).
func Fold(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for j := i; j < len(b); j++ {
				if 'A' <= b[j] && b[j] <= 'Z' {
					b[j] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

// CleanNick makes a nick out of what a peer claims to be called: characters that no
// nick has become '_', a longer one is cut, an empty one is "_". Nothing that a
// prefix or a line is made of survives (T1).
func CleanNick(s string) string {
	if ValidNick(s) {
		return s
	}
	b := make([]byte, 0, MaxNick)
	for _, r := range s {
		if len(b) == MaxNick {
			break
		}
		if r < 0x80 && isNickByte(byte(r)) {
			b = append(b, byte(r))
		} else {
			b = append(b, '_')
		}
	}
	if len(b) == 0 {
		return "_"
	}
	return string(b)
}
