package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
)

// TestList: open scans come first, even if there are many newer scans. Pages of any size have every scan once. Pages of a filtered list have the scans
// that match the filter.
func TestList(t *testing.T) {
	t.Parallel()
	w := withSource(t, 3, 1)
	w.fill("Other", nil)
	var running, all []ledger.ScanID
	for range 2 {
		r := countInSteps
		r.Name = "Nightly <b>"
		running = append([]ledger.ScanID{w.start(r)}, running...)
	}
	for function := range scans.Queues { // nobody works on these scans
		w.takeMessages(function, 10)
	}
	want := map[string][]ledger.ScanID{} // the expected ids, by filter
	for i := range 30 {
		r := scans.Request{Source: scans.TableRef{Table: "Source"}, Action: scans.Action{Type: scans.Count}}
		switch i % 3 {
		case 1:
			r.Source.Table = "Other"
		case 2:
			r = copyRequest("Source", "Target")
		}
		s := w.start(r)
		if i%10 == 0 {
			w.must(w.engine.Cancel(t.Context(), s))
		}
		all = append([]ledger.ScanID{s}, all...)
		want[fmt.Sprint(i%3)] = append([]ledger.ScanID{s}, want[fmt.Sprint(i%3)]...)
		if i%10 == 0 {
			want["canceled"] = append([]ledger.ScanID{s}, want["canceled"]...)
		}
	}
	w.drain()
	copies := want["2"]
	done := slices.DeleteFunc(slices.Clone(copies), func(id ledger.ScanID) bool { return slices.Contains(want["canceled"], id) })
	everything := append(slices.Clone(running), all...)
	for name, tt := range map[string]struct {
		q    status.ListQuery
		want []ledger.ScanID
	}{
		"all":          {status.ListQuery{}, everything},
		"running":      {status.ListQuery{State: ledger.Running}, running},
		"canceled":     {status.ListQuery{State: ledger.Canceled}, want["canceled"]},
		"copies":       {status.ListQuery{Action: scans.Copy, State: ledger.Succeeded}, done},
		"from a table": {status.ListQuery{Table: "OTHER"}, want["1"]},
		"to a table":   {status.ListQuery{Table: "target"}, copies},
		"by name":      {status.ListQuery{Name: "NIGHTLY"}, running},
		"no match":     {status.ListQuery{Name: "daily"}, nil},
		"since now":    {status.ListQuery{Since: w.status(all[0]).StartedAt}, all[:1]},
		"since a time": {status.ListQuery{Since: w.status(all[9]).StartedAt}, all[:10]},
	} {
		for _, top := range []int{1, 2, 7, 100} {
			q := tt.q
			q.Top = top
			var got []ledger.ScanID
			for page := 0; ; page++ {
				l, err := w.observer.List(t.Context(), q)
				if err != nil || len(l.Scans) > top || page > 100 {
					t.Fatalf("filter %s, page %d: got %d scans, %v", name, page, len(l.Scans), err)
				}
				for _, s := range l.Scans {
					got = append(got, s.ID)
				}
				if q.Cursor = l.Cursor; q.Cursor == "" {
					break
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("filter %s, pages of %d: got %v, want %v", name, top, got, tt.want)
			}
		}
	}
	for field, q := range map[string]status.ListQuery{
		"state": {State: "done"}, "action": {Action: "move"}, "table": {Table: "a_b"}, "cursor": {Cursor: "b3guLi9z"},
	} {
		q.Top = 5
		_, err := w.observer.List(t.Context(), q)
		if p := problem.Of(err); !errors.As(err, &p) || p.Kind != problem.Invalid || p.Field != field {
			t.Errorf("query %+v: got error %v, want one about %s", q, err, field)
		}
	}
}

// TestServiceClockDatesScans: a scan's times come from the service's clock, even if the process that starts, ends or lists the scan has not yet had an answer of the
// service. The simulation tests wrong clocks of processes that have had an answer.
func TestServiceClockDatesScans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 30, 1)
		skewed := func(by time.Duration) *engine.Engine {
			return w.newEngine(emulatortest.Open(t, w.emulator, nil), func(o *options) { o.Now = func() time.Time { return time.Now().Add(by) } })
		}
		w.engine = skewed(-20 * time.Minute)
		began := time.Now()
		id := w.start(countInSteps)
		w.deliver()
		time.Sleep(time.Minute)
		w.engine = skewed(20 * time.Minute)
		w.drain()
		s := w.status(id)
		if early, ran := s.StartedAt.Sub(began).Abs(), s.FinishedAt.Sub(s.StartedAt); early > time.Second || (ran-time.Minute).Abs() > time.Second || s.Seconds != ran.Seconds() {
			t.Errorf("got scan %+v, want it begun at %v", s, began)
		}
		for age, want := range map[time.Duration]int{30 * time.Second: 0, 2 * time.Minute: 1} {
			reader := skewed(20 * time.Minute)
			now, err := reader.Now(t.Context())
			w.must(err)
			if l, err := reader.List(t.Context(), status.ListQuery{Top: 10, Since: now.Add(-age)}); err != nil || len(l.Scans) != want {
				t.Errorf("the list since %v ago has %d scans, %v; want %d", age, len(l.Scans), err, want)
			}
		}
	})
}

