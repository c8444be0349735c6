// Package table stores the emulated Table service's tables in memory, with their rows in key order.
//
// A [Store] contains named tables. A [Table] applies operations atomically, and answers queries in
// pages. The time for a page is O(log n + number of visited rows). Callers pass the time. Package
// emulator handles HTTP, JSON bodies and injected faults.
package table

import (
	"fmt"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"tablesweep/internal/key"
	"tablesweep/internal/key/odata"
	"tablesweep/internal/local/emulator/entity"
	"tablesweep/internal/local/emulator/refusal"
)

// Row is one stored entity.
type Row struct {
	PartitionKey, RowKey string
	Ticks                int64 // the Timestamp, unique within the table
	Properties           entity.Properties
}

// Key returns the row's key.
func (r Row) Key() key.Key { return key.Key{Partition: r.PartitionKey, Row: r.RowKey} }

// Property returns a property of the row, for filters.
func (r Row) Property(name string) (odata.Value, bool) {
	switch name {
	case odata.PartitionKey:
		return odata.Value{Type: odata.String, Text: r.PartitionKey}, true
	case odata.RowKey:
		return odata.Value{Type: odata.String, Text: r.RowKey}, true
	case odata.Timestamp:
		return odata.Value{Type: odata.DateTime, Int: r.Ticks}, true
	}
	p, ok := r.Properties.Lookup(name)
	if !ok {
		return odata.Value{}, false
	}
	return p.Value(), true
}

// ETag returns the row's ETag, which is derived from its Timestamp.
func (r Row) ETag() string {
	var scratch [40]byte
	b := make([]byte, 0, 64)
	b = append(b, `W/"datetime'`...)
	for _, c := range odata.AppendDateTime(scratch[:0], r.Ticks) {
		if c == ':' {
			b = append(b, "%3A"...)
		} else {
			b = append(b, c)
		}
	}
	return string(append(b, `'"`...))
}

// packed returns the row with all its strings in one new allocation.
func (r Row) packed() Row {
	all := r.PartitionKey + r.RowKey + string(r.Properties)
	p, q := len(r.PartitionKey), len(r.PartitionKey)+len(r.RowKey)
	return Row{all[:p], all[p:q], r.Ticks, entity.Properties(all[q:])}
}

func less(a, b Row) bool {
	if a.PartitionKey != b.PartitionKey {
		return key.Less(a.PartitionKey, b.PartitionKey)
	}
	return key.Less(a.RowKey, b.RowKey)
}

// Rows provides a table's rows in place of those that a [Table] holds in memory. For example, an implementation may
// compute rows when they are read, or drop written rows. The methods behave like those of [Table], and may be called concurrently.
type Rows interface {
	Get(k key.Key) (Row, error)
	Query(q Query) Answer
	Apply(now time.Time, operations []Operation) ([]Row, error)
}

// Table is one table. Its methods may be called concurrently.
type Table struct {
	name string
	own  Rows // nil for rows in memory

	mu        sync.RWMutex // guards the fields below
	rows      *btree.BTreeG[Row]
	lastTicks int64
}

func newTable(name string) *Table {
	return &Table{name: name, rows: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
}

// Name returns the table's name in the case with which it was created.
func (t *Table) Name() string { return t.name }

func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.rows.Len()
}

