package emulator_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"testing"
	"time"

	"tablesweep/internal/emulator"
)

// The figures that the emulator must reach. The benchmarks fail where it doesn't.
const (
	minPageRatio    = 15.0 // Azurite's time for a page over the emulator's
	minBatchRatio   = 5.0  // the same for a batch
	maxGrowth       = 1.5  // a page's time in 10 million rows over that in 100,000
	maxMillionBytes = 700 << 20
)

// BenchmarkPage reads pages of 1,000 rows out of 100,000 over HTTP. With Azurite at
// hand it reports how many times longer that takes.
func BenchmarkPage(b *testing.B) {
	againstAzurite(b, minPageRatio, func(backend backend) func() func() {
		table := backend.newTable(b)
		backend.fill(b, table, 100, 1000)
		next := ""
		return func() func() {
			return func() {
				p := backend.rawPage(b, table, next)
				if next = p.next; next == "" && p.bytes < 1000 {
					b.Fatal("no rows")
				}
			}
		}
	})
}

// BenchmarkBatch inserts 100 rows of five properties at a time over HTTP.
func BenchmarkBatch(b *testing.B) {
	againstAzurite(b, minBatchRatio, func(backend backend) func() func() {
		table := backend.newTable(b)
		n := 0
		return func() func() {
			n++
			var ops []batchOp
			for i := range 100 {
				ops = append(ops, batchOp{"POST", "/" + table, map[string]string{"Prefer": "return-no-content"},
					entityBody(fmt.Sprintf("p%d", n), fmt.Sprintf("%06d", i), fmt.Sprintf(`"N":%d,"S":"value %d","D":%d.5,"B":true,"L":"%d","L@odata.type":"Edm.Int64"`, i, i, i, i))})
			}
			r := request{method: "POST", path: "/$batch", body: backend.batchBody(ops), header: map[string]string{"Content-Type": "multipart/mixed; boundary=batch_b"}}
			return func() {
				if got := backend.table(b, r); got.status != 202 || bytes.Count(got.body, []byte("HTTP/1.1 204")) != 100 {
					b.Fatal(got)
				}
			}
		}
	})
}

// againstAzurite measures requests to the emulator, and to Azurite in the same run,
// if there is one. prepare loads the data, and returns what prepares a request,
// which returns what sends it. Only that is measured. Of both services the fastest
// of several rounds counts, so that other work on the machine does not decide.
func againstAzurite(b *testing.B, minRatio float64, prepare func(backend) func() func()) {
	measure := func(next func() func(), requests int) time.Duration {
		var total time.Duration
		for range requests {
			send := next()
			start := time.Now()
			send()
			total += time.Since(start)
		}
		return total / time.Duration(requests)
	}
	fastest := func(name string) time.Duration {
		next := prepare(openBackend(b, name))
		best := measure(next, 5)
		for range 5 {
			best = min(best, measure(next, 20))
		}
		return best
	}
	next := prepare(openBackend(b, "emulator"))
	b.ResetTimer()
	var total time.Duration
	for b.Loop() {
		total += measure(next, 1)
	}
	b.ReportMetric(float64(total)/float64(b.N), "ns/op")
	if os.Getenv(azuriteVariable) == "" {
		b.Logf("NOT COMPARED WITH AZURITE: set %s", azuriteVariable)
		return
	}
	azurite, ours := fastest("azurite"), fastest("emulator")
	ratio := float64(azurite) / float64(ours)
	b.ReportMetric(float64(azurite), "azurite-ns/op")
	b.ReportMetric(ratio, "x-faster")
	if ratio < minRatio {
		b.Errorf("%.1f times faster than Azurite (%v, %v), want %.0f", ratio, ours, azurite, minRatio)
	}
}

type rawPage struct {
	bytes int
	next  string
}

// rawPage reads a page and leaves it as text, so as to measure the server.
func (b backend) rawPage(t testing.TB, table, next string) rawPage {
	t.Helper()
	got := b.table(t, request{method: "GET", path: "/" + table + "()", query: next})
	if got.status != http.StatusOK {
		t.Fatal(got)
	}
	return rawPage{len(got.body), nextOf(got)}
}

// BenchmarkPageOfMillions reads pages of a key range from the middle of 10 million
// rows, and compares that with 100,000.
func BenchmarkPageOfMillions(b *testing.B) {
	page := func(rows int) func() {
		e := newEmulator(b, emulator.Options{})
		if err := emulator.Fill(e, "rows", rows); err != nil {
			b.Fatal(err)
		}
		account := newAccount(b, e.ConnectionString())
		account.http = &http.Client{Transport: e.Transport()}
		filter := "$filter=" + urlQuery("PartitionKey gt '"+emulator.FillPartition(rows/2)+"'")
		return func() {
			if p := (backend{account: account}).rawPage(b, "rows", filter); p.next == "" {
				b.Fatal("not a full page")
			}
		}
	}
	few, many := page(100_000), page(10_000_000)
	few()
	many()
	const rounds = 200
	start := time.Now()
	for range rounds {
		few()
	}
	small := time.Since(start) / rounds
	b.ResetTimer()
	for b.Loop() {
		many()
	}
	growth := float64(b.Elapsed()) / float64(b.N) / float64(small)
	b.ReportMetric(growth, "x-page-of-100k")
	if growth > maxGrowth && b.N >= 50 {
		b.Errorf("a page of 10 million rows takes %.2f times as long as one of 100,000, want %.1f", growth, maxGrowth)
	}
}

// BenchmarkMillionRows measures the memory of a million rows of five properties.
func BenchmarkMillionRows(b *testing.B) {
	for b.Loop() {
		before := heap()
		e := newEmulator(b, emulator.Options{})
		if err := emulator.Fill(e, "rows", 1_000_000); err != nil {
			b.Fatal(err)
		}
		used := heap() - before
		runtime.KeepAlive(e)
		b.ReportMetric(float64(used)/(1<<20), "MiB")
		if used > maxMillionBytes {
			b.Errorf("a million rows take %d MiB", used>>20)
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
