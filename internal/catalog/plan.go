package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/input"
	"tablesweep/internal/problem"
)

// plan is a checked query.
type plan struct {
	keys   []wanted // the query's index keys, in the schema's order
	window index.Window
	top    int
	counts bool   // the caller needs only the number of records
	after  string // the RowKey at which the previous page ended
	digest string // hash of everything on which a cursor depends
}

// wanted is an index key of a query, with the partitions of the requested values.
type wanted struct {
	rank       int
	partitions []index.Partition
}

func (w wanted) includes(value string) bool {
	return slices.ContainsFunc(w.partitions, func(p index.Partition) bool { return p.Value == value })
}

func (p plan) matches(id index.Identity) bool {
	return p.window.Contains(id.Sort) && !slices.ContainsFunc(p.keys, func(k wanted) bool { return !k.includes(id.Values[k.rank]) })
}

func newPlan(s index.Schema, q Lookup) (plan, error) {
	var errs error
	if len(q.Keys) == 0 {
		errs = problem.Invalidf("", "give a value for at least one of the index keys: %s", s.Fields())
	}
	var keys []wanted
	for _, field := range slices.Sorted(maps.Keys(q.Keys)) {
		k, err := wantedValues(s, field, append([]string{q.Keys[field]}, q.Or[field]...))
		if err == nil && slices.ContainsFunc(keys, func(other wanted) bool { return k.rank == other.rank }) {
			err = problem.Invalidf(field, "is given twice; give each index key only one value")
		}
		keys, errs = append(keys, k), errors.Join(errs, err)
	}
	slices.SortFunc(keys, func(a, b wanted) int { return a.rank - b.rank })
	return planOf(s, q, keys, errs)
}

// wantedValues returns one index key of a query, with the partitions of the requested values.
func wantedValues(s index.Schema, field string, values []string) (wanted, error) {
	k := wanted{rank: s.Rank(field)}
	for _, value := range values {
		all, err := s.Partitions(field, value)
		if err != nil {
			return k, err
		}
		for _, p := range all {
			if !slices.Contains(k.partitions, p) {
				k.partitions = append(k.partitions, p)
			}
		}
	}
	return k, nil
}

// planOf returns the plan of a query. The argument `errs` contains the errors that the caller has found in the query's keys. If
// `errs` is not nil, planOf returns an error that contains errs.
func planOf(s index.Schema, q Lookup, keys []wanted, errs error) (plan, error) {
	p := plan{keys: keys, top: cmp.Or(q.Top, DefaultTop), counts: q.counts}
	errs = errors.Join(errs, input.Top(p.top, MaxTop))
	var err error
	p.window, err = s.Window(q.RowFrom, q.RowTo)
	if errs = errors.Join(errs, err); errs != nil {
		return plan{}, errs
	}
	values := map[string]any{}
	for _, k := range p.keys {
		all := []string{k.partitions[0].Value}
		for _, p := range k.partitions[1:] {
			all = append(all, p.Value)
		}
		values[strings.ToLower(s.Keys[k.rank].Field)] = all
	}
	sum := sha256.Sum256([]byte(store.Encode([]any{s.String(), values, q.RowFrom, q.RowTo})))
	p.digest = hex.EncodeToString(sum[:8])
	p.after, err = p.readCursor(q.Cursor)
	return p, err
}

// cursor is the content of a cursor, which callers get as JSON in base64.
type cursor struct {
	Query string `json:"q"`
	After string `json:"a"`
}

func (p plan) writeCursor(after string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(store.Encode(cursor{Query: p.digest, After: after})))
}

func (p plan) readCursor(text string) (after string, err error) {
	if text == "" {
		return "", nil
	}
	var c cursor
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil || c.Query != p.digest || c.After == "" {
		return "", problem.Invalidf("cursor", "is not a cursor that this query returned; send a cursor only with the query that returned it")
	}
	return c.After, nil
}
