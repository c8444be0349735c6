package sweep_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"tablesweep/internal/action"
	"tablesweep/internal/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
)

// latency is what every request takes in the comparisons.
const latency = 10 * time.Millisecond

func bySweep(t testing.TB, _ *emulator.Emulator, a *storage.Account, _ int) {
	s := sweep.Spec{Source: a.Table("source"), Steal: true}
	_, err := sweep.Do(t.Context(), s, sweep.Options{}, action.Copy{Destination: a.Table("destination")})
	proof.Must(t, err)
}

// byRow is the loop that the SDK's examples lead to: a pager, and an upsert a row.
func byRow(t testing.TB, e *emulator.Emulator, _ *storage.Account, limit int) {
	to := client(t, e, "destination")
	eachEntity(t, e, limit, func(entity []byte) {
		_, err := to.UpsertEntity(t.Context(), entity, nil)
		proof.Must(t, err)
	})
}

// byBatch collects the rows of a partition, up to a hundred, into a transaction.
func byBatch(t testing.TB, e *emulator.Emulator, _ *storage.Account, limit int) {
	to := client(t, e, "destination")
	var batch []aztables.TransactionAction
	last := ""
	send := func() {
		if len(batch) > 0 {
			_, err := to.SubmitTransaction(t.Context(), batch, nil)
			proof.Must(t, err)
		}
		batch = nil
	}
	eachEntity(t, e, limit, func(entity []byte) {
		var keys struct{ PartitionKey string }
		proof.Must(t, json.Unmarshal(entity, &keys))
		if keys.PartitionKey != last || len(batch) == storage.MaxBatchRows {
			send()
		}
		last = keys.PartitionKey
		batch = append(batch, aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertReplace, Entity: entity})
	})
	send()
}

// eachEntity calls fn for up to limit rows of the source, by the SDK's pager.
func eachEntity(t testing.TB, e *emulator.Emulator, limit int, fn func([]byte)) {
	pager := client(t, e, "source").NewListEntitiesPager(nil)
	for pager.More() {
		page, err := pager.NextPage(context.WithoutCancel(t.Context()))
		proof.Must(t, err)
		for _, entity := range page.Entities {
			if limit--; limit < 0 {
				return
			}
			fn(entity)
		}
	}
}

// client returns the SDK's own client of a table.
func client(t testing.TB, e *emulator.Emulator, table string) *aztables.Client {
	t.Helper()
	s, err := aztables.NewServiceClientFromConnectionString(e.ConnectionString(), &aztables.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: e.Transport()},
	})
	proof.Must(t, err)
	return s.NewClient(table)
}

// BenchmarkCopy copies 200,000 rows in 20,000 partitions in real time, and compares
// with both loops, which it runs over a part of the rows.
func BenchmarkCopy(b *testing.B) {
	rows := someRows(20_000, 10)
	for b.Loop() {
		e, a := emulatortest.NewAccount(b, emulator.Options{})
		emulatortest.Table(b, a, "source", rows)
		emulatortest.Table(b, a, "destination", nil)
		proof.Must(b, e.SetFaults("latency="+latency.String()))
		perRow := func(n int, copyRows func(testing.TB, *emulator.Emulator, *storage.Account, int)) float64 {
			start := time.Now()
			copyRows(b, e, a, n)
			return time.Since(start).Seconds() / float64(n)
		}
		loop, batches := perRow(300, byRow), perRow(3000, byBatch)
		e.ResetCounts()
		ours := perRow(len(rows), bySweep)
		b.ReportMetric(1/ours, "rows/s")
		b.ReportMetric(loop/ours, "x-row-by-row")
		b.ReportMetric(batches/ours, "x-serial-transactions")
		b.ReportMetric(float64(e.Counts().TableTransactions())/float64(len(rows)), "requests/row")
		if got := emulatortest.Rows(b, a.Table("destination")); !sameRows(got, rows) {
			b.Fatalf("copied %d rows of %d", len(got), len(rows))
		}
	}
}
