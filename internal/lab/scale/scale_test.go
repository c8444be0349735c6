package scale_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/engine"
	"tablesweep/internal/host/app"
	"tablesweep/internal/lab/scale"
	"tablesweep/internal/testsize"
)

// run runs options that must succeed.
func run(t *testing.T, o scale.Options) scale.Result {
	t.Helper()
	r, err := scale.Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A copy of 100,000 rows, ten a partition, on accounts that take so little that their limit
// decides, as it does with millions of rows on full-size ones.
func TestCopyReachesTheLimit(t *testing.T) {
	t.Parallel()
	o := scale.DefaultOptions()
	o.Rows, o.PerPartition = testsize.Of[int64](40_000, 100_000), 10
	o.Limits.Account = testsize.Of(24.0, 60.0)
	r := run(t, o)
	t.Logf("%.0f s, %.0f s is the limit; accounts %+v", r.Took, r.Limit, r.Accounts)
	if r.Took > 1.35*r.Limit {
		t.Errorf("took %.0f s, want at most 1.35 times %.0f", r.Took, r.Limit)
	}
	if r.Took < r.Limit-1 { // a second's requests may come at once
		t.Errorf("took %.0f s, which the limit forbids: %.0f", r.Took, r.Limit)
	}
	if r.Again > o.Rows/100 {
		t.Errorf("%d rows were written more than once", r.Again)
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	o := scale.DefaultOptions()
	o.Rows, o.PerPartition, o.Action = 100_000, 7, engine.Count
	r := run(t, o)
	if got := r.Accounts[2].Requests; got != 0 {
		t.Errorf("a count made %d requests to the destination", got)
	}
	last := r.Samples[len(r.Samples)-1]
	if last.Rows < o.Rows || r.Status.Rows.Scanned != o.Rows || r.Instances < 1 || r.GBSeconds <= 0 {
		t.Errorf("result %+v", r)
	}
	text := r.Markdown() + o.Facts()
	for _, want := range []string{"Count of 100,000 rows", "| one request after the other |", "| source | queries | ", "| a query | 20ms and 80µs a row |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// Slower services must make a slower scan: the clock of the model is the one that counts.
func TestLatencyCounts(t *testing.T) {
	t.Parallel()
	o := scale.DefaultOptions()
	o.Rows, o.PerPartition, o.Strategy = 20_000, 100, "serial"
	fast := run(t, o)
	o.Latency.Query, o.Latency.QueryRow = 3*o.Latency.Query, 3*o.Latency.QueryRow
	slow := run(t, o)
	if slow.Took < fast.Took+20*0.2 {
		t.Errorf("20 pages one after the other take %.1f s, and %.1f s on services three times as slow", fast.Took, slow.Took)
	}
}

func TestCheckOptions(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*scale.Options){
		func(o *scale.Options) { o.Rows = 0 },
		func(o *scale.Options) { o.PerPartition = 0 },
		func(o *scale.Options) { o.Done = 1000 }, // of a copy
		func(o *scale.Options) { o.Action, o.PerPartition, o.Done = engine.Count, 10, 1005 },
		func(o *scale.Options) { o.Action, o.Done = engine.Count, o.Rows },
		func(o *scale.Options) { o.Action = engine.Delete },
		func(o *scale.Options) { o.Decide = time.Millisecond },
		func(o *scale.Options) { o.Step = 0 },
		func(o *scale.Options) { o.Segments = 25 },
	} {
		o := scale.DefaultOptions()
		change(&o)
		if err := o.Check(); err == nil {
			t.Errorf("%+v: want an error", o)
		}
	}
}

// The model takes messages as host.json has it.
func TestHostSettings(t *testing.T) {
	t.Parallel()
	a, err := app.Load(os.DirFS("../../.."), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	if a.Queues != scale.HostQueues || a.FunctionTimeout != scale.FunctionTimeout {
		t.Errorf("host.json has %+v and %v, the model %+v and %v", a.Queues, a.FunctionTimeout, scale.HostQueues, scale.FunctionTimeout)
	}
}

// A count of a table of which the ledger says most to be done: it reads the rest, and tells of all.
func TestPartlyDone(t *testing.T) {
	t.Parallel()
	o := scale.DefaultOptions()
	o.Rows, o.Done, o.PerPartition, o.Action = 2_000_000, 1_950_000, 10, engine.Count
	r := run(t, o)
	if r.Status.Rows.Scanned != o.Rows || r.Status.Steps.Pending != 0 || r.Status.Steps.Done < 1_950_000/4000+50/4 {
		t.Errorf("status %+v", r.Status)
	}
	last := r.Samples[len(r.Samples)-1]
	if got := r.Accounts[1].Counts.Query; last.Rows < 50_000 || last.Rows > 60_000 || got > 80 {
		t.Errorf("%d rows were read in %d queries, want 50,000 and few more", last.Rows, got)
	}
}

// A serial scan takes what the published one took: 6 min. It does not wait for what others write.
func TestSerialScan(t *testing.T) {
	t.Parallel()
	o := scale.DefaultOptions()
	o.Rows = 3_560
	r := run(t, o)
	if got := 1000 * r.SerialScan; got < 340 || got > 380 || r.Serial < 100*r.SerialScan {
		t.Errorf("a serial scan takes %.0f s, want 360; with writes %.0f s", got, 1000*r.Serial)
	}
	if text := r.Markdown(); !strings.Contains(text, "| one page after the other, others write | ") {
		t.Error(text)
	}
}
