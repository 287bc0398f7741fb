package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"syscall"
	"time"
)

// ErrNotRunning says that nobody answers on the control socket.
var ErrNotRunning = errors.New("rpc: no daemon answers on the control socket")

// A Client is one connection to a control socket. It is not safe for concurrent
// use.
type Client struct {
	nc net.Conn
	r  *bufio.Reader
	id uint64
}

// Dial connects to the control socket at path. Where nobody listens the error is
// ErrNotRunning.
func Dial(path string) (*Client, error) {
	nc, err := dialUnix(path, 5*time.Second)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w (%s)", ErrNotRunning, path)
	case err != nil:
		return nil, fmt.Errorf("rpc: %w", err)
	}
	return &Client{nc: nc, r: bufio.NewReader(nc)}, nil
}

// Close closes the connection.
func (c *Client) Close() error { return c.nc.Close() }

// Call asks for method and decodes the result into result, unless that is nil. A
// refusal is an *Error. Any other error leaves the connection unusable.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("rpc: %s: %w", method, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c.id++
	if params == nil {
		params = []any{}
	}
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.id, "method": method, "params": params})
	if err != nil {
		return fmt.Errorf("rpc: %s: %w", method, err)
	}
	if _, err := c.nc.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("rpc: %s: %w", method, ctxErr(ctx, err))
	}
	want := []byte(strconv.FormatUint(c.id, 10))
	for {
		line, err := c.readLine()
		if err != nil {
			return fmt.Errorf("rpc: %s: %w", method, ctxErr(ctx, err))
		}
		var reply struct {
			ID     json.RawMessage `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  *Error          `json:"error"`
		}
		if err := json.Unmarshal(line, &reply); err != nil {
			return fmt.Errorf("rpc: %s: %w", method, err)
		}
		if !bytes.Equal(reply.ID, want) {
			continue // a notification
		}
		if reply.Error != nil {
			return reply.Error
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(reply.Result, result); err != nil {
			return fmt.Errorf("rpc: %s: %w", method, err)
		}
		return nil
	}
}

func (c *Client) readLine() ([]byte, error) {
	var line []byte
	for {
		part, err := c.r.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			return line, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if len(line) > maxReply {
			return nil, errors.New("reply is too long")
		}
	}
}

// ctxErr is why a read or write failed: ctx, if it ended.
func ctxErr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
