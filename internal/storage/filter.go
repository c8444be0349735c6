package storage

import (
	"strings"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
)

// maxComparisons is what the service takes in a filter (Microsoft Learn,
// "Querying tables and entities"), less those that a query's range needs.
const maxComparisons = 15 - 3

// CheckFilter refuses filters that would break the one that a query makes of its range
// and this one: too many comparisons, or parentheses and quotes that don't match. The
// service finds other mistakes. The error is [problem.Invalid].
func CheckFilter(filter string) error {
	n, depth := 0, 0
	for i, piece := range strings.Split(filter, "'") {
		if i%2 == 1 {
			continue // inside quotes; a doubled quote leaves and enters at once
		}
		for _, c := range piece {
			switch c {
			case '(':
				depth++
			case ')':
				depth--
			}
			if depth < 0 {
				return problem.Invalidf("filter", "closes a parenthesis that it has not opened")
			}
		}
		for word := range strings.FieldsFuncSeq(piece, func(r rune) bool { return r == ' ' || r == '(' || r == ')' || r == '\t' }) {
			switch word {
			case "eq", "ne", "gt", "ge", "lt", "le":
				n++
			}
		}
	}
	switch {
	case depth > 0:
		return problem.Invalidf("filter", "opens %d parentheses that it does not close", depth)
	case strings.Count(filter, "'")%2 == 1:
		return problem.Invalidf("filter", "opens a quote that it does not close; a quote inside a text is doubled")
	case n > maxComparisons:
		return problem.Invalidf("filter", "has %d comparisons; at most %d leave room for a step's own range", n, maxComparisons)
	}
	return nil
}

// filter returns the filter of the query: its range and its own.
func (q Query) filter() string {
	f := RangeFilter(q.Range)
	switch {
	case q.Filter == "":
		return f
	case f == "":
		return q.Filter
	}
	return f + " and (" + q.Filter + ")"
}

// RangeFilter returns the OData filter for the range, "" for the whole table.
func RangeFilter(r key.Range) string {
	var clauses []string
	property := "PartitionKey"
	if r.Partition != nil {
		clauses = append(clauses, "PartitionKey eq "+literal(*r.Partition))
		property = "RowKey"
	}
	if r.Low != nil && r.High != nil && *r.Low == *r.High && !r.Low.Open {
		return strings.Join(append(clauses, property+" eq "+literal(r.Low.Key)), " and ")
	}
	if r.Low != nil {
		clauses = append(clauses, property+pick(r.Low.Open, " gt ", " ge ")+literal(r.Low.Key))
	}
	if r.High != nil {
		clauses = append(clauses, property+pick(r.High.Open, " lt ", " le ")+literal(r.High.Key))
	}
	return strings.Join(clauses, " and ")
}

// literal writes a string for a filter: in quotes, with quotes doubled.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func pick(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}
