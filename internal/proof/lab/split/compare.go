// Package split compares how scan strategies divide tables, by counting. It scans key sets of many kinds in memory, and replays the recorded queries in a
// simulation of workers and message hops. The unit of time is a query, however much the query reads. Therefore the figures are the same on every machine.
// They do not consider that queries take different times and that a service throttles.
package split

import (
	"math/rand/v2"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/keysets"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// Contender is a way to scan a table.
type Contender string

// The contenders, and the bounds. A bound is the cost of a scan that knows in advance where all rows are. No scan whose steps have at most
// as many children can be better.
const (
	Serial Contender = "serial"
	// Published reads a whole level of a prefix, or a whole partition, in one invocation.
	Published Contender = "published prefix scan"
	Prefix    Contender = "prefix with one query per invocation"
	Adaptive  Contender = "adaptive with one query per invocation"
	Adaptive4 Contender = "adaptive with up to 4 queries per invocation"
	Hinted    Contender = "adaptive with hints from the same rows"
	Hinted80  Contender = "adaptive with hints from 80 % of the rows"
	Bound     Contender = "bound: a scan that knows every row in advance"
	Bound8    Contender = "bound, with up to eight new steps per query"
	Bound4    Contender = "bound, with up to 4 queries per invocation"
)

// boundChildren is the number of children that a step of the bound has.
const boundChildren = 4

// Contenders returns all contenders, in the order of the printed tables.
func Contenders() []Contender {
	return []Contender{Serial, Published, Prefix, Adaptive, Adaptive4, Hinted, Hinted80, Bound, Bound8, Bound4}
}

// Result is the cost of one scan of one key set.
type Result struct {
	Set         string
	Real        bool // the set is not made up
	Rows        int
	Contender   Contender
	Optimum     int // the number of queries of a serial scan
	Queries     int
	Empty       int // the number of queries that returned no row
	Invocations int
	Times       []Time
	// Progress is set only for scans with hints, with 64 workers and hop 3.
	Progress *Progress
}

// Progress is the accuracy of the progress in a status, during the second half of a scan's time.
type Progress struct {
	Shown float64 // the share of the time during which the status has a progress
	Mean  float64 // the mean difference from the true progress
	Worst float64
}

// Time is a scan's makespan. If the number of workers is 0, it is the critical path.
type Time struct {
	Workers int
	Hop     int // the time of a message hop
	Time    int
}

// workerCounts and hops return the numbers of workers and the times of a hop for which makespans are measured. The number 0 means as many workers as there is
// work for.
func workerCounts() []int { return []int{0, 8, 64, 512} }
func hops() []int         { return []int{3, 10} }

// Compare scans n rows of the set with every contender.
func Compare(set keysets.Set, n int) ([]Result, error) {
	rows, err := set.Table(n)
	if err != nil {
		return nil, err
	}
	optimum := rows.Pages()
	var results []Result
	add := func(c Contender, root *recorded, x schedule) {
		r := Result{Set: set.Name, Real: set.Real, Rows: len(rows.Keys), Contender: c, Optimum: optimum}
		r.measure(root, x)
		if c == Hinted || c == Hinted80 {
			r.Progress = progressOf(moments(root, rows))
		}
		results = append(results, r)
	}
	single := schedule{segments: 1}
	serial, _, err := record(rows, scan.Serial{})
	if err != nil {
		return nil, err
	}
	add(Serial, serial, single)
	prefix, _, err := record(rows, scan.Prefix{})
	if err != nil {
		return nil, err
	}
	add(Published, prefix, schedule{segments: unlimited})
	add(Prefix, prefix, single)
	split, ends, err := record(rows, adaptive.Strategy{})
	if err != nil {
		return nil, err
	}
	add(Adaptive, split, single)
	four := schedule{segments: 4, wide: true}
	add(Adaptive4, split, four)
	hints := scan.NewHints(key.Bounds{}, ends, rows.Page)
	hinted, _, err := record(rows, adaptive.Strategy{Hints: &hints})
	if err != nil {
		return nil, err
	}
	add(Hinted, hinted, single)
	if hinted, err = recordStale(rows); err != nil {
		return nil, err
	}
	add(Hinted80, hinted, single)
	bound := clairvoyant(optimum, boundChildren)
	add(Bound, bound, single)
	add(Bound8, clairvoyant(optimum, 8), single)
	add(Bound4, bound, four)
	return results, nil
}

// fourFifths returns a random four fifths of the rows.
func fourFifths(rows keysets.Table) keysets.Table {
	r := rand.New(rand.NewPCG(80, 100))
	some := keysets.Table{Page: rows.Page}
	for _, k := range rows.Keys {
		if r.IntN(5) > 0 {
			some.Keys = append(some.Keys, k)
		}
	}
	return some
}

// recordStale scans the rows with the hints of a scan that read only a random four
// fifths of them.
func recordStale(rows keysets.Table) (*recorded, error) {
	_, ends, err := record(fourFifths(rows), adaptive.Strategy{})
	if err != nil {
		return nil, err
	}
	hints := scan.NewHints(key.Bounds{}, ends, rows.Page)
	root, _, err := record(rows, adaptive.Strategy{Hints: &hints})
	return root, err
}

func (r *Result) measure(root *recorded, x schedule) {
	r.Queries, r.Empty = root.count()
	for _, workers := range workerCounts() {
		for _, hop := range hops() {
			x.workers, x.hop = workers, hop
			if workers == 0 {
				x.workers = unlimited
			}
			time, invocations := x.play(root)
			r.Invocations = invocations
			r.Times = append(r.Times, Time{Workers: workers, Hop: hop, Time: time})
		}
	}
}
