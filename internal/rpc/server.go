package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// A Method is one thing that clients can ask for: a call or a subscription.
type Method struct {
	// Public methods are offered on TCP listeners too; the others to the owner of
	// the control socket alone.
	Public bool
	// Call answers a request. An *Error is told to the client as it is, any other
	// error as "internal error", because its text may say more than it should.
	Call func(ctx context.Context, params json.RawMessage) (any, error)
	// Feed, instead of Call, subscribes the connection. There is no reply.
	Feed *Feed
}

// Config configures a Server.
type Config struct {
	// Socket is the path of the control socket. It is required.
	Socket string
	// Listen are further listeners: unix:///path (like the control socket),
	// tcp://host:port or http+tcp://host:port (public methods only).
	Listen []string
	// Methods by name.
	Methods map[string]Method
	// Disabled methods do not exist for anybody.
	Disabled []string
	// Logger; nil discards.
	Logger *slog.Logger
}

func (c *Config) validate() error {
	if c.Socket == "" {
		return errors.New("rpc: no control socket")
	}
	for name, m := range c.Methods {
		if (m.Call == nil) == (m.Feed == nil) {
			return fmt.Errorf("rpc: method %s needs either Call or Feed", name)
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// A Server serves its listeners from Run until Run ends.
type Server struct {
	cfg       Config
	listeners []listener
}

// A listener is one address and what may be asked there.
type listener struct {
	net.Listener
	owner bool // all methods
	http  bool
}

// Listen opens all listeners, so that an address that is taken is told at once.
// Run must follow, or Close.
func Listen(cfg Config) (_ *Server, err error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	control, err := listenUnix(cfg.Socket)
	if err != nil {
		return nil, err
	}
	s.listeners = append(s.listeners, listener{Listener: control, owner: true})
	for _, addr := range cfg.Listen {
		u, err := url.Parse(addr)
		if err != nil {
			return nil, fmt.Errorf("rpc: listen address: %w", err)
		}
		switch u.Scheme {
		case "unix":
			l, err := listenUnix(strings.TrimPrefix(addr, "unix://"))
			if err != nil {
				return nil, err
			}
			s.listeners = append(s.listeners, listener{Listener: l, owner: true})
		case "tcp", "http+tcp":
			l, err := net.Listen("tcp", u.Host)
			if err != nil {
				return nil, fmt.Errorf("rpc: %w", err)
			}
			s.listeners = append(s.listeners, listener{Listener: l, http: u.Scheme == "http+tcp"})
		default:
			return nil, fmt.Errorf("rpc: cannot listen on scheme %q", u.Scheme)
		}
	}
	return s, nil
}

// Addrs are the addresses listened on, the control socket first.
func (s *Server) Addrs() []net.Addr {
	var out []net.Addr
	for _, l := range s.listeners {
		out = append(out, l.Addr())
	}
	return out
}

// Close closes the listeners of a Server that does not run.
func (s *Server) Close() error {
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// Run serves until ctx ends, and returns its error after the last connection has
// been closed.
func (s *Server) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, l := range s.listeners {
		wg.Go(func() {
			var err error
			if l.http {
				err = s.serveHTTP(ctx, l)
			} else {
				err = s.accept(ctx, l)
			}
			cancel(err)
		})
	}
	<-ctx.Done()
	// Closing ends the accept loops; a listener that is closed twice does not matter.
	_ = s.Close()
	return context.Cause(ctx)
}

// accept serves one listener until ctx ends.
func (s *Server) accept(ctx context.Context, l listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	room := make(chan struct{}, maxConns)
	for {
		nc, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("rpc: %w", err)
			}
			s.cfg.Logger.Warn("rpc: accept", "err", err)
			if err := pause(ctx); err != nil { // out of file descriptors: let others close some
				return err
			}
			continue
		}
		select {
		case room <- struct{}{}:
		default:
			_ = nc.Close()
			continue
		}
		wg.Go(func() {
			defer func() { <-room }()
			s.serve(ctx, nc, l.owner)
		})
	}
}

// method finds what a client may call.
func (s *Server) method(name string, owner bool) (Method, bool) {
	m, ok := s.cfg.Methods[name]
	if !ok || (!owner && !m.Public) || slices.Contains(s.cfg.Disabled, name) {
		return Method{}, false
	}
	return m, true
}

// call runs a request that is no subscription.
func (s *Server) call(ctx context.Context, m Method, req request) (any, *Error) {
	result, err := m.Call(ctx, req.Params)
	if err == nil {
		return result, nil
	}
	if rpcErr := (*Error)(nil); errors.As(err, &rpcErr) {
		return nil, rpcErr
	}
	s.cfg.Logger.Warn("rpc: method failed", "method", req.Method, "err", err)
	return nil, &Error{CodeInternal, "internal error"}
}
