// Package rowmap maps rows to rows. It renames and drops properties, and runs a jq program.
//
// A program reads a row as a JSON object, and each object in its output becomes a row. The output depends only on the row and
// the program, so a repeated step writes the same rows. The program's instructions and bytes are limited, but its time is not
// limited.
//
// A property keeps its type if its new value fits, so a program needs to state only the types of new properties. [Map.Rows]
// describes the rules.
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

// Options define a map. The map renames properties, then drops properties, and then runs the program.
type Options struct {
	Rename  map[string]string // new names of properties, by their old names
	Drop    []string          // the old names of the properties to drop
	Program string            // in jq; "" for none
}

// Map maps rows to rows. It is safe for concurrent use.
type Map struct {
	options Options
	query   *gojq.Query // nil without a program
	idle    sync.Pool   // contains values of the type *budget

	mu      sync.Mutex      // guards the fields below
	changes map[Change]bool // true if [Map.Changes] has reported the change
}

// New returns a map. The error describes a mistake in the program. The text of the error begins with a verb, so that callers
// can put the program's name first.
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

// Change describes a property whose type a map has changed without an annotation.
type Change struct {
	Name     string
	From, To storage.Type
}

func (c Change) String() string { return fmt.Sprintf("%s: %v became %v", c.Name, c.From, c.To) }

// Changes calls fn with the changes that the map has found since the last call of Changes. It sorts the changes by name and
// types.
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

// maxChanges is the maximum number of reported changes.
const maxChanges = 100

func (m *Map) changed(c Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.changes[c]; !known && len(m.changes) < maxChanges {
		m.changes[c] = false
	}
}

// Rows maps a row to zero, one or several rows, with any keys. An error concerns only this row, unless it is the context's
// error.
//
// The program reads a value as a number, a boolean or a string. If an output property has the name and value of an input property, it keeps the input
// property's type and text. If only the names are equal, and the new value fits the input property's type, the output property keeps this type. Any other
// string becomes a String, and any other boolean a Boolean. Any other number becomes an Int32 if it is whole and in range, and otherwise a Double. A member
// "P@odata.type" sets the type of P. Members that are null are dropped. The member Timestamp, and all members whose names start with "odata.", are ignored.
func (m *Map) Rows(ctx context.Context, e storage.Entity) (rows []storage.Entity, err error) {
	if e, err = m.rename(e); err != nil || m.query == nil {
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
		if b.searches < maxSearches { // otherwise drop b, because it keeps the regular expressions of all its searches
			m.idle.Put(b)
		}
	}()
	for {
		v, _ := out.Next()
		if err, failed := v.(error); failed { // the run has ended, so the next row needs a new run
			return nil, shortened(err)
		}
		if b.ended {
			if b.steps > maxSteps-maxSteps/16 { // reuse the run only if it was short, because the stacks of a long run may be large
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

// shortened shortens an error, which may contain a row's long values.
func shortened(err error) error {
	const most = 500
	text := []rune(err.Error())
	if len(text) <= most {
		return err
	}
	return errors.New(string(text[:most]) + "…")
}

func (m *Map) rename(e storage.Entity) (storage.Entity, error) {
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
			return e, fmt.Errorf("two properties are called %s after the renaming", p.Name)
		}
		kept = append(kept, p)
	}
	e.Properties = kept
	return e, nil
}

// ErrMoved means that a map changes a row's key, although rows must stay in key order.
var ErrMoved = errors.New("the map changes the key of the row")

// Kept is a source that maps the rows of another source, and keeps their keys. If the map changes a key, [Kept.Read]
// fails with [ErrMoved].
type Kept struct {
	storage.Source
	Map *Map
	// If Pass is true, [Kept.Read] leaves out rows for which the map fails. The caller has already reported these rows.
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

// Keep returns the mapped rows. If the map changes a key, the error is ErrMoved and names the row.
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
