// Package scantest checks scan strategies against a naive twin, which is the sorted slice of the rows. Only tests import it.
//
// [Check] runs a strategy over random tables, [CheckCase] over a given one. The steps run in random order and are passed as JSON, pages may be short or
// empty, and rows may be inserted and deleted during the scan. A check fails unless the scan returns every row that stays exactly once and in table order,
// returns no row that never existed, and keeps the promises of package scan.
package scantest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
)

// maxMessage is the largest step in bytes: a queue message of 64 KiB in Base64.
const maxMessage = 48 << 10

// Check runs the strategy over n random cases. The seed determines the cases.
func Check(t testing.TB, s scan.Strategy, n int, seed uint64) {
	t.Helper()
	for i := range n {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		if c := Random(r); !CheckCase(t, s, c, r) {
			t.Fatalf("case %d of seed %d failed", i, seed)
		}
	}
}

// CheckPartitions runs random cases of a strategy that skips rows. The strategy must find every partition exactly once.
func CheckPartitions(t testing.TB, s scan.Strategy, n int) {
	t.Helper()
	partitions := func(rows []key.Key) []key.Key { return scan.Page{Keys: rows}.Partitions() }
	for i := range n {
		r := rand.New(rand.NewPCG(9, uint64(i)))
		c := Random(r)
		c.Bounds, c.Churn = key.Bounds{}, 0
		got, err := Run(s, c, r)
		if err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		if got, want := partitions(got), partitions(c.Rows); !slices.Equal(got, want) {
			t.Fatalf("case %d: got partitions %q, want %q", i, got, want)
		}
	}
}

// Fuzz runs the strategy over a random case for which data supplies the random numbers.
func Fuzz(t testing.TB, s scan.Strategy, data []byte) {
	t.Helper()
	r := rand.New(&source{data: data, tail: rand.NewPCG(0, 0)})
	CheckCase(t, s, Random(r), r)
}

// CheckCase runs the strategy over one case and reports whether it passed.
func CheckCase(t testing.TB, s scan.Strategy, c Case, r *rand.Rand) bool {
	t.Helper()
	got, err := Run(s, c, r)
	if err == nil {
		err = c.Compare(got)
	}
	if err != nil {
		t.Errorf("%T: %v\nbounds %+v, segment %d, faulty %v, churn %d, rows %s",
			s, err, c.Bounds, c.Segment, c.Faulty, c.Churn, list(c.Rows))
	}
	return err == nil
}

// source is a random source that starts with given bytes.
type source struct {
	data []byte
	tail rand.Source
}

func (s *source) Uint64() uint64 {
	if len(s.data) == 0 {
		return s.tail.Uint64()
	}
	v := uint64(s.data[0]) << 56 // one byte is enough for a number, because only the high bits matter
	s.data = s.data[1:]
	return v
}

// node is a step in a scan's tree of steps.
type node struct {
	step     scan.Step
	yield    []key.Key
	children []*node
}

func (n *node) appendRows(rows []key.Key) []key.Key {
	rows = append(rows, n.yield...)
	for _, c := range n.children {
		rows = c.appendRows(rows)
	}
	return rows
}

// Run scans the case's table with the steps in random order, and returns the rows in the order of the tree of steps.
func Run(s scan.Strategy, c Case, r *rand.Rand) ([]key.Key, error) {
	t := c.Open(r)
	root := &node{step: s.Start(c.Bounds)}
	for pending, queries := []*node{root}, 0; len(pending) > 0; queries++ {
		if queries > 1000+200*len(c.Rows) {
			return nil, fmt.Errorf("the scan did not end after %d queries", queries)
		}
		i := r.IntN(len(pending))
		n := pending[i]
		pending = slices.Delete(pending, i, i+1)
		if err := n.run(s, t); err != nil {
			return nil, fmt.Errorf("step %s: %w", text(n.step), err)
		}
		pending = append(pending, n.children...)
	}
	return root.appendRows(nil), nil
}

func (n *node) run(s scan.Strategy, t *Service) error {
	p, err := t.Query(n.step)
	if err != nil {
		return err
	}
	o, err := s.Advance(n.step, p)
	if err != nil {
		return err
	}
	if again, err := s.Advance(n.step, p); err != nil || text(again) != text(o) {
		return fmt.Errorf("two calls for the same page decide differently: %s, then %s, %v", text(o), text(again), err)
	}
	if o.Yield < 0 || o.Yield > len(p.Keys) {
		return fmt.Errorf("returns %d of %d rows", o.Yield, len(p.Keys))
	}
	if len(o.Children) > scan.MaxChildren {
		return fmt.Errorf("%d children", len(o.Children))
	}
	n.yield = p.Keys[:o.Yield]
	for _, child := range o.Children {
		message := text(child)
		if len(message) > maxMessage {
			return fmt.Errorf("a child of %d bytes", len(message))
		}
		c := &node{}
		if err := json.Unmarshal([]byte(message), &c.step); err != nil {
			return err
		}
		n.children = append(n.children, c)
	}
	return nil
}

// volatile returns the rows that are inserted and deleted during the scan. These rows are spread over the table.
func (c Case) volatile() []key.Key {
	var rows []key.Key
	for i := range c.Churn {
		rows = append(rows, c.Rows[i*len(c.Rows)/c.Churn])
	}
	return rows
}

// Compare checks the rows that a scan of the case returned, and their order, against the twin.
func (c Case) Compare(got []key.Key) error {
	volatile := map[key.Key]bool{}
	for _, k := range c.volatile() {
		volatile[k] = true
	}
	var want []key.Key
	for _, k := range c.Rows {
		if c.inBounds(k) && !volatile[k] {
			want = append(want, k)
		}
	}
	for i := 1; i < len(got); i++ {
		if got[i-1].Compare(got[i]) >= 0 {
			return fmt.Errorf("row %q follows %q", got[i], got[i-1])
		}
	}
	stable := got
	if len(volatile) > 0 {
		stable = slices.DeleteFunc(slices.Clone(got), func(k key.Key) bool { return volatile[k] && c.inBounds(k) })
	}
	if !slices.Equal(stable, want) {
		return fmt.Errorf("rows differ: got %d, want %d\ngot  %s\nwant %s", len(stable), len(want), list(stable), list(want))
	}
	return nil
}

// inBounds reports whether a key's partition is within the bounds. It is as simple as possible.
func (c Case) inBounds(k key.Key) bool {
	b, p := c.Bounds, k.Partition
	return strings.HasPrefix(p, b.Prefix) &&
		(b.After == "" || key.Compare(p, b.After) > 0) &&
		(b.Before == "" || key.Compare(p, b.Before) < 0)
}

// list formats the rows for a failure, but at most as many as fit on a screen.
func list(rows []key.Key) string {
	if len(rows) > 60 {
		return fmt.Sprintf("%q and %d more", rows[:60], len(rows)-60)
	}
	return fmt.Sprintf("%q", rows)
}
