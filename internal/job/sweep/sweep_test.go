package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

// strategies are all strategies that a sweep may use. Nil makes idle workers steal.
var strategies = map[string]scan.Strategy{
	"stealing": nil, "prefix": scan.Prefix{}, "serial": scan.Serial{},
}

// someRows returns rows in partitions of the given size, in table order.
func someRows(partitions, each int) []storage.Entity {
	rows := make([]storage.Entity, 0, partitions*each)
	for p := range partitions {
		for r := range each {
			rows = append(rows, storage.Entity{
				Key:        key.Key{Partition: fmt.Sprintf("p%06d", p*7), Row: fmt.Sprintf("r%04d", r)},
				Properties: []storage.Property{storage.Int64Property("N", int64(p*each+r))},
			})
		}
	}
	return rows
}

func sameRows(a, b []storage.Entity) bool { return slices.EqualFunc(a, b, storage.Equal) }

func TestEachYieldsTableOrder(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	want := someRows(300, 7)
	for name, strategy := range strategies {
		for _, o := range []sweep.Options{{}, {Memory: memory.NewBudget(1)}, {Workers: 1}, {Workers: 3}}[:testsize.Of(2, 4)] {
			t.Run(fmt.Sprintf("%s/%d workers/memory %d", name, o.Workers, o.Memory.Usage().Bytes), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					_, a := emulatortest.NewAccount(t, emulator.Options{Faults: "seed=3; latency=1ms..30ms; short-page p=0.2; empty-page p=0.1; busy p=0.02"})
					table := emulatortest.Table(t, a, "source", want)
					var got []storage.Entity
					totals, err := sweep.Each(t.Context(), sweep.Spec{Source: table, Strategy: strategy, Steal: strategy == nil, PageRows: 50}, o, func(rows []storage.Row) error {
						got = append(got, storage.Page{Rows: rows}.Entities()...)
						return nil
					})
					proof.Must(t, err)
					if !sameRows(got, want) || totals.Rows != int64(len(want)) {
						t.Errorf("got %d rows, counted %d, want the %d of the table in order", len(got), totals.Rows, len(want))
					}
				})
			})
		}
	}
}

// TestPagesOfLargeRows checks that pages of large rows have some 4 MiB, except the first page, and that each row is read once.
func TestPagesOfLargeRows(t *testing.T) {
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	rows := someRows(3, 20)
	for i := range rows {
		for p := range 10 {
			rows[i].Properties = append(rows[i].Properties, storage.StringProperty(fmt.Sprint("P", p), strings.Repeat("x", 30_000)))
		}
	}
	table := emulatortest.Table(t, a, "source", rows)
	var pages []int
	o := sweep.Options{Trace: func(q sweep.Trace) { pages = append(pages, len(q.Page.Keys)) }}
	var got []storage.Entity
	_, err := sweep.Each(t.Context(), sweep.Spec{Source: table}, o, func(page []storage.Row) error {
		got = append(got, storage.Page{Rows: page}.Entities()...)
		return nil
	})
	if proof.Must(t, err); !sameRows(got, rows) || pages[0] < 40 || slices.Max(pages[1:]) > 16 {
		t.Errorf("got %d of %d rows, in pages of %v", len(got), len(rows), pages)
	}
}

func TestOneBusyPartitionSlowsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, a := emulatortest.NewAccount(t, emulator.Options{})
		var rows []storage.Entity
		for i := range 8_000 { // half of the rows are in one partition
			k := key.Key{Partition: fmt.Sprintf("m%05d", i), Row: "r"}
			if i%2 == 0 {
				k = key.Key{Partition: "a", Row: fmt.Sprintf("%05d", i)}
			}
			rows = append(rows, storage.Entity{Key: k})
		}
		slices.SortFunc(rows, func(a, b storage.Entity) int { return a.Key.Compare(b.Key) })
		source := emulatortest.Table(t, a, "source", rows)
		e, to := emulatortest.NewAccount(t, emulator.Options{Faults: "latency=10ms; partition-rate=500"})
		destination := emulatortest.Table(t, to, "destination", nil)
		start := time.Now()
		totals, err := sweep.Do(t.Context(), sweep.Spec{Source: source, Steal: true}, sweep.Options{}, action.Copy{Destination: destination})
		proof.Must(t, err)
		if e.FaultCounts()["partition-rate"] == 0 || totals.Throttles == 0 {
			t.Fatalf("no request was throttled: error %v, totals %+v", e.FaultCounts(), totals)
		}
		// The big partition alone takes 8 s at its rate.
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("took %v", took)
		}
		if got := emulatortest.Rows(t, destination); !sameRows(got, rows) {
			t.Errorf("the copy has %d rows of %d", len(got), len(rows))
		}
	})
}

func TestFailureStopsTheSweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, a := emulatortest.NewAccount(t, emulator.Options{Latency: time.Millisecond})
		source := emulatortest.Table(t, a, "source", someRows(100, 10))
		_, err := sweep.Do(t.Context(), sweep.Spec{Source: source, PageRows: 10}, sweep.Options{}, action.Copy{Destination: a.Table("nothere")})
		if !storage.NotFound(err) {
			t.Errorf("got error %v, want one about the missing destination", err)
		}
		if _, err := sweep.Count(t.Context(), sweep.Spec{Source: a.Table("nothere")}, sweep.Options{}, nil); !storage.NotFound(err) {
			t.Errorf("got error %v, want one about the missing source", err)
		}
	})
}

// TestInterrupt checks that an interrupt immediately ends queries, and requests that wait to be sent again. It must wait until writes are answered or
// given up, and must name the writes that may still be carried out.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, faults string
		deletes      bool
		ends         time.Duration
		want         string
	}{
		{"busy", "busy p=1", false, 5 * time.Second, "interrupted"},
		{"silent", "latency=1h..2h", false, 5 * time.Second, "interrupted"},
		{"writes", "latency=1h..2h on=delete,tables", true, 10 * time.Second, "interrupted; 10 requests had no answer and may still delete rows"},
	} {
		synctest.Test(t, func(t *testing.T) {
			e, a := emulatortest.NewAccount(t, emulator.Options{})
			source := emulatortest.Table(t, a, "source", someRows(10, 1))
			proof.Must(t, e.SetFaults(tt.faults))
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			began := time.Now()
			var err error
			if tt.deletes {
				_, err = sweep.Do(ctx, sweep.Spec{Source: source}, sweep.Options{}, action.Delete{Table: source})
			} else {
				_, err = sweep.Count(ctx, sweep.Spec{Source: source}, sweep.Options{}, nil)
			}
			if took := time.Since(began); !errors.Is(err, task.ErrInterrupted) || err.Error() != tt.want || took < tt.ends || took > tt.ends+time.Second {
				t.Errorf("%s: got %v after %v, want %s after %v", tt.name, err, took, tt.want, tt.ends)
			}
		})
	}
}
