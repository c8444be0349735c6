package sweep_test

import (
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// gauge records when requests are sent.
type gauge struct {
	next policy.Transporter
	mu   sync.Mutex // guards the fields below
	sent []time.Time
}

func (g *gauge) Do(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	g.sent = append(g.sent, time.Now())
	g.mu.Unlock()
	return g.next.Do(r)
}

// busiestRate returns the rate a second in the busiest ten seconds.
func busiestRate(at []time.Time, n func(i int) int) (most float64) {
	sum, first := 0, 0
	for i := range at {
		sum += n(i)
		for ; at[i].Sub(at[first]) >= 10*time.Second; first++ {
			sum -= n(first)
		}
		most = max(most, float64(sum)/10)
	}
	return most
}

// TestLimitsAreKept runs sweeps with a limit while some requests fail. In the busiest ten seconds, the rate of requests or rows must be within 5 % of
// the limit. Over the whole time, the rate must be at least 85 % of the limit.
func TestLimitsAreKept(t *testing.T) {
	t.Parallel()
	const faults = "latency=10ms..60ms; busy p=0.03; reset-before p=0.02"
	rows := someRows(400, 30)
	for _, tt := range []struct {
		name           string
		requests, rows int // the limits
		faults, filter string
		do             func(t *testing.T, s sweep.Spec, to *storage.Table, o sweep.Options) (sweep.Totals, error)
	}{
		{"requests of a copy", 25, 0, faults, "", copyRows},
		{"rows of a copy", 0, 700, faults, "", copyRows},
		{"rows of a count", 0, 800, faults, "", countRows},
		{"rows of a count with a filter", 0, 400, faults, "N ge 6000L", countRows},
		{"rows of a slow count", 0, 900, "latency=200ms", "", countRows},
		{"rows of a scan in order", 0, 600, faults, "", func(t *testing.T, s sweep.Spec, _ *storage.Table, o sweep.Options) (sweep.Totals, error) {
			return sweep.Each(t.Context(), s, o, func([]storage.Row) error { return nil })
		}},
		{"rows of a deletion", 0, 500, faults, "", func(t *testing.T, s sweep.Spec, _ *storage.Table, o sweep.Options) (sweep.Totals, error) {
			return sweep.Do(t.Context(), s, o, action.Delete{Table: s.Source.(*storage.Table)})
		}},
		{"rows of a comparison", 0, 600, faults, "", func(t *testing.T, s sweep.Spec, to *storage.Table, o sweep.Options) (sweep.Totals, error) {
			r, err := verify.Compare(t.Context(), s, to, verify.Options{Options: o})
			return sweep.Totals{Rows: r.Rows, Requests: r.Requests}, err
		}},
	}[:testsize.Of(2, 8)] {
		t.Run(tt.name, func(t *testing.T) {
			if tt.requests == 0 { // TestShare checks limits of rows
				testsize.WithoutRace(t)
			}
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				em, a := emulatortest.NewAccount(t, emulator.Options{})
				source, destination := emulatortest.Table(t, a, "source", rows), emulatortest.Table(t, a, "destination", nil)
				if strings.Contains(tt.name, "comparison") {
					_, err := sweep.Do(t.Context(), sweep.Spec{Source: source}, sweep.Options{}, action.Copy{Destination: destination})
					proof.Must(t, err)
				}
				proof.Must(t, em.SetFaults(tt.faults))
				g := &gauge{next: em.Transport()}
				b := emulatortest.Open(t, em, g)
				var read []time.Time // when pages were read
				var of []int         // the number of rows of each page
				o := sweep.Options{MaxRows: tt.rows, Requests: storage.NewLimit(tt.requests), Trace: func(q sweep.Trace) {
					read, of = append(read, time.Now()), append(of, len(q.Page.Keys))
				}}
				s := sweep.Spec{Source: b.Table(source.Name()), Steal: true, Filter: tt.filter}
				began := time.Now()
				totals, err := tt.do(t, s, b.Table(destination.Name()), o)
				took := time.Since(began)
				if err != nil || took < 12*time.Second {
					t.Fatalf("%v, in %v", err, took)
				}
				limit, rate, high := float64(tt.requests), float64(totals.Requests)/took.Seconds(), busiestRate(g.sent, func(int) int { return 1 })
				if tt.requests == 0 {
					limit, rate, high = float64(tt.rows), float64(totals.Rows)/took.Seconds(), busiestRate(read, func(i int) int { return of[i] })
				}
				t.Logf("with a limit of %.0f a second, the rate was %.0f in the busiest ten seconds and %.0f over the whole time; %d requests", limit, high, rate, totals.Requests)
				if math.Abs(high-limit) > 0.05*limit || rate < 0.85*limit {
					t.Errorf("the rate was %.0f a second in the busiest ten seconds and %.0f over the whole time, want %.0f", high, rate, limit)
				}
			})
		})
	}
}

func copyRows(t *testing.T, s sweep.Spec, to *storage.Table, o sweep.Options) (sweep.Totals, error) {
	return sweep.Do(t.Context(), s, o, action.Copy{Destination: to})
}

func countRows(t *testing.T, s sweep.Spec, _ *storage.Table, o sweep.Options) (sweep.Totals, error) {
	return sweep.Count(t.Context(), s, o, nil)
}

// TestLimitOfWrites checks that rows in memory, which need no queries, are not written faster than the limit allows.
func TestLimitOfWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 500
		rows := someRows(200, 30)
		_, a := emulatortest.NewAccount(t, emulator.Options{Latency: 10 * time.Millisecond})
		began := time.Now()
		totals, err := copyRows(t, sweep.Spec{Source: place.Rows(storage.Rows(rows))}, emulatortest.Table(t, a, "destination", nil), sweep.Options{MaxRows: limit})
		if took := time.Since(began); err != nil || totals.Written != int64(len(rows)) || took.Seconds() < 0.9*float64(len(rows))/limit {
			t.Errorf("wrote %d rows in %v, error %v; want %d rows, at most %d a second", totals.Written, took, err, len(rows), limit)
		}
	})
}
