package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// serveHTTP serves upstream's http+tcp form: a request is the body of a POST.
// Subscriptions do not exist there.
func (s *Server) serveHTTP(ctx context.Context, l listener) error {
	srv := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // its lines hold addresses
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	err := srv.Serve(netutil.LimitListener(l, maxConns))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("rpc: %w", err)
}

func (s *Server) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A web page in the user's browser could post here too. A browser says where
		// the page is from, and cannot send JSON across origins without asking first.
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if r.Header.Get("Origin") != "" || err != nil || kind != "application/json" {
			http.Error(w, "forbidden", http.StatusForbidden)
			return
		}
		if r.Method != http.MethodPost {
			http.Error(w, "POST only", http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			http.Error(w, "request too large", http.StatusRequestEntityTooLarge)
			return
		}
		req, err := parseRequest(body)
		if errors.Is(err, errMalformed) {
			http.Error(w, "malformed JSON", http.StatusBadRequest)
			return
		}
		var result any
		var rpcErr *Error
		if !errors.As(err, &rpcErr) {
			m, ok := s.method(req.Method, false)
			if !ok || m.Feed != nil {
				rpcErr = errNotFound
			} else {
				result, rpcErr = s.call(r.Context(), m, req)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute))
		_ = writeReply(w, req.ID, result, rpcErr)
	})
}
