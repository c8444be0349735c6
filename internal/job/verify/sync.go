package verify

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
)

// ErrEmptySource is the error of a sync that is to delete extra rows, and whose source has no row in the range. They
// stay.
var ErrEmptySource = errors.New("the source has no row in the range, so nothing is deleted")

// SyncOptions configure a sync. Its comparison is exact, and of AllowExtra, Extra, Only and Repair nothing is used.
type SyncOptions struct {
	Options
	// Deletes is how many extra rows may be deleted: those that a comparison before has found. 0 deletes none.
	Deletes int64
	// Planned, if set, has the rows that may be deleted: those that a comparison before has found, as they were then.
	Planned *Planned
	// Fixed says that nobody changes the source meanwhile: it is an export.
	Fixed bool
}

// Planned remembers the extra rows of a comparison by hashes of their keys and ETags, some 20 bytes of memory a row. A row that somebody has added or changed since
// is not one of them.
type Planned struct {
	seed   maphash.Seed
	hashes map[uint64]struct{}
}

// Add adds rows.
func (p *Planned) Add(rows []storage.Row) {
	if p.hashes == nil {
		p.seed, p.hashes = maphash.MakeSeed(), map[uint64]struct{}{}
	}
	for _, row := range rows {
		p.hashes[p.hash(row)] = struct{}{}
	}
}

func (p *Planned) hash(row storage.Row) uint64 {
	return maphash.Comparable(p.seed, [3]string{row.Key.Partition, row.Key.Row, row.ETag()})
}

// lacks reports whether a row is not one of the plan.
func (p *Planned) lacks(row storage.Row) bool {
	if p.hashes == nil {
		return true
	}
	_, has := p.hashes[p.hash(row)]
	return !has
}

// SyncResult counts what was compared and changed. Missing, Extra and Different are those of the comparison that wrote.
type SyncResult struct {
	Result
	Deleted int64
	Kept    int64 // rows that others have changed since they were compared, or that the source has by now
}

// Sync makes the rows of the destination in the scan's range and filter those of the source: it copies those that
// are missing or different, and then deletes those that are extra. It deletes nothing if a row could not be copied.
//
// A row is written or deleted only if it has the ETag that was compared. A row is deleted only if the source, asked again, still lacks
// it. So what somebody writes to the destination stays. What others write to the source meanwhile may be missing from the destination, until the
// next sync. Nothing is kept of a sync that ends early: it is made again. A temporary file has the keys of the extra rows.
func Sync(ctx context.Context, s sweep.Spec, destination *storage.Table, o SyncOptions) (r SyncResult, err error) {
	list, err := newExtras(o.Deletes)
	if err != nil {
		return r, err
	}
	defer list.close()
	o.Depth, o.AllowExtra, o.Only, o.Extra = Exact, false, "", list.add
	if o.Planned != nil {
		o.Extra = func(rows []storage.Row) { list.add(slices.DeleteFunc(slices.Clone(rows), o.Planned.lacks)) }
	}
	o.Repair = &action.Copy{Destination: destination, Compared: true, Filter: s.Filter}
	if r.Result, err = Compare(ctx, s, destination, o.Options); err != nil {
		return r, err
	}
	r.Kept = r.Missing + r.Different - r.Repaired - r.Failed
	switch {
	case r.Failed > 0 || r.Extra == 0 || o.Deletes == 0:
		return r, nil
	case r.Rows == 0:
		return r, ErrEmptySource
	}
	return r, r.delete(ctx, s, destination, list, o)
}

