package scale

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"tablesweep/internal/emulator/entity"
	"tablesweep/internal/emulator/table"
	"tablesweep/internal/key"
)

// rows is a made-up table. Each row is computed from its number, and rows are numbered in
// key order.
type rows struct {
	count        int64
	perPartition int64
	filler       string
}

// guidKey returns the key of the n-th of so many partitions: evenly spread, like random identifiers, and growing
// with their numbers.
func guidKey(n, of int64) string {
	gap := ^uint64(0)/uint64(of) + 1
	if of == 1 {
		gap = ^uint64(0)
	}
	x := uint64(n)*gap + mix(uint64(n))%gap
	return fmt.Sprintf("%08x-%04x-%04x", x>>32, x>>16&0xffff, x&0xffff)
}

// mix is the finish of splitmix64 (Steele, Lea and Flood, 2014).
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

func newRows(o Options) rows {
	return rows{count: o.Rows, perPartition: o.PerPartition, filler: strings.Repeat("x", rowBytes)}
}

func (r rows) partitions() int64 { return (r.count + r.perPartition - 1) / r.perPartition }

// key returns the key of a row.
func (r rows) key(n int64) key.Key {
	return key.Key{
		Partition: guidKey(n/r.perPartition, r.partitions()),
		Row:       fmt.Sprintf("%06d", n%r.perPartition),
	}
}

// row returns a row as the Table service would keep it.
func (r rows) row(n int64) table.Row {
	k := r.key(n)
	return table.Row{PartitionKey: k.Partition, RowKey: k.Row, Ticks: firstTicks + n, Properties: r.properties(n)}
}

// firstTicks is the Timestamp of the first row: the year 2000, in ticks of 100 ns.
const firstTicks = 630_822_816_000_000_000

func (r rows) properties(n int64) entity.Properties {
	b := make([]byte, 0, len(r.filler)+64)
	b = append(b, `"Name":"`...)
	b = append(b, r.filler...)
	b = append(b, `","Number@odata.type":"Edm.Int64","Number":"`...)
	b = strconv.AppendInt(b, n, 10)
	return entity.Properties(append(b, '"'))
}

// number returns the number of the row with the given properties.
func number(p entity.Properties) (int64, bool) {
	q, ok := p.Lookup("Number")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.Trim(q.JSON, `"`), 10, 64)
	return n, err == nil
}

// from returns the number of the first row whose key is no less than k.
func (r rows) from(k key.Key) int64 {
	return int64(sort.Search(int(r.count), func(n int) bool { return r.key(int64(n)).Compare(k) >= 0 }))
}
