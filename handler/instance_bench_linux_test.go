package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// work is the work of an instance.
type work func(context.Context, *instance) error

// instanceRow is a row of the table in docs/measurements.md.
type instanceRow struct {
	name string
	work work
}

// instanceRows are the table's rows that use the same data.
type instanceRows struct {
	name string
	fill func(t testing.TB, a *storage.Account, connection string)
	rows []instanceRow
	// If commands is true, the command line also copies, exports, imports and compares the rows.
	commands bool
}

// BenchmarkInstanceMemory measures the peak memory of a handler, in an instance of 512 and of 2,048 MB: with large rows, large calls, many concurrent calls,
// and bodies made to need much memory. It fails if a handler takes more than the instance has left beside its host, or if work does not end.
func BenchmarkInstanceMemory(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(30)) // this process contains the rows
	for _, group := range allInstanceRows() {
		b.Run(group.name, func(b *testing.B) {
			_, a, connection := serveEmulator(b, emulator.Options{})
			group.fill(b, a, connection)
			for _, row := range group.rows {
				for _, megabytes := range []int{512, 2048} {
					b.Run(fmt.Sprintf("%s/%d", row.name, megabytes), func(b *testing.B) {
						for b.Loop() {
							checkPeak(b, connection, megabytes, row)
						}
					})
				}
			}
			if group.commands {
				benchmarkCommands(b, connection)
			}
		})
		debug.FreeOSMemory()
	}
}

// TestInstanceMemory does a small part of that work, all of it concurrently, on an instance of 512 MB.
func TestInstanceMemory(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	_, a, connection := serveEmulator(t, emulator.Options{})
	fillOrders(50, 100)(t, a, connection)
	fillLarge(10, 5, text14)(t, a, connection)
	fillRecords(t, a, connection)
	checkPeak(t, connection, 512, instanceRow{"many-at-once", beside(together(
		runScans(scanRequest("copy", table("large"), table("made")), scanRequest("copy", table("large"), blobs("made", "one")), scanRequest("copy", blobs("kept", "large"), table("madeback"))),
		calls(8, until(get("/api/catalog/records?top=1000")), 200), calls(6, until(insert(100)), 200), calls(10, until(appendTiny), 400, 413)))})
}

// mostOf returns the most megabytes that a handler may take at its peak, in an instance of the given megabytes.
func mostOf(megabytes int) float64 { return map[int]float64{512: 290, 2048: 1200}[megabytes] }

// checkPeak does a row's work on a new instance of the given megabytes, and checks the peak.
func checkPeak(t testing.TB, connection string, megabytes int, row instanceRow) {
	t.Helper()
	start := time.Now()
	i, peak, err := measured(t, connection, megabytes, row.work)
	seconds := time.Since(start).Seconds()
	if b, ok := t.(*testing.B); ok {
		b.ReportMetric(peak, "peak-MB")
		b.ReportMetric(seconds, "s")
		b.ReportMetric(i.waits.longest.Seconds(), "longest-s")
	}
	t.Logf("%d MB: %s: peak %.0f MB, %.1f s; %d small calls, the longest %.2f s; answers %s", megabytes, row.name, peak, seconds,
		i.waits.count, i.waits.longest.Seconds(), &i.waits)
	if most := mostOf(megabytes); peak > most || peak == 0 {
		t.Errorf("%d MB: %s: peak %.0f MB, want at most %.0f", megabytes, row.name, peak, most)
	}
	if err != nil {
		t.Errorf("%d MB: %s: %v; the host's log:\n%.3000s", megabytes, row.name, err, i.log.String())
	}
	proof.Must(t, removeMade(context.Background(), i.account))
}

// benchmarkCommands measures the command line with the table large and its export.
func benchmarkCommands(b *testing.B, connection string) {
	for _, args := range []string{"copy --from large --to madeby", "export --from large --to " + filepath.Join(b.TempDir(), "large"), "import --from blob:kept/large --to madeby", "verify --from large --to madeby"} {
		words, most := strings.Fields(args), 155.0
		b.Run("command-"+words[0], func(b *testing.B) {
			for b.Loop() {
				peak := commandPeak(b, connection, words...)
				b.ReportMetric(peak, "peak-MB")
				if peak > most || peak == 0 {
					b.Errorf("%s: peak %.0f MB, want at most %.0f", args, peak, most)
				}
			}
		})
	}
	proof.Must(b, removeMade(context.Background(), accountOf(b, connection)))
}

