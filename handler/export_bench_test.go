package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// BenchmarkExport exports typical rows with zstd and without compression, imports them, and compares them, each in its own process. It fails if an import takes
// more than 1/0.9 times the processor time of a copy of the same rows, or if another of these commands takes more than 1.5 times this time.
func BenchmarkExport(b *testing.B) {
	for _, size := range []struct{ bytes, rows, properties, more int }{{100, 100_000, 2, 0}, {300, 100_000, 7, 0}, {1000, 50_000, 7, 7}} {
		rows := typicalRows(size.rows/100, 100)
		for i := range rows {
			rows[i].Properties = rows[i].Properties[:size.properties]
			for j := range size.more {
				rows[i].Properties = append(rows[i].Properties,
					storage.StringProperty(fmt.Sprintf("Street%d", j), fmt.Sprintf("%d North Hamilton Avenue, Suite %d", i*7919*(j+3)%9973, i*j%40)),
					storage.TimeProperty(fmt.Sprintf("When%d", j), time.Unix(int64(i*7919*(j+3)), 0)))
			}
		}
		b.Run(fmt.Sprintf("%d-bytes", size.bytes), func(b *testing.B) { benchmarkExport(b, rows) })
	}
}

func benchmarkExport(b *testing.B, rows []storage.Entity) {
	_, a, connection := serveEmulator(b, emulator.Options{})
	emulatortest.Table(b, a, "source", rows)
	emulatortest.Table(b, a, "same", rows)
	limits := map[string]float64{"export": 1.5, "export-uncompressed": 1.5, "import": 1 / 0.9, "verify": 1.5}
	for b.Loop() {
		least := map[string]float64{} // the processor seconds of each command
		holds := false
		for round := 0; round < 2 || round < 6 && !holds; round++ { // other work on the machine only adds time
			dir := filepath.Join(b.TempDir(), "source")
			for _, w := range [][2]string{
				{"copy", "copy --from source --to copied"}, {"export", "export --from source --to " + dir},
				{"export-uncompressed", "export --from source --compress none --to " + dir + "plain"}, {"import", "import --from " + dir + " --to back"}, {"verify", "verify --from source --to same"},
			} {
				args := append([]string{"tablesweep"}, append(strings.Fields(w[1]), "--progress", "none")...)
				if took, _ := timed(b, connection, args...); least[w[0]] == 0 || took < least[w[0]] {
					least[w[0]] = took
				}
			}
			if round == 0 {
				timed(b, connection, "tablesweep", "verify", "--from", dir, "--to", "back", "--progress", "none")
			}
			holds = true
			for name, most := range limits {
				holds = holds && least[name] <= most*least["copy"]
			}
		}
		b.ReportMetric(float64(len(rows))/least["export"], "out-rows/CPUs")
		b.ReportMetric(float64(len(rows))/least["import"], "in-rows/CPUs")
		for name := range limits {
			b.ReportMetric(least[name]/least["copy"], name+"-x-copy")
		}
		if !holds {
			b.Errorf("the commands took these CPU seconds: %v; want at most these multiples of copy: %v", least, limits)
		}
	}
}
