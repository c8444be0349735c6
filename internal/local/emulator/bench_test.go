package emulator_test

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
)

// The benchmarks fail if the emulator does not reach these figures.
const (
	minPageRatio    = 15.0 // Azurite's time for a page, divided by the emulator's
	minBatchRatio   = 5.0  // Azurite's time for a batch, divided by the emulator's
	maxGrowth       = 1.5  // the time for a page of 10 million rows, divided by the time for a page of 100,000
	maxMillionBytes = 700 << 20
)

// BenchmarkPage reads pages of 1,000 from 100,000 rows over HTTP. If Azurite is available, it reports how many times longer Azurite takes.
func BenchmarkPage(b *testing.B) {
	againstAzurite(b, minPageRatio, func(s backend) (func() request, func(answer)) {
		table := s.newTable(b)
		s.fill(b, table, 100, 1000)
		token := ""
		next := func() request { return request{method: "GET", path: "/" + table + "()", query: token} }
		check := func(got answer) {
			if got.status != 200 || bytes.Count(got.body, []byte(`"PartitionKey":`)) != 1000 {
				b.Fatal(got)
			}
			token = nextOf(got)
		}
		return next, check
	})
}

// BenchmarkBatch inserts 100 rows of five properties at a time over HTTP.
func BenchmarkBatch(b *testing.B) {
	againstAzurite(b, minBatchRatio, func(s backend) (func() request, func(answer)) {
		table := s.newTable(b)
		n := 0
		next := func() request {
			n++
			return s.batchRequest(inserts(table, fmt.Sprintf("p%d", n), 0, 100))
		}
		check := func(got answer) {
			if got.status != 202 || bytes.Count(got.body, []byte("HTTP/1.1 204")) != 100 {
				b.Fatal(got)
			}
		}
		return next, check
	})
}

// The numbers of requests in a comparison. Azurite's first requests take longer, until its code is compiled.
const (
	warmUp     = 60
	rounds     = 8
	roundTrips = 25 // requests in a round
)

// againstAzurite measures requests to the emulator and, if available, to Azurite. prepare loads the data, and returns a function that makes the requests and
// one that checks the answers. Other work on the machine only lengthens requests. So the rounds of the emulator and of Azurite alternate, and the fastest
// request of each counts.
func againstAzurite(b *testing.B, minRatio float64, prepare func(backend) (next func() request, check func(answer))) {
	ours := newSide(b, "emulator", prepare)
	sides := []*side{ours}
	if os.Getenv(azuriteVariable) != "" {
		sides = append(sides, newSide(b, "azurite", prepare))
	}
	for b.Loop() {
		for range rounds {
			for _, s := range sides {
				s.round(b, roundTrips)
			}
		}
	}
	b.ReportMetric(float64(ours.fastest), "ns/op")
	if len(sides) == 1 {
		b.Logf("NOT COMPARED WITH AZURITE: set %s", azuriteVariable)
		return
	}
	azurite := sides[1]
	ratio := float64(azurite.fastest) / float64(ours.fastest)
	b.ReportMetric(float64(azurite.fastest), "azurite-ns/op")
	b.ReportMetric(ratio, "x-faster")
	if ratio < minRatio {
		b.Errorf("%.1f times faster than Azurite (%v against %v), want at least %.0f", ratio, ours.fastest, azurite.fastest, minRatio)
	}
}

// side is one of the services in a comparison.
type side struct {
	backend
	next    func() request
	check   func(answer)
	fastest time.Duration // the fastest request
}

func newSide(b *testing.B, name string, prepare func(backend) (func() request, func(answer))) *side {
	s := &side{backend: openBackend(b, name)}
	s.next, s.check = prepare(s.backend)
	s.round(b, warmUp)
	s.fastest = math.MaxInt64
	return s
}

// round sends requests one after the other over a connection, and measures the time from a request's first byte to its answer's last byte. The client only
// writes and reads bytes, because net/http's client would take a large part of the emulator's time.
func (s *side) round(b *testing.B, n int) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.tableURL, "http://"))
	proof.Must(b, err)
	defer conn.Close()
	reader := bufio.NewReaderSize(conn, 64<<10)
	var sent, body bytes.Buffer
	runtime.GC() // collects the garbage of the preparation
	for range n {
		r := s.tableRequest(b, s.next())
		sent.Reset()
		body.Reset()
		proof.Must(b, r.Write(&sent))
		start := time.Now()
		if _, err := conn.Write(sent.Bytes()); err != nil {
			b.Fatal(err)
		}
		got, err := http.ReadResponse(reader, r)
		if err == nil {
			_, err = body.ReadFrom(got.Body)
		}
		s.fastest = min(s.fastest, time.Since(start))
		proof.Must(b, err)
		s.check(answer{got.StatusCode, got.Header, body.Bytes()})
	}
}

// BenchmarkPageOfMillions alternately reads pages of a key range from the middle of 10 million rows and of 100,000 rows, and compares the fastest page of
// each.
func BenchmarkPageOfMillions(b *testing.B) {
	page := func(rows int) func() {
		e := newEmulator(b, emulator.Options{})
		proof.Must(b, emulator.Fill(e, "rows", rows))
		account := local(b, e)
		filter := "$filter=" + urlQuery("PartitionKey gt '"+emulator.FillPartition(rows/2)+"'")
		return func() {
			if got := account.table(b, request{method: "GET", path: "/rows()", query: filter}); nextOf(got) == "" {
				b.Fatalf("the page is not full: %v", got)
			}
		}
	}
	few, many := page(100_000), page(10_000_000)
	fastest := func(page func(), best time.Duration) time.Duration {
		start := time.Now()
		page()
		return min(best, time.Since(start))
	}
	var small, large time.Duration = math.MaxInt64, math.MaxInt64
	for b.Loop() {
		for range rounds * roundTrips {
			small, large = fastest(few, small), fastest(many, large)
		}
	}
	b.ReportMetric(float64(large), "ns/op")
	growth := float64(large) / float64(small)
	b.ReportMetric(growth, "x-page-of-100k")
	if growth > maxGrowth {
		b.Errorf("a page of 10 million rows takes %.2f times as long as one of 100,000, want at most %.1f", growth, maxGrowth)
	}
}

// BenchmarkMillionRows measures the memory of a million rows of five properties.
func BenchmarkMillionRows(b *testing.B) {
	for b.Loop() {
		before := heap()
		e := newEmulator(b, emulator.Options{})
		proof.Must(b, emulator.Fill(e, "rows", 1_000_000))
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