// removeMade deletes the tables that scans have written, and the exports in the container made.
func removeMade(ctx context.Context, a *storage.Account) error {
	err := a.TableNames(ctx, func(name string) error {
		if !strings.HasPrefix(name, "made") {
			return nil
		}
		return a.Table(name).Delete(ctx)
	})
	c, errOpen := a.Container("made")
	if err := errors.Join(err, errOpen, c.Create(ctx)); err != nil {
		return err
	}
	var names []string
	err = c.List(ctx, "", func(b storage.Blob) error {
		names = append(names, b.Name)
		return nil
	})
	for _, name := range names {
		err = errors.Join(err, c.Delete(ctx, name))
	}
	return err
}

func allInstanceRows() []instanceRows {
	tiny := calls(30, get("/api/catalog/changes?after=1h&top=1000"), 200)
	return []instanceRows{
		{"rows-of-420-KB", fillLarge(40, 10, text14), scanRows(6), true},
		{"records-of-30-KB", fillRecords, recordRows(), false},
		{"tiny-fields", func(testing.TB, *storage.Account, string) {}, tinyRows(), false},
		{"16000-records-of-tiny-fields", fillTiny, []instanceRow{{"30-of-changes", tiny}, {"30-of-records", calls(30, get("/api/catalog/records?top=1000"), 200)}}, false},
		{"rows-of-1-MiB", fillLarge(20, 10, chinese252), scanRows(3), true},
		{"a-partition-of-2000-rows-of-1-MiB", fillLarge(1, 2000, text252), scanRows(2)[:3], false},
		{"a-map-to-100-rows-of-1-MiB", fillOrders(1, 10), []instanceRow{{"copy", runScans(mapped)}}, false},
		{"beside-an-ordinary-copy", fillAll, besideRows(), false},
	}
}

// scanRows returns rows whose work is scans of the table large and of its export, many of them concurrently.
func scanRows(many int) []instanceRow {
	all := numbered(many, scanRequest("copy", table("large"), blobs("made", "many%d")))
	all = append(all, numbered(many, scanRequest("copy", blobs("kept", "large"), table("made%d")))...)
	return []instanceRow{
		{"copy", runScans(scanRequest("copy", table("large"), table("made")))},
		{"export", runScans(scanRequest("copy", table("large"), blobs("made", "one")))},
		{"import", runScans(scanRequest("copy", blobs("kept", "large"), table("made")))},
		{"verify", runScans(scanRequest("verify", table("large"), blobs("kept", "large")))},
		{fmt.Sprintf("%d-exports-and-%d-imports", many, many), runScans(all...)},
	}
}

// mapped is a copy of the table orders with a map that makes 100 rows of 1 MiB from each row.
var mapped = fmt.Sprintf(`{"source":{"table":"orders"},"action":{"type":"copy","destination":{"table":"made"},"map":%q}}`,
	`("x" * 32000) as $text | range(100) as $n | {PartitionKey, RowKey: "\(.RowKey)-\($n)", `+strings.Join(numbered(16, "P%d: $text"), ", ")+`}`)

func recordRows() []instanceRow {
	list := get("/api/catalog/records?top=1000")
	return []instanceRow{
		{"list-of-1000", calls(1, list, 200)},
		{"10-lists-of-1000", calls(10, list, 200)},
		{"30-lists-of-1000", calls(30, list, 200)},
		{"10-bulk-POSTs-of-100", calls(10, insert(100), 200)},
		{"40-bulk-POSTs-of-100", calls(40, insert(100), 200)},
		{"100-bulk-POSTs-of-100", calls(100, insert(100), 200)},
		{"100-bulk-POSTs-of-4-MiB", calls(100, insert(144), 200)},
		{"50-slow-readers", slowReaders(50)},
	}
}

func tinyRows() []instanceRow {
	return []instanceRow{
		{"20-gzip-bodies-of-450-fields-to-a-stream", calls(20, appendTiny, 400, 413)},
		{"60-gzip-bodies-of-450-fields-to-a-stream", calls(60, appendTiny, 400, 413)},
		{"200-gzip-bodies-of-450-fields-to-a-stream", calls(200, appendTiny, 400, 413)},
		{"20-gzip-bodies-of-230-fields-to-a-catalog", calls(20, insertTiny, 200)},
	}
}

// tinyEvents is a body of 1,000 events of 450 tiny fields: 20 KB, compressed.
var tinyEvents = sync.OnceValue(func() []byte { return packed(many(1000, func(int) string { return tinyFields("", 450) })) })

