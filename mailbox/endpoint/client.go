package endpoint

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"hearsay/mailbox"
)

// Errors that callers branch on.
var (
	// ErrUnavailable: the relay could not be reached, or did not answer. Whether a
	// request had an effect is not known; every request may be repeated.
	ErrUnavailable = errors.New("endpoint: relay is not available")
	// ErrUnsupported: the request is an extension that the relay does not speak. Nothing
	// was sent.
	ErrUnsupported = errors.New("endpoint: relay does not speak the extension")
	// ErrProtocol: the relay answered what no relay may answer.
	ErrProtocol = errors.New("endpoint: relay breaks the protocol")
)

// requestTimeout bounds one request, the connection that it may need included.
const requestTimeout = 30 * time.Second

// A Client talks to one relay. It is safe for concurrent use.
type Client struct {
	relay mailbox.Address
	key   ed25519.PublicKey
	tls   *tls.Config
	dial  func(ctx context.Context, network, address string) (net.Conn, error)

	mu   sync.Mutex
	conn *quic.Conn // the QUIC connection in use, if there is one
}

// NewClient makes a client with a transport identity of its own, and dials nothing
// yet. dial is used for tcp+tls relays; nil dials directly. The errors are those of
// relay.Check.
func NewClient(relay mailbox.Address, key ed25519.PrivateKey, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*Client, error) {
	if err := relay.Check(); err != nil {
		return nil, err
	}
	conf, err := mailbox.ClientTLS(key, relay.Key)
	if err != nil {
		return nil, err
	}
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return &Client{relay: relay, key: key.Public().(ed25519.PublicKey), tls: conf, dial: dial}, nil
}

// Prove implements Prover: for this client at its relay.
func (c *Client) Prove(secret [32]byte) mailbox.Proof {
	return mailbox.Prove(secret, c.relay.Key, c.key)
}

// Do sends one request and returns the response to it: on its own stream or
// connection, closed after the request. It takes 30 s at most, connecting included.
// The errors are those of req.Encode, mailbox.ErrIdentity (the relay has another key),
// ErrUnsupported, ErrUnavailable and ErrProtocol; none of them holds an address.
func (c *Client) Do(ctx context.Context, req mailbox.Request) (mailbox.Response, error) {
	b, err := req.Encode()
	if err != nil {
		return mailbox.Response{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var out []byte
	if c.relay.Scheme == "quic" {
		out, err = c.viaQUIC(ctx, b, req.Extension())
	} else {
		out, err = c.viaTLS(ctx, b, req.Extension())
	}
	if err != nil {
		for _, told := range []error{mailbox.ErrIdentity, ErrUnsupported} {
			if errors.Is(err, told) {
				return mailbox.Response{}, told
			}
		}
		return mailbox.Response{}, ErrUnavailable // the cause holds addresses
	}
	resp, err := mailbox.DecodeResponse(out)
	if err != nil {
		return mailbox.Response{}, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if !answers(req, resp) {
		return mailbox.Response{}, fmt.Errorf("%w: an answer to another request", ErrProtocol)
	}
	return resp, nil
}

// answers tells whether resp is of the variant that req asks for.
func answers(req mailbox.Request, resp mailbox.Response) bool {
	return (req.Deposit != nil) == (resp.Deposit != nil) && (req.Lease != nil) == (resp.Lease != nil) &&
		(req.AckLease != nil) == (resp.AckLease != nil) && (req.Info != nil) == (resp.Info != nil) &&
		(req.RefuseRows != nil) == (resp.RefuseRows != nil) &&
		(req.ClaimTokens != nil) == (resp.ClaimTokens != nil)
}

// Close ends the connection in use; another Do makes a new one.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.CloseWithError(0, "")
		c.conn = nil
	}
}

// viaQUIC does a request on a stream of the connection in use. One that does not work
// any more, since the relay was restarted perhaps, is replaced once: requests may be
// repeated.
func (c *Client) viaQUIC(ctx context.Context, b []byte, extension bool) ([]byte, error) {
	conn, used, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	out, err := c.onConn(ctx, conn, b, extension)
	if err != nil && used && conn.Context().Err() != nil && ctx.Err() == nil {
		if conn, _, err = c.connect(ctx); err != nil {
			return nil, err
		}
		return c.onConn(ctx, conn, b, extension)
	}
	return out, err
}

func (c *Client) onConn(ctx context.Context, conn *quic.Conn, b []byte, extension bool) ([]byte, error) {
	if extension && conn.ConnectionState().TLS.NegotiatedProtocol != mailbox.ProtocolHearsay {
		return nil, ErrUnsupported
	}
	out, err := exchange(ctx, conn, b)
	if refused := (*quic.StreamError)(nil); err != nil && (!errors.As(err, &refused) || !refused.Remote) {
		c.drop(conn) // it may be a relay's that was restarted since, which never answers
	}
	return out, err
}

// drop closes a connection that does not work, so that the next request makes another.
func (c *Client) drop(conn *quic.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == conn {
		c.conn = nil
	}
	_ = conn.CloseWithError(0, "")
}

// exchange sends a request on a stream of its own and reads the answer.
func exchange(ctx context.Context, conn *quic.Conn, b []byte) ([]byte, error) {
	st, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { st.CancelRead(0); st.CancelWrite(0) })
	defer stop()
	if _, err := st.Write(b); err != nil {
		return nil, err
	}
	if err := st.Close(); err != nil {
		return nil, err
	}
	return readAll(st)
}

// connect returns the live connection or makes one; used tells that it was in use before.
func (c *Client) connect(ctx context.Context) (conn *quic.Conn, used bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil && c.conn.Context().Err() == nil {
		return c.conn, true, nil
	}
	conn, err = quic.DialAddr(ctx, c.relay.Host, c.tls, &quic.Config{
		MaxIdleTimeout: requestTimeout, HandshakeIdleTimeout: requestTimeout,
		MaxIncomingStreams: -1, MaxIncomingUniStreams: -1,
		MaxStreamReceiveWindow: mailbox.MaxResponse, MaxConnectionReceiveWindow: 2 * mailbox.MaxResponse,
	})
	if err != nil {
		return nil, false, err
	}
	c.conn = conn
	return conn, false, nil
}

func (c *Client) viaTLS(ctx context.Context, b []byte, extension bool) ([]byte, error) {
	raw, err := c.dial(ctx, "tcp", c.relay.Host)
	if err != nil {
		return nil, err
	}
	defer func() { _ = raw.Close() }() // the answer is what was read
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	t := tls.Client(raw, c.tls)
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	if extension && t.ConnectionState().NegotiatedProtocol != mailbox.ProtocolHearsay {
		return nil, ErrUnsupported
	}
	if _, err := t.Write(b); err != nil {
		return nil, err
	}
	if err := t.CloseWrite(); err != nil {
		return nil, err
	}
	return readAll(t)
}

// readAll reads a response, at most what a response may have (MB-20).
func readAll(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, mailbox.MaxResponse+1))
}
