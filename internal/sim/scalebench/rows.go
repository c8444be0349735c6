package scalebench

import (
	"fmt"
	"math/bits"
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
	partition    naming
	filler       string
}

// naming returns the key of the n-th of so many partitions. Keys grow with
// their numbers.
type naming func(number, of int64) string

// Keys names the kinds of partition keys that a made-up table can have.
var Keys = []string{"guid", "words", "number"}

var namings = map[string]naming{"guid": guidKey, "words": wordKey, "number": numberKey}

// guidKey is evenly spread, like random identifiers.
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

// numberKey counts up, like invoices or customers.
func numberKey(n, _ int64) string { return fmt.Sprintf("customer-%010d", n) }

// wordKey is spread like names, very unevenly: a tenth of the first letters have most of
// the keys, and the same holds within each. It decodes the number as an arithmetic coder would.
func wordKey(n, of int64) string {
	var b strings.Builder
	low, high, previous := int64(0), of, 0
	for high-low > 1 {
		from := low
		for c := range letters {
			to := high
			if c < letters-1 {
				to = low + fraction(high-low, cumulated[previous][c])
			}
			if n < to {
				b.WriteByte('a' + byte(c))
				low, high, previous = from, to, c
				break
			}
			from = to
		}
	}
	return b.String()
}

const letters = 26

// cumulated has, for each letter, how often the next letter is at most each other one, in 2^-16.
// The next letters follow Zipf's law, after every letter in another order.
var cumulated = func() (sums [letters][letters]uint64) {
	for previous := range letters {
		var total, sum float64
		for rank := range letters {
			total += 1 / float64(rank+1)
		}
		for c := range letters {
			rank := (c*7 + previous*11) % letters
			sum += 1 / float64(rank+1)
			sums[previous][c] = uint64(sum / total * (1 << 16))
		}
	}
	return sums
}()

// fraction returns n times part/2^16.
func fraction(n int64, part uint64) int64 {
	high, low := bits.Mul64(uint64(n), part)
	return int64(high<<48 | low>>16)
}

func newRows(o Options) rows {
	return rows{
		count: o.Rows, perPartition: o.PerPartition, partition: namings[o.Keys],
		filler: strings.Repeat("x", o.RowBytes),
	}
}

func (r rows) partitions() int64 { return (r.count + r.perPartition - 1) / r.perPartition }

// key returns the key of a row.
func (r rows) key(n int64) key.Key {
	return key.Key{
		Partition: r.partition(n/r.perPartition, r.partitions()),
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
