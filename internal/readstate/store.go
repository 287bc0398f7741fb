package readstate

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"hearsay/internal/arrival"
	"hearsay/internal/kv"
	"hearsay/internal/serial"
)

var errFlags = errors.New("unknown flags")

// ErrName: an empty or overlong name of a device or conversation.
var ErrName = errors.New("readstate: a name is empty or too long")

// A Store keeps cursors and markers.
type Store struct {
	store kv.Store
	now   func() time.Time

	writing sync.Mutex // held while a change goes to the disk

	mu      sync.Mutex // guards the maps; their elements never change
	devices map[string]*device
	markers map[string]*marker
}

// A device and its cursors, by conversation.
type device struct {
	slot    byte
	name    string
	used    int64 // ms
	cursors map[string]arrival.Seq
	quiet   bool // it wants no history unasked
}

type marker struct {
	slot   uint16
	target string
	at     int64 // ms
	set    int64 // ms
}

// Keys, all under 'r' in the custody store:
//
//	rd slot   a device, its cursors and when it was last used
//	rm slot   a read marker
//
// Slots are numbers below MaxDevices and MaxMarkers: no key has a name in it.
const (
	space       = 'r'
	tableDevice = 'd'
	tableMarker = 'm'
)

var (
	opCursor = kv.Op{Name: "readstate/cursor", Class: kv.ClassGossip}
	opMarker = kv.Op{Name: "readstate/marker", Class: kv.ClassGossip}
)

// Open reads what is in store. now is the wall clock, nil for time.Now.
func Open(store kv.Store, now func() time.Time) (*Store, error) {
	if now == nil {
		now = time.Now
	}
	s := &Store{store: store, now: now, devices: map[string]*device{}, markers: map[string]*marker{}}
	err := store.View(func(r kv.Reader) error {
		err := r.Scan(kv.Scan{Prefix: []byte{space, tableDevice}}, func(k, v []byte) error {
			d := &device{cursors: map[string]arrival.Seq{}}
			if len(k) != 3 {
				return fmt.Errorf("readstate: %w: key of %d bytes", kv.ErrCorrupt, len(k))
			}
			d.slot = k[2]
			err := d.decode(v)
			s.devices[d.name] = d
			return err
		})
		if err != nil {
			return err
		}
		return r.Scan(kv.Scan{Prefix: []byte{space, tableMarker}}, func(k, v []byte) error {
			if len(k) != 4 {
				return fmt.Errorf("readstate: %w: key of %d bytes", kv.ErrCorrupt, len(k))
			}
			m := &marker{slot: binary.BigEndian.Uint16(k[2:])}
			err := m.decode(v)
			s.markers[m.target] = m
			return err
		})
	})
	return s, err
}

// OpenMemory opens a store that is gone with the process. now is the wall clock, nil for
// time.Now.
func OpenMemory(now func() time.Time) *Store {
	s, err := Open(kv.OpenMemory(), now)
	if err != nil {
		panic(err) // there is nothing in it that could be damaged
	}
	return s
}

// Cursors are the positions of a device by conversation: everything up to them was read.
// nil: the device is not known, or was not seen for MaxAge.
func (s *Store) Cursors(name string) map[string]arrival.Seq {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.devices[name]
	if d == nil || s.expired(d) {
		return nil
	}
	return d.cursors
}

func (s *Store) expired(d *device) bool { return s.now().UnixMilli()-d.used > MaxAge.Milliseconds() }

// Advance moves a device's cursors forward, and returns when that is on the disk.
// Positions that are behind are ignored.
func (s *Store) Advance(name string, to map[string]arrival.Seq) error {
	if err := checkNames(name); err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	old := s.devices[name]
	next, gone := s.place(name)
	s.mu.Unlock()
	changed := false
	for conv, seq := range to {
		if err := checkNames(conv); err != nil {
			return err
		}
		if seq > next.cursors[conv] {
			next.cursors[conv], changed = seq, true
		}
	}
	if !changed && old != nil {
		return nil
	}
	for len(next.cursors) > MaxConversations {
		oldest, first := "", true
		for conv, seq := range next.cursors {
			if first || seq < next.cursors[oldest] {
				oldest, first = conv, false
			}
		}
		delete(next.cursors, oldest)
	}
	return s.put(next, gone)
}

// put stores a device in place of the one that is gone. writing is held.
func (s *Store) put(next *device, gone string) error {
	if err := s.store.Update(opCursor, func(tx kv.Txn) error {
		return tx.Set([]byte{space, tableDevice, next.slot}, next.encode())
	}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone != "" {
		delete(s.devices, gone)
	}
	s.devices[next.name] = next
	return nil
}

// Quiet tells whether a device wants no history unasked.
func (s *Store) Quiet(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.devices[name]
	return d != nil && !s.expired(d) && d.quiet
}

// SetQuiet says whether a device wants no history unasked, and returns when that is on the
// disk. It is forgotten with the device.
func (s *Store) SetQuiet(name string, quiet bool) error {
	if err := checkNames(name); err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	next, gone := s.place(name)
	s.mu.Unlock()
	next.quiet = quiet
	return s.put(next, gone)
}

// Truncate drops the cursors beyond last, the highest number that the order of arrival has
// given: in it they would hide messages that come yet. There are none where both are of one
// store, unless somebody put it together by hand.
func (s *Store) Truncate(last arrival.Seq) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	var wrong []*device
	for _, d := range s.devices {
		next := *d
		next.cursors = maps.Clone(d.cursors)
		maps.DeleteFunc(next.cursors, func(_ string, at arrival.Seq) bool { return at > last })
		if len(next.cursors) != len(d.cursors) {
			wrong = append(wrong, &next)
		}
	}
	s.mu.Unlock()
	for _, d := range wrong {
		if err := s.put(d, ""); err != nil {
			return err
		}
	}
	return nil
}

