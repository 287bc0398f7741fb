package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"hearsay/internal/config"
	"hearsay/internal/kv"
	"hearsay/internal/rpc"
	"hearsay/mailbox"
	"hearsay/mailbox/endpoint"
	"hearsay/mailbox/relay"
)

// diskVar names the directory on which the test, in its own namespace, mounts its disk.
const diskVar = "HEARSAY_TEST_DISK"

// diskSize is what an empty relay's store needs to take deposits, and room for about 20
// MiB of them.
const diskSize = 225 << 20

// inNamespace runs the test that calls it once more, in a mount namespace of its own where
// a small disk is mounted, and tells whether this is that run.
func inNamespace(t *testing.T) (disk string, inside bool) {
	t.Helper()
	if disk = os.Getenv(diskVar); disk != "" {
		if err := errors.Join(
			syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
			syscall.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", diskSize)),
		); err != nil {
			t.Skip("cannot mount a tmpfs:", err)
		}
		return disk, true
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), diskVar+"="+t.TempDir())
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	switch exit := (*exec.ExitError)(nil); {
	case err == nil:
		t.Logf("%s", out)
		if bytes.Contains(out, []byte("--- SKIP")) {
			t.Skip("in the namespace: skipped")
		}
	case errors.As(err, &exit):
		t.Errorf("in the namespace: %v\n%s", err, out)
	default:
		t.Skip("no mount namespace:", err)
	}
	return "", false
}

// A diskRelay is a relay on a small disk, and the checker of what it promises.
type diskRelay struct {
	*testing.T
	*relayProcess
	cfg      *config.Config
	address  mailbox.Address
	filler   *os.File
	alice    []*endpoint.Client // depositors, each within its own budget
	bob      *endpoint.Client
	tokens   []mailbox.Token
	accepted map[string]bool // not acknowledged yet
	gone     map[string]bool // acknowledged, and the relay said so
	deposits int
}

// TestRelaySmallDisk (MB-39, MB-60, ST-02): a relay on a small disk. Deposits fill it until they are
// refused, with accepted: false; check-in, acknowledgement and the expiry of leases and rows go on,
// and when rows have gone there is room again. A foreign writer takes the last byte before a
// lease, between lease and acknowledgement, and before a start after a kill -9; no accepted
// envelope is lost, and the counters equal a recount.
func TestRelaySmallDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a disk")
	}
	disk, inside := inNamespace(t)
	if !inside {
		return
	}
	r := &diskRelay{T: t, accepted: map[string]bool{}, gone: map[string]bool{}}
	file := filepath.Join(t.TempDir(), "relay.toml")
	listen := fixedPort(t)
	write := func(more string) {
		t.Helper()
		text := fmt.Sprintf("datastore = %q\n[net]\nactive_profiles = []\nmagic_bytes = [1, 2, 3, 4]\n[mailbox.relay]\nlisten = \"quic://%s\"\n"+
			"[mailbox.relay.limits]\nlease_ttl = \"2s\"\nclient_requests = 1000000\nrelay_requests = 1000000\n%s", filepath.Join(disk, "r"), listen, more)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r.cfg = parse(t, text)
	}
	write("")
	var err error
	if r.address, err = relayAddress(r.cfg); err != nil {
		t.Fatal(err)
	}
	client := func(n byte) *endpoint.Client {
		c, err := endpoint.NewClient(r.address, ed25519.NewKeyFromSeed(append(make([]byte, 31), n)), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	for i := range byte(4) {
		r.alice = append(r.alice, client(10+i))
		r.tokens = append(r.tokens, mailbox.TokenOf([32]byte{1 + i}))
	}
	r.bob = client(1)
	if r.filler, err = os.Create(filepath.Join(disk, "foreign")); err != nil {
		t.Fatal(err)
	}
	defer r.filler.Close()

	r.relayProcess = &relayProcess{t: t, file: file}
	r.start()
	defer func() { r.kill() }()
	r.lease() // registers

	// Deposits fill the disk.
	r.refuse()

	// Leases expire, and their rows come again.
	page := r.lease()
	if len(page.Rows) == 0 {
		t.Fatal("no check-in on a full disk")
	}
	r.expire(page)
	again := r.lease()
	if again.LeaseID == page.LeaseID || len(again.Rows) == 0 {
		t.Fatal("an expired lease is answered with on a full disk")
	}
	r.ack(again)

	// Not a byte is left: during a lease, and between a lease and its acknowledgement.
	r.fill()
	page = r.lease()
	r.ack(page)
	r.empty()
	page = r.lease()
	r.fill()
	r.ack(page)

	// It is killed in the middle of a lease and started without a byte left. Its ballast was
	// given up for what it did since, so that it cannot open; nothing is lost by that.
	r.lease()
	r.kill()
	r.fill()
	cmd := exec.Command("hearsay", "mailbox", "relay", "--config", file)
	if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("not enough disk space")) {
		t.Errorf("started without a byte left: %v %s", err, out)
	}
	r.empty()
	r.start()
	r.drain()
	if !r.deposit() {
		t.Errorf("no room although nothing is kept: %+v", r.status().Relay)
	}

	// With its ballast it starts on a full disk, and gives out what it has.
	again = r.onFullDisk(5)
	if len(again.Rows) == 0 {
		t.Error("nothing is offered on a full disk")
	}
	r.ack(again)
	r.drain()
	if r.deposit() {
		t.Error("a deposit was accepted on a disk without a byte left")
	}
	r.empty()

	// So do rows expire.
	r.kill()
	write("envelope_ttl = \"1s\"\n")
	r.start()
	r.onFullDisk(5)
	r.wait("rows do not expire on a full disk", func() bool { return r.status().Relay.Rows == 0 })
	r.kill()
	if err := withCopy(t, relayOptions(r.cfg), func(store *kv.DB) error { return relay.Recount(store) }); err != nil {
		t.Error(err)
	}
}

