package adaptive_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/scantest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// slowdown is the divisor of the number of random tables in tests.
var slowdown = testsize.Slow(20, 5, 1)

// TestRandomTables scans 20,000 random tables with unusual keys, in short and empty pages, while rows are added and deleted. The tables have few
// pages, but the strategy cuts them because of its estimate before the first page.
func TestRandomTables(t *testing.T) {
	t.Parallel()
	for seed := range testsize.Of[uint64](2, 4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			scantest.Check(t, adaptive.Strategy{}, 5000/slowdown, seed)
		})
	}
}

// TestRandomTablesWithHints is TestRandomTables with hints, which may be current, outdated or nonsense.
func TestRandomTablesWithHints(t *testing.T) {
	t.Parallel()
	for i := range 3000 / slowdown {
		r := rand.New(rand.NewPCG(77, uint64(i)))
		c := scantest.Random(r)
		h := scan.Hints{Bounds: c.Bounds, Keys: someKeys(r, c.Rows)}
		if r.IntN(3) == 0 {
			h.Keys = someKeys(r, scantest.Random(r).Rows)
		}
		if !scantest.CheckCase(t, adaptive.Strategy{Hints: &h}, c, r) {
			t.Fatalf("case %d failed with hints %q", i, h.Keys)
		}
	}
}

// A scan that skips rows finds every partition. It finds a partition twice only if rows were added during the scan.
func TestPartitions(t *testing.T) {
	t.Parallel()
	scantest.CheckPartitions(t, adaptive.Strategy{Partitions: true}, 3000/slowdown)
}

func someKeys(r *rand.Rand, rows []key.Key) []key.Key {
	var keys []key.Key
	share := r.Float64()
	for _, k := range rows {
		if r.Float64() < share {
			keys = append(keys, k)
		}
	}
	return keys
}

// TestLargerTables scans tables of hundreds of pages, in which strands are cut many times.
func TestLargerTables(t *testing.T) {
	t.Parallel()
	shapes := maps.Clone(scantest.Shapes)
	maps.Copy(shapes, map[string]func(i int) key.Key{
		"long keys": func(i int) key.Key {
			return key.Key{Partition: "k" + strings.Repeat("<&>\u2028", 127) + fmt.Sprintf("%03x", i)}
		},
		"three-byte keys": func(i int) key.Key {
			long := strings.Repeat("\u2028中", 254) + fmt.Sprintf("%03x", i)
			return key.Key{Partition: "k" + long, Row: long}
		},
		"three-byte row keys": func(i int) key.Key {
			return key.Key{Partition: "k" + strings.Repeat("\u2028", 511), Row: strings.Repeat("\u2028", 509) + fmt.Sprintf("%03x", i)}
		},
	})
	for name, shape := range shapes {
		for _, segment := range testsize.Of([]int{20}, []int{5, 20}) {
			t.Run(fmt.Sprintf("%s by %d", name, segment), func(t *testing.T) {
				t.Parallel()
				rows := scantest.Table(1000, shape)
				r := rand.New(rand.NewPCG(5, uint64(segment)))
				for _, c := range []scantest.Case{
					{Rows: rows, Segment: segment},
					{Rows: rows, Segment: segment, Faulty: true, Churn: 100},
					{Rows: rows, Segment: segment, Bounds: key.Bounds{Prefix: "k", After: "k1", Before: "k3"}},
				} {
					scantest.CheckCase(t, adaptive.Strategy{}, c, r)
				}
			})
		}
	}
}

// A step's state is small, apart from its keys, because a message has 48 KiB for four children with their states.
func TestStateSize(t *testing.T) {
	t.Parallel()
	const most, mostMessage = 3 << 10, 32 << 10
	hard := strings.Repeat("\u2028", 500)
	for name, row := range map[string]func(i int) key.Key{
		"deep paths": func(i int) key.Key {
			k := ""
			for d := range 40 {
				k += fmt.Sprintf("%c%d|", rune('a'+i>>(d%10)%26), i>>(d%10)%7)
			}
			return key.Key{Partition: k + fmt.Sprint(i)}
		},
		"many letters": func(i int) key.Key {
			return key.Key{Partition: string([]rune{rune(0x4E00 + i*7), rune(0x4E00 + i*13%5000)})}
		},
		"hard keys": func(i int) key.Key { return key.Key{Partition: hard + fmt.Sprint(i/100), Row: hard + fmt.Sprint(i)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows := scantest.Table(2000, row)
			s := measured{t: t, state: most, message: mostMessage}
			scantest.CheckCase(t, s, scantest.Case{Rows: rows, Segment: 25}, rand.New(rand.NewPCG(1, 1)))
		})
	}
}

// measured is the strategy, which fails the test if a step is too large.
type measured struct {
	adaptive.Strategy
	t              *testing.T
	state, message int
}

func (m measured) Advance(s scan.Step, p scan.Page) (scan.Decision, error) {
	o, err := m.Strategy.Advance(s, p)
	for _, c := range o.Children {
		var named struct {
			Stop  json.RawMessage
			Trail struct{ Here json.RawMessage }
		}
		if err := json.Unmarshal(c.State, &named); err != nil {
			m.t.Fatal(err)
		}
		if n := len(c.State) - len(named.Stop) - len(named.Trail.Here); n > m.state {
			m.t.Errorf("a state has %d bytes in addition to its keys, want at most %d", n, m.state)
		}
		message, err := json.Marshal(c)
		if err != nil {
			m.t.Fatal(err)
		}
		if len(message) > m.message {
			m.t.Errorf("a step has %d bytes, want at most %d", len(message), m.message)
		}
	}
	return o, err
}

func FuzzAdvance(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte("\x80\xff\x01\x40\xc0\x7f\x20\xe0\x90"))
	f.Fuzz(func(t *testing.T, data []byte) {
		scantest.Fuzz(t, adaptive.Strategy{}, data)
	})
}