// appendTiny sends events with more fields than a stream accepts.
func appendTiny(ctx context.Context, i *instance, _ int) (int, error) {
	status, _, err := i.send(ctx, "POST", "/api/log/tiny", tinyEvents(), "Content-Encoding: gzip")
	return status, err
}

// insertTiny inserts 1,000 records of 230 tiny fields: 13 KB, compressed.
func insertTiny(ctx context.Context, i *instance, k int) (int, error) {
	body := packed(many(1000, func(n int) string { return tinyFields(fmt.Sprintf(`"eid":"%d-%d","name":"n",`, k, n), 230) }))
	status, _, err := i.send(ctx, "POST", "/api/catalog/records", body, "Content-Encoding: gzip")
	return status, err
}

func besideRows() []instanceRow {
	var steps []string
	for k := range 6 {
		for n, strategy := range []string{"adaptive", "prefix"} {
			request := scanRequest("copy", table("large"), table(fmt.Sprintf("made%d%s", k, strategy)))
			steps = append(steps, strings.TrimSuffix(request, "}")+fmt.Sprintf(`,"strategy":%q}`, strategy), scanRequest("copy", table("large"), blobs("made", fmt.Sprintf("%d-%d", k, n))))
		}
	}
	steps = append(steps, numbered(12, scanRequest("copy", blobs("kept", "large"), table("madeback%d")))...)
	list, changes := get("/api/catalog/records?top=1000"), get("/api/catalog/changes?after=1h&top=1000")
	return []instanceRow{
		{"36-scans-and-50-calls", beside(together(runScans(steps...), calls(20, until(list), 200), calls(10, until(changes), 200), calls(20, until(insert(100)), 200)))},
		{"copy-export-import", beside(runScans(scanRequest("copy", table("large"), table("made")), scanRequest("copy", table("large"), blobs("made", "one")),
			scanRequest("copy", blobs("kept", "large"), table("madeback"))))},
		{"map", beside(runScans(mapped))},
		{"100-bulk-POSTs-of-4-MiB", beside(calls(100, insert(144), 200))},
		{"50-slow-readers", beside(slowReaders(50))},
	}
}

// get returns a call that reads a list.
func get(path string) func(context.Context, *instance, int) (int, error) {
	return func(ctx context.Context, i *instance, _ int) (int, error) {
		status, _, err := i.send(ctx, "GET", path, nil)
		return status, err
	}
}

// insert returns a call that inserts the given number of records of 29 KB, which are new each time.
func insert(n int) func(context.Context, *instance, int) (int, error) {
	return func(ctx context.Context, i *instance, k int) (int, error) {
		status, _, err := i.send(ctx, "POST", "/api/catalog/records", []byte(many(n, largeRecord)))
		return status, err
	}
}

// slowReaders returns work in which callers read lists slowly. Every other caller disconnects in the middle. Afterwards, a list must be answered immediately.
func slowReaders(n int) work {
	return func(ctx context.Context, i *instance) error {
		read := func(ctx context.Context, i *instance, k int) (int, error) {
			ctx, leave := context.WithCancel(ctx)
			defer leave()
			resp, err := i.open(ctx, "GET", "/api/catalog/records?top=1000", nil)
			if err != nil {
				return 0, err
			}
			defer resp.Body.Close()
			for range 50 {
				if _, err := io.CopyN(io.Discard, resp.Body, 64<<10); errors.Is(err, io.EOF) {
					return resp.StatusCode, nil
				} else if err != nil {
					return 0, err
				}
				task.Sleep(ctx, 100*time.Millisecond)
			}
			if k%2 == 0 {
				_, err = io.Copy(io.Discard, resp.Body)
			}
			return resp.StatusCode, err
		}
		if err := calls(n, read, 200)(ctx, i); err != nil {
			return err
		}
		return calls(1, get("/api/catalog/records?top=1000"), 200)(ctx, i)
	}
}

