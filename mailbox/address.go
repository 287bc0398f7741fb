package mailbox

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/mr-tron/base58"
)

// ErrAddress: a text that is not a relay's address.
var ErrAddress = errors.New("mailbox: not a relay address")

// An Address is where a relay listens and the key that it must prove:
// quic://host:port?key=BASE58, or tcp+tls:// for use through a proxy.
type Address struct {
	Scheme string // "quic" or "tcp+tls"
	Host   string // host:port
	Key    ed25519.PublicKey
}

// maxAddress bounds the text of an address, in bytes.
const maxAddress = 512

// ParseAddress reads an address. The error wraps ErrAddress and repeats nothing of
// the text.
func ParseAddress(text string) (Address, error) {
	if len(text) > maxAddress {
		return Address{}, fmt.Errorf("%w: longer than %d bytes", ErrAddress, maxAddress)
	}
	u, err := url.Parse(text)
	if err != nil {
		return Address{}, fmt.Errorf("%w: not a URL", ErrAddress)
	}
	if u.Scheme != "quic" && u.Scheme != "tcp+tls" {
		return Address{}, fmt.Errorf("%w: the scheme must be quic or tcp+tls", ErrAddress)
	}
	if (u.Path != "" && u.Path != "/") || u.Fragment != "" || u.User != nil {
		return Address{}, fmt.Errorf("%w: only host, port and key belong in it", ErrAddress)
	}
	if strings.Contains(u.Host, "%") {
		return Address{}, fmt.Errorf("%w: an address with a zone means nothing to others", ErrAddress)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if p, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || p == 0 || host == "" {
		return Address{}, fmt.Errorf("%w: host and port are needed", ErrAddress)
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil || len(q) != 1 || len(q["key"]) != 1 {
		return Address{}, fmt.Errorf("%w: ?key=BASE58 is needed, once, and nothing else", ErrAddress)
	}
	key, err := base58.Decode(q.Get("key"))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return Address{}, fmt.Errorf("%w: the key is not base58 of %d bytes", ErrAddress, ed25519.PublicKeySize)
	}
	return Address{Scheme: u.Scheme, Host: strings.ToLower(u.Host), Key: key}, nil
}

// String is the text of the address.
func (a Address) String() string {
	return a.Scheme + "://" + a.Host + "?key=" + base58.Encode(a.Key)
}

// Check refuses an address that ParseAddress would not give.
func (a Address) Check() error {
	if _, _, err := net.SplitHostPort(a.Host); err != nil {
		return fmt.Errorf("%w: host and port are needed", ErrAddress)
	}
	_, err := ParseAddress(a.String())
	return err
}
