package adaptive_test

import (
	"math"
	"sort"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/scan/bench"
	"tablesweep/internal/testsize"
)

// TestWhatKnowledgeIsWorth is what stands between the strategy and the bound. It gives the strategy the
// truth about real tables in place of what pages tell, and leaves its rules as they are: four children,
// cuts for credit, a query a step. To know how many pages are ahead saves queries and little time. To know
// where they are halves the time, and nothing that a page shows tells that. Both together don't
// reach the bound: the first page of a piece is read before the piece is cut.
func TestWhatKnowledgeIsWorth(t *testing.T) {
	t.Parallel()
	if !testsize.Full() {
		t.Skip("it has no goroutines, and takes a minute under the race detector")
	}
	sets := bench.RealSets("")
	costs := map[string]bench.Cost{}
	for _, knows := range []string{"nothing", "how many", "where", "both"} {
		var mean bench.Cost
		for _, set := range sets {
			rows, err := set.Rows(math.MaxInt)
			if err != nil {
				t.Fatal(err)
			}
			x := table{rows, set.Page}
			pages, place := x.pages, x.place
			if knows == "nothing" || knows == "where" {
				pages = nil
			}
			if knows == "nothing" || knows == "how many" {
				place = nil
			}
			c, err := bench.CostOf(set, math.MaxInt, adaptive.Knowing(pages, place))
			if err != nil {
				t.Fatal(err)
			}
			n := float64(len(sets))
			mean.Queries, mean.Time, mean.Time4 = mean.Queries+c.Queries/n, mean.Time+c.Time/n, mean.Time4+c.Time4/n
		}
		t.Logf("knows %-8s %.2f times the optimum's queries, %.2f times the bound's time, %.2f by up to 4 queries an invocation", knows, mean.Queries, mean.Time, mean.Time4)
		costs[knows] = mean
	}
	nothing, many, where, both := costs["nothing"], costs["how many"], costs["where"], costs["both"]
	if many.Queries > 0.95*nothing.Queries || many.Time < 0.75*nothing.Time {
		t.Errorf("to know how many pages are ahead is worth more time than queries: %+v, %+v without", many, nothing)
	}
	if where.Time > 0.6*nothing.Time || both.Time < 1.5 {
		t.Errorf("to know where they are is worth %+v, both %+v; %+v without", where, both, nothing)
	}
}

// table answers what a strand would like to know.
type table struct {
	keys []key.Key
	page int
}

// ahead returns the rows between a key and the end, by their numbers.
func (t table) ahead(partition *string, here string, end *string) (from, to int) {
	first := func(k key.Key) int {
		return sort.Search(len(t.keys), func(i int) bool { return t.keys[i].Compare(k) >= 0 })
	}
	at := func(k string) key.Key {
		if partition != nil {
			return key.Key{Partition: *partition, Row: k}
		}
		return key.Key{Partition: k}
	}
	from, to = first(at(here+"\x00")), len(t.keys)
	switch {
	case end != nil:
		to = first(at(*end))
	case partition != nil:
		to = first(key.Key{Partition: *partition + "\x00"})
	}
	return from, max(from, to)
}

func (t table) pages(partition *string, here string, end *string) float64 {
	from, to := t.ahead(partition, here, end)
	return float64(to-from) / float64(t.page)
}

func (t table) place(partition *string, here string, end *string, share float64) (string, bool) {
	from, to := t.ahead(partition, here, end)
	if from == to {
		return "", false
	}
	k := t.keys[from+int(share*float64(to-from))]
	if partition != nil {
		return k.Row, true
	}
	return k.Partition, key.Less(here, k.Partition)
}