// place is a copy of a device to be changed, or a new one in a free slot or that of the
// device gone.
func (s *Store) place(name string) (d *device, gone string) {
	now := s.now().UnixMilli()
	if old := s.devices[name]; old != nil {
		d = &device{slot: old.slot, name: name, used: now, cursors: map[string]arrival.Seq{}}
		if !s.expired(old) {
			d.cursors, d.quiet = maps.Clone(old.cursors), old.quiet
		}
		return d, ""
	}
	taken := map[byte]bool{}
	var oldest *device
	for _, o := range s.devices {
		taken[o.slot] = true
		if oldest == nil || o.used < oldest.used {
			oldest = o
		}
	}
	d = &device{name: name, used: now, cursors: map[string]arrival.Seq{}}
	if len(s.devices) >= MaxDevices || oldest != nil && s.expired(oldest) {
		d.slot = oldest.slot
		return d, oldest.name
	}
	for taken[d.slot] {
		d.slot++
	}
	return d, ""
}

// Marker is up to when a target was read, by the times that messages are shown with;
// the zero time where that is not known.
func (s *Store) Marker(target string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.markers[target]; m != nil {
		return time.UnixMilli(m.at).UTC()
	}
	return time.Time{}
}

// SetMarker moves a marker forward and returns where it is then, on the disk.
func (s *Store) SetMarker(target string, at time.Time) (time.Time, error) {
	if err := checkNames(target); err != nil {
		return time.Time{}, err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	next := marker{target: target, at: at.UnixMilli(), set: s.now().UnixMilli()}
	gone := ""
	if old := s.markers[target]; old != nil {
		if old.at >= next.at {
			s.mu.Unlock()
			return time.UnixMilli(old.at).UTC(), nil
		}
		next.slot = old.slot
	} else {
		taken := map[uint16]bool{}
		var oldest *marker
		for _, o := range s.markers {
			taken[o.slot] = true
			if oldest == nil || o.set < oldest.set {
				oldest = o
			}
		}
		if len(s.markers) >= MaxMarkers {
			next.slot, gone = oldest.slot, oldest.target
		}
		for gone == "" && taken[next.slot] {
			next.slot++
		}
	}
	s.mu.Unlock()
	if err := s.store.Update(opMarker, func(tx kv.Txn) error {
		return tx.Set(binary.BigEndian.AppendUint16([]byte{space, tableMarker}, next.slot), next.encode())
	}); err != nil {
		return time.Time{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.markers, gone)
	s.markers[target] = &next
	return time.UnixMilli(next.at).UTC(), nil
}

func checkNames(name string) error {
	if name == "" || len(name) > maxName {
		return ErrName
	}
	return nil
}

func (d *device) encode() []byte {
	b := serial.AppendString(nil, d.name)
	b = serial.AppendUint64(b, uint64(d.used))
	b = serial.AppendVarInt(b, uint64(len(d.cursors)))
	for _, conv := range slices.SortedFunc(maps.Keys(d.cursors), cmp.Compare[string]) {
		b = serial.AppendString(b, conv)
		b = serial.AppendUint64(b, uint64(d.cursors[conv]))
	}
	if d.quiet {
		b = append(b, 1)
	}
	return seal(b)
}

func (d *device) decode(v []byte) error {
	return unseal(v, func(r *serial.Reader) {
		d.name = r.String(maxName)
		d.used = int64(r.Uint64())
		for range r.Count(MaxConversations, 9) {
			conv := r.String(maxName)
			d.cursors[conv] = arrival.Seq(r.Uint64())
		}
		if r.Len() > 0 {
			if d.quiet = r.Uint8() == 1; !d.quiet {
				r.Fail(errFlags)
			}
		}
	})
}

func (m *marker) encode() []byte {
	b := serial.AppendString(nil, m.target)
	b = serial.AppendUint64(b, uint64(m.at))
	return seal(serial.AppendUint64(b, uint64(m.set)))
}

func (m *marker) decode(v []byte) error {
	return unseal(v, func(r *serial.Reader) {
		m.target = r.String(maxName)
		m.at, m.set = int64(r.Uint64()), int64(r.Uint64())
	})
}

func seal(body []byte) []byte { return kv.SealRecord(body) }

func unseal(v []byte, read func(*serial.Reader)) error {
	body, err := kv.OpenRecord(v)
	if err == nil {
		r := serial.NewReader(body)
		read(r)
		err = r.Done()
	}
	if err != nil {
		return fmt.Errorf("readstate: %w: %w", kv.ErrCorrupt, err)
	}
	return nil
}
