package scantest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"tablesweep/internal/key"
)

// Case is one scan of one table.
type Case struct {
	Rows    []key.Key // sorted, distinct
	Bounds  key.Bounds
	Segment int  // rows in a full page
	Faulty  bool // the number of rows in a full page
	// Churn is the number of rows, chosen at random, that are inserted and deleted between the queries.
	Churn int
}

// alphabets are the characters from which keys are made. Each set is difficult for code that compares bytes, skips over U+FFFF or splits a surrogate pair.
var alphabets = [...][]rune{
	[]rune("ab"),
	[]rune("0123456789"),
	[]rune("aAzZ09-._:/+~ '%"),
	{0, 1, '\t', ' ', 0x7F, 0x80, 'a'},
	{'a', 0xD7FE, 0xD7FF, 0x10000, 0x10FFFF, 0xE000, 0xFFFD, 0xFFFE, 0xFFFF},
	[]rune("é中😀😁\U0001F9FF～Ａ"),
	{0xFFFF},
}

// Shapes are functions that return the i-th key of a larger table.
var Shapes = map[string]func(i int) key.Key{
	"counter":  func(i int) key.Key { return key.Key{Partition: fmt.Sprint("k", i)} },
	"padded":   func(i int) key.Key { return key.Key{Partition: fmt.Sprintf("k%012d", i)} },
	"one":      func(i int) key.Key { return key.Key{Partition: "k2", Row: fmt.Sprintf("%06x", i*31)} },
	"big ones": func(i int) key.Key { return key.Key{Partition: fmt.Sprint("k", i%7), Row: fmt.Sprint(i)} },
	"big, 1":   func(i int) key.Key { return key.Key{Partition: fmt.Sprint("k", max(0, i-700)), Row: fmt.Sprint(i)} },
	"runs":     func(i int) key.Key { return key.Key{Partition: strings.Repeat("k", 1+i%300) + fmt.Sprint(i)} },
	"paths": func(i int) key.Key {
		return key.Key{Partition: fmt.Sprintf("usr|share|doc|%c%d", 'a'+i%26, i%97), Row: fmt.Sprint("f", i)}
	},
	"emoji": func(i int) key.Key {
		return key.Key{Partition: "k" + string([]rune{rune(0x1F300 + i%500), rune(0xE000 + i/500)})}
	},
}

// Table returns a table of n rows.
func Table(n int, shape func(i int) key.Key) (rows []key.Key) {
	for i := range n {
		rows = append(rows, shape(i))
	}
	slices.SortFunc(rows, key.Key.Compare)
	return slices.Compact(rows)
}

// Random returns a random case, with unusual alphabets, long common prefixes, counters, big partitions, or bounds that may be keys or lie between keys.
func Random(r *rand.Rand) Case {
	c := Case{Segment: 1 + r.IntN(12), Faulty: r.IntN(2) == 0}
	rows := map[key.Key]bool{}
	partition, row := randomKeys(r), randomKeys(r)
	big := partition()
	for range r.IntN(1 << r.IntN(9)) {
		switch k := (key.Key{Partition: partition(), Row: row()}); r.IntN(4) {
		case 0:
			rows[key.Key{Partition: big, Row: k.Row}] = true
		case 1:
			rows[key.Key{Partition: k.Partition}] = true
		default:
			rows[k] = true
		}
	}
	for k := range rows {
		c.Rows = append(c.Rows, k)
	}
	slices.SortFunc(c.Rows, key.Key.Compare)
	bound := func(text func() string) string {
		if r.IntN(4) > 0 {
			return ""
		}
		return text()
	}
	c.Bounds = key.Bounds{
		Prefix: bound(func() string { return firstRune(partition()) }),
		After:  bound(partition),
		Before: bound(partition),
	}
	if r.IntN(3) == 0 {
		c.Churn = r.IntN(1 + len(c.Rows)/2)
	}
	return c
}

// randomKeys returns a function that returns keys of one style.
func randomKeys(r *rand.Rand) func() string {
	alphabet := alphabets[r.IntN(len(alphabets))]
	prefix := ""
	if r.IntN(3) == 0 {
		prefix = strings.Repeat(string(alphabet[r.IntN(len(alphabet))]), r.IntN(30))
	}
	longest := 1 + r.IntN(12)
	skew := r.IntN(2) == 0
	return func() string {
		var b strings.Builder
		b.WriteString(prefix)
		for range r.IntN(longest + 1) {
			i := r.IntN(len(alphabet))
			if skew {
				i = r.IntN(i + 1)
			}
			b.WriteRune(alphabet[i])
		}
		return b.String()
	}
}

func firstRune(s string) string {
	for _, r := range s {
		return string(r)
	}
	return ""
}
