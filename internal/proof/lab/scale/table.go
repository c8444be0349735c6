package scale

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator/entity"
	"tablesweep/internal/local/emulator/refusal"
	"tablesweep/internal/local/emulator/table"
)

// rows is a made-up table that is only read. Each row is computed from its number, and rows are numbered in key order. rows implements [table.Rows].
type rows struct {
	count        int64
	perPartition int64
}

// key returns the key of a row. Partitions are evenly spread, like random identifiers, and their keys grow with their numbers.
func (r rows) key(n int64) key.Key {
	partitions := uint64((r.count + r.perPartition - 1) / r.perPartition)
	gap := math.MaxUint64 / partitions
	at := uint64(n/r.perPartition)*gap + rand.New(rand.NewPCG(seed, uint64(n/r.perPartition))).Uint64N(gap)
	return key.Key{Partition: fmt.Sprintf("%016x", at), Row: fmt.Sprintf("%06d", n%r.perPartition)}
}

var filler = strings.Repeat("x", 40)

// row returns a row as the Table service would store it.
func (r rows) row(n int64) table.Row {
	const firstTicks = 630_822_816_000_000_000 // the year 2000, in ticks of 100 ns
	k := r.key(n)
	properties := `"Name":"` + filler + `","Number@odata.type":"Edm.Int64","Number":"` + strconv.FormatInt(n, 10) + `"`
	return table.Row{PartitionKey: k.Partition, RowKey: k.Row, Ticks: firstTicks + n, Properties: entity.Properties(properties)}
}

// from returns the number of the first row whose key is not less than k.
func (r rows) from(k key.Key) int64 {
	return int64(sort.Search(int(r.count), func(n int) bool { return r.key(int64(n)).Compare(k) >= 0 }))
}

// Get never finds a row, because a scan does not read single rows.
func (rows) Get(key.Key) (table.Row, error) { return table.Row{}, table.NotFound() }

// Query implements [table.Rows].
func (r rows) Query(q table.Query) table.Answer {
	start, behind := q.Bounds()
	end := r.count
	if behind != nil {
		end = r.from(*behind)
	}
	var page table.Answer
	for n := r.from(start); n < end; n++ {
		if len(page.Rows) == q.Top {
			page.Next, page.More = r.key(n), true
			break
		}
		if row := r.row(n); q.Filter == nil || q.Filter.Match(row) {
			page.Rows = append(page.Rows, row)
		}
	}
	return page
}

// Apply implements [table.Rows].
func (r rows) Apply(time.Time, []table.Operation) ([]table.Row, error) {
	return nil, &table.OperationError{Err: refusal.New("InvalidInput", "the source is only read")}
}

// sink is the destination. It counts the rows that are written, and stores none of them, so it reads as an empty table.
type sink struct {
	rows
	written atomic.Int64
}

// Apply counts the rows.
func (s *sink) Apply(now time.Time, operations []table.Operation) ([]table.Row, error) {
	results := make([]table.Row, len(operations))
	for i, op := range operations {
		results[i] = table.Row{PartitionKey: op.Key.Partition, RowKey: op.Key.Row, Ticks: key.Ticks(now), Properties: op.Properties}
	}
	s.written.Add(int64(len(results)))
	return results, nil
}