// TestFailedRows: every row that could not be written is listed once, with any page size, although messages are delivered several times. The ranges
// show where these rows are.
func TestFailedRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	rows := plainRows(60, 1)
	w.fill("Source", rows)
	taken := plainRows(60, 1)[10:50]
	for i := range taken {
		taken[i].Properties = taken[i].Properties[:1] // other content, so that the mode refuses these rows
	}
	w.fill("Target", taken)
	w.must(w.emulator.SetFaults("seed=5; duplicate p=0.5; reset-after p=0.1 on=batch"))
	r := copyRequest("Source", "Target")
	r.Action.Mode, r.SegmentSize = action.Fail, 5
	s := w.run(r)
	w.checkCounts(s.ID, ledger.Failed, len(rows), 20, len(taken))
	for _, top := range []int{1, 7, 40, 100} {
		var listed []key.Key
		cursor := ""
		for page := 0; ; page++ {
			f, err := w.observer.Failed(t.Context(), s.ID, top, cursor)
			w.must(err)
			if page == 0 && (f.Grouped != f.Total || len(f.Groups) != 1 || f.Groups[0].Count != f.Total || len(f.Groups[0].First) != 5 || f.Groups[0].Code != f.Rows[0].Reason) || page > 0 && f.Groups != nil {
				t.Errorf("page %d has %d rows in groups: %+v", page, f.Grouped, f.Groups)
			}
			if f.Total != int64(len(taken)) || f.Kept != f.Total || len(f.Rows) > top || page > len(taken) {
				t.Fatalf("page %d has %d rows; total is %d, and kept is %d", page, len(f.Rows), f.Total, f.Kept)
			}
			for _, row := range f.Rows {
				if row.Reason == "" {
					t.Errorf("row %+v has no reason", row)
				}
				listed = append(listed, key.Key{Partition: row.PartitionKey, Row: row.RowKey})
			}
			if cursor = f.Cursor; cursor == "" {
				break
			}
		}
		slices.SortFunc(listed, key.Key.Compare)
		if !slices.EqualFunc(listed, taken, func(k key.Key, row storage.Entity) bool { return k == row.Key }) {
			t.Errorf("pages of %d: got %d rows, want the %d failed ones; got %v", top, len(listed), len(taken), listed)
		}
	}
	ranges, err := w.observer.Ranges(t.Context(), s.ID)
	w.must(err)
	var failed, read int64
	for _, r := range ranges.Ranges {
		read += r.Rows
		if r.State == "failed" {
			failed += r.Rows
		}
	}
	if failed < int64(len(taken)) || failed == read || read != int64(len(rows)) {
		t.Errorf("ranges %+v: failed ranges have %d of %d rows", ranges.Ranges, failed, read)
	}
}

// TestDetailIsReadAfterTheEnd: after a scan's end, the timeline and ranges are never older than the end, whether or not this process has shown the scan's
// status.
func TestDetailIsReadAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 30, 1)
		r := copyRequest("Source", "Target")
		r.SegmentSize, r.Strategy = 5, "serial"
		id := w.start(r)
		w.deliver()
		if ranges, err := w.engine.Ranges(t.Context(), id); err != nil || len(ranges.Ranges) != 2 {
			t.Fatalf("got ranges %+v, %v, want a done one and a pending one", ranges, err)
		}
		w.drain()
		time.Sleep(time.Second)
		if ranges, err := w.engine.Ranges(t.Context(), id); err != nil || len(ranges.Ranges) != 1 { // this process has read ranges before the end
			t.Errorf("got ranges %+v, %v, want a single done one", ranges, err)
		}
		w.checkRows(id, 30)
		if n := w.requests(func() error { _, err := w.engine.Timeline(t.Context(), id); return err }); n != 0 {
			t.Errorf("a timeline that was just read makes %d requests, want none", n)
		}
	})
}
