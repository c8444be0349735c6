// Package keysets provides keys of tables to test scans: samples of real tables, and made-up tables of many kinds. A [Table] answers queries about such keys.
// Only tests and the programs of internal/proof/lab use this package.
package keysets

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"tablesweep/internal/key"
	"tablesweep/internal/local/demo/debian"
	"tablesweep/internal/split/scan"
)

// Set is a kind of table, described by its keys.
type Set struct {
	Name  string
	About string
	Real  bool // the keys are real, but may be only a sample
	Page  int  // the number of rows of a full page
	// Rows returns n sorted, distinct keys, which are the same for every call. It returns fewer keys if the set has fewer, or if some keys were drawn twice.
	Rows func(n int) ([]key.Key, error)
}

// fullPage is the number of rows in the service's largest page.
const fullPage = 1000

// Table returns a table of n rows of the set.
func (s Set) Table(n int) (Table, error) {
	rows, err := s.Rows(n)
	return Table{Keys: rows, Page: s.Page}, err
}

// rowMaker returns a function that returns the i-th row of a table of n rows. The rows may be in any order, and some may be the same.
type rowMaker func(r *rand.Rand, n int) func(i int) key.Key

// MadeUp returns a made-up key set of every kind. Key sets that contain names use the names of Debian's packages, which are real.
func MadeUp() ([]Set, error) {
	real, err := realRows()
	if err != nil {
		return nil, err
	}
	var sets []Set
	for i, k := range kinds(real) {
		sets = append(sets, Set{Name: k.name, About: k.about, Page: fullPage, Rows: func(n int) ([]key.Key, error) {
			if k.name == realSet {
				n = min(n, len(real))
			}
			row := k.row(rand.New(rand.NewPCG(2024, uint64(i))), n)
			rows := make([]key.Key, n)
			for i := range rows {
				rows[i] = row(i)
			}
			slices.SortFunc(rows, key.Key.Compare)
			return slices.Compact(rows), nil
		}})
	}
	return sets, nil
}

// realSet is the name of the set of real rows. The number of its rows is limited.
const realSet = "debian"

func realRows() ([]key.Key, error) {
	packages, err := debian.Packages()
	if err != nil {
		return nil, err
	}
	var rows []key.Key
	for _, p := range packages {
		rows = append(rows, p.Key())
	}
	slices.SortFunc(rows, key.Key.Compare)
	return rows, nil
}

type kind struct {
	name, about string
	row         rowMaker
}

func kinds(real []key.Key) []kind {
	names := partitions(real)
	return []kind{
		{"guid", "random GUIDs", whole(guids)},
		{"urn", "urn:company:tenant: and a GUID", whole(urns)},
		{"counter-padded", "a counter with leading zeros", whole(padded)},
		{"counter", "a counter without leading zeros", whole(counters)},
		{"ticks", "inverted ticks of events that come in bursts", whole(ticks)},
		{"snowflake", "64-bit ids of time, worker and sequence", whole(snowflakes)},
		{"base64", "random Base64", whole(base64s)},
		{realSet, "Debian's packages by source, real rows", func(_ *rand.Rand, n int) func(int) key.Key {
			few := some(real, n)
			return func(i int) key.Key { return few[i] }
		}},
		{"debian-pareto", "Debian's package names, row counts by Pareto", paretoRows(names)},
		{"names", "names made of two of Debian's, a row each", whole(pairs(names))},
		{"names-pareto", "the same, row counts by Pareto", pareto(pairs(names))},
		{"ids", "dotted ids, big namespaces growing bigger, a row each", whole(dotted)},
		{"ids-pareto", "the same, row counts by Pareto", pareto(dotted)},
		{"cascade", "every character splits the rows unevenly", whole(cascade)},
		{"scripts", "words in ten scripts, emoji among them", whole(scripts)},
		{"customer-date", "customer|date, busy customers", whole(customerDates)},
		{"days", "a partition a day, GUIDs in it", days},
		{"buckets", "256 hash buckets, GUIDs in them", keyed(guids, func(id string) key.Key { return key.Key{Partition: id[len(id)-2:], Row: id} })},
		{"devices", "devices with a counter each", whole(devices)},
		{"medium", "partitions of 1500 to 2500 rows", medium},
		{"one-guid", "one partition, GUIDs", giant(guids)},
		{"one-counter", "one partition, a counter with leading zeros", giant(padded)},
		{"one-ticks", "one partition, inverted ticks", giant(ticks)},
		{"giants", "three giant partitions among single rows", giants},
		{"two-clusters", "two narrow clusters far apart", whole(twoClusters)},
		{"runs", "runs of one letter, of any length", whole(runs)},
	}
}

