package catalog_test

import (
	"cmp"
	"flag"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/emulator"
	"tablesweep/internal/record"
)

var size = flag.Int("records", 0, "how many records tests of size have, instead of a number that is quick")

// fill inserts records from one number to another, a thousand at once.
func fill(b testing.TB, c *catalog.Catalog, from, to int) {
	b.Helper()
	for ; from < to; from += 1000 {
		var all []record.Record
		for i := range min(1000, to-from) {
			all = append(all, person(b, from+i))
		}
		for _, one := range c.InsertAll(b.Context(), all, nil) {
			if one.Err != nil {
				b.Fatal(one.Err)
			}
		}
	}
	c.Close()
}

// heap returns the bytes of the objects on the heap, those that nobody needs any more among
// them.
func heap() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// BenchmarkCheck fails if a check asks for more than 3 times the pages that there are, or
// needs more than 300 MB beside the emulator, which is in the same process.
func BenchmarkCheck(b *testing.B) {
	const most = 300 << 20
	w := newWorld(b, emulator.Options{}, people, "lastname")
	c := w.catalog()
	n := cmp.Or(*size, 20_000)
	fill(b, c, 0, n)
	pages := int64(3*n+999) / 1000
	heads := map[string]int{}
	for _, row := range w.rows("PeopleWAL", "h|") {
		heads[row.Key.Partition]++
	}
	for _, rows := range heads {
		pages += int64(rows+999) / 1000
	}
	for b.Loop() {
		defer debug.SetGCPercent(debug.SetGCPercent(10)) // what is garbage is hardly counted
		runtime.GC()
		before, peak := heap(), int64(0)
		done, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-done:
					return
				case <-time.After(5 * time.Millisecond):
					peak = max(peak, heap())
				}
			}
		}()
		w.emulator.ResetCounts()
		sum := w.check(c)
		close(done)
		<-ended
		queries := w.emulator.Counts().Query
		if sum.Records != n || sum.Rows != 3*n {
			b.Errorf("%+v", sum)
		}
		b.ReportMetric(float64(queries), "queries")
		b.ReportMetric(float64(pages), "pages")
		b.ReportMetric(float64(peak-before)/(1<<20), "MB")
		if queries > 3*pages {
			b.Errorf("%d queries for %d pages", queries, pages)
		}
		if peak-before > most {
			b.Errorf("%d MB", (peak-before)>>20)
		}
	}
}
