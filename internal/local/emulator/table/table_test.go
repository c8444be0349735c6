package table_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/key"
	"tablesweep/internal/key/odata"
	"tablesweep/internal/local/emulator/entity"
	"tablesweep/internal/local/emulator/table"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
)

func newTable(t testing.TB) *table.Table {
	t.Helper()
	created, err := table.NewStore().Create("rows", time.Now())
	proof.Must(t, err)
	return created
}

func put(partition, row string, p entity.Properties) table.Operation {
	return table.Operation{Action: table.Replace, Key: key.Key{Partition: partition, Row: row}, Properties: p}
}

func apply(t testing.TB, on *table.Table, operations ...table.Operation) []table.Row {
	t.Helper()
	rows, err := on.Apply(time.Now(), operations)
	proof.Must(t, err)
	return rows
}

func filter(t testing.TB, s string) *odata.Filter {
	t.Helper()
	f, err := odata.Parse(s)
	proof.Must(t, err)
	return f
}

// With any division into pages, a query returns the same rows as sorting and filtering all rows.
func TestQueryEqualsSortingAndFiltering(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	words := []string{"", "a", "aa", "ab", "b", "z", "\uffff", "😀", "ü"}
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	rows := newTable(t)
	var twin []table.Row
	for _, p := range words {
		for _, w := range words {
			if r.IntN(3) > 0 {
				twin = append(twin, apply(t, rows, put(p, w, entity.Properties(fmt.Sprintf(`"N":%d`, r.IntN(10)))))...)
			}
		}
	}
	slices.SortFunc(twin, func(a, b table.Row) int { return a.Key().Compare(b.Key()) })
	for range testsize.Of(300, 2000) {
		text := fmt.Sprintf("PartitionKey %s '%s' and RowKey %s '%s'", pick([]string{"eq", "gt", "ge", "lt", "le", "ne"}), pick(words),
			pick([]string{"eq", "gt", "ge", "lt", "le", "ne"}), pick(words))
		if r.IntN(2) == 0 {
			text += " and N lt 5"
		}
		f := filter(t, text)
		var got, want []table.Row
		for _, row := range twin {
			if f.Match(row) {
				want = append(want, row)
			}
		}
		q := table.Query{Filter: f, Top: 1 + r.IntN(4)}
		for more := true; more; {
			page := rows.Query(q)
			got = append(got, page.Rows...)
			q.From, more = page.Next, page.More
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the rows of %s (-want +got):\n%s", text, diff)
		}
	}
}

// A page visits only the rows that it returns, however large the table is.
func TestQueryVisitsOnlyItsRows(t *testing.T) {
	t.Parallel()
	rows := newTable(t)
	for p := range 200 {
		var operations []table.Operation
		for i := range 100 {
			operations = append(operations, put(fmt.Sprintf("p%03d", p), fmt.Sprintf("%03d", i), `"N":1`))
		}
		apply(t, rows, operations...)
	}
	for _, c := range []struct {
		filter        string
		rows, visited int
	}{
		{"PartitionKey eq 'p100'", 100, 100},
		{"PartitionKey eq 'p100' and RowKey eq '050'", 1, 1},
		{"PartitionKey eq 'p100' and RowKey ge '050' and RowKey lt '060'", 10, 10},
		{"PartitionKey gt 'p100'", 1000, 1000},
		{"PartitionKey gt 'p100' and PartitionKey lt 'p103'", 200, 200},
		{"PartitionKey eq 'p100' and N eq 2", 0, 100},
		{"PartitionKey eq 'none'", 0, 0},
		{"RowKey eq '050'", 200, 20_000},
		{"PartitionKey eq 'p100' or PartitionKey eq 'p101'", 200, 20_000},
	} {
		page := rows.Query(table.Query{Filter: filter(t, c.filter), Top: 1000})
		if len(page.Rows) != c.rows || page.Visited != c.visited {
			t.Errorf("%s: %d rows and %d visited, want %d and %d", c.filter, len(page.Rows), page.Visited, c.rows, c.visited)
		}
	}
}

// A scan that finds no rows also ends its pages, as in the service.
func TestScanWithoutResultsEndsItsPages(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	rows := newTable(t)
	for i := range 3000 {
		var operations []table.Operation
		for j := range 100 {
			operations = append(operations, put("p", fmt.Sprintf("%07d", i*100+j), ""))
		}
		apply(t, rows, operations...)
	}
	q := table.Query{Filter: filter(t, "N eq 1"), Top: 1000}
	first := rows.Query(q)
	if len(first.Rows) != 0 || !first.More {
		t.Fatalf("the first page has %d rows, more: %v; want 0 and true", len(first.Rows), first.More)
	}
	q.From = first.Next
	if second := rows.Query(q); second.More || first.Visited+second.Visited != 300_000 {
		t.Errorf("the pages visited %d and %d rows", first.Visited, second.Visited)
	}
}

func TestPageIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	rows := newTable(t)
	large := entity.Properties(`"A":"` + strings.Repeat("x", 400_000) + `"`)
	for i := range 45 {
		apply(t, rows, put("p", fmt.Sprintf("%02d", i), large))
	}
	q := table.Query{Top: 1000}
	total, pages := 0, 0
	for more := true; more; {
		page := rows.Query(q)
		total, pages = total+len(page.Rows), pages+1
		q.From, more = page.Next, page.More
	}
	if total != 45 || pages != 2 {
		t.Errorf("%d rows in %d pages, want 45 in 2", total, pages)
	}
}

func TestETagsAreUniqueAtOneTime(t *testing.T) {
	t.Parallel()
	rows := newTable(t)
	now := time.Now()
	seen := make(map[string]bool)
	for range 3 {
		got, err := rows.Apply(now, []table.Operation{put("p", "a", ""), put("p", "b", "")})
		proof.Must(t, err)
		for _, row := range got {
			if seen[row.ETag()] {
				t.Errorf("the ETag %s occurs twice", row.ETag())
			}
			seen[row.ETag()] = true
		}
	}
}

// Readers see all rows of a batch or none.
func TestBatchesAreAtomicForReaders(t *testing.T) {
	t.Parallel()
	rows := newTable(t)
	batch := func(n int) []table.Operation {
		var operations []table.Operation
		for i := range 50 {
			operations = append(operations, put("p", fmt.Sprintf("%02d", i), entity.Properties(fmt.Sprintf(`"N":%d`, n))))
		}
		return operations
	}
	apply(t, rows, batch(0)...)
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				page := rows.Query(table.Query{Top: 1000})
				for _, row := range page.Rows {
					if row.Properties != page.Rows[0].Properties {
						t.Errorf("a page has rows of two batches: %s and %s", page.Rows[0].Properties, row.Properties)
						return
					}
				}
			}
		})
	}
	for n := range testsize.Of(50, 500) {
		apply(t, rows, batch(n)...)
		refused := append(batch(-1), table.Operation{Action: table.Insert, Key: key.Key{Partition: "p", Row: "00"}})
		_, err := rows.Apply(time.Now(), refused[1:])
		var which *table.OperationError
		if !errors.As(err, &which) || which.Index != 49 {
			t.Errorf("got error %v, want one for operation 49", err)
		}
	}
	close(done)
	readers.Wait()
}
