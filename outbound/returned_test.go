package outbound

import (
	"bytes"
	"testing"
	"time"

	"hearsay/internal/kv"
)

// TestRemovedRecordsComeBack: rows of acknowledged messages that reappear in the store (an
// older file, a tool) lie below the high-water mark of the head: nothing of them is listed,
// made or put, and what waits goes on (ST-04, DS-43, DS-55).
func TestRemovedRecordsComeBack(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.enqueue("a", "b", "c")
		var rows [][2][]byte
		keep := func() {
			err := r.mem.View(func(rd kv.Reader) error {
				return rd.Scan(kv.Scan{}, func(k, v []byte) error {
					rows = append(rows, [2][]byte{bytes.Clone(k), bytes.Clone(v)})
					return nil
				})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		keep()
		r.connect(silent(), silent())
		sleep(time.Minute)
		keep() // with the head's generation
		r.disconnect()
		r.connect(holder(), holder())
		sleep(time.Hour)
		if s := r.summary(); s.Depth != 0 || s.Acked != 3 {
			t.Fatalf("%+v", s)
		}
		r.enqueue("d")
		sleep(time.Second)
		r.disconnect()
		r.enqueue("e")
		puts, made := len(r.net.log()), r.mat.count()
		r.crash()
		back := 0
		err := r.mem.Update(kv.Op{Name: "restore"}, func(tx kv.Txn) error {
			for _, row := range rows {
				switch row[0][1] {
				case tableEntry, tableRetry, tableGeneration, tableActive:
					back++
					if err := tx.Set(row[0], row[1]); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil || back < 6 {
			t.Fatal(back, err)
		}
		r.run()
		r.crash() // and opened with them
		r.run()
		sleep(time.Second)
		if s := r.summary(); s.Depth != 1 {
			t.Errorf("%+v", s)
		}
		if h, ok := r.w.Head(); !ok || h.Position != 5 {
			t.Errorf("head %+v", h)
		}
		r.connect(holder(), holder())
		sleep(time.Hour)
		if s := r.summary(); s.Depth != 0 {
			t.Errorf("%+v", s)
		}
		if got := len(r.net.log()) - puts; got != 1 {
			t.Errorf("%d puts for one message", got)
		}
		if got := r.mat.count() - made; got != 1 {
			t.Errorf("%d events made for one message", got)
		}
	})
}
