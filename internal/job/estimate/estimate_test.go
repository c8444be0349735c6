package estimate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/job/estimate"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// fill returns a table with the given numbers of partitions and of rows in each partition. Requests take 100 ms.
func fill(t *testing.T, faults string, partitions, each int) *storage.Table {
	t.Helper()
	em, a := emulatortest.NewAccount(t, emulator.Options{Latency: 100 * time.Millisecond})
	var rows []storage.Entity
	for i := range partitions {
		for j := range each {
			v := storage.StringProperty("Odd", fmt.Sprint(j%2))
			rows = append(rows, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("%05d", i), Row: fmt.Sprintf("%05d", j)}, Properties: []storage.Property{v}})
		}
	}
	table := emulatortest.Table(t, a, "rows", rows)
	proof.Must(t, em.SetFaults(faults))
	return table
}

// TestCount checks the reports of counts that have time to read all rows, from pages of different sizes.
func TestCount(t *testing.T) {
	t.Parallel()
	writes := estimate.Work{Writes: action.Transactions, Price: 1}
	messages := estimate.Work{Writes: func(rows []storage.Row) int { return len(rows) }, Price: 1}
	ledger := estimate.Work{PerQuery: 3, Price: 1}
	for _, tt := range []struct {
		name   string
		faults string
		spec   sweep.Spec
		limit  time.Duration
		work   estimate.Work
		want   string
	}{
		{"transactions", "", sweep.Spec{Steal: true}, time.Minute, writes, // 4 full pages and one partial page, times the factor spare
			`{"rows":[4500,4500],"counted":true,"requests":907,"dollars":0.0907,"dollarsPerMillion":20.1}`},
		{"messages", "", sweep.Spec{Steal: true}, time.Minute, messages,
			`{"rows":[4500,4500],"counted":true,"requests":4507,"dollars":0.451,"dollarsPerMillion":100}`},
		{"a ledger", "", sweep.Spec{Steal: true}, time.Minute, ledger,
			`{"rows":[4500,4500],"counted":true,"requests":26,"dollars":0.0026,"dollarsPerMillion":0.52}`},
		{"to the end", "", sweep.Spec{Steal: true}, 0, ledger,
			`{"rows":[4500,4500],"counted":true,"requests":26,"dollars":0.0026,"dollarsPerMillion":0.52}`},
		{"one after the other", "", sweep.Spec{Strategy: scan.Serial{}}, time.Minute, writes, // the end of a page divides a partition
			`{"rows":[4500,4500],"counted":true,"requests":905,"dollars":0.0905,"dollarsPerMillion":20.1,"queries":5}`},
		{"a page", "", sweep.Spec{Steal: true, Bounds: key.Bounds{Prefix: "000"}}, time.Minute, writes,
			`{"rows":[500,500],"counted":true,"requests":101,"dollars":0.0101,"dollarsPerMillion":20.1,"queries":1}`},
		{"none", "", sweep.Spec{Steal: true, Bounds: key.Bounds{Prefix: "x"}}, time.Minute, writes,
			`{"rows":[0,0],"counted":true,"requests":1,"dollars":0.0001,"queries":1}`},
		{"a filter", "", sweep.Spec{Strategy: scan.Serial{}, Filter: "Odd eq '1'"}, time.Minute, writes,
			`{"rows":[1800,1800],"counted":true,"requests":902,"dollars":0.0902,"dollarsPerMillion":50.1,"queries":2}`},
		{"pages that are not full", "seed=1; short-page p=0.3; empty-page p=0.2", sweep.Spec{Steal: true}, time.Minute, ledger,
			`{"rows":[4500,4500],"counted":true,"requests":26,"dollars":0.0026,"dollarsPerMillion":0.52}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tt.spec.Source = fill(t, tt.faults, 900, 5)
				r, err := estimate.Count(t.Context(), tt.spec, sweep.Options{}, tt.limit, tt.work)
				proof.Must(t, err)
				check(t, r, tt.want)
			})
		})
	}
}

// check compares a report with the given fields.
func check(t *testing.T, r estimate.Report, want string) {
	t.Helper()
	b, err := json.Marshal(r)
	proof.Must(t, err)
	var got, wanted map[string]any
	proof.Must(t, json.Unmarshal(b, &got), json.Unmarshal([]byte(want), &wanted))
	for name, v := range wanted {
		if fmt.Sprint(got[name]) != fmt.Sprint(v) {
			t.Errorf("%s is %v, want %v; the report is %s", name, got[name], v, b)
		}
	}
}

// TestCountEndsAtTheTimeLimit checks that a count that ends at its time limit reports some of the rows, and that there may be more.
func TestCountEndsAtTheTimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := fill(t, "", 100, 5)
		began := time.Now()
		watch := sweep.Options{Watch: func(p sweep.Progress) {
			if p.Stopping {
				t.Error("the progress shows an interrupt, but there was none")
			}
		}}
		r, err := estimate.Count(t.Context(), sweep.Spec{Source: table, Strategy: scan.Serial{}, PageRows: 10}, watch, 950*time.Millisecond, estimate.Work{Writes: action.Transactions, Price: 1})
		proof.Must(t, err)
		// The tenth query was running and is dropped, because a count does not wait for queries.
		check(t, r, `{"rows":[90,null],"counted":false,"requests":27,"dollars":0.0027,"dollarsPerMillion":30,"queries":9}`)
		if took := time.Since(began); took != 950*time.Millisecond {
			t.Errorf("the count took %v, want 950ms", took)
		}
	})
}

// TestCountEndsDespiteSilence checks that storage that stops answering does not delay a count for long, and that the report is correct.
func TestCountEndsDespiteSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := fill(t, "latency=1h..1h", 10, 1)
		began := time.Now()
		r, err := estimate.Count(t.Context(), sweep.Spec{Source: table, Steal: true}, sweep.Options{}, 20*time.Second, estimate.Work{Price: 1})
		proof.Must(t, err)
		check(t, r, `{"rows":[0,null],"counted":false,"dollarsPerMillion":null}`)
		if took := time.Since(began); took > 23*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// TestCountFailsAfterAnInterrupt checks that neither an interrupt nor an error counts as the end of the time limit.
func TestCountFailsAfterAnInterrupt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := fill(t, "", 100, 5)
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		s := sweep.Spec{Source: table, Strategy: scan.Serial{}, PageRows: 10}
		stopping := false
		watch := sweep.Options{Watch: func(p sweep.Progress) { stopping = stopping || p.Stopping }}
		if r, err := estimate.Count(ctx, s, watch, time.Minute, estimate.Work{}); !errors.Is(err, task.ErrInterrupted) || !stopping {
			t.Errorf("got the report %+v, error %v, stopping %v; want an interrupt", r, err, stopping)
		}
		s.Filter = "Odd eq eq"
		if r, err := estimate.Count(t.Context(), s, sweep.Options{}, time.Minute, estimate.Work{}); !storage.Permanent(err) {
			t.Errorf("got the report %+v, error %v, want an error about the filter", r, err)
		}
	})
}