// delete deletes the rows of the list.
func (r *SyncResult) delete(ctx context.Context, s sweep.Spec, destination *storage.Table, list *extras, of SyncOptions) error {
	o := of.Options.Options
	work := deletion{
		Delete: action.Delete{Table: destination, Unchanged: true}, source: s.Source, fixed: of.Fixed, filter: s.Filter, limit: storage.NewLimit(o.MaxRows),
	}
	var all sweep.Totals
	watch := o.Watch
	if watch != nil {
		o.Watch = func(p sweep.Progress) {
			p.Rows, p.Run.Rows, p.Ended = all.Rows+p.Rows, all.Rows+p.Rows, false
			watch(p)
		}
	}
	return list.each(func(rows place.Rows) error {
		t, err := sweep.Do(ctx, sweep.Spec{Source: rows, PageRows: s.PageRows}, o, work)
		all.Rows += t.Rows
		r.Deleted += t.Written
		r.Failed += t.Failed
		r.Kept += t.Rows - t.Written - t.Failed
		r.Requests += t.Requests
		return err
	})
}

// extras is a temporary file with the rows that only the destination has.
type extras struct {
	file *os.File
	out  *bufio.Writer
	left int64 // how many more are taken
	line []byte
	err  error // the first one
}

// etagName is the property that has a row's ETag in the file.
const etagName = "ETag"

// newExtras makes the file, which nobody else can read. It loses its name where the system allows that, so that it is gone however the
// process ends.
func newExtras(most int64) (*extras, error) {
	f, err := os.CreateTemp("", "tablesweep-") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("make a file for the extra rows: %w", err)
	}
	_ = os.Remove(f.Name())
	return &extras{file: f, out: bufio.NewWriter(f), left: most}, nil
}

// add adds rows, of which keys and ETags count.
func (x *extras) add(rows []storage.Row) {
	for _, row := range rows {
		if x.left == 0 || x.err != nil {
			return
		}
		x.left--
		one := storage.Entity{Key: row.Key, Properties: []storage.Property{storage.StringProperty(etagName, row.ETag())}}
		x.line = append(one.AppendJSON(x.line[:0]), '\n')
		_, x.err = x.out.Write(x.line)
	}
}

// each calls fn with windows of the rows, each in table order.
func (x *extras) each(fn func(place.Rows) error) error {
	err := errors.Join(x.err, x.out.Flush())
	if err == nil {
		_, err = x.file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("nothing is deleted: the file of the extra rows: %w", err)
	}
	return place.Windows(place.JSONLines(x.file), false, nil, func(rows place.Rows, _ int) error { return fn(rows) })
}

func (x *extras) close() {
	_ = x.file.Close()
	_ = os.Remove(x.file.Name()) // Windows keeps the names of open files
}

// deletion deletes rows that the source lacks, if they have the ETag that the file says.
type deletion struct {
	action.Delete
	source storage.Source
	fixed  bool           // nobody changes the source
	filter string         // of the source's rows
	limit  *storage.Limit // of the rows that are read
}

// Do implements [action.Work].
func (d deletion) Do(ctx context.Context, o storage.RequestOptions, rows []storage.Row) (action.Result, error) {
	if !d.fixed {
		asks := o
		asks.Rows = d.limit
		var err error
		if rows, err = d.lacking(ctx, asks, rows); err != nil {
			return action.Result{}, fmt.Errorf("read the source: %w", err)
		}
	}
	for i, row := range rows {
		rows[i] = row.WithETag(row.Entity().Get(etagName))
	}
	return d.Delete.Do(ctx, o, rows)
}

// lacking returns the rows of a partition that the source does not have.
func (d deletion) lacking(ctx context.Context, o storage.RequestOptions, rows []storage.Row) ([]storage.Row, error) {
	q := storage.Query{Filter: d.filter}
	if _, plain := d.source.(*storage.Table); plain { // a map needs whole rows
		q.Select = []string{}
	}
	there, err := action.Existing(rows, q, func(q storage.Query) (storage.Page, error) {
		p, _, err := d.source.Read(ctx, o, q)
		return p, err
	})
	return slices.DeleteFunc(slices.Clone(rows), func(e storage.Row) bool {
		_, has := there[e.Key]
		return has
	}), err
}
