package p2p

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/quic-go/quic-go"
)

// A transportError says what failed without saying where: the errors of package
// net and quic-go print addresses, which must not reach a log (DS-51). errors.Is
// and errors.As see the original.
type transportError struct {
	op  string
	err error
}

// hide wraps err, unless there is nothing to hide.
func hide(op string, err error) error {
	switch err { //nolint:errorlint // bare ones are part of the net.Conn contract
	case nil, io.EOF, io.ErrUnexpectedEOF:
		return err
	}
	if _, ok := errors.AsType[*transportError](err); ok {
		return err
	}
	return &transportError{op, err}
}

func (e *transportError) Error() string { return "p2p: " + e.op + ": " + reason(e.err) }
func (e *transportError) Unwrap() error { return e.err }

// Timeout is true for a deadline that we set ourselves.
func (e *transportError) Timeout() bool {
	return errors.Is(e.err, os.ErrDeadlineExceeded) || errors.Is(e.err, context.DeadlineExceeded)
}

// Temporary completes net.Error.
func (e *transportError) Temporary() bool { return e.Timeout() }

var _ net.Error = (*transportError)(nil)

// Format keeps %+v and %#v from printing the fields.
func (e *transportError) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.Error()) }

// reason is the text of err without addresses. Kinds of errors that are not known
// to be free of them are named by their type.
func reason(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		switch {
		case e.IsTimeout:
			return "name lookup timed out"
		case e.IsNotFound:
			return "no such host"
		}
		return "name lookup failed"
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e.Error()
	}
	for _, known := range []error{
		context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded, net.ErrClosed, io.ErrUnexpectedEOF, io.EOF,
		ErrIdentity, ErrNoListen, ErrNoAddress, ErrProxy, ErrURL, errSocketInUse,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if e, ok := errors.AsType[*quic.ApplicationError](err); ok {
		return fmt.Sprintf("closed with code %d", e.ErrorCode)
	}
	if e, ok := errors.AsType[*quic.TransportError](err); ok {
		return "QUIC: " + e.ErrorCode.String()
	}
	if _, ok := errors.AsType[*quic.IdleTimeoutError](err); ok {
		return "no network activity"
	}
	if e, ok := errors.AsType[tls.AlertError](err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		if _, isOp := errors.AsType[*net.OpError](e.Err); !isOp && e.Op == "remote error" {
			return "TLS: " + e.Err.Error() // an alert, of a private type of crypto/tls
		}
		return fmt.Sprintf("%s failed (%T)", e.Op, e.Err)
	}
	return fmt.Sprintf("%T", err)
}