// refuse deposits until the disk is too full.
func (r *diskRelay) refuse() {
	r.Helper()
	before := r.status().Relay.Refused["disk"]
	for refused := 0; refused < 5; {
		if r.deposits == 2000 {
			r.Fatal("the disk does not fill")
		}
		if !r.deposit() {
			refused++
		}
	}
	s := r.status().Relay
	if n := len(r.accepted); n < 10 || s.Refused["disk"] != before+5 || int(s.Rows) != n {
		r.Fatalf("%d accepted, %+v", n, s)
	}
	r.Logf("%d envelopes fill the disk", len(r.accepted))
}

// onFullDisk starts anew, so that there is a ballast, takes deposits, dies in the middle of
// a lease, and starts without a byte left, when an envelope of a second would be over.
func (r *diskRelay) onFullDisk(deposits int) *mailbox.Page {
	r.Helper()
	r.kill()
	r.start()
	for range deposits {
		if !r.deposit() {
			r.Error("refused although there is room")
		}
	}
	page := r.lease()
	r.kill()
	if _, err := os.Stat(filepath.Join(relayOptions(r.cfg).Dir, "ballast")); err != nil {
		r.Error(err)
	}
	r.fill()
	r.expire(page)
	r.start()
	return r.lease()
}

func (r *diskRelay) status() (s statusReport) {
	r.Helper()
	r.wait("the relay does not run", func() bool {
		k, err := rpc.Dial(config.ControlSocket(r.cfg.Datastore))
		if err != nil {
			return false
		}
		defer k.Close()
		return k.Call(r.Context(), "hearsay.status", nil, &s) == nil && s.Relay != nil
	})
	return s
}

func (r *diskRelay) wait(what string, ok func() bool) {
	r.Helper()
	if err := until(withTime(r.T), what, ok); err != nil {
		r.Fatal(err)
	}
}

// do asks until there is an answer.
func (r *diskRelay) do(c *endpoint.Client, req mailbox.Request) (resp mailbox.Response) {
	r.Helper()
	r.wait("no answer", func() bool {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		var err error
		resp, err = c.Do(ctx, req)
		return err == nil
	})
	return resp
}

func (r *diskRelay) deposit() bool {
	r.Helper()
	n := r.deposits
	r.deposits++
	body := make([]byte, 126<<10)
	rand.Read(body[8:])
	copy(body, fmt.Sprintf("%08d", n))
	env := &mailbox.Envelope{Kind: mailbox.KindSealed, Token: r.tokens[n%len(r.tokens)], Body: body}
	ok := r.do(r.alice[n%len(r.alice)], mailbox.Request{Deposit: &mailbox.Deposit{Envelope: env.AppendTo(nil)}}).Deposit.Accepted
	if ok {
		r.accepted[string(body[:8])] = true
	}
	return ok
}

func (r *diskRelay) lease() *mailbox.Page {
	r.Helper()
	page := r.do(r.bob, mailbox.Request{Lease: &mailbox.Lease{Tokens: r.tokens}}).Lease
	for _, text := range r.texts(page) {
		if r.gone[text] {
			r.Errorf("%s came after its acknowledgement", text)
		}
	}
	return page
}

func (r *diskRelay) texts(page *mailbox.Page) (out []string) {
	for _, row := range page.Rows {
		e, err := mailbox.ParseEnvelope(row.Envelope)
		if err != nil {
			r.Fatal(err)
		}
		out = append(out, string(e.Body[:8]))
	}
	return out
}

func (r *diskRelay) ack(page *mailbox.Page) {
	r.Helper()
	var ids []mailbox.RowID
	for _, row := range page.Rows {
		ids = append(ids, row.RowID)
	}
	if !r.do(r.bob, mailbox.Request{AckLease: &mailbox.AckLease{LeaseID: page.LeaseID, RowIDs: ids}}).AckLease.Accepted {
		if time.Now().Unix() < int64(page.ExpiresAt) {
			r.Error("an acknowledgement was refused")
		}
		return // a lease of before, whose end came in between
	}
	for _, text := range r.texts(page) {
		r.gone[text] = true
		delete(r.accepted, text)
	}
	if n := r.status().Relay.Rows; int(n) != len(r.accepted) {
		r.Errorf("%d rows are kept, %d are accepted and not acknowledged", n, len(r.accepted))
	}
}

func (r *diskRelay) expire(page *mailbox.Page) {
	time.Sleep(time.Until(time.Unix(int64(page.ExpiresAt)+1, 0)))
}

// drain collects all that is there.
func (r *diskRelay) drain() {
	r.Helper()
	r.wait("not everything comes", func() bool {
		if page := r.lease(); len(page.Rows) > 0 {
			r.ack(page)
		}
		return len(r.accepted) == 0
	})
}

// fill takes every byte that is left, empty gives them back.
func (r *diskRelay) fill() {
	r.Helper()
	for size := 1 << 20; size > 0; {
		_, err := r.filler.Write(make([]byte, size))
		switch {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil:
			r.Fatal(err)
		}
	}
}

func (r *diskRelay) empty() {
	r.Helper()
	_, err := r.filler.Seek(0, 0)
	if err := errors.Join(err, r.filler.Truncate(0)); err != nil {
		r.Fatal(err)
	}
}