// many returns a JSON array of n objects.
func many(n int, object func(k int) string) string {
	list := make([]string, n)
	for k := range list {
		list[k] = object(k)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// largeRecord returns a record of 29 KB with unique keys.
func largeRecord(int) string {
	return fmt.Sprintf(`{"eid":"%016x","name":"n","text":%q}`, rand.Uint64(), noise(29_000))
}

// tinyFields returns an object with n fields of 7 bytes each.
func tinyFields(first string, n int) string {
	var b strings.Builder
	b.WriteString("{" + first)
	for k := range n {
		if k > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%c%c":1`, 'a'+k/26, 'a'+k%26)
	}
	return b.String() + "}"
}

func packed(text string) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = io.WriteString(w, text)
	_ = w.Close() // a write to a buffer does not fail
	return b.Bytes()
}

// noise returns n letters that compress to 75% at best.
func noise(n int) string {
	raw := make([]byte, n/4*3+3)
	for k := 0; k+8 <= len(raw); k += 8 {
		for x, j := rand.Uint64(), 0; j < 8; j++ {
			raw[k+j] = byte(x >> (8 * j))
		}
	}
	return base64.RawURLEncoding.EncodeToString(raw)[:n]
}

// text14 returns 14 texts of 30,000 letters.
func text14() []storage.Property { return texts(14, func() string { return noise(30_000) }) }

// text252 returns 252 properties with as many letters as the service accepts.
func text252() []storage.Property { return texts(252, func() string { return noise(2050) }) }

// chinese252 returns the same with characters of three bytes each in UTF-8, and of two bytes in the service.
func chinese252() []storage.Property {
	return texts(252, func() string {
		text := make([]rune, 2050)
		for k := range text {
			text[k] = rune(0x4e00 + rand.IntN(20_000))
		}
		return string(text)
	})
}

func texts(n int, text func() string) []storage.Property {
	list := make([]storage.Property, n)
	for k := range list {
		list[k] = storage.StringProperty(fmt.Sprintf("P%03d", k), text())
	}
	return list
}

// fillLarge returns a function that fills the table large and writes its export.
func fillLarge(partitions, each int, properties func() []storage.Property) func(testing.TB, *storage.Account, string) {
	return func(t testing.TB, a *storage.Account, connection string) {
		t.Helper()
		for p := range partitions {
			for start := 0; start < each; start += 10 {
				rows := make([]storage.Entity, min(10, each-start))
				for k := range rows {
					rows[k] = storage.Entity{Key: key.Key{Partition: fmt.Sprintf("p%04d", p), Row: fmt.Sprintf("r%05d", start+k)}, Properties: properties()}
				}
				emulatortest.Table(t, a, "large", rows)
			}
		}
		commandPeak(t, connection, "export", "--from", "large", "--to", "blob:kept/large")
	}
}

// fillOrders returns a function that fills the table orders with ordinary rows.
func fillOrders(partitions, each int) func(testing.TB, *storage.Account, string) {
	return func(t testing.TB, a *storage.Account, _ string) {
		emulatortest.Table(t, a, "orders", typicalRows(partitions, each))
	}
}

func fillAll(t testing.TB, a *storage.Account, connection string) {
	fillOrders(1000, 100)(t, a, connection)
	fillLarge(8, 5, text252)(t, a, connection)
	fillRecords(t, a, connection)
}

// fillRecords inserts 1,000 records of 30 KB through an instance, and one record that small calls query.
func fillRecords(t testing.TB, _ *storage.Account, connection string) {
	filled(t, connection, func(ctx context.Context, i *instance) error {
		for range 10 {
			if err := calls(1, insert(100), 200)(ctx, i); err != nil {
				return err
			}
		}
		status, text, err := i.send(ctx, "POST", "/api/catalog/records", []byte(`{"eid":"small","name":"n"}`))
		if status != http.StatusCreated {
			err = errors.Join(err, fmt.Errorf("got status %d, %s", status, text))
		}
		return err
	})
}

// fillTiny inserts 16,000 records of 230 tiny fields through an instance.
func fillTiny(t testing.TB, _ *storage.Account, connection string) {
	filled(t, connection, func(ctx context.Context, i *instance) error {
		for k := range 16 {
			if status, err := insertTiny(ctx, i, k); err != nil || status != http.StatusOK {
				return fmt.Errorf("status %d, %w", status, err)
			}
		}
		return nil
	})
}

func filled(t testing.TB, connection string, fill work) {
	t.Helper()
	i := startInstance(t, connection, 4096)
	defer i.Close()
	if err := fill(t.Context(), i); err != nil {
		t.Fatal(err, i.log.String())
	}
}

// commandPeak runs the measured program, and returns its peak memory in megabytes.
func commandPeak(t testing.TB, connection string, args ...string) (peak float64) {
	t.Helper()
	c := exec.Command(programPath(t), append(args, "--progress", "none")...)
	c.Env = append(os.Environ(), "AzureWebJobsStorage="+connection)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	proof.Must(t, c.Start())
	watched := make(chan float64, 1)
	go func() { watched <- watchPeak(c.Process.Pid) }() // ends with the process
	if err := c.Wait(); err != nil {
		t.Fatalf("%v: error %v; stderr:\n%s", args, err, &stderr)
	}
	return <-watched
}
