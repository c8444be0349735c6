package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/strategy"
	"tablesweep/internal/storage"
)

// nastyRows returns rows whose keys and values are difficult to copy.
func nastyRows() []storage.Entity { return emulatortest.NastyRows(371) }

func TestCopyPreservesNastyRows(t *testing.T) {
	t.Parallel()
	for i, strategy := range strategy.Names {
		for j, mode := range action.Modes {
			if !testsize.Full() && j%3 != i { // a small test run has each mode and each strategy once
				continue
			}
			t.Run(strategy+" "+string(mode), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, emulator.Options{})
				rows := nastyRows()
				w.fill("Source", rows)
				r := copyRequest("Source", "Target")
				r.Strategy, r.SegmentSize, r.Action.Mode = strategy, 37, mode
				w.checkCounts(w.succeed(r).ID, ledger.Succeeded, len(rows), len(rows), 0)
				w.equalTables("Source", "Target")
			})
		}
	}
}

func TestRangeFilterAndSelect(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	var rows []storage.Entity
	for _, pk := range []string{"a", "ab", "abc", "b", "c"} {
		for i := range 5 {
			rows = append(rows, storage.Entity{Key: key.Key{Partition: pk, Row: fmt.Sprint(i)}, Properties: []storage.Property{
				storage.Int64Property("Number", int64(i)), storage.StringProperty("Other", "x"),
			}})
		}
	}
	w.fill("Source", rows)
	for i, tt := range []struct {
		name   string
		change func(*scans.Request)
		want   int64
	}{
		{"all", func(*scans.Request) {}, 25},
		{"prefix", func(r *scans.Request) { r.Range = key.Bounds{Prefix: "a"} }, 15},
		{"after and before", func(r *scans.Request) { r.Range = key.Bounds{After: "a", Before: "c"} }, 15},
		{"filter", func(r *scans.Request) { r.Filter = "Number ge 3L or Number eq 0L" }, 15},
		{"filter and prefix", func(r *scans.Request) { r.Range.Prefix = "ab"; r.Filter = "Number eq 1L" }, 2},
		{"nothing there", func(r *scans.Request) { r.Range.Prefix = "x" }, 0},
		{"keys alone", func(r *scans.Request) { r.Select = []string{} }, 25},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, strategy := range strategy.Names {
				r := copyRequest("Source", fmt.Sprintf("T%d%s", i, strategy))
				r.Strategy, r.SegmentSize, r.Select = strategy, 2, []string{"Number"}
				tt.change(&r)
				s := w.run(r)
				if s.State != ledger.Succeeded || s.Rows.Written != tt.want {
					t.Errorf("strategy %s: got status %+v, want %d rows", strategy, s, tt.want)
				}
				for _, row := range w.rows(r.Action.Destination.Table) {
					if len(row.Properties) != len(r.Select) || len(r.Select) > 0 && row.Properties[0].Name != "Number" {
						t.Errorf("strategy %s: a row has %v, want only %v", strategy, row.Properties, r.Select)
					}
				}
				r = scans.Request{Source: r.Source, Action: scans.Action{Type: scans.Count}, Range: r.Range, Filter: r.Filter, Strategy: strategy, SegmentSize: 3}
				if s := w.run(r); s.Rows.Scanned != tt.want || s.Rows.Written != 0 {
					t.Errorf("strategy %s: the count is %+v, want %d", strategy, s, tt.want)
				}
			}
		})
	}
}

// An invocation that may make many queries stops when its time to read is over.
func TestInvocationEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 60, 1)
		r := copyRequest("Source", "Target")
		r.Strategy, r.SegmentSize, r.SegmentsPerInvocation = "serial", 2, 24
		id := w.start(r)
		w.must(w.emulator.SetFaults("seed=1; latency=9s..9s on=query table=Source"))
		w.deliver()
		if s := w.status(id); s.Steps.Done != 1 || s.Queries != 3 {
			t.Errorf("%d steps made %d queries, want 1 step with 3 queries, because the third ends after 20 s", s.Steps.Done, s.Queries)
		}
		w.drain()
		w.checkCounts(id, ledger.Succeeded, 60, 60, 0)
	})
}

// Pages of many small partitions are handed over to CopyRows. Each row is counted once, whether the step or CopyRows
// writes it.
func TestCopyRowsWritesManyPartitions(t *testing.T) {
	t.Parallel()
	run := func(strategy string, segments, segmentSize int, rows []storage.Entity) {
		w := newWorld(t, emulator.Options{})
		w.fill("Source", rows)
		r := copyRequest("Source", "Target")
		r.Strategy, r.SegmentSize, r.SegmentsPerInvocation = strategy, segmentSize, segments
		id := w.start(r)
		w.drain()
		w.checkCounts(id, ledger.Succeeded, len(rows), len(rows), 0)
		w.equalTables("Source", "Target")
		if w.delivered[scans.CopyRows] == 0 {
			t.Errorf("strategy %s, %d segments: no rows were handed over", strategy, segments)
		}
	}
	for _, strategy := range strategy.Names {
		run(strategy, 1, 501, plainRows(300, 2)) // an odd page size, so that partitions span two pages
	}
	// An invocation reads pages that are far apart. The rows between these pages are not handed over.
	run("adaptive", 4, 251, plainRows(1500, 1))
}
