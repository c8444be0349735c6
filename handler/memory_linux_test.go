package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// BenchmarkCopyMemory copies 1 million rows of 1 KiB with the program, and fails if
// the process takes more than 150 MB at its peak.
func BenchmarkCopyMemory(b *testing.B) {
	const partitions, each = 10_000, 100
	_, a, connection := serveEmulator(b, emulator.Options{})
	source := emulatortest.Table(b, a, "source", nil)
	filler := storage.StringProperty("S", strings.Repeat("x", 1000))
	for start := 0; start < partitions; start += 100 {
		rows := manyRows(100, each)
		for i := range rows {
			rows[i].Key = key.Key{Partition: string(rune('a'+start/1000)) + rows[i].Key.Partition + string(rune('a'+start/100%10)), Row: rows[i].Key.Row}
			rows[i].Properties = append(rows[i].Properties, filler)
		}
		if _, err := (action.Copy{Destination: source}).Copy(b.Context(), storage.Rows(rows)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		result, megabytes := peak(b, connection, partitions*each, "copy", "--from", "source", "--to", "destination")
		b.ReportMetric(megabytes, "peak-MB")
		b.ReportMetric(result.RowsPerSec, "rows/s")
		if megabytes > 150 || megabytes == 0 {
			b.Errorf("peak memory %.0f MB, want at most 150", megabytes)
		}
	}
}

// BenchmarkExportMemory exports rows of 1 KiB that do not compress, and imports them, with each compression. It fails if a process takes more than 200 MB at
// its peak.
func BenchmarkExportMemory(b *testing.B) {
	const partitions, each = 2_000, 100
	_, a, connection := serveEmulator(b, emulator.Options{})
	rows := manyRows(partitions, each)
	for i := range rows {
		noise := make([]byte, 0, 1000)
		for x := uint64(i + 1); len(noise) < 1000; x = x*6364136223846793005 + 1442695040888963407 {
			noise = append(noise, 'a'+byte(x>>60), 'a'+byte(x>>56&15))
		}
		rows[i].Properties = append(rows[i].Properties, storage.StringProperty("S", string(noise)))
	}
	emulatortest.Table(b, a, "source", rows)
	for b.Loop() {
		most := 0.0
		for _, compress := range []string{"zstd", "gzip", "none"} {
			dir := filepath.Join(b.TempDir(), compress)
			for _, args := range [][]string{
				{"export", "--from", "source", "--to", dir, "--compress", compress}, {"import", "--from", dir, "--to", "back" + compress},
			} {
				_, megabytes := peak(b, connection, partitions*each, args...)
				most = max(most, megabytes)
				b.ReportMetric(megabytes, args[0]+"-"+compress+"-MB")
			}
		}
		if most > 200 || most == 0 {
			b.Errorf("peak memory %.0f MB, want at most 200", most)
		}
	}
}

// peak runs a command that processes the given number of rows, and returns its result and its peak memory in megabytes.
func peak(b *testing.B, connection string, rows int64, args ...string) (result jobResult, megabytes float64) {
	c := exec.Command("tablesweep", append(args, "--progress", "none", "--json")...)
	c.Env = append(os.Environ(), "AzureWebJobsStorage="+connection)
	var out bytes.Buffer
	c.Stdout = &out
	proof.Must(b, c.Start())
	most := make(chan float64, 1)
	go func() { most <- watchPeak(c.Process.Pid) }() // ends with the process
	err := c.Wait()
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &result)
	}
	if err != nil || result.Rows != rows || result.Failed > 0 {
		b.Fatalf("got the output %s, error %v", out.String(), err)
	}
	return result, <-most
}

// watchPeak returns a process's peak memory in megabytes until just before the process ends. The value from wait4 would include the memory of this process at
// the time of the fork.
func watchPeak(pid int) (megabytes float64) {
	for {
		now := highWater(pid)
		if now == 0 {
			return megabytes
		}
		megabytes = now
		time.Sleep(20 * time.Millisecond)
	}
}

// highWater returns the most megabytes that a process has taken so far, or 0 if it has ended.
func highWater(pid int) (megabytes float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	var kib float64
	_, _ = fmt.Sscan(after, &kib)
	return kib * 1024 / 1e6
}