func partitions(rows []key.Key) []string {
	var names []string
	for _, k := range rows {
		names = append(names, k.Partition)
	}
	return slices.Compact(names)
}

// texts returns a function that returns the i-th key text of a table with n rows.
type texts func(r *rand.Rand, n int) func(i int) string

// keyed makes a row from each text.
func keyed(t texts, row func(text string) key.Key) rowMaker {
	return func(r *rand.Rand, n int) func(int) key.Key {
		next := t(r, n)
		return func(i int) key.Key { return row(next(i)) }
	}
}

// whole makes each text a partition with one row.
func whole(t texts) rowMaker {
	return keyed(t, func(text string) key.Key { return key.Key{Partition: text} })
}

// giant makes each text a row of the same partition.
func giant(t texts) rowMaker {
	return keyed(t, func(text string) key.Key { return key.Key{Partition: "all", Row: text} })
}

// pareto makes partitions of texts, with row counts by Pareto's law.
func pareto(t texts) rowMaker {
	return func(r *rand.Rand, n int) func(int) key.Key { return paretoRows(draw(1+n/5, t(r, n)))(r, n) }
}

func giants(r *rand.Rand, n int) func(int) key.Key {
	next := guids(r, n)
	return func(i int) key.Key {
		id := next(i)
		if i%4 == 0 {
			return key.Key{Partition: id}
		}
		return key.Key{Partition: []string{"3c-giant", "77-giant", "d0-giant"}[i%4-1], Row: id}
	}
}

// paretoRows gives each partition a number of rows that is drawn by Pareto's law. The last partition gets the remaining rows.
func paretoRows(names []string) rowMaker {
	return func(r *rand.Rand, n int) func(int) key.Key {
		weight := make([]float64, len(names))
		total := 0.0
		for i := range weight {
			weight[i] = math.Pow(1-r.Float64(), -1/1.2)
			total += weight[i]
		}
		name, sum, row := 0, weight[0], 0
		return func(i int) key.Key {
			for name < len(names)-1 && sum/total < float64(i)/float64(n) {
				name, row = name+1, 0
				sum += weight[name]
			}
			row++
			return key.Key{Partition: names[name], Row: fmt.Sprintf("%d.%d.%d", row/100, row/10%10, row%10)}
		}
	}
}

func days(r *rand.Rand, n int) func(int) key.Key {
	next := guids(r, n)
	return func(int) key.Key {
		day := int(3000 * math.Sqrt(r.Float64())) // traffic increases over the years
		return key.Key{Partition: date(day), Row: next(0)}
	}
}

func medium(r *rand.Rand, n int) func(int) key.Key {
	next := guids(r, n)
	name, left := "", 0
	return func(i int) key.Key {
		if left == 0 {
			name, left = next(i), 1500+r.IntN(1001)
		}
		left--
		return key.Key{Partition: name, Row: fmt.Sprintf("%08d", left)}
	}
}

func date(day int) string {
	return fmt.Sprintf("%04d-%02d-%02d", 2016+day/360, 1+day/30%12, 1+day%30)
}

func draw(n int, next func(int) string) []string {
	var all []string
	for i := range n {
		all = append(all, next(i))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Table answers queries from sorted, distinct keys. Its pages are full.
type Table struct {
	Keys []key.Key
	Page int // the number of rows of a full page
}

// Pages returns the number of queries that a serial scan needs.
func (t Table) Pages() int { return max(1, (len(t.Keys)+t.Page-1)/t.Page) }

// Query returns the page of a step.
func (t Table) Query(s scan.Step) scan.Page {
	first := t.first(func(k key.Key) bool {
		return s.Range.Side(k) >= 0 && (s.Token == nil || k.Compare(key.Key{Partition: s.Token.Partition, Row: s.Token.Row}) >= 0)
	})
	end := t.first(func(k key.Key) bool { return s.Range.Side(k) > 0 })
	next := first + t.Page
	p := scan.Page{Keys: t.Keys[first:min(end, next)]}
	if next < end {
		p.Next = &key.Token{Partition: t.Keys[next].Partition, Row: t.Keys[next].Row}
	}
	return p
}

// first returns the index of the first row for which the condition holds. The condition must also hold for all later rows.
func (t Table) first(holds func(key.Key) bool) int {
	return sort.Search(len(t.Keys), func(i int) bool { return holds(t.Keys[i]) })
}
