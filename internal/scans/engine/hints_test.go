package engine_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
)

// A scan leaves hints for the next scan of the same rows. With hints, a scan makes fewer queries, and its counts are
// exact even if the table has changed.
func TestHintsForTheNextScan(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	partitions := testsize.Of(100, 300)
	rows := plainRows(partitions, 6)
	w.fill("Source", rows)
	r := copyRequest("Source", "Target")
	r.SegmentSize = 10
	all, pages := int64(len(rows)), float64(partitions*6/10)
	count := func(r scans.Request, want int64) int64 {
		t.Helper()
		s := w.run(r)
		if s.State != ledger.Succeeded || s.Rows.Scanned != want || s.Progress != nil {
			t.Errorf("got status %+v, want %d rows", s, want)
		}
		return s.Queries
	}
	filtered := r
	filtered.Filter = "Number ge 3L"
	without := count(filtered, all/2)
	first := count(r, all)
	second := count(r, all)
	if second >= first || float64(second) > 1.15*pages {
		t.Errorf("%d queries without hints and %d with hints; want at most 1.15 times %.0f pages", first, second, pages)
	}
	w.equalTables("Source", "Target")

	if n := count(filtered, all/2); n != without {
		t.Errorf("a scan with a filter makes %d queries, but %d if there are hints for all rows", without, n)
	}
	// The hints are now outdated: rows of the first half were deleted, and rows were added after all others.
	for i := range 20 {
		var ops []storage.Op
		for rk := range 6 {
			ops = append(ops, storage.Op{Kind: storage.Delete, Row: storage.Row{Key: rows[i*6+rk].Key}})
		}
		w.must(w.account.Table("Source").Write(t.Context(), ops...))
	}
	for i := range 200 {
		e := storage.Entity{Key: key.Key{Partition: fmt.Sprintf("z%03d", i)}}
		w.must(w.account.Table("Source").Write(t.Context(), storage.Op{Kind: storage.Insert, Row: e.Row()}))
	}
	r.Action.Destination = &scans.TableRef{Table: "Third"}
	count(r, all-120+200)
	w.equalTables("Source", "Third")
}

// TestBadHints replaces a table's hints by unusable ones. The next scan must
// still be exact, warn, and leave good hints.
func TestBadHints(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	nth := func(n int) string { return fmt.Sprintf(`{"Partition":"customer-%07d","Row":"000002"}`, n) }
	for name, packed := range map[string][]byte{
		"no gzip":          []byte("PK"),
		"cut off":          gzipped(`{"version":1,"bounds":{},"keys":[` + nth(150000) + `]}`)[:30],
		"no JSON":          gzipped("hints"),
		"a newer version":  gzipped(`{"version":2,"bounds":{},"keys":[` + nth(150000) + `]}`),
		"no version":       gzipped(`{"bounds":{},"keys":[` + nth(40000) + `,` + nth(150000) + `]}`),
		"unsorted":         gzipped(`{"version":1,"bounds":{},"keys":[` + nth(150000) + `,` + nth(50000) + `]}`),
		"a key twice":      gzipped(`{"version":1,"bounds":{},"keys":[` + nth(150000) + `,` + nth(150000) + `]}`),
		"other bounds":     gzipped(`{"version":1,"bounds":{"prefix":"c"},"keys":[` + nth(150000) + `]}`),
		"too much to read": gzipped(`{"version":1,"bounds":{},"keys":[],"x":"` + strings.Repeat("x", 17<<20) + `"}`),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "too much to read" {
				testsize.InFull(t)
			}
			t.Parallel()
			w := withSource(t, 20, 6)
			r := copyRequest("Source", "Target")
			r.SegmentSize = 10
			w.run(r) // leaves hints
			again := func() string {
				t.Helper()
				var log bytes.Buffer
				id, err := w.engine.Start(zerolog.New(&log).WithContext(t.Context()), r)
				w.must(err)
				w.restart() // as if another process ran the steps
				w.drain()
				w.checkCounts(id, ledger.Succeeded, 120, 120, 0)
				return log.String()
			}
			w.replaceProperty("hints", storage.BinaryProperty("Data00", packed))
			if log := again(); !strings.Contains(log, "hints cannot be used") {
				t.Errorf("got no warning in the log %s", log)
			}
			if log := again(); log != "" {
				t.Errorf("the next scan logs another warning: %s", log)
			}
		})
	}
}

func gzipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, text)
	z.Close()
	return b.Bytes()
}

// TestProgress: a running scan shows its progress only if an earlier scan of the table has left hints.
func TestProgress(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	rows := testsize.Of(200, 400)
	w := withSource(t, rows, 1)
	r := scans.Request{Source: scans.TableRef{Table: "Source"}, Action: scans.Action{Type: scans.Count}, SegmentSize: 2, SegmentsPerInvocation: 1}
	follow := func(each func(s status.Status)) {
		id := w.start(r)
		each(w.status(id))
		for w.deliver() > 0 {
			if s := w.status(id); s.State == ledger.Running {
				each(s)
			}
		}
		w.checkCounts(id, ledger.Succeeded, rows, 0, 0)
	}
	follow(func(s status.Status) {
		if s.Progress != nil {
			t.Errorf("without hints, the progress is %v at %d of %d rows", *s.Progress, s.Rows.Scanned, rows)
		}
	})
	known, unknown := 0, 0
	follow(func(s status.Status) {
		if s.Progress == nil {
			unknown++
			return
		}
		known++
		if truth := float64(s.Rows.Scanned) / float64(rows); math.Abs(*s.Progress-truth) > 0.15 {
			t.Errorf("with hints, the progress is %v at %d of %d rows", *s.Progress, s.Rows.Scanned, rows)
		}
	})
	if known < rows/20 || unknown > known/4 {
		t.Errorf("with hints, the progress was known %d times, and unknown %d times", known, unknown)
	}
}
