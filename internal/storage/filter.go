package storage

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
)

// maxComparisons is the maximum number of comparisons in a caller's filter. The service allows 15, and a query's range needs three. (Microsoft
// Learn, "Querying tables and entities")
const maxComparisons = 15 - 3

// CheckFilter refuses a filter with too many comparisons, or with unbalanced parentheses or quotes, because a query
// could not combine this filter with the query's range. It also refuses secrets, and operators of other query
// languages. Each error is a [problem.Invalid]. The service finds other mistakes.
func CheckFilter(filter string) error {
	if secret.Labelled(filter) {
		return problem.Invalidf("filter", "seems to contain a connection string or a signature; remove it, because filters are stored and shown")
	}
	n, joined, depth := 0, 1, 0
	for i, piece := range strings.Split(filter, "'") {
		if i%2 == 1 {
			continue // this piece is in quotes; a string with a doubled quote consists of two such pieces
		}
		for _, c := range piece {
			switch c {
			case '(':
				depth++
			case ')':
				depth--
			}
			if depth < 0 {
				return problem.Invalidf("filter", "has a closing parenthesis without an opening one")
			}
		}
		for word := range strings.FieldsFuncSeq(piece, func(r rune) bool { return r == '(' || r == ')' || unicode.IsSpace(r) }) {
			switch {
			case slices.Contains([]string{"eq", "ne", "gt", "ge", "lt", "le"}, word):
				n++
			case word == "and", word == "or":
				joined++
			case strings.Contains(word, "="):
				return problem.Invalidf("filter", `has %q; OData compares with "eq", "ne", "gt", "ge", "lt" and "le"`, "=")
			case slices.Contains([]string{"startswith", "endswith", "contains", "substringof"}, strings.ToLower(word)):
				return problem.Invalidf("filter", "has %s, which the Table service does not support; to select partition keys by their beginning, use \"prefix\" (--prefix on the command line)", word)
			}
		}
	}
	switch {
	case depth > 0:
		return problem.Invalidf("filter", "lacks %d closing parentheses", depth)
	case strings.Count(filter, "'")%2 == 1:
		return problem.Invalidf("filter", "has a string without a closing quote; to put a quote into a string, double it: ''")
	case max(n, joined) > maxComparisons: // `joined` includes Boolean properties without an operator, because the service counts them as comparisons
		return problem.Invalidf("filter", "has %d comparisons, but at most %d are allowed: the service allows 15, and this program adds up to 3 to limit each query to a range", max(n, joined), maxComparisons)
	}
	return nil
}

// ComparesTime reports whether a filter uses the property Timestamp, which differs between copies of a row.
func ComparesTime(filter string) bool {
	return compares(filter, func(name string) bool { return strings.EqualFold(name, "Timestamp") })
}

// Compares reports whether a filter uses the property. Names are case-sensitive.
func Compares(filter, property string) bool {
	return compares(filter, func(name string) bool { return name == property })
}

// compares returns true if the function `match` returns true for at least one name or operator in the filter. It ignores
// text in quotes.
func compares(filter string, match func(word string) bool) bool {
	for i, piece := range strings.Split(filter, "'") {
		for word := range strings.FieldsFuncSeq(piece, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			if i%2 == 0 && match(word) {
				return true
			}
		}
	}
	return false
}

// CombineFilters returns a filter for the rows that match both filters. An empty filter matches all rows. The first filter must not contain "or".
func CombineFilters(first, second string) string {
	switch {
	case second == "":
		return first
	case first == "":
		return second
	}
	return first + " and (" + second + ")"
}

// SinceFilter returns a filter for the rows that were written at the time t or later, by the service's clock. The
// service compares Timestamps with less precision than it stores them. With "gt", the filter could miss later
// rows, so it uses "ge".
func SinceFilter(t time.Time) string {
	return "Timestamp ge datetime'" + t.UTC().Format("2006-01-02T15:04:05.0000000Z") + "'"
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

// literal returns a string as a filter's literal: in quotes, with quotes doubled.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func pick(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}
