package action_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/emulator"
	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// TestProcessesAtOnePartition lets processes of the app write to one partition, several
// units at once each, in virtual time. After a minute, at most a tenth of the requests
// may be refused, and the partition must be busy. That holds for units of several transactions, too.
func TestProcessesAtOnePartition(t *testing.T) {
	t.Parallel()
	for _, transactions := range []int{1, 11} { // of a unit
		t.Run(fmt.Sprint(transactions), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { writeToOnePartition(t, transactions) })
		})
	}
}

func writeToOnePartition(t *testing.T, transactions int) {
	const processes, invocations, rate, minutes = 4, 36, 300, 2
	em := emulatortest.New(t, emulator.Options{})
	destination := emulatortest.Open(t, em, nil).Table("Target")
	proof.Must(t, destination.Create(t.Context()))
	proof.Must(t, em.SetFaults("latency=10ms; partition-rate=300"))
	ctx, cancel := context.WithTimeout(t.Context(), minutes*time.Minute)
	defer cancel()
	var g task.Group
	for p := range processes {
		c, limiter := action.Copy{Destination: emulatortest.Open(t, em, nil).Table("Target")}, &action.Limiter{}
		for i := range invocations {
			g.Go(func() error {
				for page := 0; ctx.Err() == nil; page++ {
					rows := make([]storage.Entity, storage.MaxBatchRows)
					for r := range rows {
						rows[r].Key = key.Key{Partition: "p", Row: fmt.Sprintf("%d-%d-%d-%03d", p, i, page, r)}
						if r < transactions-1 { // the emulator's account takes such a row by itself
							rows[r].Key.Row = "," + rows[r].Key.Row
						}
					}
					if _, err := action.All(ctx, storage.RequestOptions{}, limiter, c, storage.Rows(rows)); err != nil && ctx.Err() == nil {
						return err
					}
				}
				return nil
			})
		}
	}
	time.Sleep(time.Minute)
	first, refusedFirst := em.Counts(), em.FaultCounts()["partition-rate"]
	proof.Must(t, g.Wait())
	last := em.Counts()
	requests, refused := last.TableTransactions()-first.TableTransactions(), int64(em.FaultCounts()["partition-rate"]-refusedFirst)
	taken := float64(requests-refused) * storage.MaxBatchRows / float64(transactions) / (rate * 60 * (minutes - 1))
	t.Logf("%d of %d requests refused in the first minute, %d of %d after it; %.0f %% of what the partition takes", refusedFirst, first.TableTransactions(), refused, requests, 100*taken)
	if refused*10 > requests || taken < 0.7 {
		t.Errorf("%d of %d requests were refused after the first minute, and the partition took %.0f %% of what it can", refused, requests, 100*taken)
	}
}
