package scale_test

import (
	"os"
	"testing"
	"time"

	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/lab/scale"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
)

// run runs a scan with options, and fails the test after an error.
func run(t *testing.T, o scale.Options) scale.Result {
	t.Helper()
	r, err := scale.Run(o)
	proof.Must(t, err)
	return r
}

// TestCopyReachesTheLimit copies 100,000 rows, ten a partition, on accounts with low limits. So the destination's limit determines the time, as with millions
// of rows on accounts of full size.
func TestCopyReachesTheLimit(t *testing.T) {
	t.Parallel()
	o := scale.DefaultOptions()
	o.Rows, o.PerPartition = testsize.Of[int64](6_000, 100_000), 10
	o.AccountLimit = testsize.Of(4.0, 60.0)
	r := run(t, o)
	limit := float64(o.Rows/10) / o.AccountLimit
	t.Logf("the result is %v; the limit allows %.0f s; the accounts are %+v", r.Took, limit, r.Accounts)
	most := testsize.Of(1.5, 1.35)                                     // besides the start and the repeated requests
	if took := r.Took.Seconds(); took > most*limit || took < limit-1 { // one second's requests may arrive together
		t.Errorf("the copy took %.0f s, want from %.0f s to %v times that", took, limit, most)
	}
	if r.Accounts[2].RefusedByAccount == 0 || r.Instances < 1 {
		t.Errorf("result %+v, want requests that the destination's limit refused", r)
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	o := scale.DefaultOptions()
	o.Rows, o.PerPartition, o.Action = 100_000, 7, scans.Count
	r := run(t, o)
	if got := r.Accounts[2]; got.Requests != 0 {
		t.Errorf("a count made requests to the destination: %+v", got)
	}
	if r.Status.Rows.Scanned != o.Rows || r.Took < 10*time.Second {
		t.Errorf("result %+v", r)
	}
}

func TestCheckOptions(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*scale.Options){
		func(o *scale.Options) { o.Rows = 0 },
		func(o *scale.Options) { o.PerPartition = 0 },
		func(o *scale.Options) { o.Action = scans.Delete },
		func(o *scale.Options) { o.Decide = time.Millisecond },
		func(o *scale.Options) { o.Step = 0 },
	} {
		o := scale.DefaultOptions()
		change(&o)
		if err := o.Check(); err == nil {
			t.Errorf("%+v: want an error", o)
		}
	}
}

// TestHostSettings: the model gets messages as configured in host.json.
func TestHostSettings(t *testing.T) {
	t.Parallel()
	a, err := hostjson.Load(os.DirFS("../../../.."), func(string) string { return "" })
	proof.Must(t, err)
	if a.Queues != scale.HostQueues {
		t.Errorf("host.json has the settings %+v, but the model %+v", a.Queues, scale.HostQueues)
	}
}
