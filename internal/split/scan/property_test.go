package scan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/scantest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/split/scan"
)

func TestRandomTables(t *testing.T) {
	t.Parallel()
	for i, s := range []scan.Strategy{
		scan.Serial{},
		scan.Prefix{},
		scan.Prefix{FirstSegments: 2},
		scan.Prefix{NextSegments: 3},
		scan.Prefix{FirstSegments: 3, NextSegments: 2},
	} {
		t.Run(fmt.Sprintf("%T%+v", s, s), func(t *testing.T) {
			t.Parallel()
			scantest.Check(t, s, testsize.Of(500, 2000), uint64(i))
		})
	}
}

// TestLargerTables scans tables that are larger than the random ones, in segments of 1 to 1,000 rows, with every kind of bound.
func TestLargerTables(t *testing.T) {
	t.Parallel()
	bounds := []key.Bounds{
		{},
		{Prefix: "k"},
		{Prefix: "k1", Before: "k15"},
		{After: "k2"},
		{After: "k2", Before: "k20"},
		{After: "k2", Before: "k2"},
		{Prefix: "nothing"},
	}
	for name, shape := range scantest.Shapes {
		rows := scantest.Table(1000, shape)
		for _, segment := range testsize.Of([]int{7, 1000}, []int{1, 7, 100, 1000}) {
			t.Run(fmt.Sprintf("%s by %d", name, segment), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(1, uint64(segment)))
				for i, s := range []scan.Strategy{scan.Serial{}, scan.Prefix{}, scan.Prefix{FirstSegments: 2, NextSegments: 5}} {
					c := scantest.Case{Rows: rows, Bounds: bounds[(i+segment)%len(bounds)], Segment: segment, Faulty: segment%2 == 1}
					scantest.CheckCase(t, s, c, r)
					c.Bounds, c.Churn = key.Bounds{}, 40
					scantest.CheckCase(t, s, c, r)
				}
			})
		}
	}
}

// With KeepPartitions, the strategy still finds every partition key.
func TestPrefixFindsEveryPartition(t *testing.T) {
	t.Parallel()
	scantest.CheckPartitions(t, scan.Prefix{KeepPartitions: true}, testsize.Of(500, 2000))
}

// narrowing uses tokens with other ranges than those for which the service issued the tokens.
type narrowing struct{ scan.Serial }

func (n narrowing) Advance(s scan.Step, p scan.Page) (scan.Decision, error) {
	d, err := n.Serial.Advance(s, p)
	for i := range d.Children {
		d.Children[i].Range.Low = &key.Bound{Key: p.Last().Partition}
	}
	return d, err
}

// The simulated service refuses a token with another range, because no document allows this, although the scan would read each row once.
func TestTokensOfOtherRangesAreRefused(t *testing.T) {
	t.Parallel()
	c := scantest.Case{Rows: names, Segment: 2}
	if rows, err := scantest.Run(narrowing{}, c, rand.New(rand.NewPCG(1, 1))); err == nil {
		t.Errorf("a scan with a token of another range reads %q", rows)
	}
}

func FuzzPrefix(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte("\x80\xff\x01\x40\xc0\x7f\x20\xe0\x90"))
	f.Fuzz(func(t *testing.T, data []byte) {
		scantest.Fuzz(t, scan.Prefix{}, data)
	})
}
