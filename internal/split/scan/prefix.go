package scan

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"tablesweep/internal/key"
)

// Prefix is the published prefix scan (Joel Verhagen, "How to run a distributed scan of Azure Table Storage", 2020). Each of its steps makes one
// query.
//
// A prefix step reads the first rows of the partitions whose keys start with a prefix. If there are more rows, the last row's partition shows which
// character follows the prefix. Three children cover the rest:
//
//   - the other rows of the last row's partition, because the page may end within this partition;
//   - the other partitions whose keys start with the prefix and this character;
//   - the partitions whose keys start with the prefix and a greater character.
//
// Prefix differs from Verhagen's scan in the bound between two queries. In Verhagen's scan, a query ends before prefix + U+FFFF, and the next query
// begins after prefix + U+FFFF. So Verhagen's scan misses keys that start with prefix + U+FFFF. Here, the bound between the two queries is the next
// prefix in key order (package key), so no key is missed.
type Prefix struct {
	// FirstSegments is for steps whose prefix is longer than their parent's prefix. It is the number of non-empty pages that such a step reads before it
	// splits. 0 means 1.
	FirstSegments int
	// NextSegments is for steps whose prefix equals their parent's prefix. It is the number of non-empty pages that such a step reads before it splits.
	NextSegments int
	// KeepPartitions makes the strategy skip the unread rows of a page's last partition. The strategy still finds all partition keys, so they can be
	// listed.
	KeepPartitions bool
}

// prefixState is the State of a prefix step. A step that reads a single partition has no State.
type prefixState struct {
	Prefix string `json:"prefix"`
	Left   int    `json:"left"` // the number of non-empty pages to read before splitting
}

// Start implements [Strategy].
func (x Prefix) Start(b key.Bounds) Step {
	return x.prefixStep(b.Prefix, b.Range(), x.FirstSegments)
}

func (Prefix) prefixStep(prefix string, r key.Range, segments int) Step {
	state, err := json.Marshal(prefixState{Prefix: prefix, Left: max(1, segments)})
	if err != nil {
		panic("scan: internal error: " + err.Error())
	}
	return Step{Range: r, State: state}
}

// Advance implements [Strategy].
func (x Prefix) Advance(s Step, p Page) (Decision, error) {
	o := Decision{Yield: len(p.Keys)}
	if p.Next == nil {
		return o, nil
	}
	if s.Range.Partition != nil || len(p.Keys) == 0 {
		o.Children = []Step{s.Continue(*p.Next)}
		return o, nil
	}
	var state prefixState
	if err := json.Unmarshal(s.State, &state); err != nil {
		return Decision{}, fmt.Errorf("the prefix step has no valid state: %w", err)
	}
	if state.Left > 1 {
		next := x.prefixStep(state.Prefix, s.Range, state.Left-1)
		next.Token, next.Page = p.Next, s.Page+1
		o.Children = []Step{next}
		return o, nil
	}
	last := p.Last()
	rest, ok := strings.CutPrefix(last.Partition, state.Prefix)
	if !ok {
		return Decision{}, fmt.Errorf("partition %q is outside the step's prefix %q", last.Partition, state.Prefix)
	}
	o.Children = x.split(s, state.Prefix, rest, last)
	return o, nil
}

// split returns the children of a prefix step. The argument `last` is the last key of the step's page. The argument `rest` is the partition key
// of `last` without the prefix.
func (x Prefix) split(s Step, prefix, rest string, last key.Key) []Step {
	var children []Step
	if !x.KeepPartitions {
		children = append(children, Step{Range: key.Range{
			Partition: &last.Partition,
			Low:       &key.Bound{Key: last.Row, Open: true},
		}})
	}
	add := func(prefix string, low, high *key.Bound, segments int) {
		r := key.Range{Low: low, High: s.Range.High}.Narrow(nil, high)
		if !r.Empty() {
			children = append(children, x.prefixStep(prefix, r, segments))
		}
	}
	behind := &key.Bound{Key: last.Partition, Open: true}
	if rest == "" { // the last partition key equals the prefix, so no next character is known yet
		add(prefix, behind, nil, x.NextSegments)
		return children
	}
	_, size := utf8.DecodeRuneInString(rest)
	down := prefix + rest[:size]
	end := key.PrefixEnd(down)
	add(down, behind, end, x.FirstSegments)
	if end != nil {
		add(prefix, &key.Bound{Key: end.Key}, nil, x.NextSegments)
	}
	return children
}
