package scale

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/emulator"
)

// grid is a Markdown table whose first column is text and whose others are as they come.
type grid struct{ lines [][]string }

func newGrid(columns ...string) *grid { return &grid{[][]string{columns}} }

func (t *grid) row(cells ...string) { t.lines = append(t.lines, cells) }

func (t *grid) String() string {
	var b strings.Builder
	for i, cells := range t.lines {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
		}
	}
	return b.String()
}

// Markdown returns the result as text with tables.
func (r Result) Markdown() string {
	o := r.Options
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s rows, %d a partition; plan %s, %d MB, at most %d instances, %d more every %v (**assumption**).\nSimulated in %.0f s.\n\n",
		capital(o.Action), thousands(o.Rows), o.PerPartition, plan, memory, mostInstances, o.Step, o.Decide, r.Simulated)
	if o.Done > 0 {
		fmt.Fprintf(&b, "The ledger said at the start that the first %s rows are read; the run is of the other %s.\n\n", thousands(o.Done), thousands(o.read()))
	}
	fmt.Fprintf(&b, "%s\n%d instances at most, started %s; %s executions, %d s of instances that execute, %.0f GB-s, %.0f s of processor, %d connections of an instance at once.\n",
		r.times(), r.Instances, r.arrivals(), thousands(r.Executions), int(r.Active), r.GBSeconds, r.Processor, r.Connections)
	fmt.Fprintf(&b, "Dollars: functions %.2f, tables %.2f, queues %.2f. Rows written more than once: %d.\n\n", r.Dollars.Functions, r.Dollars.Tables, r.Dollars.Queues, r.Again)
	fmt.Fprintf(&b, "%s\n%s", r.requests(), r.course())
	if len(r.Warnings) > 0 {
		b.WriteString("\nThe app's warnings:\n\n")
		for _, message := range slices.Sorted(maps.Keys(r.Warnings)) {
			fmt.Fprintf(&b, "- %s: %d\n", message, r.Warnings[message])
		}
	}
	return b.String() + "\n"
}

// times compares the run with others.
func (r Result) times() *grid {
	t := newGrid("", "time", "rows a second", "÷ limit")
	line := func(who string, seconds float64) {
		t.row(who, duration(seconds), thousands(int64(float64(r.Options.read())/seconds)), fmt.Sprintf("%.2f", seconds/r.Limit))
	}
	line("this run", r.Took)
	if len(r.Samples) > 1 {
		line("from the first row on", r.Took-r.firstRow())
	}
	line("the accounts' limit", r.Limit)
	if r.Options.copies() {
		line("one page after the other, others write", r.SerialScan)
	}
	line("one request after the other", r.Serial)
	return t
}

// firstRow returns the last time before the first row arrived.
func (r Result) firstRow() float64 {
	last := 0.0
	for _, s := range r.Samples {
		if s.Rows > 0 {
			break
		}
		last = s.Seconds
	}
	return last
}

// arrivals lists when instances started.
func (r Result) arrivals() string {
	var all []string
	have := 0
	for _, s := range r.Samples {
		if s.Instances > have {
			have = s.Instances
			all = append(all, fmt.Sprintf("%d after %.0f s", have, s.Seconds))
		}
	}
	if len(all) > 6 {
		all = append(append(all[:5:5], "…"), all[len(all)-1])
	}
	return strings.Join(all, ", ")
}

// kinds are the kinds of requests, as they are counted.
var kinds = []struct {
	name string
	of   func(emulator.Counts) int64
}{
	{"queries", func(c emulator.Counts) int64 { return c.Query }},
	{"rows read by key", func(c emulator.Counts) int64 { return c.Point }},
	{"transactions", func(c emulator.Counts) int64 { return c.Batch }},
	{"other writes", func(c emulator.Counts) int64 { return c.Insert + c.Update + c.Merge + c.Delete + c.Tables }},
	{"messages put", func(c emulator.Counts) int64 { return c.QueuePut }},
	{"gets", func(c emulator.Counts) int64 { return c.QueueGet }},
	{"messages deleted", func(c emulator.Counts) int64 { return c.QueueDelete }},
	{"other of queues", func(c emulator.Counts) int64 { return c.QueueOther + c.QueuePeek + c.QueueUpdate }},
}

// requests lists the requests by account, by kind and by partition or queue, and the throttled
// ones.
func (r Result) requests() *grid {
	t := newGrid("account", "what", "requests", "at most a second")
	for i, a := range r.Accounts {
		t.row(a.Name, "**all**", thousands(a.Requests), thousands(int64(r.peak(i))))
		for _, k := range kinds {
			if n := k.of(a.Counts); n > 0 {
				t.row(a.Name, k.name, thousands(n), "")
			}
		}
		for _, target := range largest(a.Targets) {
			t.row(a.Name, target, thousands(a.Targets[target]), "")
		}
		for _, what := range largest(a.Throttled) {
			t.row(a.Name, "refused by the limit of "+what, thousands(a.Throttled[what]), "")
		}
	}
	return t
}

// peak returns the most requests that an account carried out in a second.
func (r Result) peak(account int) float64 {
	most := 0.0
	for i := 1; i < len(r.Samples); i++ {
		a, b := r.Samples[i-1], r.Samples[i]
		n := b.Requests[account] - b.Refused[account] - a.Requests[account] + a.Refused[account]
		if d := b.Seconds - a.Seconds; d > 0 {
			most = max(most, float64(n)/d)
		}
	}
	return most
}

func largest(counts map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}

// course lists the run's progress, in intervals of the same length.
func (r Result) course() *grid {
	const lines = 12
	t := newGrid("until", "rows", "rows a second", "instances", "refused: own", "source", "destination")
	before := Sample{}
	for _, s := range thin(r.Samples, lines) {
		if s.Seconds == before.Seconds {
			continue
		}
		cells := []string{
			duration(s.Seconds), thousands(s.Rows),
			thousands(int64(float64(s.Rows-before.Rows) / (s.Seconds - before.Seconds))), fmt.Sprint(s.Instances),
		}
		for i := range s.Refused {
			cells = append(cells, thousands(s.Refused[i]-before.Refused[i]))
		}
		t.row(cells...)
		before = s
	}
	return t
}

// thin returns n of the samples, evenly spread, the last among them.
func thin(all []Sample, n int) []Sample {
	if len(all) <= n {
		return all
	}
	some := make([]Sample, n)
	for i := range some {
		some[i] = all[(i+1)*(len(all)-1)/n]
	}
	return some
}

// duration writes seconds as a time.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < 10*time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// thousands writes a number with commas.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
