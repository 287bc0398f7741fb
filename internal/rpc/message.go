package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Codes of JSON-RPC 2.0.
const (
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// An Error is a failure that the other side is told, or that it told us.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return fmt.Sprintf("rpc: %s (%d)", e.Message, e.Code) }

// ErrParams is what a Method returns for parameters that it cannot use.
var ErrParams = &Error{CodeInvalidParams, "invalid params"}

var (
	errNotFound = &Error{CodeMethodNotFound, "method not found"}
	errRequest  = &Error{CodeInvalidRequest, "invalid request"}
)

// errMalformed closes the connection, as upstream does: what follows a line that
// is no JSON cannot be trusted to be a line.
var errMalformed = errors.New("rpc: malformed JSON")

// A request is one decoded line.
type request struct {
	ID     json.RawMessage // nil: a notification, which is never answered
	Method string
	Params json.RawMessage // an array or an object
}

// parseRequest decodes a line. The error is errMalformed, or an *Error to answer;
// then the request's ID is set if it could be found.
func parseRequest(line []byte) (request, error) {
	var raw struct {
		Version *string         `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  *string         `json:"method"`
		Params  json.RawMessage `json:"params"`
	}
	if !json.Valid(line) {
		return request{}, errMalformed
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return request{}, errRequest
	}
	req := request{ID: raw.ID, Params: raw.Params}
	if len(req.ID) > 0 && (req.ID[0] == '{' || req.ID[0] == '[' || req.ID[0] == 't' || req.ID[0] == 'f') {
		req.ID = nil
		return req, errRequest
	}
	if raw.Method == nil || (raw.Version != nil && *raw.Version != "2.0") {
		return req, errRequest
	}
	req.Method = *raw.Method
	switch {
	case len(req.Params) == 0 || string(req.Params) == "null":
		req.Params = json.RawMessage("[]") // as upstream reads a missing one
	case req.Params[0] != '[' && req.Params[0] != '{':
		return req, ErrParams
	}
	return req, nil
}

// A Streamer is a result that writes its own JSON, a piece at a time, because it
// may be too large to hold.
type Streamer interface {
	WriteJSON(w io.Writer) error
}

// appendReply encodes a whole reply line without its end.
func appendReply(id json.RawMessage, result any, rpcErr *Error) ([]byte, error) {
	if id == nil {
		id = json.RawMessage("null")
	}
	if rpcErr != nil {
		return json.Marshal(struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Error   *Error          `json:"error"`
		}{"2.0", id, rpcErr})
	}
	return json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result"`
	}{"2.0", id, result})
}

// writeReply writes a reply, its line end included.
func writeReply(w io.Writer, id json.RawMessage, result any, rpcErr *Error) error {
	s, ok := result.(Streamer)
	if !ok || rpcErr != nil {
		b, err := appendReply(id, result, rpcErr)
		if err != nil {
			if b, err = appendReply(id, nil, &Error{CodeInternal, "result cannot be encoded"}); err != nil {
				return err
			}
		}
		_, err = w.Write(append(b, "\r\n"...))
		return err
	}
	if id == nil {
		id = json.RawMessage("null")
	}
	if _, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":`, bytes.TrimSpace(id)); err != nil {
		return err
	}
	if err := s.WriteJSON(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, "}\r\n")
	return err
}
