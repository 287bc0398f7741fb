package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"hearsay/internal/kv"
	"hearsay/mailbox"
	"hearsay/mailbox/endpoint"
	"hearsay/mailbox/relay"
)

// The test binary acts as the hearsay command (TestMain). With journalVar it writes down
// what passes and is said, and at the point that dieVar names it kills itself with SIGKILL.
const (
	journalVar = "HEARSAY_TEST_JOURNAL"
	dieVar     = "HEARSAY_TEST_DIE_AT"
)

// An entry is a line of a journal.
type entry struct {
	Point string `json:",omitempty"` // "relay/ack:before:2"
	Died  bool   `json:",omitempty"` // there
	Ask   []byte `json:",omitempty"` // a request is going to be sent
	Got   []byte `json:",omitempty"` // its answer came
	Said  []byte `json:",omitempty"` // an answer is going to be written
	To    []byte `json:",omitempty"` // the request that Got or Said answers
}

// A journal survives the process that writes it: each line is one write, which the kernel
// keeps.
type journal struct {
	mu    sync.Mutex
	f     *os.File
	dieAt string
	seen  map[string]int
}

func openJournal(file, dieAt string) (*journal, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{f: f, dieAt: dieAt, seen: map[string]int{}}, err
}

func (j *journal) write(e entry) {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.f.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

// pass goes through a point: before it, what it stands for, and after it, if that
// succeeded. Each half may be the last thing that this process does.
func (j *journal) pass(name string, what func() error) error {
	n := j.before(name)
	err := what()
	if err == nil {
		j.at(name, "after", n)
	}
	return err
}

func (j *journal) before(name string) int {
	j.mu.Lock()
	j.seen[name]++
	n := j.seen[name]
	j.mu.Unlock()
	j.at(name, "before", n)
	return n
}

func (j *journal) at(name, half string, n int) {
	if n > maxTimes {
		return
	}
	point := fmt.Sprintf("%s:%s:%d", name, half, n)
	j.write(entry{Point: point, Died: point == j.dieAt})
	if point == j.dieAt {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // dead
	}
}

// maxTimes is how often a point counts in one life.
const maxTimes = 2

// crashMain is main with the seams in use.
func crashMain() {
	if file := os.Getenv(journalVar); file != "" {
		j, err := openJournal(file, os.Getenv(dieVar))
		if err != nil {
			panic(err)
		}
		j.install()
	}
	main()
}

func (j *journal) install() {
	seams.custody = func(s runStore) runStore {
		j.at("open", "after", 1)
		return crashRunStore{crashStore{s, j}, s}
	}
	seams.relay = func(c *relay.Config) {
		j.at("open", "after", 1)
		c.Store = crashStore{c.Store, j}
		c.Respond = func(req mailbox.Request, resp mailbox.Response, write func() error) error {
			return j.pass("respond/"+requestName(&req), func() error {
				j.write(entry{Said: encodeResponse(&resp), To: encodeRequest(&req)})
				return write()
			})
		}
	}
	seams.endpoint = func(c *endpoint.Config) {
		c.Interval, c.Retry = 200*time.Millisecond, 100*time.Millisecond
		inner := c.Relay
		c.Relay = func(id endpoint.RelayID, role endpoint.Role) endpoint.Requester {
			if r := inner(id, role); r != nil {
				return journaled{r, j}
			}
			return nil
		}
	}
}

// A crashStore passes a point at each commit that writes something: before it, the
// function of the transaction has run.
type crashStore struct {
	kv.Store
	j *journal
}

func (s crashStore) Update(op kv.Op, fn func(kv.Txn) error) error {
	n := 0
	err := s.Store.Update(op, func(tx kv.Txn) error {
		w := &writesTxn{Txn: tx}
		if err := fn(w); err != nil || !w.wrote {
			return err
		}
		n = s.j.before(op.Name)
		return nil
	})
	if err == nil && n > 0 {
		s.j.at(op.Name, "after", n)
	}
	return err
}

type crashRunStore struct {
	crashStore
	below runStore
}

func (s crashRunStore) Run(ctx context.Context) error { return s.below.Run(ctx) }

type writesTxn struct {
	kv.Txn
	wrote bool
}

func (t *writesTxn) Set(k, v []byte) error { t.wrote = true; return t.Txn.Set(k, v) }

func (t *writesTxn) Delete(k []byte) error { t.wrote = true; return t.Txn.Delete(k) }

// journaled writes down what is asked of a relay and what it answers.
type journaled struct {
	endpoint.Requester
	j *journal
}

func (r journaled) Do(ctx context.Context, req mailbox.Request) (resp mailbox.Response, err error) {
	err = r.j.pass("request/"+requestName(&req), func() (err error) {
		r.j.write(entry{Ask: encodeRequest(&req)})
		// A relay that died while it had the request does not answer.
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if resp, err = r.Requester.Do(ctx, req); err == nil {
			r.j.write(entry{Got: encodeResponse(&resp), To: encodeRequest(&req)})
		}
		return err
	})
	return resp, err
}

// Prove implements endpoint.Prover.
func (r journaled) Prove(secret [32]byte) mailbox.Proof {
	return r.Requester.(endpoint.Prover).Prove(secret)
}

func requestName(req *mailbox.Request) string {
	switch {
	case req.Deposit != nil:
		return "deposit"
	case req.Lease != nil:
		return "lease"
	case req.AckLease != nil:
		return "ack"
	case req.RefuseRows != nil:
		return "refuse"
	case req.ClaimTokens != nil:
		return "claim"
	}
	return "info"
}

func encodeRequest(req *mailbox.Request) []byte {
	b, err := req.Encode()
	if err != nil {
		panic(err)
	}
	return b
}

func encodeResponse(resp *mailbox.Response) []byte {
	b, err := resp.Encode()
	if err != nil {
		panic(err)
	}
	return b
}

// readJournal reads what a process wrote so far; a line that is being written is for the
// next time.
func readJournal(t testing.TB, file string) (out []entry) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	defer f.Close()
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return out
		}
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Error(err)
			return out
		}
		out = append(out, e)
	}
}
