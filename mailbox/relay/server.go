package relay

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"lukechampine.com/blake3"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// Bounds on what a peer can hold or make us do, before any quota of the relay
// (MB-20, MB-21).
const (
	// maxStreams is the requests under way on one connection.
	maxStreams = 8
	// maxPending is the requests being read, decided or answered, of all connections.
	maxPending = 64
	// pendingBytes bounds what they hold in memory: a request, its decoded form, a
	// response. A check-in can be answered with a page, so it weighs more.
	pendingBytes  = 24 << 20
	requestWeight = 512 << 10
	pageWeight    = 6 << 20
	// requestTimeout bounds the reading of a request, responseTimeout the writing of
	// a response, handshakeTimeout a connection that has not proven a key.
	requestTimeout   = 10 * time.Second
	responseTimeout  = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// idleTimeout ends a QUIC connection without requests.
	idleTimeout = 60 * time.Second
)

// Codes of the streams and connections that are ended early. They say no more than
// "not served".
const (
	codeNone    = 0
	codeRefused = 1
)

// A Server speaks the mailbox protocol for a Relay.
type Server struct {
	relay   *Relay
	tls     *tls.Config
	gate    *gate
	pending *semaphore.Weighted
	memory  *semaphore.Weighted
	reset   quic.StatelessResetKey
}

// NewServer makes a server with the relay's transport identity.
func NewServer(r *Relay, key ed25519.PrivateKey) (*Server, error) {
	conf, err := mailbox.ServerTLS(key)
	if err != nil {
		return nil, err
	}
	if r.cfg.AllowV1Compat {
		conf.NextProtos = append(conf.NextProtos, mailbox.ProtocolV1)
	}
	return &Server{
		relay: r, tls: conf, gate: newGate(requestsPerAddress(r.limits)), reset: resetKey(key),
		pending: semaphore.NewWeighted(maxPending), memory: semaphore.NewWeighted(pendingBytes),
	}, nil
}

// contextReset is the domain of the key with which a relay that was restarted tells
// clients of its former life that their connections are gone.
const contextReset = "hearsay mailbox v2 stateless reset"

func resetKey(key ed25519.PrivateKey) (out quic.StatelessResetKey) {
	blake3.DeriveKey(out[:], contextReset, key.Seed())
	return out
}

