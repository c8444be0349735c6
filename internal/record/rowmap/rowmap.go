// Package rowmap maps rows to rows. It renames and drops properties, and runs a jq program.
//
// A program reads a row as plain JSON, and each object that it outputs is a row. The output depends on the row and the
// program alone, so a repeated step writes the same rows. The work is bounded by counted instructions and bytes, not by time.
//
// A property keeps its type if its value fits, so a program needs to state types only for new properties.
// [Map.Rows] has the rules.
package rowmap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/itchyny/gojq"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// Options define a map: it first renames, then drops, then runs the program.
type Options struct {
	Rename  map[string]string // new names of properties, by their old names
	Drop    []string          // properties, by their old names
	Program string            // in jq; "" for none
}

// Map maps rows to rows. It is safe for concurrent use.
type Map struct {
	options Options
	query   *gojq.Query // nil without a program
	idle    sync.Pool   // of *budget

	mu      sync.Mutex      // guards the following
	changes map[Change]bool // whether [Map.Changes] has reported it
}

// New returns a map. The error describes a mistake in the program, in words that follow its name.
func New(o Options) (*Map, error) {
	m := &Map{options: o, changes: map[Change]bool{}}
	if o.Program == "" {
		return m, nil
	}
	q, err := parse(o.Program)
	if err != nil {
		return nil, err
	}
	m.query = q
	b, err := newBudget(q)
	if err != nil {
		return nil, fmt.Errorf("is not a jq program: %w", err)
	}
	m.idle.Put(b)
	return m, nil
}

// Change is a property whose type a map has changed without an annotation.
type Change struct {
	Name     string
	From, To storage.Type
}

// String describes the change.
func (c Change) String() string { return fmt.Sprintf("%s: %v became %v", c.Name, c.From, c.To) }

// Changes calls fn with the new changes since the last call, in order.
func (m *Map) Changes(fn func(Change)) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Change
	for c, reported := range m.changes {
		if !reported {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	for _, c := range all {
		m.changes[c] = true
		fn(c)
	}
}

// maxChanges bounds the reported changes.
const maxChanges = 100

func (m *Map) changed(c Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.changes[c]; !known && len(m.changes) < maxChanges {
		m.changes[c] = false
	}
}

// Rows returns the mapped rows: none, one or several, with any keys. An error concerns only this row.
//
// The program reads a value as a number, a boolean or a string. If the row had the same value under the same name, the output keeps its type
// and text. Otherwise it keeps that type if the value fits, or else it is a String, a Boolean, an Int32 if it is whole and in range, or a
// Double. A member "P@odata.type" sets the type of P. Members that are null are dropped. Timestamp and members whose names start with odata. are
// ignored. The context's error is not about the row.
func (m *Map) Rows(ctx context.Context, e storage.Entity) (rows []storage.Entity, err error) {
	if e, err = m.renamed(e); err != nil || m.query == nil {
		return []storage.Entity{e}, err
	}
	r := row{Entity: e}
	in, err := r.input()
	if err != nil {
		return nil, err
	}
	b, _ := m.idle.Get().(*budget)
	if b == nil {
		if b, err = newBudget(m.query); err != nil {
			return nil, err
		}
	}
	out := b.begin(ctx, in)
	defer func() {
		if b.searches < maxSearches { // the library keeps compiled regular expressions, and rows may create their own
			m.idle.Put(b)
		}
	}()
	for {
		v, _ := out.Next()
		if err, failed := v.(error); failed { // perhaps of the next row
			return nil, short(err)
		}
		if b.ended {
			if b.steps > maxSteps-maxSteps/16 { // its stacks may be large, and would be kept otherwise
				b.out = out
			}
			return rows, nil
		}
		if len(rows) == maxRows {
			return nil, fmt.Errorf("the program returns more than %d rows", maxRows)
		}
		one, err := r.output(v, m.changed)
		if err != nil {
			return nil, err
		}
		one.Timestamp = e.Timestamp
		rows = append(rows, one)
	}
}

// short shortens an error that repeats a row's values.
func short(err error) error {
	const most = 500
	text := []rune(err.Error())
	if len(text) <= most {
		return err
	}
	return errors.New(string(text[:most]) + "…")
}

// renamed returns the row after renaming and dropping properties.
func (m *Map) renamed(e storage.Entity) (storage.Entity, error) {
	o := m.options
	if len(o.Rename) == 0 && len(o.Drop) == 0 {
		return e, nil
	}
	kept := make([]storage.Property, 0, len(e.Properties))
	for _, p := range e.Properties {
		if slices.Contains(o.Drop, p.Name) {
			continue
		}
		p.Name = cmp.Or(o.Rename[p.Name], p.Name)
		if slices.ContainsFunc(kept, func(other storage.Property) bool { return other.Name == p.Name }) {
			return e, fmt.Errorf("it has two properties %s after the renaming", p.Name)
		}
		kept = append(kept, p)
	}
	e.Properties = kept
	return e, nil
}

// ErrMoved is the error of a row whose key a map changes, although the key order must stay.
var ErrMoved = errors.New("the map changes its key")

// Kept is a source's rows, mapped. If the map changes a key, [Kept.Read] fails with [ErrMoved].
type Kept struct {
	storage.Source
	Map *Map
	// Pass leaves out rows for which the map fails, because they have been reported elsewhere.
	Pass bool
}

// Read implements [storage.Source].
func (k Kept) Read(ctx context.Context, o storage.RequestOptions, q storage.Query) (storage.Page, int, error) {
	p, queries, err := k.Source.Read(ctx, o, q)
	if err == nil {
		p.Rows, err = k.Map.Keep(ctx, p.Rows, k.Pass)
	}
	return p, queries, err
}

// Keep returns the mapped rows, whose keys must stay the same. An error names the row.
func (m *Map) Keep(ctx context.Context, rows []storage.Row, pass bool) ([]storage.Row, error) {
	if m == nil {
		return rows, nil
	}
	kept := make([]storage.Row, 0, len(rows))
	for _, row := range rows {
		out, err := m.Rows(ctx, row.Entity())
		if ended := ctx.Err(); ended != nil {
			return nil, ended
		}
		if err != nil && pass {
			continue
		}
		for i, one := range out {
			if err == nil && (i > 0 || one.Key != row.Key) {
				err = fmt.Errorf("%w to %v", ErrMoved, keyText(one.Key))
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%v: map: %w", keyText(row.Key), err)
		}
		kept = append(kept, storage.Rows(out)...)
	}
	return kept, nil
}

func keyText(k key.Key) string {
	return fmt.Sprintf("PartitionKey %.300q RowKey %.300q", k.Partition, k.Row)
}
