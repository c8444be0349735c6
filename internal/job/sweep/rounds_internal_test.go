package sweep

import (
	"crypto/md5"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// shapes are distributions of rows over partitions.
var shapes = []struct {
	name string
	row  func(i, n int) key.Key
}{
	{"giant", func(i, n int) key.Key { return key.Key{Partition: "orders", Row: fmt.Sprintf("%08d", i)} }},
	{"zipf", func(i, n int) key.Key {
		return key.Key{Partition: fmt.Sprintf("customer%05.0f", math.Pow(float64(n)/4, float64(i)/float64(n))), Row: fmt.Sprintf("%08d", i)}
	}},
	{"dates", func(i, n int) key.Key {
		day := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, i/20)
		return key.Key{Partition: day.Format("2006-01-02"), Row: fmt.Sprintf("%08d", i)}
	}},
	{"single", func(i, n int) key.Key { return key.Key{Partition: fmt.Sprintf("%08d", i*7)} }},
	{"guids", func(i, n int) key.Key {
		return key.Key{Partition: fmt.Sprintf("%x", md5.Sum([]byte{byte(i), byte(i >> 8)}))}
	}},
}

// cost is the cost of a command: its duration in multiples of a request's latency, and its queries. A user far away from the account waits for this
// duration.
type cost struct{ rounds, queries float64 }

// TestSmallTablesTakeFewRounds limits the duration and the queries of commands for small tables. Listing partition keys must not cost more than counting rows. By
// default, tables have 10 pages. The full test also uses tables of 100 pages.
func TestSmallTablesTakeFewRounds(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	noMore := func(what string, got, want cost) {
		t.Logf("%s: %.1f rounds, %.0f queries", what, got.rounds, got.queries)
		if got.rounds > want.rounds || got.queries > want.queries {
			t.Errorf("%s: want at most %.1f rounds and %.0f queries", what, want.rounds, want.queries)
		}
	}
	for _, tt := range []struct {
		pages       int
		count, copy cost
	}{
		{10, cost{5, 60}, cost{9.5, 60}},
		{100, cost{13, 300}, cost{50, 300}},
	} {
		if tt.pages > 10 && testsize.Slow(true, true, false) {
			break
		}
		of := func(command string) (mean cost) {
			for _, shape := range shapes {
				c := roundsOf(t, command, tt.pages, shape.row)
				t.Logf("%3d pages, %s of %-6s %5.1f rounds, %4.0f queries", tt.pages, command, shape.name, c.rounds, c.queries)
				if shape.name == "giant" && command == "keys" {
					noMore("keys of one partition", c, cost{4, 20})
				}
				mean.rounds += c.rounds / float64(len(shapes))
				mean.queries += c.queries / float64(len(shapes))
			}
			return mean
		}
		count := of("count")
		noMore(fmt.Sprintf("count of %d pages", tt.pages), count, tt.count)
		noMore(fmt.Sprintf("copy of %d pages", tt.pages), of("copy"), tt.copy)
		noMore(fmt.Sprintf("keys of %d pages", tt.pages), of("keys"), cost{1.2 * count.rounds, count.queries})
	}
}

// roundsOf runs a command over a table with the given number of pages, in virtual time.
func roundsOf(t *testing.T, command string, pages int, row func(i, n int) key.Key) (c cost) {
	const latency, page = 300 * time.Millisecond, 100
	var rows []storage.Entity
	for i := range pages * page {
		rows = append(rows, storage.Entity{Key: row(i, pages*page)})
	}
	slices.SortFunc(rows, func(a, b storage.Entity) int { return a.Key.Compare(b.Key) })
	synctest.Test(t, func(t *testing.T) {
		e, a := emulatortest.NewAccount(t, emulator.Options{})
		s := Spec{Source: emulatortest.Table(t, a, "source", rows), Steal: true, PageRows: page}
		to := emulatortest.Table(t, a, "target", nil)
		proof.Must(t, e.SetFaults("latency="+latency.String()))
		var totals Totals
		var err error
		began := time.Now()
		switch command {
		case "count":
			totals, err = Count(t.Context(), s, Options{}, nil)
		case "copy":
			totals, err = Do(t.Context(), s, Options{}, action.Copy{Destination: to})
		case "keys":
			totals, err = Partitions(t.Context(), s, Options{}, func(string) error { return nil })
		}
		proof.Must(t, err)
		c = cost{time.Since(began).Seconds() / latency.Seconds(), float64(totals.Queries)}
	})
	return c
}
