package p2p

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// fileOrder is the order of the lists in the file. Bans are not saved.
var fileOrder = []colour{dark, grey, white, gold}

// fileText is the host lists as text: colour, address and last_seen in UNIX
// seconds, with tabs between them, an entry a line (spec/wire.md, section 6).
func (h *hosts) fileText() (b []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range fileOrder {
		for _, e := range h.lists[c].order {
			b = fmt.Appendf(b, "%s\t%s\t%d\n", colourNames[c], e.url, e.lastSeen)
		}
	}
	return b
}

// parseFile adds the entries that r holds. Lines that are none are skipped, as
// upstream does; the error is r's own.
func (h *hosts) parseFile(r io.Reader, now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	br := bufio.NewReaderSize(io.LimitReader(r, maxHostsFile), maxHostsLine)
	for {
		line, err := br.ReadSlice('\n')
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = br.ReadSlice('\n')
		}
		if !tooLong {
			h.parseLine(string(bytes.TrimSuffix(line, []byte("\n"))))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	h.pruneDark(now)
	h.changed = false
	return nil
}

func (h *hosts) parseLine(line string) {
	fields := strings.Split(strings.TrimSuffix(line, "\r"), "\t")
	if len(fields) < 3 {
		return
	}
	u, err := ParseURL(fields[1])
	if err != nil {
		return
	}
	seen, err := strconv.ParseUint(fields[2], 10, 64)
	if err != nil {
		return
	}
	for c, name := range colourNames {
		if name == fields[0] {
			h.put(colour(c), hostEntry{u, seen})
		}
	}
}

// load reads the host list file; a missing one is an empty one.
func (h *hosts) load(path string, now time.Time) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("p2p: host list: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	if err := h.parseFile(f, now); err != nil {
		return fmt.Errorf("p2p: host list: %w", err)
	}
	return nil
}

// save replaces the host list file if anything has changed and there is anything to
// save: a new file, owner only, synced, then renamed over the old one.
func (h *hosts) save(path string) (err error) {
	h.mu.Lock()
	changed := h.changed
	h.changed = false
	h.mu.Unlock()
	text := h.fileText()
	if !changed || len(text) == 0 {
		return nil
	}
	defer func() {
		if err != nil {
			h.mu.Lock()
			h.changed = true
			h.mu.Unlock()
			err = fmt.Errorf("p2p: host list: %w", err)
		}
	}()
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*.tmp") // owner only
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error counts
		}
	}()
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
