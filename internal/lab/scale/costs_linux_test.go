package scale_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/emulator"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// TestServeForCosts is the server's process of BenchmarkCosts.
func TestServeForCosts(t *testing.T) {
	if os.Getenv("TABLESWEEP_SERVE_FOR_COSTS") == "" {
		t.Skip("is run by BenchmarkCosts")
	}
	e, err := emulator.New(emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Serve(t.Context(), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("serving", s.ConnectionString())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the benchmark ends
}

// counted counts requests and the bytes of their bodies.
type counted struct {
	requests, sent, received atomic.Int64
}

func (c *counted) Do(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultClient.Do(req)
	c.requests.Add(1)
	c.sent.Add(max(req.ContentLength, 0))
	if err == nil {
		c.received.Add(max(resp.ContentLength, 0))
	}
	return resp, err
}

// BenchmarkCosts measures what the handler's clients take of a processor for a request, and
// for each KiB that they send and receive: over HTTP, with the server in another process.
func BenchmarkCosts(b *testing.B) {
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 256
	c := &counted{}
	table := serve(b, c).Table("costs")
	if err := table.Create(b.Context()); err != nil {
		b.Fatal(err)
	}
	rows := func(partitions, size int) (all []storage.Entity) {
		for p := range partitions {
			for r := range size {
				all = append(all, storage.Entity{Key: key.Key{Partition: fmt.Sprintf("%06d", p), Row: fmt.Sprintf("%06d", r)}, Properties: []storage.Property{
					storage.StringProperty("Name", strings.Repeat("x", 40)), storage.Int64Property("Number", int64(r)),
				}})
			}
		}
		return all
	}
	small, large := rows(10_000, 1), rows(200, 100)
	writing := func(rows []storage.Entity) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := action.Copy{Destination: table}.Copy(ctx, rows)
			return err
		}
	}
	for b.Loop() {
		one := measure(b, c, writing(small))
		many := measure(b, c, writing(large))
		reading := measure(b, c, func(ctx context.Context) error {
			return table.All(ctx, storage.Query{}, func(storage.Page) error { return nil })
		})
		sentKB := (many.processor - one.processor) / (many.sent - one.sent)
		receivedKB := (reading.processor - one.processor + one.sent*sentKB) / reading.received
		b.ReportMetric(one.processor-one.sent*sentKB, "µs/request")
		b.ReportMetric(sentKB, "µs/KiB-sent")
		b.ReportMetric(receivedKB, "µs/KiB-received")
	}
}

// spent is what a request took: microseconds of a processor, KiB.
type spent struct{ processor, sent, received float64 }

func measure(b *testing.B, c *counted, work func(context.Context) error) spent {
	b.Helper()
	requests, sent, received, before := c.requests.Load(), c.sent.Load(), c.received.Load(), processor()
	if err := work(b.Context()); err != nil {
		b.Fatal(err)
	}
	n := float64(c.requests.Load() - requests)
	return spent{
		processor: float64(processor()-before) / float64(time.Microsecond) / n,
		sent:      float64(c.sent.Load()-sent) / 1024 / n, received: float64(c.received.Load()-received) / 1024 / n,
	}
}

// processor returns the processor time that this process has taken.
func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // does not fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serve starts the server's process and returns its account.
func serve(b *testing.B, via *counted) *storage.Account {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestServeForCosts$")
	cmd.Env = append(os.Environ(), "TABLESWEEP_SERVE_FOR_COSTS=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "serving "); ok {
			connection, err := storage.ParseConnection(text)
			if err != nil {
				b.Fatal(err)
			}
			a, err := storage.Open(connection, storage.Options{Transport: via})
			if err != nil {
				b.Fatal(err)
			}
			return a
		}
	}
	b.Fatal("the server's process said nothing")
	return nil
}
