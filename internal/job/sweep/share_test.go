package sweep_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// crowd records the highest numbers of concurrent requests: of queries, and of all other requests.
type crowd struct {
	next policy.Transporter

	mu          sync.Mutex // guards the fields below
	under, most [2]int
}

func (c *crowd) Do(r *http.Request) (*http.Response, error) {
	side := 0
	if r.Method != http.MethodGet {
		side = 1
	}
	c.mu.Lock()
	c.under[side]++
	c.most[side] = max(c.most[side], c.under[side])
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.under[side]--
		c.mu.Unlock()
	}()
	return c.next.Do(r)
}

// TestShare runs five concurrent sweeps that share their limits. Together they must make no more concurrent requests than a single sweep may make,
// must use all requests that are allowed, and must return exact results. Together they must keep to a limit of rows, also in comparisons.
func TestShare(t *testing.T) {
	t.Parallel()
	const tables, workers = 5, 12
	partitions := func(i int) int { return testsize.Of(10+6*i, 20+12*i) * 5 }
	for _, maxRows := range testsize.Of([]int{2000}, []int{0, 2000}) {
		for _, compare := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d rows, compare %v", maxRows, compare), func(t *testing.T) {
				if maxRows == 0 {
					testsize.WithoutRace(t)
				}
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					em, a := emulatortest.NewAccount(t, emulator.Options{})
					for i := range tables {
						emulatortest.Table(t, a, fmt.Sprintf("source%d", i), someRows(partitions(i), 20))
						emulatortest.Table(t, a, fmt.Sprintf("copied%d", i), nil)
					}
					c := &crowd{next: em.Transport()}
					b := emulatortest.Open(t, em, c)
					share := sweep.NewShare(workers, maxRows)
					var rows, sum [tables]int64
					each := func(do func(ctx context.Context, i int, o sweep.Options) (int64, error)) (seconds float64) {
						var group task.Group
						began := time.Now()
						for i := range tables {
							group.Go(func() (err error) {
								sum[i], err = do(t.Context(), i, sweep.Options{Workers: workers, MaxRows: maxRows, Share: share})
								return err
							})
						}
						proof.Must(t, group.Wait())
						return time.Since(began).Seconds()
					}
					source := func(i int) sweep.Spec {
						return sweep.Spec{Source: b.Table(fmt.Sprintf("source%d", i)), Steal: true}
					}
					copied := func(i int) *storage.Table { return b.Table(fmt.Sprintf("copied%d", i)) }
					proof.Must(t, em.SetFaults("latency=20ms..50ms"))
					work := func(ctx context.Context, i int, o sweep.Options) (int64, error) {
						s := source(i)
						t, err := sweep.Do(ctx, s, o, action.Copy{Destination: copied(i)})
						return t.Rows, err
					}
					if compare {
						for i := range tables {
							_, err := work(t.Context(), i, sweep.Options{})
							proof.Must(t, err)
						}
						c.most = [2]int{}
						work = func(ctx context.Context, i int, o sweep.Options) (int64, error) {
							r, err := verify.Compare(ctx, source(i), copied(i), verify.Options{Options: o})
							if err == nil && r.Differences() > 0 {
								err = fmt.Errorf("%+v", r)
							}
							return r.Rows, err
						}
					}
					took := each(work)
					all := int64(0)
					for i := range tables {
						rows[i] = int64(partitions(i)) * 20
						all += rows[i]
					}
					if sum != rows {
						t.Errorf("did %v rows, want %v", sum, rows)
					}
					most := c.most[0] // a comparison makes these at two tables
					if compare {
						most = (most + 1) / 2
					}
					t.Logf("%v concurrent requests, %d rows in %.1f s", c.most, all, took)
					if most > workers || c.most[1] > workers || maxRows == 0 && !compare && c.most[1] < workers/2 {
						t.Errorf("%v concurrent requests, want at most %d", c.most, workers)
					}
					if rate := float64(all) / took; maxRows > 0 && math.Abs(rate-float64(maxRows)) > 0.15*float64(maxRows) {
						t.Errorf("%.0f rows a second, want %d", rate, maxRows)
					}
				})
			})
		}
	}
}
