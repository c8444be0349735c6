// Package rowmap makes rows of rows: it renames and drops properties, and runs a jq program.
//
// A program gets a row as plain JSON, and each object that it puts out is a row. What a row becomes follows from the row and the
// program alone, so a step that is repeated writes the same. Its work is bounded by counted instructions and bytes, not by time.
//
// A property has the type that it had before if its value fits. So a program needs to know of types only where it makes new properties.
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

// Options say what a map does: it renames, then drops, then runs the program.
type Options struct {
	Rename  map[string]string // properties, by their names before
	Drop    []string          // properties, by their names before
	Program string            // in jq; "" for none
}

// Map makes rows of rows. It is safe for concurrent use.
type Map struct {
	options Options
	query   *gojq.Query // nil without a program
	idle    sync.Pool   // of *budget

	mu      sync.Mutex      // guards the following
	changes map[Change]bool // whether it was told
}

// New returns a map. The error says what is wrong with the program, in words that go behind its name.
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
		return nil, fmt.Errorf("is no jq program: %w", err)
	}
	m.idle.Put(b)
	return m, nil
}

// Change is a property whose type a map has changed, although nobody asked for that.
type Change struct {
	Name     string
	From, To storage.Type
}

// String says what has changed.
func (c Change) String() string { return fmt.Sprintf("%s: %v became %v", c.Name, c.From, c.To) }

// Changes calls fn with the changes that it was not called with before, in order.
func (m *Map) Changes(fn func(Change)) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Change
	for c, told := range m.changes {
		if !told {
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

// maxChanges is how many changes are told.
const maxChanges = 100

func (m *Map) changed(c Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.changes[c]; !known && len(m.changes) < maxChanges {
		m.changes[c] = false
	}
}

// Rows returns what a row becomes: none, one or several rows, of any keys. An error is about this row.
//
// A value goes in as a number, a boolean or a string. What comes out has the type and the text that it had, if the row had the same value
// under that name; or else that type, if the value fits; or else it is a String, a Boolean, an Int32 if it is whole and in range, or a
// Double. A member "P@odata.type" decides about P. A member that is null is no property. Timestamp and members that begin with odata. are
// passed over. The context's error is that of no row.
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
		if b.searches < maxSearches { // the library keeps regular expressions, and rows may make their own
			m.idle.Put(b)
		}
	}()
	for {
		v, _ := out.Next()
		if err, failed := v.(error); failed { // perhaps behind the row's end
			return nil, short(err)
		}
		if b.ended {
			if b.steps > maxSteps-maxSteps/16 { // or else its stacks may be large, and would be kept
				b.out = out
			}
			return rows, nil
		}
		if len(rows) == maxRows {
			return nil, fmt.Errorf("the program puts out more than %d rows", maxRows)
		}
		one, err := r.output(v, m.changed)
		if err != nil {
			return nil, err
		}
		one.Timestamp = e.Timestamp
		rows = append(rows, one)
	}
}

// short cuts an error that repeats a row's values.
func short(err error) error {
	const most = 500
	text := []rune(err.Error())
	if len(text) <= most {
		return err
	}
	return errors.New(string(text[:most]) + "…")
}

// renamed returns a row, some of whose properties are renamed or dropped.
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

// ErrMoved is the error of a row whose key a map changes, where the order of keys must stay.
var ErrMoved = errors.New("the map changes its key")

// Kept returns the rows of a source as the map makes them. It must leave their keys, or [Kept.Read] fails with [ErrMoved].
type Kept struct {
	storage.Source
	Map *Map
	// Pass tells that rows are left out that the map fails for: somebody else has reported them.
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

// Keep returns what rows become, with their keys: an error names the row.
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
