package scale

import (
	"strings"
	"testing"
	"time"

	"tablesweep/internal/emulator/table"
	"tablesweep/internal/key"
)

func testRows(count, perPartition int64) rows {
	return newRows(Options{Rows: count, PerPartition: perPartition})
}

// Rows are numbered in key order, and are found by their keys.
func TestRowsAreInOrder(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{1, 7} {
		r := testRows(5000, size)
		var last key.Key
		for n := range r.count {
			k := r.key(n)
			if n > 0 && last.Compare(k) >= 0 {
				t.Fatalf("row %d has key %v, the one before it %v", n, k, last)
			}
			last = k
			if got := r.from(k); got != n {
				t.Fatalf("key %v of row %d is found as row %d", k, n, got)
			}
			if got, ok := number(r.properties(n)); !ok || got != n {
				t.Fatalf("the properties of row %d tell number %d", n, got)
			}
		}
	}
	big := testRows(1_000_000_000, 1)
	for _, n := range []int64{0, 1, 499_999_999, 999_999_999} {
		if got := big.from(big.key(n)); got != n {
			t.Errorf("row %d of a billion is found as row %d", n, got)
		}
	}
	if got := testRows(1, 1).from(key.Key{}); got != 0 {
		t.Errorf("the only row is found as row %d", got)
	}
}

// The sink must notice whatever a wrong copy can be.
func TestSinkNoticesWrongCopies(t *testing.T) {
	t.Parallel()
	r := testRows(300, 3)
	operation := func(n int64) table.Operation {
		return table.Operation{Action: table.Replace, Key: r.key(n), Properties: r.properties(n)}
	}
	for _, tt := range []struct {
		name  string
		wrong func(s *sink, n int64) []table.Operation // in place of row n's
		want  string                                   // in the error; "" for none
	}{
		{"right", func(_ *sink, n int64) []table.Operation { return []table.Operation{operation(n)} }, ""},
		{"written twice", func(_ *sink, n int64) []table.Operation {
			return []table.Operation{operation(n), operation(n)}
		}, ""},
		{"lost", func(*sink, int64) []table.Operation { return nil }, "299 of 300 rows arrived; the first that is missing is number 100"},
		{"another twice in its place", func(_ *sink, n int64) []table.Operation {
			return []table.Operation{operation(n - 1)}
		}, "299 of 300 rows"},
		{"changed", func(_ *sink, n int64) []table.Operation {
			op := operation(n)
			op.Properties = op.Properties[:len(op.Properties)-1] + `","More":"1"`
			return []table.Operation{op}
		}, "1 rows arrived that the source does not have"},
		{"under another's key", func(_ *sink, n int64) []table.Operation {
			op := operation(n)
			op.Key = r.key(n + 1)
			return []table.Operation{op}
		}, "1 rows arrived that the source does not have"},
		{"one too many", func(_ *sink, n int64) []table.Operation {
			op := operation(n)
			op.Key.Row = "x"
			return []table.Operation{operation(n), op}
		}, "1 rows arrived that the source does not have"},
		{"without a number", func(_ *sink, n int64) []table.Operation {
			op := operation(n)
			op.Properties = `"Name":"x"`
			return []table.Operation{op}
		}, "1 rows arrived that the source does not have"},
		{"a bit set for nothing", func(s *sink, n int64) []table.Operation {
			s.arrived[n/64] |= 1 << (n % 64)
			s.count++
			return nil
		}, "their hashes differ"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSink(r)
			for n := range r.count {
				operations := []table.Operation{operation(n)}
				if n == 100 {
					operations = tt.wrong(s, n)
				}
				if _, err := s.Apply(time.Now(), operations); err != nil {
					t.Fatal(err)
				}
			}
			err := s.check()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if again := tt.name == "written twice" || strings.HasPrefix(tt.name, "another"); again != (s.again == 1) {
				t.Errorf("%d rows arrived once more", s.again)
			}
		})
	}
}