// ServeQUIC serves on a UDP socket until ctx ends or the store fails. It closes pc.
func (s *Server) ServeQUIC(ctx context.Context, pc net.PacketConn) error {
	// Every address is validated before it costs a handshake.
	tr := &quic.Transport{Conn: pc, VerifySourceAddress: func(net.Addr) bool { return true }, StatelessResetKey: &s.reset}
	defer func() { _ = tr.Close(); _ = pc.Close() }()
	conf := &quic.Config{
		HandshakeIdleTimeout: handshakeTimeout, MaxIdleTimeout: idleTimeout,
		MaxIncomingStreams: maxStreams, MaxIncomingUniStreams: -1,
		InitialStreamReceiveWindow: mailbox.MaxRequest, MaxStreamReceiveWindow: mailbox.MaxRequest,
		InitialConnectionReceiveWindow: mailbox.MaxRequest, MaxConnectionReceiveWindow: 2 * mailbox.MaxRequest,
	}
	conf.GetConfigForClient = func(info *quic.ClientInfo) (*quic.Config, error) {
		if !s.gate.dial(info.RemoteAddr) {
			return nil, errRefused
		}
		return conf, nil
	}
	l, err := tr.Listen(s.tls, conf)
	if err != nil {
		return fmt.Errorf("relay: listen: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { <-ctx.Done(); return l.Close() })
	g.Go(func() error {
		for {
			conn, err := l.Accept(ctx)
			if err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return fmt.Errorf("relay: accept: %w", err)
			}
			leave, ok := s.gate.enter(conn.RemoteAddr())
			if !ok {
				_ = conn.CloseWithError(codeRefused, "")
				continue
			}
			g.Go(func() error { defer leave(); return s.serveConn(ctx, conn) })
		}
	})
	return g.Wait()
}

// serveConn answers a connection's streams. Only a failure of the store is an error.
func (s *Server) serveConn(ctx context.Context, conn *quic.Conn) error {
	defer func() { _ = conn.CloseWithError(codeNone, "") }()
	state := conn.ConnectionState().TLS
	key, err := mailbox.PeerKey(state)
	if err != nil {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	for {
		st, err := conn.AcceptStream(ctx)
		if err != nil {
			break // the connection ended
		}
		g.Go(func() error {
			err := s.serveStream(ctx, quicStream{st}, conn.RemoteAddr(), key, state.NegotiatedProtocol)
			if err != nil {
				st.CancelRead(codeRefused)
				st.CancelWrite(codeRefused)
			}
			return fatal(err)
		})
	}
	return g.Wait()
}

// fatal lets through what must end the process: a store that failed.
func fatal(err error) error {
	if errors.Is(err, kv.ErrUnknown) || errors.Is(err, kv.ErrCorrupt) {
		return err
	}
	return nil
}

// halfCloser is a stream of one request.
type halfCloser interface {
	io.ReadWriter
	CloseWrite() error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

type quicStream struct{ *quic.Stream }

// CloseWrite sends FIN.
func (q quicStream) CloseWrite() error { return q.Close() }

var errRefused = errors.New("relay: not served")

// serveStream reads one request, answers it and closes. Everything that a request
// can hold is acquired before it is read.
func (s *Server) serveStream(ctx context.Context, st halfCloser, from net.Addr, key ed25519.PublicKey, protocol string) error {
	end, ok := s.gate.begin(from)
	if !ok {
		s.relay.count("unread", RefusedRate)
		return errRefused
	}
	defer end()
	if !s.pending.TryAcquire(1) {
		return errRefused
	}
	defer s.pending.Release(1)
	if err := s.memory.Acquire(ctx, requestWeight); err != nil {
		return err
	}
	weight := int64(requestWeight)
	defer func() { s.memory.Release(weight) }()

	_ = st.SetReadDeadline(time.Now().Add(requestTimeout))
	b, err := io.ReadAll(io.LimitReader(st, mailbox.MaxRequest+1))
	if err != nil {
		return err
	}
	req, err := mailbox.DecodeRequest(b)
	if err == nil && protocol != mailbox.ProtocolHearsay && req.Extension() {
		err = mailbox.ErrMalformed
	}
	if err != nil {
		_, serr := s.relay.Malformed(key)
		return errors.Join(err, serr)
	}
	if req.Lease != nil {
		// Given back and taken anew as one, so that waiting streams cannot hold each other up.
		s.memory.Release(weight)
		weight = 0
		if err := s.memory.Acquire(ctx, pageWeight); err != nil {
			return err
		}
		weight = pageWeight
	}
	handle := s.relay.Handle
	if protocol == mailbox.ProtocolV1 {
		handle = s.relay.handleV1
	}
	resp, err := handle(key, req)
	if err != nil {
		return err
	}
	out, err := resp.Encode()
	if err != nil {
		return err
	}
	// While a slow client reads it, an answer holds what it weighs and no more.
	if keep := int64(len(out)); keep < weight {
		s.memory.Release(weight - keep)
		weight = keep
	}
	write := func() error {
		_ = st.SetWriteDeadline(time.Now().Add(responseTimeout))
		if _, err := st.Write(out); err != nil {
			return err
		}
		return st.CloseWrite()
	}
	if s.relay.cfg.Respond != nil {
		return s.relay.cfg.Respond(req, resp, write)
	}
	return write()
}

// ServeTLS serves one request per TCP connection, for clients behind a SOCKS proxy
// (MB-47), until ctx ends or the store fails. It closes l.
func (s *Server) ServeTLS(ctx context.Context, l net.Listener) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { <-ctx.Done(); return l.Close() })
	g.Go(func() error {
		for {
			conn, err := l.Accept()
			if err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if errors.Is(err, net.ErrClosed) {
					return fmt.Errorf("relay: accept: %w", err)
				}
				time.Sleep(acceptPause) // out of descriptors, say: others may end meanwhile
				continue
			}
			leave, ok := func() {}, s.gate.dial(conn.RemoteAddr())
			if ok {
				leave, ok = s.gate.enter(conn.RemoteAddr())
			}
			if !ok {
				_ = conn.Close()
				continue
			}
			g.Go(func() error {
				defer leave()
				stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
				defer stop()
				defer func() { _ = conn.Close() }()
				return fatal(s.serveTLSConn(ctx, conn))
			})
		}
	})
	return g.Wait()
}

// acceptPause is how long a failing accept waits before the next.
const acceptPause = 100 * time.Millisecond

func (s *Server) serveTLSConn(ctx context.Context, conn net.Conn) error {
	t := tls.Server(conn, s.tls)
	hctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := t.HandshakeContext(hctx); err != nil {
		return err
	}
	state := t.ConnectionState()
	key, err := mailbox.PeerKey(state)
	if err != nil {
		return err
	}
	return s.serveStream(ctx, t, conn.RemoteAddr(), key, state.NegotiatedProtocol)
}