// Get returns the row with the given key.
func (t *Table) Get(k key.Key) (Row, error) {
	if t.own != nil {
		return t.own.Get(k)
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	row, ok := t.rows.Get(probe(k))
	if !ok {
		return Row{}, NotFound()
	}
	return row, nil
}

// probe returns a row with only a key, for searching the tree.
func probe(k key.Key) Row { return Row{PartitionKey: k.Partition, RowKey: k.Row} }

// NotFound is the error for a row that does not exist.
func NotFound() error {
	return refusal.New("ResourceNotFound", "The specified resource does not exist.")
}

// OpKind is the effect of an operation on a row.
type OpKind uint8

// The effects of operations. Replace and Merge without an ETag insert a missing row.
const (
	Insert OpKind = iota
	Replace
	Merge
	Delete
)

// Operation is one write.
type Operation struct {
	Action     OpKind
	Key        key.Key
	Properties entity.Properties
	IfMatch    string // an ETag, "*", or "" for no condition
}

// OperationError tells which of several operations was refused, and why.
type OperationError struct {
	Index int
	Err   error // a *refusal.Error
}

// Error returns the reason with the operation's index.
func (e *OperationError) Error() string { return fmt.Sprintf("operation %d: %v", e.Index, e.Err) }

// Unwrap returns the reason.
func (e *OperationError) Unwrap() error { return e.Err }

// Apply carries out all operations or none. No key may occur twice. Apply returns the resulting rows. A deleted row has
// only its key. The error is an *OperationError.
func (t *Table) Apply(now time.Time, operations []Operation) ([]Row, error) {
	if t.own != nil {
		return t.own.Apply(now, operations)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	results := make([]Row, len(operations))
	var near btree.PathHint // the operations of a batch often have neighbouring keys
	for i, op := range operations {
		row, err := t.outcome(op, &near)
		if err != nil {
			return nil, &OperationError{i, err}
		}
		results[i] = row.packed()
	}
	for i, op := range operations {
		if op.Action == Delete {
			t.rows.DeleteHint(results[i], &near)
			continue
		}
		t.lastTicks = max(t.lastTicks+1, key.Ticks(now))
		results[i].Ticks = t.lastTicks
		t.rows.SetHint(results[i], &near)
	}
	return results, nil
}

// outcome returns the row that the operation would produce. For a Delete, the row has only its key.
func (t *Table) outcome(op Operation, near *btree.PathHint) (Row, error) {
	old, exists := t.rows.GetHint(probe(op.Key), near)
	row := probe(op.Key)
	switch {
	case op.Action == Insert && exists:
		return row, refusal.New("EntityAlreadyExists", "The specified entity already exists.")
	case op.IfMatch != "" && !exists:
		return row, NotFound()
	case op.IfMatch != "" && op.IfMatch != "*" && op.IfMatch != old.ETag():
		return row, refusal.New("UpdateConditionNotSatisfied", "The update condition specified in the request was not satisfied.")
	case op.Action == Delete:
		return row, nil
	case op.Action == Merge && exists:
		row.Properties = old.Properties.Merge(op.Properties)
	case op.Action == Insert:
		row.Properties = op.Properties
	default: // only an insert keeps the client's order of properties
		row.Properties = op.Properties.Sorted()
	}
	return row, entity.Check(op.Key, row.Properties)
}

// Query selects rows.
type Query struct {
	Filter *odata.Filter // nil selects every row
	Top    int           // maximum number of rows
	From   key.Key       // where to continue; the zero key is the start
}

// Bounds returns the first key that the query may find, and the first key after the query's range. If the range has no
// upper limit, `end` is nil.
func (q Query) Bounds() (start key.Key, end *key.Key) {
	if q.Filter == nil {
		return q.From, nil
	}
	r := q.Filter.Range()
	if start = r.Start(); start.Compare(q.From) < 0 {
		start = q.From
	}
	return start, r.End()
}

// Answer is a query's answer.
type Answer struct {
	Rows    []Row
	Next    key.Key // the key of the next row, if More is true
	More    bool
	Visited int // the number of rows visited, for tests of the cost
}

// The service ends a page after five seconds of work, or at the boundary of a partition server. The emulator ends a
// page after visiting maxVisited rows, because a filter may match few of them, or after maxPageBytes, because rows may be
// huge.
const (
	maxVisited   = 250_000
	maxPageBytes = 16 << 20
)

// Query returns a page of the rows that the query selects, in key order. Even if more pages follow, a page may be short
// or empty. If Top is 0, the page is empty, and no page follows.
func (t *Table) Query(q Query) Answer {
	if q.Top == 0 {
		return Answer{}
	}
	if t.own != nil {
		return t.own.Query(q)
	}
	start, end := q.Bounds()
	var page Answer
	size := 0
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.rows.Ascend(probe(start), func(row Row) bool {
		if end != nil && !less(row, probe(*end)) {
			return false
		}
		if len(page.Rows) == q.Top || page.Visited == maxVisited || size > maxPageBytes {
			page.Next, page.More = row.Key(), true
			return false
		}
		page.Visited++
		if q.Filter == nil || q.Filter.Match(row) {
			page.Rows = append(page.Rows, row)
			size += len(row.Properties)
		}
		return true
	})
	return page
}
